//! Page-locked host memory: the staging pool, arrays in it, and frees that wait for idle devices.

mod device_array;
mod guard;
mod host_access;
mod idle_frees;
mod pinned;
mod shared_context;
mod staging;
mod staging_arena;
mod staging_options;
mod state;

pub(crate) use device_array::{ArrayKey, DeviceArray};
pub(crate) use guard::{HostRange, host_access};
pub use guard::{ReadGuard, WriteGuard};
pub(crate) use host_access::HostAccessGuard;
pub(crate) use idle_frees::{IdleFrees, Resource};
pub use pinned::Pinned;
pub(crate) use pinned::PinnedSpan;
pub(crate) use shared_context::{LeavingDevice, SharedContext};
pub(crate) use staging::{POOLED, PinnedBlock, StagingPool};
pub(crate) use staging_arena::Suballocation;
pub use staging_options::StagingOptions;
