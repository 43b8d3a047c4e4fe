//! What a driver knows of an address.

use crate::{DeviceOrdinal, DevicePtr};

/// The allocation to which an address belongs (`cuPointerGetAttributes`).
///
/// ```
/// use millstream_driver::{DeviceOrdinal, DevicePtr, PointerInfo};
/// let info = PointerInfo {
///     device: DeviceOrdinal::from_raw(0),
///     on_device: true,
///     start: DevicePtr::from_raw(0x1000),
///     bytes: 64,
/// };
/// assert!(info.contains(DevicePtr::from_raw(0x1010), 48));
/// assert!(!info.contains(DevicePtr::from_raw(0x1010), 49));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerInfo {
    /// The device that owns the memory, or for which it was allocated.
    pub device: DeviceOrdinal,
    /// True for memory of the device; false for page-locked memory of the host.
    pub on_device: bool,
    /// The first address of the allocation.
    pub start: DevicePtr,
    /// The size of the allocation in bytes.
    pub bytes: u64,
}

impl PointerInfo {
    /// Returns whether the allocation contains these bytes.
    #[must_use]
    pub fn contains(&self, pointer: DevicePtr, bytes: u64) -> bool {
        let (start, first) = (self.start.as_raw(), pointer.as_raw());
        let offset = first.checked_sub(start);
        let end = offset.and_then(|offset| offset.checked_add(bytes));
        end.is_some_and(|end| end <= self.bytes)
    }
}
