//! Rules 27 and 28: host functions run in stream order on a separate thread, and do not run after a
//! context error.

use std::sync::mpsc;

use crate::rules::prelude::*;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn r27_functions_run_in_stream_order_and_hold_back_later_work() {
    each_schedule_and_stream(|sim, stream| {
        let memory = sim.mem_alloc(4).unwrap();
        let pinned = sim.pinned(4);
        pinned.fill(0);
        let (open, gate) = mpsc::channel::<()>();
        let (seen, sees) = mpsc::channel();
        sim.fill(memory, 1, 4, stream);
        sim.download(pinned, memory, stream).unwrap();
        sim.host_function(stream, move || {
            seen.send(pinned.read()).unwrap();
            gate.recv().unwrap();
        });
        sim.fill(memory, 2, 4, stream);
        sim.download(pinned, memory, stream).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| sim.stream_synchronize(stream).unwrap());
            assert_eq!(
                sees.recv_timeout(LONG).unwrap(),
                [1; 4],
                "what came before is done"
            );
            thread::sleep(Duration::from_millis(5));
            assert!(pinned.is(1), "the operations after the host function wait");
            assert!(!waits.is_finished());
            // Other calls are not blocked meanwhile.
            assert!(sim.pending(stream));
            open.send(()).unwrap();
        });
        assert!(pinned.is(2));
        sim.assert_clean();
    });
}

#[test]
fn r27_a_function_that_calls_the_driver_is_found_out() {
    each_schedule_and_stream(|sim, stream| {
        let gpu = sim.gpu.clone();
        let (answer, answers) = mpsc::channel();
        sim.host_function(stream, move || answer.send(gpu.device_count()).unwrap());
        sim.stream_synchronize(stream).unwrap();
        answers
            .recv_timeout(LONG)
            .unwrap()
            .fails(ResultCode::NOT_PERMITTED);
        sim.assert_reported(ReportKind::HostFunctionCalledDriver, &["rule 27"]);
    });
}

#[test]
fn a_function_is_run_though_no_call_is_made() {
    each_schedule_and_stream(|sim, stream| {
        let memory = sim.mem_alloc(4).unwrap();
        let (done, is_done) = mpsc::channel();
        sim.fill(memory, 1, 4, stream);
        sim.host_function(stream, move || done.send(()).unwrap());
        is_done
            .recv_timeout(LONG)
            .expect("the host function runs without further driver calls");
    });
}

#[test]
fn a_function_that_panics_ends_nothing_but_itself() {
    each_schedule_and_stream(|sim, stream| {
        let ran = Arc::new(AtomicU32::new(0));
        let after = Arc::clone(&ran);
        sim.host_function(stream, || panic!("on purpose"));
        sim.host_function(stream, move || {
            after.fetch_add(1, SeqCst);
        });
        sim.stream_synchronize(stream).unwrap();
        assert_eq!(ran.load(SeqCst), 1);
    });
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
