//! What the driver can be told about managed memory: where it is to be, and how it will be used.

use crate::DeviceOrdinal;

/// Where managed memory is to be (`CUmemLocation` of a device or the host).
///
/// ```
/// use millstream_driver::{DeviceOrdinal, ManagedLocation};
/// assert_ne!(ManagedLocation::Host, ManagedLocation::Device(DeviceOrdinal::from_raw(0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedLocation {
    /// The host's memory (`CU_DEVICE_CPU`).
    Host,
    /// The memory of this device.
    Device(DeviceOrdinal),
}

/// How a range of managed memory will be used (`CUmem_advise`). A hint: no advice changes a value
/// (rule 51).
///
/// ```
/// use millstream_driver::ManagedAdvice;
/// assert!(ManagedAdvice::SetAccessedBy.is_about_a_location());
/// assert!(!ManagedAdvice::SetReadMostly.is_about_a_location());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedAdvice {
    /// Mostly read: each reader may keep a copy of its own.
    SetReadMostly,
    /// Takes [`SetReadMostly`](Self::SetReadMostly) back.
    UnsetReadMostly,
    /// The location is where the range had best stay.
    SetPreferredLocation,
    /// Takes [`SetPreferredLocation`](Self::SetPreferredLocation) back.
    UnsetPreferredLocation,
    /// The location will reach the range: it is to be mapped there, so that no access faults.
    SetAccessedBy,
    /// Takes [`SetAccessedBy`](Self::SetAccessedBy) back.
    UnsetAccessedBy,
}

impl ManagedAdvice {
    /// Whether the advice is about a location; the others ignore the one they are given.
    #[must_use]
    pub fn is_about_a_location(self) -> bool {
        matches!(
            self,
            Self::SetPreferredLocation | Self::SetAccessedBy | Self::UnsetAccessedBy
        )
    }
}
