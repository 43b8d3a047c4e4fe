//! Model checking of the submission protocol with shuttle: `cargo xtask shuttle`.
//!
//! Every operation on a lock, condition variable or atomic of the runtime is a scheduling point,
//! and so is every driver call, because the failing driver takes a lock in each. Several threads
//! submit operations on the same bytes at once, which no safe program can do, so that their tickets
//! meet in every state. Each operation writes or reads two arrays, one after the other: if two
//! operations were not ordered, the simulated device could run one between the two halves of the
//! other.

#![allow(unsafe_code, reason = "submits operations on arrays that it owns")]

mod devices;

use std::{
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    sync::Arc,
};

use millstream_driver::{Driver, DriverError, ResultCode};
use millstream_sim::{Gpu, Schedule, SimConfig};
use millstream_testkit::calls::Calls;
use parking_lot::Mutex;
use shuttle::{
    Config, Runner,
    rand::{Rng, thread_rng},
    scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler},
    thread,
};
use smallvec::smallvec;

use super::*;
use crate::{
    Buffer, Device, Stream,
    array::Span,
    device::closing,
    error::OperationKind,
    tracker::{AccessKind, Accesses, Sequence},
};

const RANDOM_SCHEDULES: usize = 2000;
/// The number of PCT schedules for each program: random, with few changes of thread.
const PCT_SCHEDULES: usize = 2000;
const PCT_DEPTH: usize = 4;
const SEED: u64 = 7;

/// Runs a program under many schedules.
pub(crate) fn explore(program: impl Fn() + Send + Sync + 'static) {
    let program = Arc::new(program);
    let again = Arc::clone(&program);
    run(
        RandomScheduler::new_from_seed(SEED, RANDOM_SCHEDULES),
        move || again(),
    );
    run(
        PctScheduler::new_from_seed(SEED, PCT_DEPTH, PCT_SCHEDULES),
        move || program(),
    );
}

fn run(scheduler: impl Scheduler + 'static, program: impl Fn() + Send + Sync + 'static) {
    // The process has one list of open devices, whose lock belongs to the running schedule, so the
    // tests take turns.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    Runner::new(scheduler, config).run(program);
}

/// A new simulated GPU that runs operations in random order, behind a driver whose calls can be
/// made to fail.
pub(crate) struct TestDevice {
    gpu: Gpu,
    pub(crate) calls: Arc<Calls>,
    pub(crate) device: Device,
}

/// Creates a simulated machine with this many devices that runs operations in random order.
fn machine(devices: u32) -> (Gpu, Arc<Calls>) {
    let schedule = Schedule::Random(thread_rng().r#gen());
    let gpu = Gpu::new(SimConfig::new().devices(devices).schedule(schedule));
    let calls = Arc::new(Calls::over(gpu.driver()));
    (gpu, calls)
}

fn open(calls: &Arc<Calls>, ordinal: i32) -> Device {
    // SAFETY: the driver forwards calls to a correct driver, or fails without any effect.
    let device = unsafe { Device::with_driver(Arc::clone(calls) as Arc<dyn Driver>, ordinal) };
    let device = device.expect("the device opens");
    // Without a cache, dropped arrays are freed while the threads run, not when the device is
    // closed.
    device.set_cache_limit(0);
    device
}

/// Waits for the thread that closes devices which another thread visited last. Then checks that
/// every object was freed and that the simulator reported nothing.
fn assert_nothing_left(gpu: &Gpu, calls: &Calls) {
    while closing::passes().is_some() {
        thread::yield_now();
    }
    for (make, unmake) in [
        ("mem_alloc_async", "mem_free_async"),
        ("event_create", "event_destroy"),
        ("stream_create", "stream_destroy"),
        ("host_alloc", "host_free"),
    ] {
        assert_eq!(calls.count(make), calls.count(unmake), "{make}, {unmake}");
    }
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
}

impl TestDevice {
    pub(crate) fn new() -> Self {
        let (gpu, calls) = machine(1);
        let device = open(&calls, 0);
        Self { gpu, calls, device }
    }

    pub(crate) fn stream(&self) -> Stream {
        self.device.stream().expect("a stream")
    }

    pub(crate) fn arrays(&self, stream: &Stream) -> Arrays {
        Arrays::on(stream)
    }

    /// Waits for all work, and checks that every object was freed and that the simulator reported
    /// nothing.
    pub(crate) fn end(self, streams: impl IntoIterator<Item = Stream>) {
        for stream in streams {
            stream.synchronize().expect("the device is alive");
        }
        let Self { gpu, calls, device } = self;
        // Internal streams may still have pending frees.
        unsafe { gpu.driver().context_synchronize(device.as_raw()) }.expect("the device is alive");
        drop(device);
        assert_nothing_left(&gpu, &calls);
    }
}

/// The injected outcome of an operation.
#[derive(Clone, Copy)]
pub(crate) enum Injected {
    Runs,
    Fails,
    Panics,
}

/// Two commands submitted as one operation, with its injected outcome.
struct Both<C>(C, C, Injected);

impl<C: Command<Output = ()>> Command for Both<C> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        match self.2 {
            Injected::Runs => {}
            Injected::Fails => return Err(DriverError::new("enqueue", ResultCode::INVALID_VALUE)),
            // Without the panic hook, which shuttle would report as a failure of the test.
            Injected::Panics => resume_unwind(Box::new("injected by the test")),
        }
        // SAFETY: by this function's contract.
        unsafe { self.0.enqueue(driver_stream) }?;
        // SAFETY: by this function's contract.
        unsafe { self.1.enqueue(driver_stream) }
    }
}

/// A pair of arrays with equal elements, unless an operation is observed halfway.
pub(crate) struct Arrays(pub(crate) [Buffer<u32>; 2]);

impl Arrays {
    /// Creates arrays of zeros on the stream's device.
    fn on(stream: &Stream) -> Self {
        let array = || stream.upload(&[0_u32; 16]).expect("an array");
        Self([array(), array()])
    }

    /// Submits a write of a value to both arrays. Returns whether it was enqueued.
    pub(crate) fn write(&self, stream: &Stream, value: u32, outcome: Injected) -> bool {
        let fill = |span: &Span<'_>| Fill {
            target: span.pointer(),
            pattern: millstream_driver::FillPattern::U32(value),
            count: span.bytes.len() / size_of::<u32>(),
        };
        let [a, b] = [0, 1].map(|at| self.0[at].view().span);
        let accesses = [a.access(AccessKind::Write), b.access(AccessKind::Write)].into();
        enqueue(stream, accesses, Both(fill(&a), fill(&b), outcome))
    }

    /// Submits a copy of both arrays to others. Returns whether it was enqueued.
    fn copy_to(&self, others: &Self, stream: &Stream) -> bool {
        let [a, b] = [0, 1].map(|at| self.0[at].view().span);
        let [c, d] = [0, 1].map(|at| others.0[at].view().span);
        let copy = |source: &Span<'_>, target: &Span<'_>| CopyOnDevice {
            target: target.pointer(),
            source: source.pointer(),
            bytes: source.bytes.len(),
        };
        let accesses = [
            d.access(AccessKind::Write),
            a.access(AccessKind::Read),
            c.access(AccessKind::Write),
            b.access(AccessKind::Read),
        ]
        .into();
        enqueue(
            stream,
            accesses,
            Both(copy(&a, &c), copy(&b, &d), Injected::Runs),
        )
    }

    /// Downloads both arrays and returns the value of their elements, which must all be equal.
    pub(crate) fn value(&self, stream: &Stream) -> u32 {
        let [a, b] = [0, 1].map(|at| stream.download(&self.0[at]).expect("a download"));
        let (a, b) = (a.wait().expect("a value"), b.wait().expect("a value"));
        assert!(
            a.iter().chain(&b).all(|&value| value == a[0]),
            "{a:?}, {b:?}"
        );
        a[0]
    }
}

fn operation(accesses: Accesses<'_>) -> Operation<'_> {
    Operation {
        kind: OperationKind::Fill,
        label: "interleaved",
        location: Location::caller(),
        bytes: 0,
        accesses,
        host_waiter: None,
    }
}

/// Submits an operation. Returns whether it was enqueued.
fn enqueue(stream: &Stream, accesses: Accesses<'_>, command: impl Command<Output = ()>) -> bool {
    let mut operation = operation(accesses);
    let submitted = || {
        // SAFETY: the arrays live until all work is complete, and the accesses name them.
        unsafe {
            submit(
                stream.device_state(),
                stream.state(),
                &mut operation,
                command,
            )
        }
    };
    catch_unwind(AssertUnwindSafe(submitted)).is_ok_and(|result| result.is_ok())
}

#[test]
fn threads_write_and_read_the_same_arrays() {
    explore(|| {
        let test_device = TestDevice::new();
        let streams: [Stream; 3] = std::array::from_fn(|_| test_device.stream());
        let (first, second) = (
            test_device.arrays(&streams[0]),
            test_device.arrays(&streams[1]),
        );
        thread::scope(|scope| {
            let (streams, first, second) = (&streams, &first, &second);
            scope.spawn(move || {
                assert!(first.write(&streams[0], 1, Injected::Runs));
                assert!(first.copy_to(second, &streams[1]));
            });
            scope.spawn(move || assert!(second.copy_to(first, &streams[1])));
            scope.spawn(move || {
                assert!(second.write(&streams[2], 2, Injected::Runs));
                assert!(first.write(&streams[0], 3, Injected::Runs));
            });
        });
        assert!((1..=3).contains(&first.value(&streams[2])));
        assert!(second.value(&streams[0]) <= 3);
        drop((first, second));
        test_device.end(streams);
    });
}

#[test]
fn failed_and_panicking_submissions_block_no_thread_and_lose_no_dependency() {
    for outcome in [Injected::Fails, Injected::Panics] {
        explore(move || {
            let test_device = TestDevice::new();
            let streams: [Stream; 3] = std::array::from_fn(|_| test_device.stream());
            let (arrays, copies) = (
                test_device.arrays(&streams[0]),
                test_device.arrays(&streams[2]),
            );
            let hold = test_device.gpu.hold(streams[0].as_raw());
            assert!(arrays.write(&streams[0], 7, Injected::Runs));
            thread::scope(|scope| {
                let (streams, arrays, copies) = (&streams, &arrays, &copies);
                scope.spawn(move || assert!(!arrays.write(&streams[1], 8, outcome)));
                scope.spawn(move || assert!(arrays.copy_to(copies, &streams[2])));
            });
            drop(hold);
            assert_eq!(copies.value(&streams[1]), 7);
            assert_eq!(arrays.value(&streams[2]), 7);
            drop((arrays, copies));
            test_device.end(streams);
        });
    }
}

#[test]
fn a_failed_wait_loses_no_dependency() {
    explore(|| {
        let test_device = TestDevice::new();
        let streams: [Stream; 3] = std::array::from_fn(|_| test_device.stream());
        let (arrays, copies) = (
            test_device.arrays(&streams[0]),
            test_device.arrays(&streams[2]),
        );
        let own_copies = test_device.arrays(&streams[1]);
        let hold = test_device.gpu.hold(streams[0].as_raw());
        assert!(arrays.write(&streams[0], 7, Injected::Runs));
        let refused = Mutex::new(false);
        test_device.calls.fail(move |call| {
            // The first wait of either thread fails.
            let first =
                call == "stream_wait_event" && !std::mem::replace(&mut *refused.lock(), true);
            first.then(|| DriverError::new("stream_wait_event", ResultCode::INVALID_VALUE))
        });
        let (wrote, copied) = thread::scope(|scope| {
            let (streams, arrays, copies, own_copies) = (&streams, &arrays, &copies, &own_copies);
            let wrote = scope.spawn(move || {
                let wrote = arrays.write(&streams[1], 8, Injected::Runs);
                // A failed ticket adds no ordering to its own stream.
                assert!(arrays.copy_to(own_copies, &streams[1]));
                wrote
            });
            let copied = scope.spawn(move || arrays.copy_to(copies, &streams[2]));
            (
                wrote.join().expect("no panic"),
                copied.join().expect("no panic"),
            )
        });
        assert!(wrote != copied, "exactly one of the two operations fails");
        drop(hold);
        assert_eq!(copies.value(&streams[1]), if copied { 7 } else { 0 });
        assert_eq!(arrays.value(&streams[2]), if wrote { 8 } else { 7 });
        assert_eq!(own_copies.value(&streams[0]), if wrote { 8 } else { 7 });
        drop((arrays, copies, own_copies));
        test_device.end(streams);
    });
}

#[test]
fn two_threads_record_late_while_a_third_submits() {
    explore(|| {
        let test_device = TestDevice::new();
        let streams: [Stream; 3] = std::array::from_fn(|_| test_device.stream());
        let (arrays, other) = (
            test_device.arrays(&streams[0]),
            test_device.arrays(&streams[0]),
        );
        let copies = [
            test_device.arrays(&streams[1]),
            test_device.arrays(&streams[2]),
        ];
        assert!(arrays.write(&streams[0], 5, Injected::Runs));
        thread::scope(|scope| {
            let (streams, arrays, other, copies) = (&streams, &arrays, &other, &copies);
            for at in [0, 1] {
                scope.spawn(move || assert!(arrays.copy_to(&copies[at], &streams[1 + at])));
            }
            scope.spawn(move || {
                assert!(other.write(&streams[0], 6, Injected::Runs));
                assert!(other.write(&streams[0], 7, Injected::Runs));
            });
        });
        assert_eq!(
            copies.each_ref().map(|copy| copy.value(&streams[0])),
            [5, 5]
        );
        assert_eq!(other.value(&streams[1]), 7);
        drop((arrays, other, copies));
        test_device.end(streams);
    });
}

#[test]
fn arrays_dropped_while_submit_queues_are_locked_are_freed_once() {
    explore(|| {
        let test_device = TestDevice::new();
        let streams: [Stream; 2] = std::array::from_fn(|_| test_device.stream());
        let (arrays, copies) = (
            test_device.arrays(&streams[0]),
            test_device.arrays(&streams[1]),
        );
        assert!(arrays.copy_to(&copies, &streams[1]));
        assert!(arrays.write(&streams[0], 5, Injected::Runs));
        let (others, last) = (
            test_device.arrays(&streams[0]),
            test_device.arrays(&streams[1]),
        );
        thread::scope(|scope| {
            let (streams, others, last) = (&streams, &others, &last);
            scope.spawn(move || drop(arrays));
            scope.spawn(move || {
                drop(copies);
                assert!(others.copy_to(last, &streams[1]));
            });
            scope.spawn(move || assert!(others.write(&streams[0], 9, Injected::Runs)));
        });
        assert!([0, 9].contains(&last.value(&streams[0])));
        drop((others, last));
        test_device.end(streams);
    });
}

#[test]
fn a_download_is_waited_for_while_its_stream_gets_more_work() {
    explore(|| {
        let test_device = TestDevice::new();
        let stream = test_device.stream();
        let arrays = test_device.arrays(&stream);
        assert!(arrays.write(&stream, 3, Injected::Runs));
        let download = stream.download(&arrays.0[0]).expect("a download");
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(download.wait().expect("a value"), [3; 16]));
            scope.spawn(|| assert!(arrays.write(&stream, 4, Injected::Runs)));
            scope.spawn(|| assert!(arrays.write(&stream, 4, Injected::Runs)));
        });
        assert_eq!(arrays.value(&stream), 4);
        drop(arrays);
        test_device.end([stream]);
    });
}

#[test]
fn every_schedule_of_a_submission_and_a_dependent_thread() {
    for submits in [true, false] {
        let program = move || {
            // Fewer scheduling points than with the failing driver, so that all schedules can be
            // explored.
            let gpu = Gpu::new(SimConfig::new());
            let opened = Device::open_simulated(&gpu, 0).expect("the device opens");
            let streams: [Stream; 2] = std::array::from_fn(|_| opened.stream().expect("a stream"));
            let device = opened.state();
            let [ours, theirs] = streams.each_ref().map(|stream| &**stream.state());
            let ticket = ours.ticket(Sequence::FIRST);
            let mut operation = operation(Accesses::default());
            thread::scope(|scope| {
                scope.spawn(move || {
                    let mut submit_queue = ours.submit_queue.lock();
                    let mut guard = SubmitGuard {
                        device,
                        stream: ours,
                        submit_queue: &mut submit_queue,
                        operation: &mut operation,
                        ticket,
                        plan: Plan::default(),
                        settled: false,
                    };
                    if submits {
                        guard.settle();
                    }
                });
                scope.spawn(move || {
                    let mut wanted = smallvec![ticket];
                    let waits = find_sync_points(device, theirs, &mut wanted, &mut None);
                    assert_eq!(waits.expect("a point").len(), 1);
                });
            });
            assert_eq!(ours.shared.lock().points.submitted(), Sequence::FIRST);
            assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
        };
        run(DfsScheduler::new(None, false), program);
    }
}
