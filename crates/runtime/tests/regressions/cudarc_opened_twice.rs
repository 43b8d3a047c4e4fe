//! cudarc: opening a device twice creates two contexts with separate bookkeeping for one GPU. Each
//! decides by itself whether a second stream exists, so arrays passed from one to the other are not
//! waited for.
//!
//! Here two opens of one GPU share one device: work enqueued through one is ordered with work
//! enqueued through the other.

use crate::regressions::{N, regression};

#[test]
fn edges_hold_across_two_opens() {
    regression(|harness| {
        let again = harness.open_again();
        let (ours, theirs) = (harness.stream(), again.stream()?);
        let mut array = ours.zeros::<u32>(N)?;
        for (round, (one, other)) in [(&ours, &theirs), (&theirs, &ours)].into_iter().enumerate() {
            let value = round as u32 + 1;
            let gate = harness.gate(one);
            one.fill(&mut array, value)?;
            assert_eq!(harness.opened(gate, other.download(&array)?), [value; N]);
        }
        let gate = harness.gate(&theirs);
        let read = theirs.download(&array)?;
        drop((again, theirs, array));
        let other = ours.upload(&[9_u32; N])?;
        gate.open();
        assert_eq!(
            read.wait()?,
            [2; N],
            "the free waits for the other open's reader"
        );
        assert_eq!(ours.download(&other)?.wait()?, [9; N]);
        Ok(())
    });
}
