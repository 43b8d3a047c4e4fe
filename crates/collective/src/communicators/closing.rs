//! The end of a group without a failure: its ranks wait for each other, and end their
//! communicators.
//!
//! NCCL may complete an operation on one rank although another rank calls a different one, and it
//! ends a communicator without asking the others. So the ranks that close a group wait in the store
//! of the world until all have ended it, and compare their [journals](super::journal). A difference
//! is the loss of the group on every rank. A rank that drops the group tells the others and does
//! not wait.

#![allow(unsafe_code, reason = "ends its own communicators")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::nccl::CommState;

use super::{
    comms::Gone,
    group::{CommGroup, WORLD_DEADLINE},
    in_flight::{Ending, LOST_ELSEWHERE, Shared},
    journal::first_difference,
    store::SharedStore,
};
use millstream::__log as log;

/// The time between two looks at communicators that are being ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The step at which a rank makes no more calls. Its text is the journal.
const CLOSING: &str = "closing";
/// The step at which a rank has seen those of all.
const CLOSED: &str = "closed";

/// Ends the communicators, none of which has an operation in flight: waits for the other ranks if
/// the group is being closed, finalises the communicators, and destroys them.
pub(super) fn end(shared: &Shared, group: &Arc<CommGroup>, ending: Ending) {
    let patience = Patience::new(shared, group);
    let store = group.store.as_ref();
    let met = store.map_or(Ok(()), |store| match ending {
        Ending::Closed => meet(store, group, &patience),
        Ending::Dropped => store
            .post(CLOSING, &own_calls(group))
            .and_then(|()| store.post(CLOSED, "")),
    });
    let ended = met.and_then(|()| match group.comms.finalize() {
        Ok(()) => wait_until_finalized(group, &patience),
        Err(Gone) => Ok(()),
    });
    match ended {
        Err(problem) if ending == Ending::Closed || problem == LOST_ELSEWHERE => {
            group.lose(group.entry(), &problem);
        }
        Err(problem) => {
            log!(debug, problem, "communicators are aborted");
            group.abort();
        }
        Ok(()) => {
            for &comm in group.comms.take().unwrap_or_default() {
                // SAFETY: the communicator was taken, so that nothing uses it from now on.
                if let Err(error) = unsafe { group.comms.nccl.destroy(comm) } {
                    log!(debug, %error, "cannot destroy a communicator");
                }
            }
        }
    }
}

/// The time for which a rank waits for the others to end the group too.
struct Patience<'a> {
    shared: &'a Shared,
    since: Instant,
    limit: Duration,
}

impl<'a> Patience<'a> {
    fn new(shared: &'a Shared, group: &CommGroup) -> Self {
        Self {
            shared,
            since: Instant::now(),
            limit: group.deadline.lock().unwrap_or(WORLD_DEADLINE),
        }
    }

    /// Sleeps between two looks.
    ///
    /// # Errors
    ///
    /// The reason to wait no longer.
    fn pause(&self) -> Result<(), String> {
        let limit = self.limit;
        if self.since.elapsed() >= limit {
            return Err(format!(
                "not all ranks have ended the group within {limit:?}"
            ));
        }
        if self.shared.pause(LOOK_EVERY) {
            return Err(LOST_ELSEWHERE.to_owned());
        }
        Ok(())
    }
}

fn own_calls(group: &CommGroup) -> String {
    group.journal.lock().to_text()
}

/// Waits until all ranks end the group, and compares their calls.
fn meet(store: &SharedStore, group: &CommGroup, patience: &Patience<'_>) -> Result<(), String> {
    let pause = || patience.pause();
    store.post(CLOSING, &own_calls(group))?;
    let journals = store.collect(CLOSING, group.ranks, pause)?;
    if first_difference(&journals).is_some() {
        return Err("the ranks have not made the same calls".to_owned());
    }
    store.post(CLOSED, "")?;
    if store.serves() {
        // The other ranks still read what this process keeps for them.
        store.collect(CLOSED, group.ranks, pause)?;
    }
    Ok(())
}

/// Waits until the other ranks have finalised their communicators too.
fn wait_until_finalized(group: &CommGroup, patience: &Patience<'_>) -> Result<(), String> {
    for local in 0..group.locals.len() {
        loop {
            match group.comms.state(local, "ncclCommFinalize") {
                Ok(Ok(CommState::Success)) | Err(Gone) => break,
                Ok(Err(error)) => return Err(error.to_string()),
                Ok(Ok(_)) => patience.pause()?,
            }
        }
    }
    Ok(())
}
