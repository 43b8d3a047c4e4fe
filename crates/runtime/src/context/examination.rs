//! The switch of the examination of operands: on while there is an unsettled
//! [import](super::imports) or a [lease](super::leases) in the process, and for a few operations
//! after a lease.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use parking_lot::{Mutex, MutexGuard};

use super::{DeviceState, realm};

/// The number of examined operations without an unsettled import or a lease after which no more are
/// examined. A program that lends arrays again and again does not turn the examination on and off
/// each time.
const IDLE_MAX: u32 = 64;

/// The reasons to examine operands.
struct Unsettled {
    /// The number of unsettled imports of the process, and of leases.
    count: u64,
    /// True if all devices examine their operands.
    examined: bool,
}

static UNSETTLED: Mutex<Unsettled> = Mutex::new(Unsettled {
    count: 0,
    examined: false,
});

/// The number of operations that were examined since a lease or an import was counted, or since it
/// was last seen that there are some.
static IDLE: AtomicU32 = AtomicU32::new(0);

/// Counts an import or a lease, and makes all devices examine their operands.
pub(super) fn count() {
    IDLE.store(0, Ordering::Relaxed);
    let mut unsettled = UNSETTLED.lock();
    unsettled.count += 1;
    if !unsettled.examined {
        examine_operands(true, unsettled);
    }
}

/// Reverses [`count`]. The last one ends the examination, unless it is left on for the next lease.
pub(super) fn uncount(leave_on: bool) {
    let mut unsettled = UNSETTLED.lock();
    unsettled.count -= 1;
    if unsettled.count == 0 && !leave_on {
        examine_operands(false, unsettled);
    }
}

/// Ends the examination if there have been no reasons for a while.
pub(super) fn end_if_idle() {
    if IDLE.fetch_add(1, Ordering::Relaxed) < IDLE_MAX {
        return;
    }
    IDLE.store(0, Ordering::Relaxed);
    let unsettled = UNSETTLED.lock();
    if unsettled.count == 0 && unsettled.examined {
        examine_operands(false, unsettled);
    }
}

/// Makes all devices examine their operands as long as it lives, and a little longer.
#[derive(Debug)]
pub(crate) struct ExaminedOperands(());

impl ExaminedOperands {
    pub(crate) fn begin() -> Self {
        count();
        Self(())
    }
}

impl Drop for ExaminedOperands {
    fn drop(&mut self) {
        uncount(true);
    }
}

/// Sets for all devices whether they examine their operands. `unsettled` is locked meanwhile.
fn examine_operands(examine: bool, mut unsettled: MutexGuard<'_, Unsettled>) {
    unsettled.examined = examine;
    let devices = realm::all();
    for device in &devices {
        device.admission.examine_operands(examine);
    }
    // In this order: the last reference to a device closes it, which may end imports.
    drop(unsettled);
    drop(devices);
}

/// Adds a device to the realm. It examines its operands if all others do.
pub(crate) fn enter_realm(device: &Arc<DeviceState>) {
    let unsettled = UNSETTLED.lock();
    device.admission.examine_operands(unsettled.examined);
    realm::enter(device);
}
