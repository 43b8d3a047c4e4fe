//! NVIDIA's cuda-async 0.5: while a future is pending for longer than 20 µs, the thread of its
//! reactor scans without a pause and keeps one core busy. It sleeps when no future is pending, but
//! a thread of cuda-core, which starts when the first array is dropped, wakes every millisecond
//! until the process ends.
//!
//! Here a future is polled twice, however long it is pending. The reactor queries the driver with
//! growing intervals, and makes no query while no future is pending.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use millstream::{Result, driver::Driver};

use crate::{
    regressions::{Calls, Harness, N, configurations::on_gpu, counted},
    scenarios::prelude::run_alone,
};

/// The time for which the future is pending, on the driver's clock.
const PENDING_NS: u64 = 50_000_000;
/// The length of an idle period on the host's clock. The test waits for two, because the reactor
/// may need the first to notice that nothing is pending.
const IDLE: Duration = Duration::from_millis(25);
/// The maximum number of queries: a few hundred in the first 30 µs, 100 more until 2 ms, and then
/// one for each further hundredth of the elapsed time.
const QUESTIONS_MAX: usize = 1000;

/// A waker that unparks a thread and counts its wake-ups.
struct Counting {
    thread: Thread,
    woken: AtomicUsize,
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Runs the future on this thread; returns its value and its number of wake-ups.
fn block_on<T>(future: impl Future<Output = T>) -> (T, usize) {
    let counting = Arc::new(Counting {
        thread: thread::current(),
        woken: AtomicUsize::new(0),
    });
    let waker = Waker::from(Arc::clone(&counting));
    let mut future = pin!(future);
    loop {
        let woken = counting.woken.load(Ordering::SeqCst);
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (value, woken);
        }
        while counting.woken.load(Ordering::SeqCst) == woken {
            thread::park();
        }
    }
}

/// Returns the simulator's virtual clock, which every query and every pause advances; `None` on a
/// GPU.
fn clock_ns(harness: &Harness) -> Option<u64> {
    (!on_gpu()).then(|| harness.simulated().virtual_time_ns())
}

fn questions(calls: &Calls) -> usize {
    calls.count("event_query") + calls.count("stream_query")
}

/// In a process of its own, because the reactor asks for all futures of a process while one of them
/// needs it.
#[test]
fn queries_for_a_pending_future_back_off() {
    run_alone("regressions::cuda_async_busy_future::inner_queries", &[]).text();
}

#[run_by(counted, |harness, calls|)]
#[ignore = "the inner half of queries_for_a_pending_future_back_off"]
fn inner_queries() -> Result<()> {
    if !harness.gates_hold() {
        return Ok(());
    }
    let stream = harness.stream();
    let array = stream.upload(&[1_u32; N])?;
    let gate = harness.gate(&stream);
    let download = stream.download(&array)?;
    calls.forget();
    let begun_ns = calls.now_ns();
    let (value, woken) = thread::scope(|scope| {
        let waits = scope.spawn(|| block_on(download));
        while calls.now_ns() - begun_ns < PENDING_NS {
            thread::sleep(Duration::from_millis(1));
        }
        gate.open();
        waits.join().expect("the waiting thread does not panic")
    });
    assert_eq!(value?, [1; N]);
    assert!(woken <= 1, "woken {woken} times");
    let asked = questions(calls);
    assert!(asked <= QUESTIONS_MAX, "{asked} questions");

    thread::sleep(IDLE);
    let (asked, idle_ns) = (questions(calls), clock_ns(harness));
    thread::sleep(IDLE);
    assert_eq!(
        questions(calls),
        asked,
        "the driver was queried while nothing was pending"
    );
    assert_eq!(
        clock_ns(harness),
        idle_ns,
        "a thread slept and woke while nothing was pending"
    );
    Ok(())
}
