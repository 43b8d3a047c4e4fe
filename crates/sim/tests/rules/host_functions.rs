//! Rules 27 and 28: host functions run in stream order on a separate thread, and do not run after a
//! context error.

use std::sync::mpsc;

use crate::rules::prelude::*;

const LONG: Duration = Duration::from_secs(20);

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn r27_a_function_that_calls_the_driver_is_found_out() {
    let gpu = sim.gpu.clone();
    let (answer, answers) = mpsc::channel();
    sim.host_function(stream, move || answer.send(gpu.device_count()).unwrap());
    sim.stream_synchronize(stream).unwrap();
    answers
        .recv_timeout(LONG)
        .unwrap()
        .fails(ResultCode::NOT_PERMITTED);
    sim.assert_reported(ReportKind::HostFunctionCalledDriver, &["rule 27"]);
}

#[test]
fn the_world_ends_with_functions_pending() {
    let dropped = Arc::new(AtomicU32::new(0));
    struct DropCounts(Arc<AtomicU32>);
    impl Drop for DropCounts {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    {
        let sim = SimHarness::new(millstream_sim::SimConfig::new().schedule(Schedule::Lazy));
        let stream = sim.stream();
        std::mem::forget(sim.hold(stream));
        let counts = DropCounts(Arc::clone(&dropped));
        sim.host_function(stream, move || drop(counts));
    }
    // The callback thread may hold the simulator's state a moment longer.
    for _ in 0..2000 {
        if dropped.load(SeqCst) == 1 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("the host function was not dropped with the simulator");
}
