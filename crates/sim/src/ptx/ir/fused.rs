//! Fused blocks: straight-line runs of operations that machine code executes at once.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64};

use super::{Instr, Slot};

/// A run of operations that machine code executes at once.
#[derive(Debug)]
pub(crate) struct FusedBlock {
    /// The operations, by their program counters.
    pub(crate) range: Range<u32>,
    /// The first operation, which the block has replaced.
    pub(crate) first: Instr,
    /// The number of operations that count as executed by a warp.
    pub(crate) counted: u32,
    /// The number of these that have no guard, and so count for each active lane. The function
    /// returns the number for the others.
    pub(crate) unguarded: u32,
    /// The address registers of its loads from shared memory.
    pub(crate) bases: Vec<FusedBase>,
    /// The position of the function in the machine code.
    pub(crate) entry: usize,
    /// For a block that accesses global memory.
    pub(crate) stream: Option<FusedStream>,
}

/// The accesses to global memory of a block, which executes all active lanes or none. Its guarded
/// branches lead out of it, and no lane takes one.
#[derive(Debug)]
pub(crate) struct FusedStream {
    /// The accesses, in the order of the operations.
    pub(crate) accesses: Vec<FusedAccess>,
    /// The number of different addresses.
    pub(crate) addresses: usize,
    /// The position of the function that computes the addresses, and whether a lane takes a branch.
    pub(crate) probe: usize,
    /// True if the block executes full warps only.
    pub(crate) whole: bool,
    /// The block without such accesses that begins with the same operation.
    pub(crate) otherwise: Option<u32>,
    /// How often the block may still not run, because its accesses are unfit, before it is not
    /// tried for a while: below 0, how often it was not tried.
    pub(crate) credit: AtomicI32,
}

/// An access to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FusedAccess {
    /// The number of the load or store.
    pub(crate) index: u32,
    pub(crate) is_store: bool,
    /// The number of the address, and the offset from it.
    pub(crate) address: usize,
    pub(crate) offset: i64,
    /// The size of a lane's value.
    pub(crate) bytes: usize,
}

/// A register with addresses in shared memory, which the block does not write before it loads from
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FusedBase {
    /// The slot, of a 64-bit register if `double` is set.
    pub(crate) slot: Slot,
    pub(crate) double: bool,
    /// The offset of the last load from the register; all are multiples of 4.
    pub(crate) last: u32,
}

/// The machine code of a kernel.
#[derive(Debug)]
pub(crate) struct FusedCode {
    /// The operations as in [`Code::executed`](super::Code::executed), but for the first of each
    /// block, which executes the block.
    pub(crate) instrs: Vec<Instr>,
    pub(crate) blocks: Vec<FusedBlock>,
    /// The sizes of the register files.
    pub(crate) files: [usize; 3],
    pub(crate) memory: memmap2::Mmap,
}

/// The state of a kernel's compilation.
#[derive(Debug, Default)]
pub(crate) struct Fusion {
    /// The number of warp instructions that have been interpreted.
    pub(crate) interpreted: AtomicU64,
    /// The machine code, once enough have been; `None` if there is nothing to execute, or if it
    /// cannot be executed here.
    pub(crate) code: OnceLock<Option<FusedCode>>,
}
