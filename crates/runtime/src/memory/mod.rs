//! Device buffers, page-locked host memory, managed memory, their views, and the pools behind them.

mod adopted;
mod alignment;
mod allocation;
mod array;
mod budget;
mod buffer;
mod cache;
mod cast;
mod deferred;
mod free;
mod global;
mod guard;
mod host_access;
mod idle_frees;
mod managed;
mod module_variables;
mod operand;
mod operand_2d;
mod out_of_memory;
mod peer_view;
mod pinned;
mod shape_2d;
mod shared_context;
mod span_2d;
mod staging;
mod staging_arena;
mod staging_options;
mod state;
mod stats;
mod unordered;
mod view;
mod view_2d;

pub use adopted::Release;
pub use alignment::assert_device_alignment;
use alignment::check_alignment;
pub(crate) use allocation::Allocation;
pub use buffer::Buffer;
pub(crate) use cache::empty as empty_cache;
pub(crate) use free::{Contents, FreeingBlock, drain_frees, free_unused};
pub use global::Global;
pub use guard::{ReadGuard, WriteGuard};
pub(crate) use host_access::HostAccessGuard;
pub(crate) use idle_frees::IdleFrees;
pub use managed::{Advice, Managed};
pub(crate) use operand::CopyOperand;
pub use operand::{CopySource, CopyTarget, ReadOperand, WriteOperand};
pub use operand_2d::{CopySource2d, CopyTarget2d};
pub(crate) use peer_view::check_access;
pub use peer_view::{PeerView, PeerViewMut};
pub use pinned::Pinned;
pub(crate) use pinned::PinnedSpan;
pub(crate) use shape_2d::check_rows;
pub(crate) use shared_context::{LeavingDevice, SharedContext};
pub(crate) use span_2d::Span2d;
pub(crate) use staging::{PinnedBlock, StagingPool};
pub(crate) use staging_arena::Suballocation;
pub use staging_options::StagingOptions;
pub use stats::MemoryStats;
pub(crate) use view::{Span, part_from, resolve};
pub use view::{View, ViewMut};
pub use view_2d::{View2d, View2dMut};

use crate::{UsageError, UsageErrorKind};

/// The name of pooled page-locked memory in the simulated device's reports.
pub(crate) const KEPT: &str = "kept for reuse";

/// Returns the size of `len` elements in bytes, or a usage error if it exceeds the address space.
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
