//! Who has a context open: devices that were opened while one before them is still closing, or by way of another driver.
//!
//! Freeing page-locked memory waits for all work of a context (rule 30), and keeps threads that submit some from doing so
//! meanwhile. A device that is closed waits for its own work alone. So what only an idle context could give back goes to
//! another device that has it open, if there is one, and is freed by itself only if there is none; nobody opens one until
//! that is done.

use std::sync::{Arc, Weak};

use millstream_driver::ContextHandle;
use parking_lot::{Mutex, MutexGuard};

use super::DeviceState;

/// One context of this process.
#[derive(Debug, Default)]
pub(super) struct Tenancy {
    tenants: Mutex<Vec<Weak<DeviceState>>>,
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
        self.tenants.lock().push(Arc::downgrade(state));
    }

    /// Sees to it that nobody else opens the context; `None` if two devices have it open, or one is just being opened or
    /// closed.
    pub(super) fn alone(&self) -> Option<impl Sized + '_> {
        let tenants = self.tenants.try_lock()?;
        let living = tenants.iter().filter(|tenant| tenant.strong_count() > 0);
        (living.count() <= 1).then_some(tenants)
    }

    /// Who gets what a closing device leaves. Blocks while another closing device finds that out.
    pub(super) fn heir(&self) -> Heir<'_> {
        Heir::among(self.tenants.lock())
    }

    /// As [`heir`](Self::heir); `None` where that would block.
    pub(super) fn try_heir(&self) -> Option<Heir<'_>> {
        self.tenants.try_lock().map(Heir::among)
    }
}

/// Who gets what a closing device leaves. While this is there nobody else opens the context.
pub(super) struct Heir<'a> {
    // First, for the state may be let go by the drop of this, and then looks for an heir itself.
    _tenants: MutexGuard<'a, Vec<Weak<DeviceState>>>,
    state: Option<Arc<DeviceState>>,
}

impl<'a> Heir<'a> {
    fn among(mut tenants: MutexGuard<'a, Vec<Weak<DeviceState>>>) -> Self {
        tenants.retain(|tenant| tenant.strong_count() > 0);
        let state = tenants.iter().find_map(Weak::upgrade);
        Self {
            _tenants: tenants,
            state,
        }
    }

    /// Another device that has the context open, if there is one.
    pub(super) fn state(&self) -> Option<&DeviceState> {
        self.state.as_deref()
    }
}
