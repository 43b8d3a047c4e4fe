//! User code that blocks, panics or calls back wherever the library runs it: wakers, sources and
//! futures. It must block only itself.

use std::{
    pin::{Pin, pin},
    task::Wake,
};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::scenarios::prelude::*;

/// The time limit of operations that do not depend on user code.
pub(crate) const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// Takes the lock that serialises the tests of this file, which keep the process's only disposal
/// thread busy.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// A barrier that blocks threads until it is opened.
#[derive(Default)]
struct Barrier {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Barrier {
    fn pass(&self) {
        let mut open = self.open.lock();
        while !*open {
            self.opened.wait(&mut open);
        }
    }

    fn open(&self) {
        *self.open.lock() = true;
        self.opened.notify_all();
    }
}

/// An action of user code, where the library runs it.
#[derive(Clone)]
enum CallbackAction {
    /// Blocks until the barrier opens.
    Block(Arc<Barrier>),
    Panic,
    /// Panics with a payload whose destructor panics.
    PanicTwice,
    /// Calls every kind of method of the device.
    CallBack(Device),
}

/// A panic payload whose destructor panics.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("a payload panics, as the test wants");
        }
    }
}

impl CallbackAction {
    fn all(device: &Device) -> [(&'static str, Self); 4] {
        [
            ("blocks", Self::Block(Arc::default())),
            ("panics", Self::Panic),
            ("panics twice", Self::PanicTwice),
            ("calls back", Self::CallBack(device.clone())),
        ]
    }

    /// Performs the action; returns the error of the library, if any.
    fn run(&self) -> Result<()> {
        match self {
            Self::Block(barrier) => barrier.pass(),
            Self::Panic => panic!("user code panics, as the test wants"),
            Self::PanicTwice => std::panic::panic_any(Payload),
            Self::CallBack(device) => return call_back(device),
        }
        Ok(())
    }

    fn release(&self) {
        if let Self::Block(barrier) = self {
            barrier.open();
        }
    }
}

/// Calls methods of every kind, including blocking ones.
pub(crate) fn call_back(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let mut array = stream.upload(&[1_u8, 2, 3, 4])?;
    stream.upload_into(&[5_u8, 6], array.slice_mut(..2))?;
    let copy = array.try_slice(1..3)?.len();
    assert_eq!(copy, 2);
    stream.fill(&mut array, 7)?;
    let mut other = stream.zeros::<u8>(4)?;
    stream.copy(&array, &mut other)?;
    stream.copy_within(&mut other, ..2, 2)?;
    assert_eq!(stream.values(&other)?, [7; 4]);
    assert_eq!(pollster::block_on(stream.download(&other)?)?, [7; 4]);
    assert_eq!(stream.download_into(&other, vec![0; 4])?.wait()?, [7; 4]);
    let event = stream.record()?;
    device.stream()?.wait_for(&event)?;
    event.wait()?;
    assert!(event.is_complete()?);
    let mut pinned = device.pinned::<u8>(4)?;
    stream.copy(&other, &mut pinned)?;
    assert_eq!(*pinned.read()?, [7; 4]);
    pinned.write()?.fill(1);
    drop(Pinned::register(device, vec![1_u8; 4096])?.into_vec()?);
    drop(stream.upload_owned(vec![1_u8; 3 << 20])?);
    stream
        .upload_owned_into(Bytes::from(vec![1_u8; 4]), &mut other)?
        .wait()?;
    let borrowed = [1_u8; 4];
    device.scope(|scope| scope.upload(&stream, &borrowed, &mut other))?;
    let sums = sums::load(device)?;
    let floats = stream.upload(&[1.0_f32; 64])?;
    let mut sum = stream.zeros::<f32>(64)?;
    sums.vecadd(&stream, 64, &floats, &floats, &mut sum, 64)?;
    assert_eq!(stream.values(&sum)?, [2.0; 64]);
    let timeline = device.timeline()?;
    stream.fill(&mut sum, 1.0)?;
    assert!(!timeline.finish()?.operations.is_empty());
    let _ = (
        device.memory_stats()?,
        device.health(),
        device.lost(),
        device.name(),
    );
    device.trim()?;
    stream.synchronize()
}

/// Returns a download that completes when the gate is opened.
fn gated(harness: &Harness) -> Result<(crate::scenarios::harness::Gate, Pending<Vec<u8>>)> {
    let stream = harness.stream();
    let buffer = stream.upload(&[1_u8, 2, 3])?;
    let gate = harness.gate(&stream);
    let pending = stream.download(&buffer)?;
    Ok((gate, pending))
}

/// Asserts that futures complete and that owned sources are released.
fn assert_alive(harness: &Harness, when: &str) -> Result<()> {
    let (gate, pending) = gated(harness)?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(pollster::block_on(pending)));
    thread::sleep(Duration::from_millis(3));
    gate.open();
    let value = told.recv_timeout(NOTICED_WITHIN);
    let value = value.unwrap_or_else(|_| panic!("a future did not complete while {when}"));
    assert_eq!(value?, [1, 2, 3], "{when}");
    let source: Arc<[u32]> = vec![7; harness.large_len()].into();
    drop(harness.stream().upload_owned(Arc::clone(&source))?);
    let started = Instant::now();
    while Arc::strong_count(&source) > 1 {
        assert!(
            started.elapsed() < NOTICED_WITHIN,
            "a source was not released while {when}"
        );
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Runs a test with each action, and checks that everything else makes progress during and after
/// it. Errors returned to user code are failures.
pub(crate) fn with_each_action(provoke: impl Fn(&Harness, &Arc<User>) -> Result<()>) {
    let _turn = one_at_a_time();
    once(|harness| {
        for (name, action) in CallbackAction::all(&harness.device) {
            let _watch = Watch::over(String::from(name));
            let user = Arc::new(User {
                action: action.clone(),
                runs: AtomicUsize::new(0),
                errors: Mutex::default(),
            });
            provoke(harness, &user)?;
            let started = Instant::now();
            while user.runs.load(Ordering::Acquire) == 0 {
                assert!(
                    started.elapsed() < NOTICED_WITHIN,
                    "user code that {name} did not run"
                );
                thread::sleep(Duration::from_millis(1));
            }
            assert_alive(harness, &format!("user code {name}"))?;
            action.release();
            assert_alive(harness, &format!("user code {name} and is over"))?;
            let errors = std::mem::take(&mut *user.errors.lock());
            assert!(errors.is_empty(), "{name}: {errors:?}");
        }
        Ok(())
    });
}

/// User code with its number of runs and the errors returned to it.
pub(crate) struct User {
    action: CallbackAction,
    runs: AtomicUsize,
    errors: Mutex<Vec<Error>>,
}

impl User {
    pub(crate) fn run(&self) {
        self.runs.fetch_add(1, Ordering::Release);
        if let Err(error) = self.action.run() {
            self.errors.lock().push(error);
        }
    }
}

/// A waker that runs user code when it is woken.
struct Woken(Arc<User>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.run();
    }
}

/// A waker that runs user code when it is dropped.
struct Dropped(Arc<User>);

impl Wake for Dropped {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.run();
    }
}

/// An owner of memory that runs user code when it is dropped.
struct Owner(Vec<u8>, Arc<User>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.1.run();
    }
}

fn poll_once(pending: &mut Pending<Vec<u8>>, waker: &Waker) -> bool {
    pin!(pending)
        .poll(&mut Context::from_waker(waker))
        .is_ready()
}

#[run_by(with_each_action, |harness, user|)]
fn a_waker_blocks_only_itself() -> Result<()> {
    let (gate, mut pending) = gated(harness)?;
    let waker = Waker::from(Arc::new(Woken(Arc::clone(user))));
    assert!(!poll_once(&mut pending, &waker));
    gate.open();
    // The pending value is kept until the waker is called.
    let user = Arc::clone(user);
    thread::spawn(move || {
        while user.runs.load(Ordering::Acquire) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        pending.wait()
    });
    Ok(())
}

#[run_by(with_each_action, |harness, user|)]
fn a_displaced_wakers_destructor_blocks_only_its_thread() -> Result<()> {
    let (gate, mut pending) = gated(harness)?;
    let waker = Waker::from(Arc::new(Dropped(Arc::clone(user))));
    assert!(!poll_once(&mut pending, &waker));
    drop(waker);
    // The future holds the last reference to the waker; another waker displaces it.
    thread::spawn(move || {
        let polled = std::panic::AssertUnwindSafe(|| poll_once(&mut pending, Waker::noop()));
        if let Err(payload) = std::panic::catch_unwind(polled) {
            std::mem::forget(payload);
        }
    });
    let started = Instant::now();
    while user.runs.load(Ordering::Acquire) == 0 && started.elapsed() < NOTICED_WITHIN {
        thread::yield_now();
    }
    gate.open();
    Ok(())
}

#[run_by(with_each_action, |harness, user|)]
fn a_sources_destructor_blocks_only_itself() -> Result<()> {
    let owner = Owner(vec![7; 4 * harness.large_len()], Arc::clone(user));
    let array = harness.stream().upload_owned(Bytes::from_owner(owner))?;
    drop(array);
    Ok(())
}

#[test]
fn a_future_blocks_only_its_thread() {
    /// A future that runs user code at its first poll.
    struct Hostile(Arc<User>, Pending<Vec<u8>>);

    impl Future for Hostile {
        type Output = Result<Vec<u8>>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            if self.0.runs.load(Ordering::Acquire) == 0 {
                let _ = Pin::new(&mut self.1).poll(context);
                self.0.run();
            }
            Pin::new(&mut self.1).poll(context)
        }
    }

    with_each_action(|harness, user| {
        let (gate, pending) = gated(harness)?;
        let future = Hostile(Arc::clone(user), pending);
        thread::spawn(move || {
            let awaited = std::panic::AssertUnwindSafe(|| pollster::block_on(future));
            if let Err(payload) = std::panic::catch_unwind(awaited) {
                std::mem::forget(payload);
            }
        });
        gate.open();
        Ok(())
    });
}

#[test]
fn a_wakers_destructor_may_await() {
    let _turn = one_at_a_time();
    once(|harness| {
        let device = harness.device.clone();
        let (gate, mut pending) = gated(harness)?;
        let (tell, told) = mpsc::channel();
        struct Awaiting(Device, mpsc::Sender<Result<Vec<u8>>>);
        impl Wake for Awaiting {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Awaiting {
            fn drop(&mut self) {
                let awaited = || {
                    let stream = self.0.stream()?;
                    pollster::block_on(stream.download(&stream.upload(&[9_u8])?)?)
                };
                let _ = self.1.send(awaited());
            }
        }
        let waker = Waker::from(Arc::new(Awaiting(device, tell)));
        assert!(!poll_once(&mut pending, &waker));
        drop(waker);
        gate.open();
        // The reactor drops the last reference after it has called the waker.
        let value = told
            .recv_timeout(NOTICED_WITHIN)
            .expect("the destructor hangs");
        assert_eq!(value?, [9]);
        assert_eq!(pending.wait()?, [1, 2, 3]);
        Ok(())
    });
}
