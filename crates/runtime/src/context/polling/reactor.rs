//! The reactor: threads of the process that poll the device on behalf of futures, and sleep while
//! there are none.
//!
//! One thread *leads*: it polls the driver for every registration, and calls the wakers of those
//! that are complete. A waker is the user's code. It may block, and then no other future may
//! suffer: so a second thread, the *standby*, watches while wakers run. If one call lasts longer
//! than [`STALL`], the standby becomes the leader and goes on with all the rest; the thread that is
//! stuck becomes the standby, or ends, when its waker returns. A waker that never returns costs one
//! thread.
//!
//! All that must survive a change of leaders is in [`ReactorState`], behind one lock. The leader
//! takes registrations out while it polls, calling nothing but the driver meanwhile, and puts them
//! back before it calls a waker, even if a driver panics. No user code runs under the lock.

use std::{
    any::Any,
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
    thread,
    time::Duration,
};

use millstream_driver::PerProcess;
use parking_lot::Mutex;

use super::{DeviceState, SLEEP_NS_MIN, StreamState, local, poll_backoff, poll_ticket};
use crate::{
    Error,
    disposal::{dispose, log},
    sync::{IdleCondvar, spin_loop},
    tracker::Sequence,
};

/// How long one waker may run before another thread takes over.
const STALL: Duration = Duration::from_millis(2);

/// An operation whose completion somebody is to learn of.
pub(crate) struct Registration {
    pub(crate) device: Arc<DeviceState>,
    pub(crate) stream: Arc<StreamState>,
    pub(crate) sequence: Sequence,
    pub(crate) action: Action,
}

/// The reaction to a completion.
pub(crate) enum Action {
    /// Wakes a future, with the waker of its last poll; the slot is empty once the future is gone.
    /// A failure to poll counts as news: the future finds it when it is polled.
    Wake(Arc<Mutex<Option<Waker>>>),
    /// Drops a value of this library's own, once the operation is done or its device is lost.
    Drop(Box<dyn Any + Send>),
}

/// A registration that is being polled, and when that began on its driver's clock.
pub(super) struct PollEntry {
    pub(super) registration: Registration,
    since_ns: Option<u64>,
}

impl PollEntry {
    pub(super) fn new(registration: Registration) -> Self {
        Self {
            registration,
            since_ns: None,
        }
    }
}

/// The answer to a poll of one registration.
pub(super) enum Polled {
    Pending,
    /// There is nothing to do (any more).
    Settled,
    /// The waker is to be called, without a lock.
    Ready(Waker),
}

impl Registration {
    /// Asks whether the operation is done, and takes the consequences but for calling a waker.
    pub(super) fn poll(&mut self) -> Polled {
        let is_needed = match &self.action {
            Action::Wake(slot) => slot.lock().is_some(),
            Action::Drop(_) => true,
        };
        if !is_needed {
            return Polled::Settled;
        }
        let ask = || poll_ticket(&self.device, &self.stream, self.sequence);
        let is_done = match catch_unwind(AssertUnwindSafe(ask)) {
            Ok(Ok(is_done)) => is_done,
            Ok(Err(Error::DeviceLost { .. })) => true,
            Ok(Err(_)) => matches!(self.action, Action::Wake(_)),
            Err(payload) => {
                dispose(payload);
                matches!(self.action, Action::Wake(_))
            }
        };
        if !is_done {
            return Polled::Pending;
        }
        match &mut self.action {
            Action::Wake(slot) => {
                let waker = slot.lock().take();
                waker.map_or(Polled::Settled, Polled::Ready)
            }
            Action::Drop(value) => {
                *value = Box::new(());
                Polled::Settled
            }
        }
    }
}

/// Calls a waker. A panic of its is contained: others are to be woken too.
pub(super) fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        dispose(payload);
        log!(error, "a waker panicked");
    }
}

/// How long the most impatient entry allows to sleep, and which that is. `None`: not at all, or
/// there is none.
pub(super) fn shortest_sleep(entries: &mut [PollEntry]) -> Option<(Duration, &PollEntry)> {
    let mut shortest: Option<(Duration, &PollEntry)> = None;
    for entry in entries {
        let now_ns = entry.registration.device.driver.now_ns();
        let since_ns = *entry.since_ns.get_or_insert(now_ns);
        let sleep = poll_backoff(now_ns.saturating_sub(since_ns))?;
        if shortest.is_none_or(|(known, _)| sleep < known) {
            shortest = Some((sleep, entry));
        }
    }
    shortest
}

/// The number of a thread of the reactor.
type Serial = u64;

/// What the thread beside the leader does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Standby {
    /// There is none.
    #[default]
    Absent,
    /// It sleeps until a waker is called.
    Asleep,
    /// It looks every [`STALL`] whether the leader is stuck.
    Watching,
}

#[derive(Default)]
struct ReactorState {
    /// Registrations that the leader has not seen yet.
    incoming: Vec<Registration>,
    /// Those that it polls, while it does not.
    entries: Vec<PollEntry>,
    /// Wakers to be called.
    due: VecDeque<Waker>,
    leader: Option<Serial>,
    /// The number of the last thread that was started.
    last_serial: Serial,
    standby: Standby,
    /// How many wakers were called.
    wakes: u64,
    /// Whether the leader is in the last of them.
    waking: bool,
}

#[derive(Default)]
struct Reactor {
    state: Mutex<ReactorState>,
    /// Signalled when a registration arrives.
    registered: IdleCondvar,
    /// Signalled when the standby is to watch.
    watch: IdleCondvar,
}

/// Hands a registration to the reactor, the calling thread's own if it has one, starting the
/// other's threads on first use.
///
/// # Errors
///
/// Gives the registration back if the system has no thread for the reactor; the next one tries
/// again.
pub(crate) fn register(registration: Registration) -> Result<(), Registration> {
    static REACTOR: PerProcess<Reactor> = PerProcess::new();
    let Err(registration) = local::register(registration) else {
        return Ok(());
    };
    let reactor = REACTOR.get_or_init(Reactor::default);
    let mut state = reactor.state.lock();
    if state.leader.is_none() {
        let serial = state.last_serial + 1;
        let Ok(()) = spawn(move || reactor.run(serial)) else {
            log!(
                warn,
                "no thread for the reactor: futures are polled by busy wakes"
            );
            return Err(registration);
        };
        state.last_serial = serial;
        state.leader = Some(serial);
        reactor.ensure_standby(&mut state);
    }
    state.incoming.push(registration);
    drop(state);
    reactor.registered.notify_one();
    Ok(())
}

fn spawn(body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let name = String::from("millstream-reactor");
    thread::Builder::new().name(name).spawn(body).map(drop)
}

/// Entries that the leader polls. Dropped, also by a panic, it puts them back.
struct Polling<'a> {
    reactor: &'a Reactor,
    entries: Vec<PollEntry>,
    due: Vec<Waker>,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        let mut state = self.reactor.state.lock();
        state.entries.append(&mut self.entries);
        state.due.extend(self.due.drain(..));
    }
}

impl Reactor {
    /// The life of a thread of the reactor: leads as long as it is the leader, then stands by if
    /// nobody else does.
    fn run(&'static self, serial: Serial) {
        loop {
            while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.lead(serial))) {
                // A driver has panicked. What was being polled is back; the same call may panic
                // again.
                dispose(payload);
                log!(error, "a driver panicked while futures were polled");
                thread::sleep(Duration::from_nanos(SLEEP_NS_MIN));
            }
            if !self.stand_by(serial) {
                return;
            }
        }
    }

    /// Polls and wakes until another thread is the leader.
    fn lead(&'static self, serial: Serial) {
        loop {
            let mut state = self.state.lock();
            if state.leader != Some(serial) {
                return;
            }
            if let Some(waker) = state.due.pop_front() {
                state.wakes += 1;
                state.waking = true;
                self.ensure_standby(&mut state);
                drop(state);
                wake(waker);
                let mut state = self.state.lock();
                if state.leader == Some(serial) {
                    state.waking = false;
                }
                continue;
            }
            if state.entries.is_empty() && state.incoming.is_empty() {
                self.registered.wait(&mut state);
                continue;
            }
            let entries = mem::take(&mut state.entries);
            let incoming = mem::take(&mut state.incoming);
            drop(state);
            self.poll(entries, incoming);
        }
    }

    /// Polls every entry once, and sleeps for a while if none was complete.
    fn poll(&self, entries: Vec<PollEntry>, incoming: Vec<Registration>) {
        let mut polling = Polling {
            reactor: self,
            entries,
            due: Vec::new(),
        };
        polling
            .entries
            .extend(incoming.into_iter().map(PollEntry::new));
        let Polling { entries, due, .. } = &mut polling;
        entries.retain_mut(|entry| match entry.registration.poll() {
            Polled::Pending => true,
            Polled::Settled => false,
            Polled::Ready(waker) => {
                due.push(waker);
                false
            }
        });
        if !due.is_empty() || entries.is_empty() {
            return;
        }
        let Some((sleep, entry)) = shortest_sleep(entries) else {
            return spin_loop();
        };
        let driver = &entry.registration.device.driver;
        if driver.is_simulated() {
            driver.pause(sleep);
        } else {
            let mut state = self.state.lock();
            if state.incoming.is_empty() {
                self.registered.wait_for(&mut state, sleep);
            }
        }
    }

    /// Sees to it that a thread watches the leader, which is about to call a waker; without one, if
    /// the system has no more threads, a waker that blocks holds up the others.
    fn ensure_standby(&'static self, state: &mut ReactorState) {
        match state.standby {
            Standby::Watching => {}
            Standby::Asleep => {
                state.standby = Standby::Watching;
                self.watch.notify_one();
            }
            Standby::Absent => {
                let serial = state.last_serial + 1;
                let standing_by = move || {
                    self.watch_leader(serial);
                    self.run(serial);
                };
                if spawn(standing_by).is_ok() {
                    state.last_serial = serial;
                    state.standby = Standby::Watching;
                }
            }
        }
    }

    /// A thread that leads no more becomes the standby, and in the end the leader again; `false` if
    /// there is a standby.
    fn stand_by(&'static self, serial: Serial) -> bool {
        let mut state = self.state.lock();
        if state.standby != Standby::Absent {
            return false;
        }
        state.standby = Standby::Watching;
        drop(state);
        self.watch_leader(serial);
        true
    }

    /// Watches the leader, and returns once this thread is the leader in its place.
    fn watch_leader(&self, serial: Serial) {
        let mut state = self.state.lock();
        loop {
            if state.standby == Standby::Asleep {
                self.watch.wait(&mut state);
                continue;
            }
            let seen = state.wakes;
            self.watch.wait_for(&mut state, STALL);
            if state.wakes != seen {
                continue;
            }
            if state.waking {
                state.leader = Some(serial);
                state.waking = false;
                state.standby = Standby::Absent;
                return;
            }
            state.standby = Standby::Asleep;
        }
    }
}
