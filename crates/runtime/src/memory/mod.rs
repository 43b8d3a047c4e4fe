//! Memory: buffers on the device, pinned memory on the host, views of both, and the pools behind
//! them.

mod alignment;
mod allocation;
mod area;
mod array;
mod budget;
mod buffer;
mod cache;
mod cast;
mod deferred;
mod free;
mod guard;
mod managed;
mod operand;
mod operand_2d;
mod parked;
mod pinned;
mod room;
mod section;
mod shape;
mod shared_context;
mod staging;
mod staging_options;
mod state;
mod stats;
mod touch;
mod unordered;
mod view;
mod view_2d;

pub use alignment::assert_device_alignment;
use alignment::check_alignment;
pub(crate) use allocation::Allocation;
pub(crate) use area::Area;
pub use buffer::Buffer;
pub(crate) use cache::empty as empty_cache;
pub(crate) use free::{FreeingBlock, drain_frees, free_unused};
pub use guard::{ReadGuard, WriteGuard};
pub use managed::{Advice, Managed};
pub(crate) use operand::AnyPlace;
pub use operand::{CopySource, CopyTarget, ReadOperand, WriteOperand};
pub use operand_2d::{CopySource2d, CopyTarget2d};
pub(crate) use parked::Parked;
pub use pinned::Pinned;
pub(crate) use pinned::PinnedPlace;
pub(crate) use section::Carved;
pub(crate) use shape::check_rows;
pub(crate) use shared_context::{Leaving, SharedContext};
pub(crate) use staging::{Block, StagingPool};
pub use staging_options::StagingOptions;
pub(crate) use state::DeviceMemory;
pub use stats::MemoryStats;
pub(crate) use touch::Touch;
pub(crate) use view::{Span, part_from, resolve};
pub use view::{View, ViewMut};
pub use view_2d::{View2d, View2dMut};

use crate::{UsageError, UsageErrorKind};

/// The name of page-locked memory that the pool keeps for reuse, in the simulated device's reports.
pub(crate) const KEPT: &str = "kept for reuse";

/// The size in bytes of `len` elements, if it is one that memory can have at all.
pub(crate) fn bytes_of<T>(operation: &'static str, len: usize) -> Result<usize, UsageError> {
    const {
        assert!(
            size_of::<T>() > 0,
            "elements without a size cannot be on a device"
        )
    };
    let element_bytes = size_of::<T>();
    match len.checked_mul(element_bytes) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(bytes),
        _ => Err(UsageError::new(
            operation,
            UsageErrorKind::TooLarge {
                elements: len,
                element_bytes,
            },
        )),
    }
}
