//! CUDASTF: each task creates, records and destroys an event: 3.2 µs for an empty task.
//!
//! Here events are pooled and recorded again. A chain of tasks that changes streams at every step
//! needs one record and one wait per step.

use crate::regressions::{N, counted};

const TASKS: u32 = 2000;
/// The maximum number of events created: enough for those pending at the same time or not yet seen
/// complete.
const EVENTS_MAX: usize = 200;

#[test]
fn a_chain_across_two_streams_reuses_few_events() {
    counted(|harness, calls| {
        let streams: [_; 2] = harness.streams();
        let mut array = streams[0].zeros::<u32>(N)?;
        for task in 0..TASKS {
            streams[task as usize % 2].fill(&mut array, task)?;
            if task % 64 == 63 {
                // The host reads a value now and then, as programs do.
                assert_eq!(streams[0].download(array.slice(..1))?.wait()?, [task]);
            }
        }
        let tasks = TASKS as usize + TASKS as usize / 64;
        let (made, recorded) = (calls.count("event_create"), calls.count("event_record"));
        assert!(made <= EVENTS_MAX, "{made} events for {tasks} tasks");
        assert!(
            recorded <= tasks + 1,
            "{recorded} records for {tasks} tasks"
        );
        assert!(
            calls.count("stream_wait_event") <= tasks,
            "{:?}",
            calls.counts()
        );
        assert_eq!(calls.count("event_destroy"), 0);
        assert_eq!(streams[1].download(&array)?.wait()?, [TASKS - 1; N]);
        Ok(())
    });
}
