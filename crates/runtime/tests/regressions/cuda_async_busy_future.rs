//! NVIDIA's cuda-async: while a future is pending, its executor keeps one core at 99 %; and with
//! nothing to do its thread wakes 916 times a second.
//!
//! A future is polled twice, whatever it waits for. Somebody asks the driver on its behalf, ever
//! more seldom, and nobody asks anything while no future is pending.

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

use millstream::driver::Driver;

use crate::{N, calls::Calls, configurations::on_gpu, counted, harness::Harness};

/// How long the future is pending, on the driver's clock.
const PENDING_NS: u64 = 50_000_000;
/// How long nothing is pending, on the host's; twice, for the reactor may still have to find that
/// out.
const IDLE: Duration = Duration::from_millis(25);
/// A few hundred in the first 30 µs, 100 more until 2 ms, and then one for each hundredth more of
/// the time.
const QUESTIONS_MAX: usize = 1000;

/// Wakes a thread, and counts.
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

/// Runs the future on this thread; gives its value and how often it was woken.
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

/// The virtual clock, which every question and every pause moves; a GPU has none.
fn clock_ns(harness: &Harness) -> Option<u64> {
    (!on_gpu()).then(|| harness.simulated().virtual_time_ns())
}

fn questions(calls: &Calls) -> usize {
    calls.count("event_query") + calls.count("stream_query")
}

#[test]
fn a_pending_future_is_asked_about_ever_more_seldom() {
    counted(|harness, calls| {
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
            waits.join().expect("nobody panics")
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
            "somebody asks while nothing is pending"
        );
        assert_eq!(clock_ns(harness), idle_ns, "somebody sleeps and wakes");
        Ok(())
    });
}
