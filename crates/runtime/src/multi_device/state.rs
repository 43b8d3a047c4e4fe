//! The state of a device in relation to others, stored in its slot.

use super::{peers::Peers, watch::Crossings};
use crate::context::{DeviceSlot, DeviceState, MultiDeviceLayer};

/// The operations on a device's streams that use memory of other devices, and its peer access.
#[derive(Default)]
pub(crate) struct MultiDevice {
    pub(super) crossings: Crossings,
    pub(crate) peers: Peers,
}

impl DeviceSlot for MultiDeviceLayer {
    type Value = MultiDevice;
}

impl DeviceState {
    /// Returns the device's state in relation to others.
    #[inline]
    pub(crate) fn multi_device(&self) -> &MultiDevice {
        &self.multi_device_slot
    }
}
