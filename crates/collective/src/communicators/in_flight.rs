//! The collectives of a group that may not be complete, which calls, watchdog and loss share.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use millstream::{
    Error,
    groups::{Failure, IdleCondvar, Submitted},
};
use parking_lot::Mutex;

use super::{exit::EndingGroup, journal::Entry};

/// The reason if another rank has noticed first.
pub(super) const LOST_ELSEWHERE: &str = "another rank has given up";

/// A collective whose operations may not be complete.
pub(super) struct InFlight {
    pub(super) id: u64,
    pub(super) entry: Entry,
    pub(super) since: Instant,
    /// The operations of the ranks that take part. `None` while the call that enqueues them has not
    /// returned.
    pub(super) operations: Option<Arc<[Submitted]>>,
    /// Set if the collective is lost, before it is ended.
    pub(super) failure: Failure,
}

/// The way in which the use of a group ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Dropped,
    /// All ranks end the group, and each waits for the others.
    Closed,
}

#[derive(Default)]
pub(super) struct WatchdogState {
    pub(super) in_flight: Vec<InFlight>,
    pub(super) next_id: u64,
    /// Set while the thread sleeps without a timeout.
    pub(super) sleeps: bool,
    /// Set when another rank has given up.
    pub(super) lost_elsewhere: bool,
    /// Set when the use of the group ends.
    pub(super) ending: Option<Ending>,
    /// Delays the end of the process until the communicators are ended.
    pub(super) exit: Option<EndingGroup>,
    /// Set when the thread has ended.
    pub(super) ended: bool,
}

/// The collectives in flight, which the group shares with its watchdog.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<WatchdogState>,
    pub(super) changed: IdleCondvar,
    pub(super) ended: IdleCondvar,
}

impl Shared {
    /// Sleeps for this time, or until something changes. Returns whether another rank has given up.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.lost_elsewhere {
            self.changed.wait_for(&mut state, time);
        }
        state.lost_elsewhere
    }

    /// Sets the failure of the collectives that are not complete.
    pub(super) fn fail(&self, error: &Error) {
        let state = self.state.lock();
        let collectives = state.in_flight.iter();
        let in_flight: Vec<(Failure, Option<Arc<[_]>>)> = collectives
            .map(|collective| (collective.failure.clone(), collective.operations.clone()))
            .collect();
        drop(state);
        // Asked without the lock, because drivers may take their time.
        for (failure, operations) in in_flight {
            if !operations.is_some_and(|operations| are_complete(&operations)) {
                failure.set(error);
            }
        }
    }
}

impl InFlight {
    /// Returns the number and the operations, unless they are not enqueued yet.
    pub(super) fn position(&self) -> Option<(u64, Arc<[Submitted]>)> {
        Some((self.id, self.operations.clone()?))
    }
}

pub(super) fn are_complete(operations: &[Submitted]) -> bool {
    operations.iter().all(Submitted::is_complete)
}
