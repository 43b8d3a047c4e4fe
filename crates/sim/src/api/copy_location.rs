//! The ends of a copy: as given by the call, and resolved.

use millstream_driver::DevicePtr;

use crate::{
    core::op::CopySource,
    memory::{Direction, Rows, host::HostRange},
};

/// The source or destination of a copy, as given by the call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyOperand {
    /// A device address, or the device-accessible address of page-locked or managed memory.
    Device(DevicePtr),
    /// Host memory.
    Host(HostRange),
    /// An address of the unified address space.
    Unified(HostRange),
}

/// The resolved source or destination of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum CopyLocation {
    Device { address: u64, device: u32 },
    Managed { address: u64 },
    Pinned { address: u64 },
    Pageable(HostRange),
}

impl CopyOperand {
    pub(super) fn address(self) -> u64 {
        match self {
            Self::Device(pointer) => pointer.as_raw(),
            Self::Host(range) | Self::Unified(range) => range.address(),
        }
    }
}

impl CopyLocation {
    pub(super) fn address(self) -> u64 {
        match self {
            Self::Device { address, .. } | Self::Managed { address } | Self::Pinned { address } => {
                address
            }
            Self::Pageable(range) => range.address(),
        }
    }
}

/// Captures the current content of a host source, and updates `rows`: captured rows are contiguous.
pub(super) fn capture(source: HostRange, rows: &mut Rows) -> CopySource {
    let pitch = std::mem::replace(&mut rows.source_pitch, rows.width);
    CopySource::Captured(source.read_rows(
        rows.width as usize,
        rows.height as usize,
        pitch as usize,
    ))
}

pub(super) fn direction(target: CopyLocation, source: CopyLocation) -> Direction {
    match (source, target) {
        (
            CopyLocation::Pinned { .. },
            CopyLocation::Device { .. } | CopyLocation::Managed { .. },
        ) => Direction::PinnedToDevice,
        (CopyLocation::Pageable(_), CopyLocation::Device { .. } | CopyLocation::Managed { .. }) => {
            Direction::PageableToDevice
        }
        (
            CopyLocation::Device { .. } | CopyLocation::Managed { .. },
            CopyLocation::Pinned { .. },
        ) => Direction::DeviceToPinned,
        (CopyLocation::Device { .. } | CopyLocation::Managed { .. }, CopyLocation::Pageable(_)) => {
            Direction::DeviceToPageable
        }
        (CopyLocation::Device { device: from, .. }, CopyLocation::Device { device: to, .. })
            if from != to =>
        {
            Direction::BetweenDevices { from, to }
        }
        (
            CopyLocation::Device { .. } | CopyLocation::Managed { .. },
            CopyLocation::Device { .. } | CopyLocation::Managed { .. },
        ) => Direction::WithinDevice,
        (
            CopyLocation::Pinned { .. } | CopyLocation::Pageable(_),
            CopyLocation::Pinned { .. } | CopyLocation::Pageable(_),
        ) => Direction::HostToHost,
    }
}
