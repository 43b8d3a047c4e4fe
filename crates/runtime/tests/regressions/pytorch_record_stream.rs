//! PyTorch: memory belongs to the stream that allocated it, and is given out again on that stream
//! as soon as its tensor is gone. Whoever has used it on another stream must say so, by
//! `record_stream`; forgetting it means that new work of the first stream overwrites what the
//! second one still reads.
//!
//! Every use is known. Nothing is said by hand.

use crate::{N, regression};

#[test]
fn memory_used_on_another_stream_is_not_given_out_again_before_that_use_is_over() {
    regression(|harness| {
        let [allocating, using] = harness.streams();
        for round in 0..3 {
            let tensor = allocating.upload(&[round; N])?;
            let mut copy = using.zeros::<u32>(N)?;
            // The crossing is over, so that the gate holds nothing but the use.
            assert_eq!(using.download(&tensor)?.wait()?, [round; N]);
            let gate = harness.gate(&using);
            using.copy(&tensor, &mut copy)?;
            drop(tensor);
            let mut next = allocating.zeros::<u32>(N)?;
            allocating.fill(&mut next, 99)?;
            assert_eq!(
                allocating.download(&next)?.wait()?,
                [99; N],
                "the allocating stream goes on"
            );
            let read = using.download(&copy)?;
            harness.assert_pending(&read);
            gate.open();
            assert_eq!(read.wait()?, [round; N]);
        }
        Ok(())
    });
}
