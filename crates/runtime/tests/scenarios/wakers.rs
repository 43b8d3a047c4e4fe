//! Wakers with side effects: the reactor holds no lock while it calls a waker, and survives one
//! that panics.

use std::{pin::pin, sync::Mutex, task::Wake};

use crate::scenarios::prelude::*;

/// The time limit within which a completion must be noticed.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// Returns a hold on a stream and a download behind it.
fn held() -> (millstream::sim::Hold, Pending<Vec<u8>>) {
    let gpu = Gpu::new(SimConfig::new());
    let device = Device::open_simulated(&gpu, 0).expect("the device opens");
    let stream = device.stream().expect("a stream");
    let buffer = stream.upload(&[1_u8, 2, 3]).expect("an upload");
    let hold = gpu.hold(stream.as_raw());
    (hold, stream.download(&buffer).expect("a download"))
}

/// An executor that polls its future inside `wake`.
struct Inline {
    future: Mutex<Option<Pending<Vec<u8>>>>,
    value: mpsc::Sender<Result<Vec<u8>>>,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let mut future = self
            .future
            .lock()
            .expect("no thread panics while it holds the lock");
        let waker = Waker::from(Arc::clone(&self));
        if let Some(pending) = future.as_mut()
            && let Poll::Ready(value) = pin!(pending).poll(&mut Context::from_waker(&waker))
        {
            // The future is dropped before the value is sent: its destructor must not wait for the
            // waking thread.
            *future = None;
            self.value
                .send(value)
                .expect("the test still receives values");
        }
    }
}

#[test]
fn a_waker_may_poll_and_drop_its_future() {
    let (hold, pending) = held();
    let (sender, value) = mpsc::channel();
    let task = Arc::new(Inline {
        future: Mutex::new(Some(pending)),
        value: sender,
    });
    Arc::clone(&task).wake();
    assert!(value.try_recv().is_err(), "the stream is held");
    drop(hold);
    let value = value
        .recv_timeout(NOTICED_WITHIN)
        .expect("the value arrives");
    assert_eq!(value.unwrap(), [1, 2, 3]);
}

#[test]
#[ignore = "the inner half of awaiting_works_without_a_thread_for_the_reactor"]
fn inner_await_without_threads() {
    let spawned = thread::Builder::new().spawn(|| ());
    assert!(
        spawned.is_err(),
        "the environment leaves no memory for a thread's stack"
    );
    for schedule in [Schedule::Timed, Schedule::Lazy, Schedule::Random(1)] {
        let gpu = Gpu::new(SimConfig::new().schedule(schedule));
        let device = Device::open_simulated(&gpu, 0).unwrap();
        let stream = device.stream().unwrap();
        let buffer = stream.upload(&[1_u8; 1 << 20]).unwrap();
        let value = pollster::block_on(stream.download(&buffer).unwrap()).unwrap();
        assert!(value.iter().all(|&byte| byte == 1));
    }
    println!("awaited");
}

#[test]
fn awaiting_works_without_a_thread_for_the_reactor() {
    // A stack size beyond the address space, so no thread can be created.
    let stack = (1_u64 << 47).to_string();
    let ended = in_process(
        "wakers::inner_await_without_threads",
        &[("RUST_MIN_STACK", &stack[..])],
    );
    assert_says(&ended.text(), "awaited");
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("this waker panics, as the test wants");
    }
}

#[test]
fn d06_a_waker_that_panics_harms_no_other() {
    let (hold, mut pending) = held();
    let waker = Waker::from(Arc::new(Panics));
    assert!(
        pin!(&mut pending)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(hold);
    pending.wait().unwrap();
    let (hold, pending) = held();
    let (sender, value) = mpsc::channel();
    thread::spawn(move || sender.send(pollster::block_on(pending)));
    drop(hold);
    let value = value
        .recv_timeout(NOTICED_WITHIN)
        .expect("the value arrives");
    assert_eq!(value.unwrap(), [1, 2, 3]);
}
