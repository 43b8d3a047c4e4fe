//! CUDA.jl: an array records only the stream that used it last. Two tasks that work on the halves
//! of one array wait for each other at every step, and the host blocks for each wait.
//!
//! Here disjoint halves are independent; a use of the whole array waits for both.

use crate::regressions::{N, counted};

#[test]
fn halves_do_not_wait_for_each_other() {
    counted(|harness, calls| {
        let [left_stream, right_stream, third] = harness.streams();
        let mut array = left_stream.zeros::<u32>(2 * N)?;
        left_stream.synchronize()?;
        let gate = harness.gate(&left_stream);
        calls.forget();
        for round in 1..=4 {
            let (left, right) = array.split_at_mut(N);
            left_stream.fill(left, round)?;
            right_stream.fill(right, 10 * round)?;
        }
        assert_eq!(calls.count("stream_wait_event"), 0, "{:?}", calls.counts());
        assert_eq!(right_stream.download(array.slice(N..))?.wait()?, [40; N]);
        assert_eq!(
            harness.opened(gate, third.download(&array)?),
            [[4; N], [40; N]].concat()
        );
        Ok(())
    });
}
