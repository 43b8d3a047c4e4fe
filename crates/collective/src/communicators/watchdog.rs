//! The watchdog of a group: a thread that looks after the collectives in flight, and that ends the
//! communicators when the group is dropped and its collectives are complete.
//!
//! It sleeps while nothing is in flight. In a world, a second thread waits for the news that
//! another rank has given up, so that this one answers even if it has no collective in flight.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use millstream::{
    Error, Result,
    groups::{Failure, Submitted},
};

use super::{
    closing::end,
    exit::EndingGroup,
    group::CommGroup,
    in_flight::{Ending, InFlight, LOST_ELSEWHERE, Shared, are_complete},
    journal::Entry,
    store::SharedStore,
};

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) struct Watchdog {
    shared: Arc<Shared>,
}

impl Watchdog {
    /// Starts the watchdog, which keeps the group until it is ended.
    pub(super) fn start(group: &Arc<CommGroup>) -> Result<Self> {
        let shared = Arc::clone(&group.in_flight);
        let (own, group) = (Arc::clone(&shared), Arc::clone(group));
        let store = group.store.clone();
        spawn("millstream-watchdog", move || {
            let store = group.store.clone();
            run(&own, &group);
            // Dropped first, so that the devices are closed when the end is reported.
            drop(group);
            let mut state = own.state.lock();
            state.ended = true;
            let exit = state.exit.take();
            drop(state);
            own.ended.notify_all();
            drop(exit);
            // Last, because a store that does not react may keep this for long.
            if let Some(store) = store {
                store.end_wait();
            }
        })?;
        let watchdog = Self {
            shared: Arc::clone(&shared),
        };
        if let Some(store) = store {
            let listening = spawn("millstream-listener", move || listen(&shared, &store));
            listening.inspect_err(|_| watchdog.end(Ending::Dropped))?;
        }
        Ok(watchdog)
    }

    /// Looks after a collective from now on, before it is enqueued. Returns its number. `failure`
    /// is set if it is lost.
    pub(super) fn begin(&self, entry: Entry, failure: &Failure) -> u64 {
        let mut state = self.shared.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.in_flight.push(InFlight {
            id,
            entry,
            since: Instant::now(),
            operations: None,
            failure: failure.clone(),
        });
        let wakes = state.sleeps;
        drop(state);
        if wakes {
            self.shared.changed.notify_one();
        }
        id
    }

    /// Notes where the collective's operations are; none if it was not enqueued.
    pub(super) fn submitted(&self, id: u64, operations: Arc<[Submitted]>) {
        let mut state = self.shared.state.lock();
        // It is among the last ones, and there may be many since the last look.
        let mut latest_first = state.in_flight.iter_mut().rev();
        if let Some(collective) = latest_first.find(|known| known.id == id) {
            collective.operations = Some(operations);
        }
    }

    /// Ends the communicators once the collectives in flight are complete. Does not wait.
    pub(super) fn end(&self, ending: Ending) {
        let mut state = self.shared.state.lock();
        if state.ending.is_none() && !state.ended {
            state.exit = Some(EndingGroup::begin());
        }
        state.ending.get_or_insert(ending);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Waits until the communicators are ended, after [`end`](Self::end).
    pub(super) fn wait_until_ended(&self) {
        let mut state = self.shared.state.lock();
        while !state.ended {
            self.shared.ended.wait(&mut state);
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(body);
    let refused =
        |error| Error::unavailable(format!("cannot start a thread for collectives: {error}"));
    spawned.map(drop).map_err(refused)
}

/// Waits until another rank gives up, or the own rank ends.
fn listen(shared: &Shared, store: &SharedStore) {
    if store.wait_for_loss() {
        shared.state.lock().lost_elsewhere = true;
        shared.changed.notify_one();
    }
}

/// Looks until the group is ended or lost.
fn run(shared: &Shared, group: &Arc<CommGroup>) {
    let mut state = shared.state.lock();
    loop {
        let idle = state.in_flight.is_empty();
        if state.lost_elsewhere || (idle && state.ending.is_some()) {
            break;
        }
        if idle {
            state.sleeps = true;
            shared.changed.wait(&mut state);
            state.sleeps = false;
            continue;
        }
        // Asked without the lock, because drivers may take their time.
        let looked_at: Vec<_> = state
            .in_flight
            .iter()
            .filter_map(InFlight::position)
            .collect();
        let oldest = &state.in_flight[0];
        let (entry, since) = (oldest.entry, oldest.since);
        drop(state);
        let complete: Vec<u64> = looked_at
            .iter()
            .filter(|(_, operations)| are_complete(operations))
            .map(|(id, _)| *id)
            .collect();
        if complete.is_empty()
            && let Some(reason) = problem(group, since)
        {
            group.lose(entry, &reason);
            return;
        }
        state = shared.state.lock();
        state
            .in_flight
            .retain(|known| !complete.contains(&known.id));
        if !state.in_flight.is_empty() && !state.lost_elsewhere {
            shared.changed.wait_for(&mut state, LOOK_EVERY);
        }
    }
    let oldest = state.in_flight.first().map(|oldest| oldest.entry);
    let ending = state.ending.filter(|_| !state.lost_elsewhere);
    drop(state);
    match ending {
        Some(ending) => end(shared, group, ending),
        None => group.lose(oldest.unwrap_or_else(|| group.entry()), LOST_ELSEWHERE),
    }
}

/// Returns the reason to end the collective that was called at `since`, if there is one.
fn problem(group: &CommGroup, since: Instant) -> Option<String> {
    for (index, local) in group.locals.iter().enumerate() {
        let rank = local.rank;
        if let Some(cause) = local.device().lost() {
            return Some(format!("the device of rank {rank} is lost: {cause}"));
        }
        if let Ok(Err(error)) = group.comms.state(index, "ncclCommGetAsyncError") {
            return Some(format!(
                "the communicator of rank {rank} has failed: {error}"
            ));
        }
    }
    let deadline = (*group.deadline.lock())?;
    (since.elapsed() >= deadline).then(|| format!("it was not complete within {deadline:?}"))
}
