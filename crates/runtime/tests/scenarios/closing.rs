//! Closing a device does not block users of the same context, be they another driver or a second
//! open of the device.

use crate::scenarios::{instrumented::instrumented_gpu, owned::comes_back_itself, prelude::*};

const N: usize = 1000;

/// Makes the device allocate page-locked memory and load a module.
fn work(stream: &Stream) -> Result<()> {
    let values = vec![1.0_f32; N];
    let array = stream.upload(&values)?;
    crate::scenarios::arrays::sums::load(&stream.device())?;
    assert_eq!(stream.values(&array)?, values);
    stream.synchronize()
}

/// Waits until a device that was opened through this driver is closed: its streams are destroyed
/// last, except for events.
fn wait_until_closed(calls: &Calls, streams: usize) {
    let closing = Instant::now();
    while calls.count("stream_destroy") < streams {
        assert!(closing.elapsed() < CLOSED_WITHIN, "{:?}", calls.counts());
        thread::sleep(Duration::from_micros(200));
    }
}

/// Asserts that this driver made no call that waits until the context is idle.
fn assert_nothing_waits_for_the_device(calls: &Calls) {
    for call in ["host_free", "module_unload", "mem_free", "host_unregister"] {
        assert_eq!(
            calls.count(call),
            0,
            "{call} waits for the other users of the context"
        );
    }
}

#[run_by(scenario, |harness|)]
fn closing_a_device_leaves_blocking_frees_to_other_users_of_its_context() -> Result<()> {
    let (calls, other) = harness.by_another_driver();
    let theirs = other.stream()?;
    work(&theirs)?;
    let ours = harness.stream();
    let mut array = ours.zeros::<u32>(N)?;
    let gate = harness.gate(&ours);
    drop((theirs, other));
    wait_until_closed(&calls, 1);
    assert_nothing_waits_for_the_device(&calls);
    ours.fill(&mut array, 3)?;
    assert_eq!(harness.opened(gate, ours.download(&array)?), [3; N]);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn closing_a_device_waits_for_its_own_work_only() -> Result<()> {
    let (calls, other) = harness.by_another_driver();
    let theirs = other.stream()?;
    work(&theirs)?;
    let vector = vec![7_u32; N];
    let address = vector.as_ptr();
    let pinned = Pinned::register(&harness.device, vector)?;
    let (ours, gate_of_theirs) = (harness.stream(), harness.gate(&theirs));
    drop((theirs, other));
    let copy = pinned.into_vec()?;
    if harness.gates_hold() {
        assert_ne!(
            copy.as_ptr(),
            address,
            "unlocking it would wait for the other's gate"
        );
    }
    let gate = harness.gate(&ours);
    if harness.gates_hold() {
        assert_eq!(calls.count("stream_destroy"), 0, "its stream has work");
    }
    gate_of_theirs.open();
    wait_until_closed(&calls, 1);
    assert_nothing_waits_for_the_device(&calls);
    let mut array = ours.zeros::<u32>(N)?;
    ours.fill(&mut array, 4)?;
    gate.open();
    assert_eq!(ours.values(&array)?, [4; N]);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn a_vector_is_not_unregistered_while_another_driver_has_pending_work() -> Result<()> {
    let (calls, other) = harness.by_another_driver();
    let vector = vec![7_u32; N];
    let address = vector.as_ptr();
    let pinned = Pinned::register(&other, vector)?;
    let gate = harness.gate(&harness.stream());
    let copy = pinned.into_vec()?;
    if harness.gates_hold() {
        assert_ne!(
            copy.as_ptr(),
            address,
            "unlocking it would wait for the gate"
        );
        assert_nothing_waits_for_the_device(&calls);
    }
    assert_eq!(copy, [7; N]);
    gate.open();
    Ok(())
}

#[run_by(scenario, |harness|)]
fn a_vector_is_unregistered_while_another_driver_is_idle() -> Result<()> {
    let (_, other) = harness.by_another_driver();
    work(&other.stream()?)?;
    comes_back_itself(&harness.device)
}

#[test]
fn the_last_device_to_close_frees_what_both_left() {
    for schedule in [Schedule::Timed, Schedule::Eager, Schedule::Lazy] {
        let _watch = Watch::over(format!("{schedule:?}"));
        let (gpu, calls) = instrumented_gpu(schedule, 1);
        let others = Arc::new(Calls::over(gpu.driver()));
        let [one, two] = [&calls, &others].map(|calls| open(calls, 0).expect("the device opens"));
        let [busy, idle] = [&one, &two].map(|device| device.stream().unwrap());
        work(&busy).unwrap();
        work(&idle).unwrap();
        let hold = gpu.hold(busy.as_raw());
        busy.zeros::<u32>(N).unwrap();
        drop((busy, one));
        drop((idle, two));
        wait_until_closed(&others, 1);
        for calls in [&calls, &others] {
            assert_nothing_waits_for_the_device(calls);
        }
        drop(hold);
        assert_nothing_left(&gpu);
        assert_eq!(others.count("host_free"), 0, "it was closed before");
        assert!(calls.count("host_free") >= 2, "{:?}", calls.counts());
    }
}

#[test]
fn reopening_a_device_while_it_closes_does_not_block() {
    for schedule in [Schedule::Timed, Schedule::Eager, Schedule::Lazy] {
        let _watch = Watch::over(format!("{schedule:?}"));
        let (gpu, calls) = instrumented_gpu(schedule, 1);
        let again = |calls| open(calls, 0).expect("the device opens");
        let one: Device = again(&calls);
        let stream = one.stream().unwrap();
        work(&stream).unwrap();
        let hold = gpu.hold(stream.as_raw());
        stream.zeros::<u32>(N).unwrap();
        calls.forget();
        drop((stream, one));
        let two = again(&calls);
        let vector = vec![7_u32; N];
        let address = vector.as_ptr();
        let copy = Pinned::register(&two, vector).unwrap().into_vec().unwrap();
        assert_ne!(
            copy.as_ptr(),
            address,
            "unlocking it would wait for the other's work"
        );
        let stream = two.stream().unwrap();
        let hold_of_two = gpu.hold(stream.as_raw());
        let mut array = stream.zeros::<u32>(N).unwrap();
        drop(hold);
        wait_until_closed(&calls, 1);
        assert_nothing_waits_for_the_device(&calls);
        stream.fill(&mut array, 5).unwrap();
        drop(hold_of_two);
        assert_eq!(stream.values(&array).unwrap(), [5; N]);
        drop((array, stream, two));
        assert_nothing_left(&gpu);
        assert!(calls.count("host_free") > 0, "{:?}", calls.counts());
    }
}

/// Returns the number of threads of this process that close devices. Linux keeps 15 bytes of a
/// name.
#[cfg(target_os = "linux")]
fn closing_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks
        .filter_map(name)
        .filter(|name| name.trim_end() == "millstream-clos")
        .count()
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "the inner half of closing_devices_share_one_thread_and_do_not_pile_up"]
fn inner_slow_closing_thread() {
    let (gpu, calls) = instrumented_gpu(Schedule::Timed, 1);
    calls.fail(|_| {
        if thread::current().name() == Some("millstream-closing") {
            thread::sleep(Duration::from_millis(5));
        }
        None
    });
    let closed_behind_a_hold = || {
        let device = open(&calls, 0).expect("the device opens");
        let stream = device.stream().unwrap();
        let hold = gpu.hold(stream.as_raw());
        stream.zeros::<u32>(N).unwrap();
        hold
    };
    let mut streams_max = 0;
    for _ in 0..500 {
        drop(closed_behind_a_hold());
        streams_max = gpu.live_object_counts().streams.max(streams_max);
    }
    assert!(
        streams_max < 20,
        "{streams_max} streams of closed devices at once"
    );
    let holds: Vec<_> = (0..30).map(|_| closed_behind_a_hold()).collect();
    let threads = closing_threads();
    assert!(threads <= 1, "{threads} threads close devices");
    drop(holds);
    calls.fail_no_more();
    assert_nothing_left(&gpu);
}

#[test]
#[ignore = "the inner half of devices_close_although_their_driver_panics_on_the_closing_thread"]
fn inner_panics_on_the_closing_thread() {
    for panics_in in ["now_ns", "pause"] {
        let (gpu, calls) = instrumented_gpu(Schedule::Timed, 1);
        let (panicking, panicked) = mpsc::channel();
        calls.fail(move |call| {
            if call == panics_in && thread::current().name() == Some("millstream-closing") {
                panicking.send(()).ok();
                panic!("a driver panics, as the test wants");
            }
            None
        });
        let device = open(&calls, 0).expect("the device opens");
        let stream = device.stream().unwrap();
        let hold = gpu.hold(stream.as_raw());
        stream.zeros::<u32>(N).unwrap();
        drop((device, stream));
        panicked.recv_timeout(CLOSED_WITHIN).expect("it panics");
        drop(hold);
        assert_nothing_left(&gpu);
    }
}

#[test]
fn devices_close_although_their_driver_panics_on_the_closing_thread() {
    in_process("closing::inner_panics_on_the_closing_thread", &[]).text();
}

/// A value whose destructor panics.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("a destructor panics, as the test wants");
    }
}

#[test]
fn a_value_kept_in_a_device_that_panics_keeps_nothing_from_being_freed() {
    let (gpu, calls) = instrumented_gpu(Schedule::Eager, 1);
    let device = open(&calls, 0).expect("the device opens");
    device.slot(|| Panics);
    device.slot(|| [Panics]);
    let kept = Panics;
    device.on_memory_shortage(move || {
        let _kept = &kept;
        panic!("a function panics, as the test wants")
    });
    work(&device.stream().unwrap()).unwrap();
    let too_large = device.stream().unwrap().zeros::<u8>(1 << 50);
    assert!(too_large.is_err(), "{too_large:?}");
    drop(device);
    assert_nothing_left(&gpu);
}

#[cfg(target_os = "linux")]
#[test]
fn closing_devices_share_one_thread_and_do_not_pile_up() {
    // In a process of its own: devices of other tests would be closing there as well.
    in_process("closing::inner_slow_closing_thread", &[]).text();
}

#[run_by(scenario, |harness|)]
fn a_dropped_device_can_be_waited_for() -> Result<()> {
    let (_, other) = harness.by_another_driver();
    let stream = other.stream()?;
    work(&stream)?;
    let closed = other.closed();
    assert!(!closed.wait_timeout(Duration::ZERO)?);
    let gate = harness.gate(&stream);
    drop(stream.download(&stream.zeros::<u8>(N)?)?);
    drop((stream, other));
    if harness.gates_hold() {
        assert!(!closed.wait_timeout(Duration::from_millis(1))?);
    }
    thread::scope(|scope| {
        let waiter = scope.spawn(|| closed.wait_timeout(CLOSED_WITHIN));
        gate.open();
        closed.wait()?;
        assert!(waiter.join().unwrap()? && closed.is_closed());
        Ok(())
    })
}

#[test]
fn a_wait_for_a_device_with_handles_is_an_error_and_not_a_deadlock() -> Result<()> {
    let device = Device::simulated()?;
    let stream = device.stream()?;
    let pending = stream.download(&stream.zeros::<u8>(N)?)?;
    let closed = device.closed();
    drop((device, stream));
    assert_is!(problem(closed.wait()), UsageErrorKind::StillOpen { .. });
    pending.wait()?;
    closed.wait()
}

/// A value of the user whose destructor waits for its device.
struct WaitsWhenDropped(millstream::device::Closed, mpsc::Sender<Result<()>>);

impl Drop for WaitsWhenDropped {
    fn drop(&mut self) {
        self.1.send(self.0.wait()).unwrap();
    }
}

impl std::task::Wake for WaitsWhenDropped {
    fn wake(self: Arc<Self>) {}
}

#[run_by(scenario, |harness|)]
fn user_code_that_the_library_calls_cannot_wait_for_a_device() -> Result<()> {
    if !harness.gates_hold() {
        return Ok(());
    }
    let (sender, results) = mpsc::channel();
    let next = || problem(results.recv_timeout(CLOSED_WITHIN).expect("it ends"));
    let (_, device) = harness.by_another_driver();
    let (stream, closed) = (device.stream()?, device.closed());
    // A value that the device keeps is dropped while it is closing.
    let kept = WaitsWhenDropped(device.closed(), sender.clone());
    drop(device.slot(|| std::sync::Mutex::new(kept)));
    // The thread that polls for futures calls a waker, whose last reference it has.
    let gate = harness.gate(&stream);
    let mut value = stream.download(&stream.zeros::<u8>(N)?)?;
    let waker = Waker::from(Arc::new(WaitsWhenDropped(device.closed(), sender)));
    let _ = std::pin::Pin::new(&mut value).poll(&mut Context::from_waker(&waker));
    drop(waker);
    gate.open();
    assert_is!(next(), UsageErrorKind::InCallback);
    drop((value, stream, device));
    assert_is!(next(), UsageErrorKind::InCallback);
    closed.wait()
}

#[test]
fn a_lost_device_is_closed_too() -> Result<()> {
    let device = Device::simulated()?;
    let (stream, closed) = (device.stream()?, device.closed());
    fault(&stream);
    assert_lost(stream.synchronize());
    drop((stream, device));
    closed.wait()
}
