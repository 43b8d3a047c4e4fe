//! What a launch is given and what it reports.

use crate::memory::AccessBitmap;
use crate::memory::SharedBytes;

/// The most shared memory that a block can have, static and dynamic together, in bytes: what an
/// H200 allows a kernel to opt in to.
pub(crate) const SHARED_BYTES_MAX: u32 = 227 << 10;

/// Finds the memory behind a global address.
pub trait GlobalMemory: Sync {
    /// The live allocation that contains `address`, if any. What it returns must hold for the whole
    /// launch.
    fn region(&self, address: u64) -> Option<Region<'_>>;

    /// The same, with the access bitmap of what is accessed there; none, unless an implementation
    /// wants to know.
    fn traced_region(&self, address: u64) -> Option<TracedRegion<'_>> {
        let region = self.region(address)?;
        Some(TracedRegion {
            region,
            bitmap: None,
        })
    }

    /// Takes what a thread prints.
    fn print(&self, _text: &str) {}
}

/// An allocation that a kernel can reach, and where it is noted what the kernel does to it.
#[derive(Clone, Copy, Debug)]
pub struct TracedRegion<'a> {
    /// The allocation.
    pub region: Region<'a>,
    /// The access bitmap of the whole allocation, if there is one.
    pub bitmap: Option<&'a AccessBitmap>,
}

/// An allocation that a kernel can reach.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// The address of its first byte.
    pub base: u64,
    /// Its bytes.
    pub bytes: SharedBytes<'a>,
    /// Whether kernels may write it.
    pub writable: bool,
}

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z; at most 1024 in all.
    pub block: [u32; 3],
    /// Bytes of shared memory besides what the kernel declares.
    pub dynamic_shared_bytes: u32,
    /// The parameter block: each parameter at its [`Param::offset`](crate::ptx::Param::offset),
    /// little-endian.
    pub params: &'a [u8],
    /// The device address of each of the module's variables, in the order of `Module::variables`.
    pub variables: &'a [u64],
    /// How many warp instructions the launch may execute before it counts as hung.
    pub step_limit: u64,
}

impl Launch<'_> {
    /// A generous [`Launch::step_limit`]: some minutes of one core.
    pub const STEP_LIMIT_DEFAULT: u64 = 1 << 33;

    /// A launch without parameters or dynamic shared memory, of the default step limit.
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            grid,
            block,
            dynamic_shared_bytes: 0,
            params: &[],
            variables: &[],
            step_limit: Self::STEP_LIMIT_DEFAULT,
        }
    }
}

/// What a launch did. The same on every run of the same launch on the same memory, if the kernel
/// does not race.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// Instructions executed, counted once for each thread that executed them.
    pub thread_instructions: u64,
    /// Instructions executed, counted once for each warp, or part of a warp, that executed them
    /// together.
    pub warp_instructions: u64,
    /// Bytes read from global memory, counted for each thread.
    pub global_bytes_read: u64,
    /// Bytes written to global memory, counted for each thread.
    pub global_bytes_written: u64,
    /// Atomic operations on global memory, counted for each thread.
    pub global_atomics: u64,
    /// Blocks run.
    pub blocks: u64,
}

impl std::ops::AddAssign for KernelStats {
    fn add_assign(&mut self, other: Self) {
        self.thread_instructions += other.thread_instructions;
        self.warp_instructions += other.warp_instructions;
        self.global_bytes_read += other.global_bytes_read;
        self.global_bytes_written += other.global_bytes_written;
        self.global_atomics += other.global_atomics;
        self.blocks += other.blocks;
    }
}
