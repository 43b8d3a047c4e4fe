//! PyTorch: memory belongs to the stream that allocated it, and is reused on that stream as soon as
//! its tensor is freed. Programs that use it on another stream must call `record_stream`; without
//! that call, new work on the first stream overwrites memory that the second still reads.
//!
//! Here every use is tracked automatically.

use crate::regressions::{N, regression};

#[test]
fn memory_used_on_another_stream_is_not_reused_before_that_use_is_complete() {
    regression(|harness| {
        let [allocating, using] = harness.streams();
        for round in 0..3 {
            let tensor = allocating.upload(&[round; N])?;
            let mut copy = using.zeros::<u32>(N)?;
            // The first use on the second stream is complete, so the gate holds only the copy.
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
            assert_eq!(harness.opened(gate, using.download(&copy)?), [round; N]);
        }
        Ok(())
    });
}
