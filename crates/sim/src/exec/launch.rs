//! The inputs and statistics of a launch.

use std::ops::Range;

use super::jit::Jit;
use super::kernel_access::{KernelAccess, coordinates};
use super::kernel_error::KernelError;
use super::kernel_faults::KernelFaults;
use super::texels::Image;
use crate::memory::AccessBitmap;
use crate::memory::SharedBytes;
use crate::ptx::Kernel;
use crate::ptx::ir::Code;

/// The maximum shared memory of a block, static and dynamic together, in bytes. It is the maximum
/// that an H200 allows a kernel to opt in to.
pub(crate) const SHARED_BYTES_MAX: u32 = 227 << 10;

/// The addresses of a mapping, and the first address where the same memory is mapped.
pub type Alias = (Range<u64>, u64);

/// Returns the mapping among `aliases` that has the address.
pub(super) fn alias(aliases: &[Alias], address: u64) -> Option<&Alias> {
    aliases.iter().find(|(range, _)| range.contains(&address))
}

/// Global memory, looked up by address.
pub trait GlobalMemory: Sync {
    /// Returns the memory around which this one is, which has the other functions unless this one
    /// has its own.
    fn inner(&self) -> Option<&dyn GlobalMemory> {
        None
    }

    /// Returns the live allocation that contains `address`, if any. The result must stay valid for
    /// the whole launch, or until a `free` of the kernel.
    fn region(&self, address: u64) -> Option<Region<'_>>;

    /// Returns the same allocation with the access bitmap to mark. The default has no bitmap.
    fn traced_region(&self, address: u64) -> Option<TracedRegion<'_>> {
        let region = self.region(address)?;
        Some(TracedRegion {
            region,
            bitmap: None,
        })
    }

    /// Returns the mappings of memory that is also mapped at a lower address. The default has none.
    fn aliases(&self) -> Vec<Alias> {
        self.inner().map_or(Vec::new(), GlobalMemory::aliases)
    }

    /// Says, before the first access, that several threads will execute the kernel.
    fn share(&self) {
        self.inner().into_iter().for_each(GlobalMemory::share);
    }

    /// Counts blocks that have ended, to show a kernel's progress. The default ignores them.
    fn blocks_done(&self, count: u64) {
        self.inner()
            .into_iter()
            .for_each(|inner| inner.blocks_done(count));
    }

    /// Receives the text that a thread prints.
    fn print(&self, output: &[u8]) {
        self.inner()
            .into_iter()
            .for_each(|inner| inner.print(output));
    }

    /// Receives an error that does not end the launch. Blocks may report the
    /// same one in any order. The default ignores it.
    fn kernel_error(&self, error: KernelError) {
        if let Some(inner) = self.inner() {
            inner.kernel_error(error);
        }
    }

    /// Allocates memory of the heap for a kernel (`malloc`). Returns `None` if too little is left.
    /// The default has no heap.
    fn allocate(&self, bytes: u64, align: u64) -> Option<u64> {
        self.inner()?.allocate(bytes, align)
    }

    /// Frees memory of the heap (`free`). Returns whether a live block starts at the address.
    fn free(&self, address: u64) -> bool {
        self.inner().is_some_and(|inner| inner.free(address))
    }

    /// Returns the texture or the surface with this handle. The default has none.
    fn image(&self, handle: u64) -> Option<Image> {
        self.inner()?.image(handle)
    }

    /// Sets a condition of the graph that the kernel runs in (`cudaGraphSetConditional`). Returns
    /// `false` if the graph has no such condition. The default accepts and ignores any.
    fn set_condition(&self, condition: u64, value: u32) -> bool {
        self.inner()
            .is_none_or(|inner| inner.set_condition(condition, value))
    }
}

/// An allocation that a kernel can access, with its access bitmap.
#[derive(Clone, Copy, Debug)]
pub struct TracedRegion<'a> {
    /// The allocation.
    pub region: Region<'a>,
    /// The access bitmap of the whole allocation, if accesses are recorded.
    pub bitmap: Option<&'a AccessBitmap>,
}

/// An allocation that a kernel can access.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// The address of the first byte.
    pub base: u64,
    /// The bytes of the allocation.
    pub bytes: SharedBytes<'a>,
    /// True if kernels may write to the allocation.
    pub writable: bool,
}

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The number of blocks along x, y and z.
    pub grid: [u32; 3],
    /// The number of threads of a block along x, y and z; at most 1024 in total.
    pub block: [u32; 3],
    /// The bytes of dynamic shared memory, in addition to the static shared memory of the kernel.
    pub dynamic_shared_bytes: u32,
    /// The parameter block: each parameter at its [`Param::offset`](crate::ptx::Param::offset),
    /// little-endian.
    pub params: &'a [u8],
    /// The device address of each of the module's variables, in the order of `Module::variables`.
    pub variables: &'a [u64],
    /// The number of warp instructions after which the launch counts as hung, unless a block ends.
    /// For example, if blocks wait for each other, the instructions of all of them count since the
    /// last one ended.
    pub step_limit: u64,
    /// True for a cooperative launch: all its blocks are resident at the same time, and the kernel
    /// can use the barrier of the grid (`cooperative_groups::this_grid().sync()`).
    pub cooperative: bool,
    /// Whether machine code executes the kernel. The outcome is the same.
    pub jit: Jit,
    /// The list of faults of a launch that goes on after them; `None` if the first one ends it.
    /// Accesses that fail are left out, with zeros as their results. A `trap`, or a failed
    /// assertion or call, ends the thread. A fault that leaves no way to go on ends the launch, as
    /// does the 2^18th. Blocks run in order.
    pub keep_going: Option<&'a KernelFaults>,
}

impl Launch<'_> {
    /// The default [`Launch::step_limit`]: some ten seconds of one core.
    pub const STEP_LIMIT_DEFAULT: u64 = 1 << 30;

    /// Returns the place of a thread of a block, both given by their numbers.
    pub(super) fn place(&self, kernel: &Kernel, block: u64, thread: u32, pc: u32) -> KernelAccess {
        KernelAccess {
            block: coordinates(block, self.grid),
            thread: coordinates(thread.into(), self.block),
            ptx_line: kernel.line(pc),
            source: kernel.source(pc),
            write: false,
            atomic: false,
            volatile: false,
        }
    }

    /// Returns the range and the name of the variable that contains an offset of shared memory.
    pub(super) fn shared_variable(&self, code: &Code, offset: u64) -> (Range<u64>, String) {
        let variables = code.shared_variables.iter();
        let mut variables = variables.map(|(name, start, bytes)| {
            let range = u64::from(*start)..u64::from(*start) + u64::from(*bytes);
            (range, format!("`{}`", short(name)))
        });
        let dynamic = || {
            let start = u64::from(code.shared_bytes);
            let end = start + u64::from(self.dynamic_shared_bytes);
            (start..end, "dynamic shared memory".to_owned())
        };
        let found = variables.find(|(range, _)| range.contains(&offset));
        found.unwrap_or_else(dynamic)
    }

    /// Creates a launch without parameters or dynamic shared memory, and with the default step
    /// limit.
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            grid,
            block,
            dynamic_shared_bytes: 0,
            params: &[],
            variables: &[],
            step_limit: Self::STEP_LIMIT_DEFAULT,
            cooperative: false,
            jit: Jit::On,
            keep_going: None,
        }
    }
}

/// Returns the source name of a variable that CUDA C++ declares in a function: the last part of a
/// mangled name such as `_ZZ5shiftPKfPfE4tile`.
pub(super) fn short(name: &str) -> &str {
    let local = name.strip_prefix("_ZZ").and_then(|mangled| {
        mangled.rmatch_indices('E').find_map(|(at, _)| {
            let rest = &mangled[at + 1..];
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let (length, short) = rest.split_at(digits);
            (length.parse() == Ok(short.len())).then_some(short)
        })
    });
    local.unwrap_or(name)
}

/// Statistics of a launch.
///
/// They are the same on every run of the same launch on the same memory, unless the kernel has a
/// race.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// The number of instructions executed, counted once for each thread.
    pub thread_instructions: u64,
    /// The number of instructions executed, counted once for each warp, or part of a warp, that
    /// executed them together.
    pub warp_instructions: u64,
    /// The bytes read from global memory, counted for each thread.
    pub global_bytes_read: u64,
    /// The bytes written to global memory, counted for each thread.
    pub global_bytes_written: u64,
    /// The number of atomic operations on global memory, counted for each thread.
    pub global_atomics: u64,
    /// The number of blocks run.
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
