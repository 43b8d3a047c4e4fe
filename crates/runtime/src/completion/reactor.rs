//! The reactor: one thread of the process that asks on behalf of futures, and sleeps while nobody awaits anything.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
    task::Waker,
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    local,
    wait::{patience, poll_ticket},
};
use crate::{
    Error,
    device::{DeviceState, StreamState},
    sync::{Condvar, spin_loop},
};

/// A future's wish to be woken when a ticket is done, or can never be.
pub(crate) struct Wish {
    pub(crate) device: Arc<DeviceState>,
    pub(crate) stream: Arc<StreamState>,
    pub(crate) sequence: u64,
    /// The waker of the future's last poll; empty once the future is gone.
    pub(crate) waker: Arc<Mutex<Option<Waker>>>,
    /// Whether a failure to ask is no news: nothing is but the ticket's end, or the loss of the device.
    pub(crate) to_the_end: bool,
}

/// What the reactor's thread takes its wishes from.
#[derive(Default)]
struct Inbox {
    /// Whether the thread runs.
    started: bool,
    arrived: Vec<Wish>,
}

#[derive(Default)]
struct Reactor {
    inbox: Mutex<Inbox>,
    signal: Condvar,
}

/// Hands a wish to the reactor, the calling thread's own if it has one, starting the other's thread on first use.
///
/// # Errors
///
/// Gives the wish back if the system has no thread for the reactor; the next wish tries again.
pub(crate) fn register(wish: Wish) -> Result<(), Wish> {
    let Err(wish) = local::register(wish) else {
        return Ok(());
    };
    static REACTOR: LazyLock<Reactor> = LazyLock::new(Reactor::default);
    let reactor = &*REACTOR;
    let mut inbox = reactor.inbox.lock();
    if !inbox.started {
        let name = String::from("millstream-reactor");
        if let Err(error) = thread::Builder::new().name(name).spawn(|| reactor.run()) {
            tracing::warn!(%error, "no thread for the reactor; whoever awaits polls");
            return Err(wish);
        }
        inbox.started = true;
    }
    inbox.arrived.push(wish);
    drop(inbox);
    reactor.signal.notify_one();
    Ok(())
}

/// A wish that is being asked about, and when that began on its driver's clock.
pub(super) struct Asking {
    pub(super) wish: Wish,
    since_ns: u64,
}

impl Asking {
    pub(super) fn new(wish: Wish) -> Self {
        let since_ns = wish.device.driver.now_ns();
        Self { wish, since_ns }
    }
}

/// How long the most impatient wish allows to sleep, and which that is. `None`: not at all, or there is none.
pub(super) fn shortest_sleep(asking: &[Asking]) -> Option<(Duration, &Asking)> {
    let mut shortest: Option<(Duration, &Asking)> = None;
    for entry in asking {
        let waited_ns = entry.wish.device.driver.now_ns().saturating_sub(entry.since_ns);
        let sleep = patience(waited_ns)?;
        if shortest.is_none_or(|(known, _)| sleep < known) {
            shortest = Some((sleep, entry));
        }
    }
    shortest
}

impl Reactor {
    fn run(&self) {
        let mut asking: Vec<Asking> = Vec::new();
        loop {
            self.collect(&mut asking);
            asking.retain(|asking| !settle(&asking.wish));
            self.rest(&asking);
        }
    }

    /// Takes in what has arrived; with nothing at hand, sleeps until something does.
    fn collect(&self, asking: &mut Vec<Asking>) {
        let mut inbox = self.inbox.lock();
        while asking.is_empty() && inbox.arrived.is_empty() {
            self.signal.wait(&mut inbox);
        }
        asking.extend(inbox.arrived.drain(..).map(Asking::new));
    }

    /// Sleeps as long as the most impatient wish allows.
    fn rest(&self, asking: &[Asking]) {
        let Some((sleep, entry)) = shortest_sleep(asking) else {
            return spin_loop();
        };
        let driver = &entry.wish.device.driver;
        if driver.is_simulated() {
            driver.pause(sleep);
        } else {
            let mut inbox = self.inbox.lock();
            if inbox.arrived.is_empty() {
                self.signal.wait_for(&mut inbox, sleep);
            }
        }
    }
}

/// Wakes the wish's future if there is news for it; says whether the wish is settled.
pub(super) fn settle(wish: &Wish) -> bool {
    if wish.waker.lock().is_none() {
        return true;
    }
    let ask = || poll_ticket(&wish.device, &wish.stream, wish.sequence);
    let is_news = match catch_unwind(AssertUnwindSafe(ask)) {
        Ok(Ok(is_done)) => is_done,
        Ok(Err(Error::DeviceLost { .. })) => true,
        // A failure is news too, and so is a driver's panic: the future finds it when it is polled.
        Ok(Err(_)) | Err(_) => !wish.to_the_end,
    };
    if !is_news {
        return false;
    }
    // Taken before it is called: a waker is the executor's code, and may poll or drop the future, which takes this lock.
    let waker = wish.waker.lock().take();
    if let Some(waker) = waker {
        // If it panics, that is no reason for others not to be woken.
        if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
            tracing::error!("a waker panicked");
        }
    }
    true
}
