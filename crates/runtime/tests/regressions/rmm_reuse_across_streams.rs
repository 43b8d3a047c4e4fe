//! RMM and other stream-ordered pools: memory freed on one stream may be reused on another. That is
//! correct only if the second stream is ordered after the free, and the free after every use;
//! programs that free on a stream which did not use the memory read another array's values.
//!
//! Here memory may be allocated, used and dropped on any streams in any order, and the values are
//! correct.

use crate::regressions::{N, regression};

const ROUNDS: u32 = 12;
const STREAMS: usize = 3;

#[test]
fn memory_reused_between_streams_keeps_its_values() {
    regression(|harness| {
        let streams: [_; STREAMS] = harness.streams();
        let mut arriving = Vec::new();
        let mut gate = None;
        for round in 0..ROUNDS {
            let [made, used, read] =
                [0, 1, 2].map(|step| &streams[(round as usize + step) % STREAMS]);
            if round % 4 == 1 {
                gate = Some(harness.gate(used));
            }
            let array = made.upload(&[round; N])?;
            let mut copy = used.zeros::<u32>(N)?;
            used.copy(&array, &mut copy)?;
            drop(array);
            let mut again = made.zeros::<u32>(N)?;
            read.copy(&copy, &mut again)?;
            drop(copy);
            arriving.push((round, used.download(&again)?));
            if round % 4 == 3 {
                drop(gate.take());
            }
        }
        drop(gate);
        for (round, value) in arriving {
            assert_eq!(value.wait()?, [round; N]);
        }
        Ok(())
    });
}
