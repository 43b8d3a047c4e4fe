//! CUDA.jl: each task has its own stream. An array that a task returns without synchronising is
//! used by another task on another stream before it is written; where the library detects this, the
//! host blocks until it is.
//!
//! Here the use is ordered on the device by an event: the host does not wait.

use std::thread;

use millstream::Result;

use crate::regressions::{N, counted};

#[test]
fn an_array_returned_by_a_task_is_complete_for_its_users() {
    counted(|harness, calls| {
        let [producer, consumer] = harness.streams();
        let mut sum = consumer.zeros::<u32>(N)?;
        let gate = harness.gate(&producer);
        calls.forget();
        let array = thread::scope(|scope| {
            let task = scope.spawn(|| -> Result<_> {
                let mut array = producer.zeros::<u32>(N)?;
                producer.fill(&mut array, 5)?;
                Ok(array)
            });
            task.join().expect("the task does not panic")
        })?;
        consumer.copy(&array, &mut sum)?;
        harness.assert_count(calls, "stream_wait_event", 1);
        for waiting in [
            "stream_synchronize",
            "event_synchronize",
            "context_synchronize",
        ] {
            assert_eq!(calls.count(waiting), 0, "the host waited in {waiting}");
        }
        assert_eq!(harness.opened(gate, consumer.download(&sum)?), [5; N]);
        Ok(())
    });
}
