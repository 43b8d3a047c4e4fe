//! The watchdog: a thread that looks after the collectives in flight.
//!
//! It exists only for groups with ranks in other processes or with a deadline, and sleeps while
//! nothing is in flight.

#![allow(unsafe_code, reason = "asks its own communicators for their state")]

use std::{
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use millstream_driver::nccl::CommState;
use parking_lot::Mutex;

use super::{CommGroup, Entry};
use crate::{context::poll_ticket, disposal::log, sync::IdleCondvar, tracker::Sequence};

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The time between two looks at the store that the ranks share.
const STORE_EVERY: Duration = Duration::from_millis(500);

/// A collective whose operations may not be complete.
struct InFlight {
    entry: Entry,
    since: Instant,
    /// The local ranks that take part, with the sequence numbers on their streams.
    operations: Vec<(usize, Sequence)>,
}

#[derive(Default)]
struct WatchdogState {
    in_flight: Vec<InFlight>,
    started: bool,
    /// Set when the group is dropped.
    ends: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<WatchdogState>,
    changed: IdleCondvar,
}

/// The watchdog of a group. Its thread starts with the first collective that needs it.
pub(super) struct Watchdog {
    group: Weak<CommGroup>,
    shared: Arc<Shared>,
}

impl Watchdog {
    pub(super) fn new(group: &Arc<CommGroup>) -> Self {
        Self {
            group: Arc::downgrade(group),
            shared: Arc::default(),
        }
    }

    /// Looks after a collective from now on.
    pub(super) fn watch(&self, entry: &Entry, operations: Vec<(usize, Sequence)>) {
        let Some(group) = self.group.upgrade() else {
            return;
        };
        let is_remote = group.ranks > group.locals.len();
        if !is_remote && group.deadline.lock().is_none() {
            return;
        }
        let mut state = self.shared.state.lock();
        state.in_flight.push(InFlight {
            entry: entry.clone(),
            since: Instant::now(),
            operations,
        });
        if !state.started {
            let shared = Arc::clone(&self.shared);
            let weak = Weak::clone(&self.group);
            let name = String::from("millstream-watchdog");
            let spawned = thread::Builder::new()
                .name(name)
                .spawn(move || run(&shared, &weak));
            match spawned {
                Ok(_) => state.started = true,
                Err(error) => log!(warn, %error, "cannot start the watchdog of collectives"),
            }
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Ends the group after NCCL has refused a call.
    pub(super) fn give_up(&self, entry: &Entry, reason: &str) {
        if let Some(group) = self.group.upgrade() {
            group.lose(entry, reason);
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.state.lock().ends = true;
        self.shared.changed.notify_one();
        if let Some(group) = self.group.upgrade() {
            group.close();
        }
    }
}

/// Looks until the group is dropped or lost.
fn run(shared: &Shared, group: &Weak<CommGroup>) {
    let mut store_looked_at = Instant::now();
    loop {
        let mut state = shared.state.lock();
        while state.in_flight.is_empty() && !state.ends {
            shared.changed.wait(&mut state);
        }
        if state.ends {
            return;
        }
        let mut in_flight = std::mem::take(&mut state.in_flight);
        drop(state);
        let Some(group) = group.upgrade() else {
            return;
        };
        let looks_at_store = store_looked_at.elapsed() >= STORE_EVERY;
        if looks_at_store {
            store_looked_at = Instant::now();
        }
        in_flight.retain(|collective| !is_complete(&group, collective));
        if let Some(oldest) = in_flight.first()
            && let Some(reason) = problem(&group, oldest, looks_at_store)
        {
            group.lose(&oldest.entry, &reason);
            return;
        }
        drop(group);
        let mut state = shared.state.lock();
        in_flight.append(&mut state.in_flight);
        state.in_flight = in_flight;
        if !state.ends && !state.in_flight.is_empty() {
            shared.changed.wait_for(&mut state, LOOK_EVERY);
        }
    }
}

/// Returns whether the collective is complete on all local ranks. On a lost device it never is.
fn is_complete(group: &CommGroup, collective: &InFlight) -> bool {
    collective.operations.iter().all(|&(local, sequence)| {
        let stream = &group.locals[local].stream;
        poll_ticket(stream.device_state(), stream.state(), sequence).unwrap_or(false)
    })
}

/// Returns the reason to end the collective, if there is one.
fn problem(group: &CommGroup, collective: &InFlight, looks_at_store: bool) -> Option<String> {
    for local in &*group.locals {
        if let Some(loss) = local.device().loss() {
            return Some(format!(
                "the device of rank {} is lost: {}",
                local.rank, loss.cause
            ));
        }
    }
    if let Some(comms) = &*group.comms.lock() {
        for (comm, local) in comms.iter().zip(&*group.locals) {
            // SAFETY: the communicator is alive while `comms` is locked.
            let state = unsafe { group.nccl.async_error(*comm) };
            match state {
                Ok(CommState::Failed(code)) => {
                    // SAFETY: as above.
                    let text = unsafe { group.nccl.last_error(*comm) };
                    return Some(format!(
                        "the communicator of rank {} has failed: {code} {text}",
                        local.rank
                    ));
                }
                Err(error) => return Some(error.to_string()),
                Ok(_) => {}
            }
        }
    }
    let deadline = *group.deadline.lock();
    if let Some(deadline) = deadline
        && collective.since.elapsed() >= deadline
    {
        return Some(format!("it was not complete within {deadline:?}"));
    }
    if looks_at_store && group.is_failed_elsewhere() {
        return Some("another rank has given up".to_owned());
    }
    None
}
