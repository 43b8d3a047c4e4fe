//! Who has a context open: devices that were opened while one before them is still closing, or by way of another driver.
//!
//! Freeing page-locked memory waits for all work of a context (rule 30), and keeps threads that submit some from doing so
//! meanwhile. A device that is closed waits for its own work alone. So what only an idle context could give back goes to
//! another device that has it open, or else to the last of those that are closing, too, which frees it; nobody opens one
//! until that is done.

use std::sync::{Arc, Weak};

use millstream_driver::ContextHandle;
use parking_lot::{Mutex, MutexGuard};

use super::DeviceState;
use crate::memory::Parked;

/// One context of this process.
#[derive(Debug, Default)]
pub(super) struct Tenancy {
    tenants: Mutex<Tenants>,
}

#[derive(Debug, Default)]
struct Tenants {
    /// The devices that have the context open.
    open: Vec<Weak<DeviceState>>,
    /// How many have it open or are closing, and so may have work there. One that had to leave its work and what that uses
    /// to the process counts as well.
    count: usize,
    /// What those have left that are closed, for the last of those that are closing.
    left: Parked,
}

impl Tenants {
    /// Those that have the context open.
    fn open(&mut self) -> Vec<Arc<DeviceState>> {
        self.open.retain(|tenant| tenant.strong_count() > 0);
        self.open.iter().filter_map(Weak::upgrade).collect()
    }
}

/// A context, and who has it open or is closing.
struct Entry {
    handle_space: usize,
    context: ContextHandle,
    tenancy: Weak<Tenancy>,
}

static CONTEXTS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

impl Tenancy {
    /// The context of this handle.
    pub(super) fn of(handle_space: usize, context: ContextHandle) -> Arc<Self> {
        let mut contexts = CONTEXTS.lock();
        contexts.retain(|entry| entry.tenancy.strong_count() > 0);
        let known = contexts
            .iter()
            .find(|entry| entry.handle_space == handle_space && entry.context == context);
        if let Some(tenancy) = known.and_then(|entry| entry.tenancy.upgrade()) {
            return tenancy;
        }
        let tenancy = Arc::new(Self::default());
        contexts.push(Entry {
            handle_space,
            context,
            tenancy: Arc::downgrade(&tenancy),
        });
        tenancy
    }

    /// Enters a device that has the context open. Blocks while what another has left is being freed.
    pub(super) fn join(&self, state: &Arc<DeviceState>) {
        let mut tenants = self.tenants.lock();
        tenants.open.push(Arc::downgrade(state));
        tenants.count += 1;
    }

    /// All who may use the context, until this is dropped; `None` if one of them is closing, or is just being opened.
    pub(super) fn all(&self) -> Option<All<'_>> {
        let mut tenants = self.tenants.try_lock()?;
        let states = tenants.open();
        let all = All { tenants, states };
        (all.states.len() == all.tenants.count).then_some(all)
    }

    /// Lets a device go whose work is over. Blocks while another goes.
    pub(super) fn leave(&self) -> Leaving<'_> {
        Leaving::of(self.tenants.lock())
    }

    /// As [`leave`](Self::leave); `None` where that would block.
    pub(super) fn try_leave(&self) -> Option<Leaving<'_>> {
        self.tenants.try_lock().map(Leaving::of)
    }
}

/// All who may use a context. While this is there nobody opens it.
pub(super) struct All<'a> {
    tenants: MutexGuard<'a, Tenants>,
    // Second, for a state that is let go by the drop of this leaves as well.
    states: Vec<Arc<DeviceState>>,
}

impl All<'_> {
    /// They have it open.
    pub(super) fn states(&self) -> &[Arc<DeviceState>] {
        &self.states
    }
}

/// A device that is none of those who have the context open any more. While this is there nobody opens it.
pub(super) struct Leaving<'a> {
    tenants: MutexGuard<'a, Tenants>,
    // Second, as above.
    states: Vec<Arc<DeviceState>>,
}

impl<'a> Leaving<'a> {
    fn of(mut tenants: MutexGuard<'a, Tenants>) -> Self {
        tenants.count -= 1;
        let states = tenants.open();
        Self { tenants, states }
    }

    /// Leaves what only an idle context can give back to those who may have work there. If there is none, it comes back, with
    /// what others have left: the context is idle.
    pub(super) fn leave(&mut self, own: Parked) -> Option<Parked> {
        let left = &mut self.tenants.left;
        left.inherit(own);
        let all = std::mem::take(left);
        if let Some(heir) = self.states.first() {
            heir.parked.inherit(all);
            return None;
        }
        if self.tenants.count > 0 {
            self.tenants.left = all;
            return None;
        }
        Some(all)
    }
}
