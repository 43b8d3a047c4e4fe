//! The PTX interpreter: 32-lane warps, blocks of warps with shared memory and barriers, and grids
//! of blocks on all cores.
//!
//! [`run`] executes a launch through `grid` (blocks), `block` (warps in turn), `warp` (the threads
//! of a warp that run together) and `step` (one operation after the other), down to the loops over
//! lanes in `registers`. The interpreter does not depend on streams, clocks or allocations: it
//! reaches global memory through [`GlobalMemory`].
#![allow(
    clippy::needless_range_loop,
    reason = "loops over lanes index several registers at once"
)]

mod access_marking;
mod approximate;
mod arrival;
mod atomic;
mod barrier;
mod bits;
mod block;
mod call;
mod checks;
mod chunks;
mod convert;
mod cooperative;
mod copy;
mod deadlock;
mod directed;
mod dispatch;
mod exact;
mod extra;
mod fault;
mod float;
mod float8;
mod float_bits;
mod fused;
mod going_on;
mod grid;
mod half;
mod image;
mod indices;
mod initialisation;
mod integer;
mod jit;
mod kernel_access;
mod kernel_error;
mod kernel_errors;
mod kernel_faults;
mod kernel_pool;
mod kernel_repair;
mod launch;
mod matrix;
mod mbarrier;
mod memory;
mod observer;
mod order;
mod polling;
mod printf;
mod private_memory;
mod processor;
mod races;
mod registers;
mod repair;
mod rounding;
mod runs;
mod skipped_barriers;
mod special_registers;
mod staging;
mod step;
mod system;
mod texels;
mod turns;
mod video;
mod warp;
mod warp_access;
mod warp_context;
mod warp_exchange;

pub use crate::memory::{AccessBitmap, AccessFlags};
pub(crate) use checks::{CheckFindings, CheckOptions};
pub(crate) use cooperative::{
    MULTIPROCESSORS, RESIDENT_BLOCKS, RESIDENT_SHARED_BYTES, RESIDENT_THREADS, resident_blocks,
};
pub use fault::{
    Assertion, DeadlockedThreads, KernelFault, KernelFaultKind, ThreadGroup, WaitingThreads,
};
pub(crate) use grid::run_traced;
pub(crate) use grid::{GridStatus, run_suspending};
pub use grid::{run, run_checked, run_checked_by};
pub use jit::Jit;
pub use kernel_access::KernelAccess;
pub use kernel_error::{KernelError, KernelErrorKind};
pub(crate) use kernel_errors::SharedKernelErrors;
pub use kernel_faults::KernelFaults;
pub use kernel_repair::{InsertedSync, KernelEdit, KernelRepair};
pub(crate) use launch::SHARED_BYTES_MAX;
pub use launch::{Alias, GlobalMemory, KernelStats, Launch, Region, TracedRegion};
pub(crate) use order::KernelOrders;
pub use order::{KernelOrder, KernelOrderError};
pub(crate) use races::releases;
pub use races::{KernelRace, MissingOrder, RaceClass, RaceModel, RaceOrders, RacedMemory};
pub use texels::Image;
pub(crate) use texels::component_bytes;
pub(crate) use turns::WaitingGrid;
