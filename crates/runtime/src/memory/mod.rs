//! Device memory: allocations, their cache and budget, frees in stream order, and statistics.

mod adopted;
mod allocation;
mod budget;
mod cache;
mod deferred;
mod free;
mod module_variables;
mod out_of_memory;
mod state;
mod stats;

pub(crate) use crate::page_locked::ArrayKey;
pub use adopted::Release;
pub(crate) use allocation::Allocation;
pub(crate) use cache::empty as empty_cache;
pub(crate) use free::{Contents, FreeingBlock, drain_frees, free_unused};
pub use stats::MemoryStats;
