//! The loss of a group: how its ranks learn of it and say the same.
//!
//! The rank that notices first marks the group as failed in the store of the world; the watchdogs of
//! the others look there. Every rank then writes its [journal](super::journal), and compares those
//! that arrive within [`ANSWER_WITHIN`]. The failure is set before the communicators are aborted, so
//! that nobody takes for valid what the aborted operations leave ([`Failure`](crate::context)).
//! Aborting may block, so a thread of its own does it.

#![allow(unsafe_code, reason = "aborts its own communicators")]

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{CommGroup, Entry, journal::first_difference};
use crate::disposal::log;

/// The time for which the ranks wait for each other's journals.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

impl CommGroup {
    /// Returns whether another rank has marked the group as failed.
    pub(super) fn is_failed_elsewhere(&self) -> bool {
        let Some((store, prefix)) = &self.store else {
            return false;
        };
        store
            .get(&format!("{prefix}/failed"), Duration::ZERO)
            .is_ok()
    }

    /// Sets the failure and aborts the communicators. `reason` says what was noticed here.
    pub(super) fn lose(self: &Arc<Self>, entry: &Entry, reason: &str) {
        if self.failure.get().is_some() {
            return;
        }
        let reason = match self.compare_journals() {
            Some(difference) => format!("{reason}; {difference}"),
            None => reason.to_owned(),
        };
        if self.failure.set(self.lost(entry, reason.as_str())).is_err() {
            return;
        }
        let (operation, line) = (entry.label, entry.location.to_string());
        log!(error, operation, line, reason, "a collective is lost");
        self.abort();
    }

    /// Exchanges the journals with the other ranks, and returns the first difference.
    fn compare_journals(&self) -> Option<String> {
        let (store, prefix) = self.store.as_ref()?;
        let own = self.journal.lock().to_text();
        let own_rank = self.locals.first()?.rank;
        let mark = || -> crate::Result<()> {
            store.set(&format!("{prefix}/journal/{own_rank}"), own.as_bytes())?;
            store.set(&format!("{prefix}/failed"), &[])
        };
        if let Err(error) = mark() {
            return Some(format!(
                "rank 0, which serves the ranks' store, cannot be reached: {error}"
            ));
        }
        let end = Instant::now() + ANSWER_WITHIN;
        let journals: Vec<Option<String>> = (0..self.ranks)
            .map(|rank| {
                let left = end.saturating_duration_since(Instant::now());
                let journal = store.get(&format!("{prefix}/journal/{rank}"), left).ok()?;
                Some(String::from_utf8_lossy(&journal).into_owned())
            })
            .collect();
        first_difference(&journals)
    }

    /// Aborts the communicators on a thread of its own.
    pub(super) fn abort(self: &Arc<Self>) {
        let group = Arc::clone(self);
        let abort = move || {
            let Some(comms) = group.comms.lock().take() else {
                return;
            };
            for comm in comms {
                // SAFETY: the communicator was taken, so that nobody else uses it.
                if let Err(error) = unsafe { group.nccl.abort(comm) } {
                    log!(warn, %error, "cannot abort a communicator");
                }
            }
        };
        let name = String::from("millstream-abort");
        if let Err(error) = thread::Builder::new().name(name).spawn(abort) {
            log!(warn, %error, "cannot start a thread to abort communicators");
        }
    }
}
