//! Runs kernels: 32-lane warps, blocks of warps with shared memory and barriers, and grids of
//! blocks on all cores.
//!
//! [`run`] goes down through `grid` (blocks), `block` (warps in turn), `warp` (which threads of a
//! warp run together) and `step` (one operation after the other) to the loops over lanes in
//! `registers`. Nothing here knows of streams, clocks or allocations: global memory is whatever
//! [`GlobalMemory`] finds behind an address.
#![allow(
    clippy::needless_range_loop,
    reason = "loops over lanes index several registers at once"
)]

mod access_marking;
mod atomic;
mod barrier;
mod bits;
mod block;
mod call;
mod checks;
mod convert;
mod copy;
mod dispatch;
mod exact;
mod exchange;
mod extra;
mod fault;
mod float;
mod float8;
mod grid;
mod half;
mod integer;
mod launch;
mod mbarrier;
mod memory;
mod observer;
mod printf;
mod races;
mod registers;
mod rounding;
mod runs;
mod staging;
mod step;
mod system;
mod video;
mod warp;
mod warp_access;

pub use crate::memory::{AccessBitmap, AccessFlags};
pub(crate) use checks::{CheckFindings, CheckOptions};
pub use fault::{Assertion, KernelFault, KernelFaultKind};
pub(crate) use grid::run_traced;
pub use grid::{run, run_checked};
pub(crate) use launch::SHARED_BYTES_MAX;
pub use launch::{GlobalMemory, KernelStats, Launch, Region, TracedRegion};
pub use races::{KernelAccess, KernelRace, MissingOrder, RaceClass, RacedMemory};
