//! The loss of a group: how its ranks learn of it and say the same.
//!
//! The rank that notices first tells the others through the store of the world, where a thread of
//! each waits for that. Every rank then writes its [journal](super::journal), and compares those
//! that arrive within three seconds. The failure of the collectives in flight is set before
//! the communicators are aborted, so that no use of their results takes for valid what the aborted
//! operations leave. Earlier collectives stay valid. Aborting may block, so a thread of its own
//! does it.

#![allow(unsafe_code, reason = "aborts its own communicators")]

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use millstream::__log as log;

use super::{exit::EndingGroup, group::CommGroup, journal::Entry};

/// The time for which they wait for a store that does not react.
const STORE_WITHIN: Duration = Duration::from_millis(3500);

impl CommGroup {
    /// Sets the failure of the group and of its collectives in flight, and aborts the
    /// communicators. `reason` says what was noticed here. Waits for the other ranks' journals,
    /// for some seconds if one does not answer.
    pub(super) fn lose(self: &Arc<Self>, entry: Entry, reason: &str) {
        // Several threads may notice. The first one's reason counts, and the others wait for it.
        let _alone = self.losing.lock();
        if self.failure.get().is_some() {
            return;
        }
        let reason = match self.compare_journals() {
            Some(difference) => format!("{reason}; {difference}"),
            None => reason.to_owned(),
        };
        let error = self.lost(entry, reason.as_str());
        if self.failure.set(error.clone()).is_err() {
            return;
        }
        self.in_flight.fail(&error);
        let (operation, line) = (entry.label, entry.location.to_string());
        log!(error, operation, line, reason, "a collective is lost");
        self.abort();
    }

    /// Exchanges the journals with the other ranks, and returns the first difference. A thread of
    /// its own asks the store, because a store that does not react may keep it for long.
    fn compare_journals(&self) -> Option<String> {
        let store = self.store.clone()?;
        let (own, ranks) = (self.journal.lock().to_text(), self.ranks);
        let (sender, answer) = mpsc::channel();
        let asking = store.clone();
        let compare = move || {
            // The receiver may have given up.
            let _ = sender.send(asking.compare(ranks, &own));
        };
        let name = String::from("millstream-journals");
        if let Err(error) = thread::Builder::new().name(name).spawn(compare) {
            log!(warn, %error, "cannot start a thread to compare the ranks' calls");
            return None;
        }
        match answer.recv_timeout(STORE_WITHIN) {
            Ok(difference) => difference,
            Err(_) => Some(store.without_store(format_args!("no answer within {STORE_WITHIN:?}"))),
        }
    }

    /// Aborts the communicators on a thread of its own, for which the end of the process waits for
    /// some seconds.
    pub(super) fn abort(self: &Arc<Self>) {
        let group = Arc::clone(self);
        let exit = EndingGroup::begin();
        let abort = move || {
            // Dropped in reverse, so that the process ends after the group.
            let (_exit, group) = (exit, group);
            for &comm in group.comms.take().unwrap_or_default() {
                // SAFETY: the communicator was taken, so that it is not used any more, except by a
                // thread that waits in a call, which may be.
                if let Err(error) = unsafe { group.comms.nccl.abort(comm) } {
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
