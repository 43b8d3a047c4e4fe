//! The reactor: the threads that poll the driver on behalf of all futures of the process, and sleep
//! while there are none.
//!
//! One thread, the *leader*, polls the driver for every registration and calls the wakers of
//! completed ones. A waker is user code: it may block, which must not delay other futures. So a
//! second thread, the *standby*, watches while wakers run. If one call lasts longer than [`STALL`],
//! the standby becomes the leader and takes over all other registrations; the blocked thread
//! becomes the standby, or ends, when its waker returns. A waker that never returns occupies one
//! thread.
//!
//! All state that must survive a change of leaders is in [`ReactorState`], behind one lock. The
//! leader takes registrations out while it polls, calls only the driver meanwhile, and puts them
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

use super::{
    DeviceState, SLEEP_NS_MAX, SLEEP_NS_MIN, StreamState, local, poll_backoff, poll_ticket,
};
use crate::{
    Error,
    disposal::{dispose, log, try_call},
    sync::{IdleCondvar, spin_loop},
    tracker::Sequence,
};

/// The time that one waker may run before the standby takes over.
const STALL: Duration = Duration::from_millis(2);

/// A registration: an operation to poll, and the action to take on completion.
pub(crate) struct Registration {
    pub(crate) device: Arc<DeviceState>,
    pub(crate) stream: Arc<StreamState>,
    pub(crate) sequence: Sequence,
    pub(crate) action: Action,
}

/// The action to take when a registered operation is complete.
pub(crate) enum Action {
    /// Wakes a future with the waker of its last poll. The slot is empty once the future is
    /// dropped. A failed poll wakes the future too, which then finds the error itself.
    Wake(Arc<Mutex<Option<Waker>>>),
    /// Drops an internal value once the operation is complete or its device is lost.
    Drop(Box<dyn Any + Send>),
    /// Drops an internal value like `Drop`, but asks a GPU seldom.
    DropPatiently(Box<dyn Any + Send>),
}

/// A registration that is being polled, and the time on its driver's clock when polling began.
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

pub(super) enum Polled {
    Pending,
    /// The registration needs no further action.
    Settled,
    /// The operation is complete: the caller calls the waker, without holding a lock.
    Ready(Waker),
}

impl Registration {
    /// Polls the operation and performs the action, except that a waker is returned instead of
    /// called.
    pub(super) fn poll(&mut self) -> Polled {
        let is_needed = match &self.action {
            Action::Wake(slot) => slot.lock().is_some(),
            Action::Drop(_) | Action::DropPatiently(_) => true,
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
            Action::Drop(value) | Action::DropPatiently(value) => {
                *value = Box::new(());
                Polled::Settled
            }
        }
    }
}

/// Calls a waker and catches its panic, so that other wakers are called too.
pub(super) fn wake(waker: Waker) {
    if let Err(payload) = try_call(|| waker.wake()) {
        dispose(payload);
        log!(error, "a waker panicked");
    }
}

/// Returns the shortest sleep that the entries allow, and its entry. Returns `None` if an entry
/// must be polled again at once or if there is no entry.
pub(super) fn shortest_sleep(entries: &mut [PollEntry]) -> Option<(Duration, &PollEntry)> {
    let mut shortest: Option<(Duration, &PollEntry)> = None;
    for entry in entries {
        let Registration { device, action, .. } = &entry.registration;
        let sleep = if matches!(action, Action::DropPatiently(_)) && !device.is_simulated {
            Duration::from_nanos(SLEEP_NS_MAX)
        } else {
            let now_ns = device.driver.now_ns();
            let since_ns = *entry.since_ns.get_or_insert(now_ns);
            poll_backoff(now_ns.saturating_sub(since_ns))?
        };
        if shortest.is_none_or(|(known, _)| sleep < known) {
            shortest = Some((sleep, entry));
        }
    }
    shortest
}

type Serial = u64;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Standby {
    /// No standby thread exists.
    #[default]
    Absent,
    /// The standby sleeps until a waker is called.
    Asleep,
    /// The standby checks every [`STALL`] whether the leader is stuck in a waker.
    Watching,
}

#[derive(Default)]
struct ReactorState {
    /// New registrations that the leader has not polled yet.
    incoming: Vec<Registration>,
    /// Registrations that the leader polls repeatedly, stored here between its rounds.
    entries: Vec<PollEntry>,
    /// Wakers that are due to be called.
    due: VecDeque<Waker>,
    leader: Option<Serial>,
    /// The serial number of the last thread that was started.
    last_serial: Serial,
    standby: Standby,
    /// The number of wakers called so far.
    wakes: u64,
    /// True while the leader is inside a waker.
    waking: bool,
}

#[derive(Default)]
struct Reactor {
    state: Mutex<ReactorState>,
    /// Signalled when a registration is added.
    registered: IdleCondvar,
    /// Signalled when the standby must watch the leader.
    watch: IdleCondvar,
}

/// Registers with the calling thread's own reactor if it has one, and otherwise with the process's
/// reactor, whose threads start on first use.
///
/// # Errors
///
/// Returns the registration if no thread can be started for the reactor; the next call tries again.
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
                "cannot start the reactor's thread: futures poll by waking themselves"
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

/// The entries of the leader's current round. Its drop, also during a panic, puts them back.
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
    /// Runs a reactor thread: leads while it is the leader, then becomes the standby if there is
    /// none, and otherwise ends.
    fn run(&'static self, serial: Serial) {
        loop {
            while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.lead(serial))) {
                // A driver has panicked. The polled entries were put back, and the same call may
                // panic again.
                dispose(payload);
                log!(error, "a driver panicked while the reactor polled it");
                thread::sleep(Duration::from_nanos(SLEEP_NS_MIN));
            }
            if !self.stand_by(serial) {
                return;
            }
        }
    }

    /// Polls and calls wakers until another thread is the leader.
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

    /// Polls every entry once, and sleeps if none was complete.
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

    /// Makes a standby watch the leader, which is about to call a waker. If no thread can be
    /// started, a blocking waker delays the other futures.
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

    /// Makes a former leader the standby, and returns `true` once it is the leader again. Returns
    /// `false` at once if there is another standby.
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

    /// Watches the leader, and returns once this thread has replaced it.
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
