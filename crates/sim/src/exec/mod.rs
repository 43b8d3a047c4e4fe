//! Runs kernels: 32-lane warps, blocks of warps with shared memory and barriers, and grids of blocks on all cores.

mod fault;
mod launch;

pub use fault::{Fault, FaultKind};
pub use launch::{GlobalMemory, Launch, Region, Stats};
