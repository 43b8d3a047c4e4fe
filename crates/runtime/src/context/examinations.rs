//! Which devices examine the operands of each operation before they submit it: all, while the
//! contents of any memory may be invalid or memory is lent, and for a few operations after that;
//! and those that a note for host reads has reached. At other times a submission examines nothing.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use parking_lot::{Mutex, MutexGuard};

use super::{DeviceState, realm};
use crate::tracker::DeviceNumber;

/// The number of examined operations without an unsettled import or a lease after which no more are
/// examined. A program that lends arrays again and again does not turn the examination on and off
/// each time.
const IDLE_MAX: u32 = 64;

/// The reasons for all devices to examine operands.
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

/// Ends the examination by all devices if there have been no reasons for a while.
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

/// Makes all devices, or one, examine their operands as long as it lives; all a little longer.
#[derive(Debug)]
pub(crate) struct ExaminedOperands(Option<DeviceNumber>);

impl ExaminedOperands {
    /// Begins to examine the operands of all devices.
    pub(crate) fn everywhere() -> Self {
        count();
        Self(None)
    }

    /// Begins to examine the operands of one device.
    pub(crate) fn on(device: DeviceNumber) -> Self {
        if let Some(device) = realm::device(device) {
            device.admission.begin_examination();
        }
        Self(Some(device))
    }

    /// Returns whether this is for one device, which has this number.
    pub(crate) fn is_on(&self, device: DeviceNumber) -> bool {
        self.0 == Some(device)
    }
}

impl Drop for ExaminedOperands {
    fn drop(&mut self) {
        match self.0 {
            None => uncount(true),
            Some(number) => {
                if let Some(device) = realm::device(number) {
                    device.admission.end_examination();
                }
            }
        }
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
