//! NVIDIA's cuda-async 0.5: an operation that conflicts with one in flight on another stream is
//! refused with `CUDA_ERROR_NOT_READY` until the host has learned that the first is complete. If
//! the program makes the second stream wait for the first, as CUDA requires, it is refused too.
//!
//! Here any stream may use any array of its device. A wait that the program enqueues replaces the
//! automatic one: there is no second wait.

use crate::regressions::{N, counted};

#[test]
fn an_array_may_be_used_on_another_stream_with_or_without_an_explicit_wait() {
    counted(|harness, calls| {
        let [first, second, third] = harness.streams();
        let mut array = first.zeros::<u32>(N)?;
        let gate = harness.gate(&first);
        first.fill(&mut array, 7)?;
        let written = first.record()?;
        second.wait_for(&written)?;
        calls.forget();
        let by_hand = second.download(&array)?;
        assert_eq!(calls.count("stream_wait_event"), 0, "it waits already");
        let by_itself = third.download(&array)?;
        harness.assert_count(calls, "stream_wait_event", 1);
        harness.assert_pending(&by_hand);
        harness.open_pending(gate, &by_itself);
        assert_eq!(by_hand.wait()?, [7; N]);
        assert_eq!(by_itself.wait()?, [7; N]);
        Ok(())
    });
}
