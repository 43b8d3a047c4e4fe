//! Contexts shared by several device states: one that is closing and one opened meanwhile, or
//! states opened through two drivers.
//!
//! Freeing page-locked memory waits for all work of a context and of others whose devices have
//! access to it (rule 30), and blocks threads that submit work meanwhile. A closed device waits for
//! its own work only. Resources that need idle devices therefore go to another device that has the
//! context open, or else to the last closing one. That one frees them if the devices of all other
//! contexts are idle, and no device is opened until that is done. Otherwise a device of another
//! context takes them over.

#![allow(unsafe_code, reason = "queries streams of devices that are open")]

use std::sync::{Arc, Weak};

use millstream_driver::{ContextHandle, Driver, DriverError};
use parking_lot::Mutex;

use super::{
    IdleFrees,
    idle_frees::{IdleFree, free_all},
};
use crate::{
    Result,
    context::{DeviceState, Visit},
    disposal::log,
    sync::ranked::{self, MEMBERS, Ranked, RankedGuard},
    tracker::Ticket,
};

/// The device states that share one context of this process.
#[derive(Debug)]
pub(crate) struct SharedContext {
    /// Kept, because the driver's handle space may be the address of an object that ends with it:
    /// a later driver at that address must not find this one's contexts.
    driver: Arc<dyn Driver>,
    context: ContextHandle,
    members: Ranked<MEMBERS, Members>,
}

#[derive(Debug, Default)]
struct Members {
    /// The device states that have the context open.
    open: Vec<Weak<DeviceState>>,
    /// The number of states that have it open or are closing, and thus may have work there. A state
    /// that had to leak pending work counts as well.
    count: usize,
    /// The number of those whose device is lost, so that their work has ended.
    lost: usize,
    /// The resources of closed states, for the last closing one.
    leftovers: Vec<IdleFree>,
}

impl Members {
    fn open(&mut self) -> Vec<Visit> {
        self.open.retain(|member| member.strong_count() > 0);
        self.open.iter().filter_map(Visit::to).collect()
    }
}

static CONTEXTS: Mutex<Vec<Weak<SharedContext>>> = Mutex::new(Vec::new());

/// Held while a device leaves its context, which locks the members of several.
static LEAVING: Ranked<{ ranked::LEAVING }, ()> = Ranked::new(());

impl SharedContext {
    pub(crate) fn of(driver: &Arc<dyn Driver>, context: ContextHandle) -> Arc<Self> {
        let mut contexts = CONTEXTS.lock();
        contexts.retain(|shared| shared.strong_count() > 0);
        let handle_space = driver.handle_space();
        let is_this = |shared: &Arc<Self>| {
            (shared.driver.handle_space(), shared.context) == (handle_space, context)
        };
        let existing = contexts.iter().filter_map(Weak::upgrade).find(is_this);
        existing.unwrap_or_else(|| {
            let shared = Arc::new(Self {
                driver: Arc::clone(driver),
                context,
                members: Ranked::default(),
            });
            contexts.push(Arc::downgrade(&shared));
            shared
        })
    }

    /// Returns the other contexts of the driver that have devices.
    pub(crate) fn others(&self) -> Vec<Arc<Self>> {
        let contexts = CONTEXTS.lock();
        let handle_space = self.driver.handle_space();
        let is_other = |shared: &Arc<Self>| {
            shared.driver.handle_space() == handle_space && shared.context != self.context
        };
        contexts
            .iter()
            .filter_map(Weak::upgrade)
            .filter(is_other)
            .collect()
    }

    /// Adds a device that has the context open. Blocks while the resources of another are being
    /// freed.
    pub(crate) fn join(&self, state: &Arc<DeviceState>) {
        let mut members = self.members.lock();
        members.open.push(Arc::downgrade(state));
        members.count += 1;
    }

    /// Notes that a closed device is lost. Returns `false` instead of blocking.
    pub(crate) fn try_abandon_lost(&self) -> bool {
        let members = self.members.try_lock();
        members.map(|mut members| members.lost += 1).is_some()
    }

    /// Removes a device whose work is complete. Returns `None` instead of blocking while another is
    /// being removed. `others` are the other contexts of the driver.
    pub(crate) fn try_leave<'a>(&'a self, others: &'a [Arc<Self>]) -> Option<LeavingDevice<'a>> {
        let one_at_a_time = LEAVING.try_lock()?;
        let locks = others.iter().map(|other| other.members.try_lock());
        let others = locks.collect::<Option<_>>()?;
        let members = self.members.try_lock()?;
        Some(LeavingDevice::of(one_at_a_time, members, others))
    }
}

/// Runs `body` while all streams of these open devices are idle and no operation can be submitted.
/// Returns `false` without running it if some stream has work or is in use.
///
/// A query that fails is an error for a device of `context`. A device of another context then
/// counts as busy, or as idle once it is known to be lost.
fn while_streams_idle(
    states: &[Visit],
    context: Option<ContextHandle>,
    body: impl FnOnce(),
) -> Result<bool, DriverError> {
    let lost = |state: &DeviceState| Some(state.context) != context && state.lost().is_some();
    let states = || states.iter().filter(|state| !lost(state));
    let counts: Vec<_> = states().map(|state| state.streams.lock()).collect();
    let mut submit_queues = Vec::new();
    for state in states() {
        for stream in state.streams.iter() {
            // Only tried: the holder of a submit queue may wait for the submission of another
            // holder.
            let Some(submit_queue) = stream.submit_queue.try_lock() else {
                return Ok(false);
            };
            let query = || {
                // SAFETY: the stream is alive, or kept.
                unsafe { state.driver.stream_query(state.context, stream.handle) }
            };
            match stream.while_kept(query) {
                Some(Err(error)) if Some(state.context) == context && stream.is_own() => {
                    return Err(error);
                }
                Some(Ok(answer)) if answer.is_complete() => {}
                Some(_) => return Ok(false),
                // A stream that is let go has no incomplete operation.
                None => {}
            }
            // With the submit queue held, all tickets are submitted.
            stream.mark_done(submit_queue.next.previous());
            submit_queues.push(submit_queue);
        }
    }
    body();
    drop((submit_queues, counts));
    Ok(true)
}

impl DeviceState {
    /// Runs `body` while the devices are idle and no operation can be submitted. Does nothing if
    /// some stream has work or is in use. Threads that submit wait for `body`, whose argument tells
    /// whether a ticket is done.
    ///
    /// This covers all states that have this context or another of the driver open. Work of other
    /// libraries is unknown.
    pub(crate) fn while_idle(&self, body: impl FnOnce(&dyn Fn(Ticket) -> bool)) -> Result<()> {
        self.check_alive()?;
        // Checked after all locks are released.
        self.checked(self.try_while_idle(body))
    }

    fn try_while_idle(
        &self,
        body: impl FnOnce(&dyn Fn(Ticket) -> bool),
    ) -> Result<(), DriverError> {
        let own = &self.page_locked().shared;
        let others = own.others();
        let mut states = Vec::new();
        // While these are locked, no device opens one of the contexts.
        let mut locked = Vec::new();
        for shared in std::iter::once(own).chain(&others) {
            let Some(mut members) = shared.members.try_lock() else {
                return Ok(());
            };
            let open = members.open();
            let working = members.count
                - if Arc::ptr_eq(shared, own) {
                    0
                } else {
                    members.lost
                };
            let are_all_open = open.len() == working;
            states.extend(open);
            locked.push(members);
            if !are_all_open {
                return Ok(());
            }
        }
        let body = || body(&|ticket| self.is_done(ticket));
        while_streams_idle(&states, Some(self.context), body).map(drop)
    }
}

/// A device that left its context. While this exists, no device opens a context of the driver.
pub(crate) struct LeavingDevice<'a> {
    members: RankedGuard<'a, MEMBERS, Members>,
    others: Vec<RankedGuard<'a, MEMBERS, Members>>,
    _one_at_a_time: RankedGuard<'static, { ranked::LEAVING }, ()>,
    states: Vec<Visit>,
    states_of_others: Vec<Visit>,
}

impl<'a> LeavingDevice<'a> {
    fn of(
        one_at_a_time: RankedGuard<'static, { ranked::LEAVING }, ()>,
        mut members: RankedGuard<'a, MEMBERS, Members>,
        mut others: Vec<RankedGuard<'a, MEMBERS, Members>>,
    ) -> Self {
        members.count -= 1;
        let states = members.open();
        let states_of_others = others.iter_mut().flat_map(|other| other.open()).collect();
        Self {
            members,
            others,
            _one_at_a_time: one_at_a_time,
            states,
            states_of_others,
        }
    }

    /// Frees the resources that need idle devices, with those of earlier closed devices, or leaves
    /// them to another device that may have work. Never waits.
    pub(crate) fn give_back(&mut self, driver: &dyn Driver, own: &IdleFrees) {
        let mut all = std::mem::take(&mut self.members.leftovers);
        all.extend(own.take_unused());
        if all.is_empty() {
            return;
        }
        if let Some(heir) = self.states.first() {
            return heir.page_locked().idle_frees.inherit(all);
        }
        if self.members.count > 0 {
            self.members.leftovers = all;
            return;
        }
        let working = |other: &RankedGuard<'_, MEMBERS, Members>| other.count - other.lost;
        if self.others.iter().map(working).sum::<usize>() == self.states_of_others.len() {
            let mut unused = Some(all);
            let free = || free_all(driver, unused.take().unwrap_or_default());
            if let Err(error) = while_streams_idle(&self.states_of_others, None, free) {
                log!(debug, %error, "cannot query whether the devices are idle");
            }
            match unused {
                None => return,
                Some(unused) => all = unused,
            }
        }
        let mut heirs = self.states_of_others.iter();
        if let Some(heir) = heirs.find(|state| state.lost().is_none()) {
            heir.page_locked().idle_frees.inherit(all);
        } else if let Some(closing) = self.others.iter_mut().find(|other| working(other) > 0) {
            closing.leftovers.extend(all);
        }
    }
}

#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests {
    use millstream_sim::{Gpu, SimConfig};

    use super::*;

    #[test]
    fn the_driver_lives_as_long_as_its_contexts() {
        let driver: Arc<dyn Driver> = Gpu::new(SimConfig::default()).driver();
        let context = ContextHandle::from_raw(1);
        let shared = SharedContext::of(&driver, context);
        assert!(Arc::ptr_eq(&shared, &SharedContext::of(&driver, context)));
        let alive = Arc::downgrade(&driver);
        drop(driver);
        assert!(
            alive.upgrade().is_some(),
            "another driver must not get its handle space"
        );
        drop(shared);
        assert!(alive.upgrade().is_none());
    }
}
