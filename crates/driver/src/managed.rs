//! Placement hints for managed memory.

use crate::DeviceOrdinal;

/// The target of a prefetch or of advice: a device or the host (`CUmemLocation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedLocation {
    /// The host's memory (`CU_DEVICE_CPU`).
    Host,
    /// The memory of this device.
    Device(DeviceOrdinal),
}

/// Advice about the future use of a range of managed memory (`CUmem_advise`). Advice is a hint that
/// changes no value (rule 51).
///
/// ```
/// use millstream_driver::ManagedAdvice;
/// assert!(ManagedAdvice::SetAccessedBy.uses_location());
/// assert!(!ManagedAdvice::SetReadMostly.uses_location());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedAdvice {
    /// The range is mostly read, so each processor that reads it may keep a copy.
    SetReadMostly,
    /// Cancels [`SetReadMostly`](Self::SetReadMostly).
    UnsetReadMostly,
    /// The range should stay at the location.
    SetPreferredLocation,
    /// Cancels [`SetPreferredLocation`](Self::SetPreferredLocation).
    UnsetPreferredLocation,
    /// The location will access the range, so the range is mapped there to avoid page faults.
    SetAccessedBy,
    /// Cancels [`SetAccessedBy`](Self::SetAccessedBy).
    UnsetAccessedBy,
}

impl ManagedAdvice {
    /// Returns whether the advice uses its location argument; the other kinds ignore it.
    #[must_use]
    pub fn uses_location(self) -> bool {
        matches!(
            self,
            Self::SetPreferredLocation | Self::SetAccessedBy | Self::UnsetAccessedBy
        )
    }
}
