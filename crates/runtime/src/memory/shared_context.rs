//! Contexts that several devices share: one that is closing and one opened meanwhile, or devices of
//! two drivers.
//!
//! Freeing page-locked memory waits for all work of a context (rule 30), and keeps threads that
//! submit some from doing so meanwhile. A device that is closed waits for its own work alone. So
//! what only an idle context could give back goes to another device that has it open, or else to
//! the last of those that are closing, too, which frees it; nobody opens one until that is done.

#![allow(unsafe_code, reason = "queries streams of devices that are open")]

use std::sync::{Arc, Weak};

use millstream_driver::{ContextHandle, DriverError};
use parking_lot::{Mutex, MutexGuard};

use super::IdleFrees;
use crate::{Result, context::DeviceState, tracker::Ticket};

/// One context of this process.
#[derive(Debug, Default)]
pub(crate) struct SharedContext {
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    /// The devices that have the context open.
    open: Vec<Weak<DeviceState>>,
    /// How many have it open or are closing, and so may have work there. One that had to leave its
    /// work and what that uses to the process counts as well.
    count: usize,
    /// What those have left that are closed, for the last of those that are closing.
    left: IdleFrees,
}

impl Members {
    /// Those that have the context open.
    fn open(&mut self) -> Vec<Arc<DeviceState>> {
        self.open.retain(|member| member.strong_count() > 0);
        self.open.iter().filter_map(Weak::upgrade).collect()
    }
}

/// A context, and who has it open or is closing.
struct ContextEntry {
    handle_space: usize,
    context: ContextHandle,
    shared: Weak<SharedContext>,
}

static CONTEXTS: Mutex<Vec<ContextEntry>> = Mutex::new(Vec::new());

impl SharedContext {
    /// The context of this handle.
    pub(crate) fn of(handle_space: usize, context: ContextHandle) -> Arc<Self> {
        let mut contexts = CONTEXTS.lock();
        contexts.retain(|entry| entry.shared.strong_count() > 0);
        let known = contexts
            .iter()
            .find(|entry| entry.handle_space == handle_space && entry.context == context);
        if let Some(shared) = known.and_then(|entry| entry.shared.upgrade()) {
            return shared;
        }
        let shared = Arc::new(Self::default());
        contexts.push(ContextEntry {
            handle_space,
            context,
            shared: Arc::downgrade(&shared),
        });
        shared
    }

    /// Enters a device that has the context open. Blocks while what another has left is being
    /// freed.
    pub(crate) fn join(&self, state: &Arc<DeviceState>) {
        let mut members = self.members.lock();
        members.open.push(Arc::downgrade(state));
        members.count += 1;
    }

    /// All who may use the context, until this is dropped; `None` if one of them is closing, or is
    /// just being opened.
    pub(crate) fn all(&self) -> Option<OpenDevices<'_>> {
        let mut members = self.members.try_lock()?;
        let states = members.open();
        let all = OpenDevices { members, states };
        (all.states.len() == all.members.count).then_some(all)
    }

    /// Lets a device go whose work is over. Blocks while another goes.
    pub(crate) fn leave(&self) -> LeavingDevice<'_> {
        LeavingDevice::of(self.members.lock())
    }

    /// As [`leave`](Self::leave); `None` where that would block.
    pub(crate) fn try_leave(&self) -> Option<LeavingDevice<'_>> {
        self.members.try_lock().map(LeavingDevice::of)
    }
}

/// All who may use a context. While this is there nobody opens it.
pub(crate) struct OpenDevices<'a> {
    members: MutexGuard<'a, Members>,
    // Second, for a state that is let go by the drop of this leaves as well.
    states: Vec<Arc<DeviceState>>,
}

impl OpenDevices<'_> {
    /// They have it open.
    pub(crate) fn states(&self) -> &[Arc<DeviceState>] {
        &self.states
    }
}

impl DeviceState {
    /// Runs `body` while the device is idle and no operation can be submitted; or not at all if
    /// some stream has work or is in use. The streams are those of all who have the context open;
    /// what other libraries do there is not known. Those who submit wait for `body`, which gets a
    /// function that says whether a ticket is done.
    pub(crate) fn while_idle(&self, body: impl FnOnce(&dyn Fn(Ticket) -> bool)) -> Result<()> {
        self.check_alive()?;
        // Checked when all locks are free again.
        self.checked(self.try_while_idle(body))
    }

    fn try_while_idle(
        &self,
        body: impl FnOnce(&dyn Fn(Ticket) -> bool),
    ) -> Result<(), DriverError> {
        let Some(all) = self.memory().shared.all() else {
            return Ok(());
        };
        let counts: Vec<_> = all
            .states()
            .iter()
            .map(|state| state.streams.lock())
            .collect();
        let mut submit_queues = Vec::new();
        for state in all.states() {
            for stream in state.streams.iter() {
                // Only tried, for whoever holds a submit queue may wait for what another's holder
                // does.
                let Some(submit_queue) = stream.submit_queue.try_lock() else {
                    return Ok(());
                };
                // SAFETY: the stream is alive.
                let answer = unsafe { state.driver.stream_query(state.context, stream.handle) }?;
                if !answer.is_complete() {
                    return Ok(());
                }
                // With the submit queue held, all tickets are submitted.
                stream.mark_done(submit_queue.next.previous());
                submit_queues.push(submit_queue);
            }
        }
        body(&|ticket| self.is_done(ticket));
        drop((submit_queues, counts));
        Ok(())
    }
}

/// A device that is none of those who have the context open any more. While this is there nobody
/// opens it.
pub(crate) struct LeavingDevice<'a> {
    members: MutexGuard<'a, Members>,
    // Second, as above.
    states: Vec<Arc<DeviceState>>,
}

impl<'a> LeavingDevice<'a> {
    fn of(mut members: MutexGuard<'a, Members>) -> Self {
        members.count -= 1;
        let states = members.open();
        Self { members, states }
    }

    /// Leaves what only an idle context can give back to those who may have work there. If there is
    /// none, it comes back, with what others have left: the context is idle.
    pub(crate) fn leave(&mut self, own: IdleFrees) -> Option<IdleFrees> {
        let left = &mut self.members.left;
        left.inherit(own);
        let all = std::mem::take(left);
        if let Some(heir) = self.states.first() {
            heir.memory().idle_frees.inherit(all);
            return None;
        }
        if self.members.count > 0 {
            self.members.left = all;
            return None;
        }
        Some(all)
    }
}
