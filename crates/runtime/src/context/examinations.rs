//! The devices that examine the operands of each operation before they submit it: all, while the
//! contents of any memory may be invalid or the end of a lease is put off; and those that a note
//! for host reads has reached. At other times a submission examines nothing.

use std::sync::Arc;

use super::{DeviceState, realm};
use crate::{
    sync::ranked::{self, Ranked},
    tracker::DeviceNumber,
};

/// The number of reasons for all devices to examine operands: unsettled imports of the process, and
/// leases whose end is put off.
static UNSETTLED: Ranked<{ ranked::UNSETTLED }, u64> = Ranked::new(0);

/// Counts a reason, and makes all devices examine their operands.
pub(crate) fn begin_examining() {
    let mut unsettled = UNSETTLED.lock();
    *unsettled += 1;
    if *unsettled == 1 {
        examine_operands(true);
    }
}

/// Reverses [`begin_examining`]. The last one ends the examination.
pub(crate) fn end_examining() {
    let mut unsettled = UNSETTLED.lock();
    *unsettled -= 1;
    if *unsettled == 0 {
        examine_operands(false);
    }
}

/// Makes all devices, or one, examine their operands as long as it lives.
#[derive(Debug)]
pub(crate) struct ExaminedOperands(Option<DeviceNumber>);

impl ExaminedOperands {
    pub(crate) fn everywhere() -> Self {
        begin_examining();
        Self(None)
    }

    pub(crate) fn on(device: DeviceNumber) -> Self {
        if let Some(device) = realm::device(device) {
            device.admission.begin_examination();
        }
        Self(Some(device))
    }

    pub(crate) fn is_on(&self, device: DeviceNumber) -> bool {
        self.0 == Some(device)
    }
}

impl Drop for ExaminedOperands {
    fn drop(&mut self) {
        match self.0 {
            None => end_examining(),
            Some(number) => {
                if let Some(device) = realm::device(number) {
                    device.admission.end_examination();
                }
            }
        }
    }
}

/// Sets for all devices whether they examine their operands. `UNSETTLED` is locked meanwhile.
fn examine_operands(examine: bool) {
    for device in realm::all() {
        device.admission.examine_operands(examine);
    }
}

/// Adds a device to the realm. It examines its operands if all others do.
pub(crate) fn enter_realm(device: &Arc<DeviceState>) {
    let unsettled = UNSETTLED.lock();
    device.admission.examine_operands(*unsettled > 0);
    realm::enter(device);
}
