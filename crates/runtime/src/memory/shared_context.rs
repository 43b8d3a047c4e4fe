//! Contexts shared by several device states: one that is closing and one opened meanwhile, or
//! states opened through two drivers.
//!
//! Freeing page-locked memory waits for all work of a context (rule 30), and blocks threads that
//! submit work meanwhile. A closed device waits for its own work only. Resources that need an idle
//! context therefore go to another device that has the context open, or else to the last closing
//! one, which frees them; no device opens the context until that is done.

#![allow(unsafe_code, reason = "queries streams of devices that are open")]

use std::sync::{Arc, Weak};

use millstream_driver::{ContextHandle, DriverError};
use parking_lot::{Mutex, MutexGuard};

use super::IdleFrees;
use crate::{Result, context::DeviceState, tracker::Ticket};

/// The device states that share one context of this process.
#[derive(Debug, Default)]
pub(crate) struct SharedContext {
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    /// The device states that have the context open.
    open: Vec<Weak<DeviceState>>,
    /// The number of states that have it open or are closing, and thus may have work there. A state
    /// that had to leak pending work counts as well.
    count: usize,
    /// The resources of closed states, for the last closing one.
    left: IdleFrees,
}

impl Members {
    /// Returns the states that have the context open.
    fn open(&mut self) -> Vec<Arc<DeviceState>> {
        self.open.retain(|member| member.strong_count() > 0);
        self.open.iter().filter_map(Weak::upgrade).collect()
    }
}

/// A context with the states that share it.
struct ContextEntry {
    handle_space: usize,
    context: ContextHandle,
    shared: Weak<SharedContext>,
}

static CONTEXTS: Mutex<Vec<ContextEntry>> = Mutex::new(Vec::new());

impl SharedContext {
    /// Returns the shared context of this handle.
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

    /// Adds a device that has the context open. Blocks while the resources of another are being
    /// freed.
    pub(crate) fn join(&self, state: &Arc<DeviceState>) {
        let mut members = self.members.lock();
        members.open.push(Arc::downgrade(state));
        members.count += 1;
    }

    /// Returns all device states that use the context, and keeps others from joining until the
    /// value is dropped. `None` if one of them is closing or being opened.
    pub(crate) fn all(&self) -> Option<OpenDevices<'_>> {
        let mut members = self.members.try_lock()?;
        let states = members.open();
        let all = OpenDevices { members, states };
        (all.states.len() == all.members.count).then_some(all)
    }

    /// Removes a device whose work is complete. Blocks while another is being removed.
    pub(crate) fn leave(&self) -> LeavingDevice<'_> {
        LeavingDevice::of(self.members.lock())
    }

    /// Like [`leave`](Self::leave), but returns `None` instead of blocking.
    pub(crate) fn try_leave(&self) -> Option<LeavingDevice<'_>> {
        self.members.try_lock().map(LeavingDevice::of)
    }
}

/// All device states that use a context. While this exists, no device opens the context.
pub(crate) struct OpenDevices<'a> {
    members: MutexGuard<'a, Members>,
    // Dropped after the lock: dropping the last reference to a state makes it leave, which locks.
    states: Vec<Arc<DeviceState>>,
}

impl OpenDevices<'_> {
    /// Returns the states that have the context open.
    pub(crate) fn states(&self) -> &[Arc<DeviceState>] {
        &self.states
    }
}

impl DeviceState {
    /// Runs `body` while the device is idle and no operation can be submitted, or not at all if
    /// some stream has work or is in use. This covers the streams of all states that have the
    /// context open; work of other libraries is unknown. Threads that submit wait for `body`. Its
    /// argument is a function that returns whether a ticket is done.
    pub(crate) fn while_idle(&self, body: impl FnOnce(&dyn Fn(Ticket) -> bool)) -> Result<()> {
        self.check_alive()?;
        // Checked after all locks are released.
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
                // Only tried: the holder of a submit queue may wait for the submission of another
                // holder.
                let Some(submit_queue) = stream.submit_queue.try_lock() else {
                    return Ok(());
                };
                let query = || {
                    // SAFETY: the stream is alive, or kept.
                    unsafe { state.driver.stream_query(state.context, stream.handle) }
                };
                match stream.while_kept(query).transpose()? {
                    Some(answer) if !answer.is_complete() => return Ok(()),
                    // A stream that is let go has no incomplete operation.
                    _ => {}
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

/// A device that left the context. While this exists, no device opens the context.
pub(crate) struct LeavingDevice<'a> {
    members: MutexGuard<'a, Members>,
    // Dropped after the lock, as above.
    states: Vec<Arc<DeviceState>>,
}

impl<'a> LeavingDevice<'a> {
    fn of(mut members: MutexGuard<'a, Members>) -> Self {
        members.count -= 1;
        let states = members.open();
        Self { members, states }
    }

    /// Hands resources that need an idle context to another device that may have work there.
    /// Without one the context is idle, and the resources are returned, with those of earlier
    /// closed devices.
    pub(crate) fn leave(&mut self, own: &IdleFrees) -> Option<IdleFrees> {
        let left = &mut self.members.left;
        left.inherit(own);
        let all = std::mem::take(left);
        if let Some(heir) = self.states.first() {
            heir.memory().idle_frees.inherit(&all);
            return None;
        }
        if self.members.count > 0 {
            self.members.left = all;
            return None;
        }
        Some(all)
    }
}
