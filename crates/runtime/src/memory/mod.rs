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
mod figures;
mod free;
mod guard;
mod managed;
mod operand;
mod parked;
mod pinned;
mod plane;
mod plane_operand;
mod room;
mod section;
mod shape;
mod shared_context;
mod staging;
mod state;
mod touch;
mod tuning;
mod unordered;
mod view;

pub use alignment::assert_device_alignment;
use alignment::check_alignment;
pub(crate) use allocation::Allocation;
pub(crate) use area::Area;
pub use buffer::Buffer;
pub(crate) use cache::empty as empty_cache;
pub use figures::Memory;
pub(crate) use free::{FreeingBlock, drain_frees, free_unused};
pub use guard::{HostRead, HostWrite};
pub use managed::{Advice, Managed};
pub(crate) use operand::AnyPlace;
pub use operand::{CopySource, CopyTarget, ReadOperand, WriteOperand};
pub(crate) use parked::Parked;
pub use pinned::Pinned;
pub(crate) use pinned::PinnedPlace;
pub use plane::{Plane, PlaneMut};
pub use plane_operand::{PlaneSource, PlaneTarget};
pub(crate) use section::Carved;
pub(crate) use shape::check_rows;
pub(crate) use shared_context::{Leaving, SharedContext};
pub(crate) use staging::{Block, StagingPool};
pub(crate) use state::DeviceMemory;
pub(crate) use touch::Touch;
pub use tuning::Tuning;
pub(crate) use view::{Span, part_from, resolve};
pub use view::{View, ViewMut};

use crate::{Misuse, Problem};

/// The name of page-locked memory that the pool keeps for reuse, in the simulated device's reports.
pub(crate) const KEPT: &str = "kept for reuse";

/// The size in bytes of `len` elements, if it is one that memory can have at all.
pub(crate) fn bytes_of<T>(operation: &'static str, len: usize) -> Result<usize, Misuse> {
    const {
        assert!(
            size_of::<T>() > 0,
            "elements without a size cannot be on a device"
        )
    };
    let element_bytes = size_of::<T>();
    match len.checked_mul(element_bytes) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(bytes),
        _ => Err(Misuse::new(
            operation,
            Problem::TooLarge {
                elements: len,
                element_bytes,
            },
        )),
    }
}
