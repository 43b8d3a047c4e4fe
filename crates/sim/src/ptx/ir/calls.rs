//! Operands of run-time calls, system calls and asynchronous copies.

use std::ops::Range;

use super::{AccessSpace, Address, Slot};

/// The first function address, outside the range of memory addresses.
const FUNCTION_ADDRESSES: u64 = 0x5d00_0000_0000_0000;

/// Returns the address of a module's function, given its index in the syntax tree.
pub(crate) fn function_address(index: usize) -> u64 {
    FUNCTION_ADDRESSES + 16 * (index as u64 + 1)
}

/// A function that is called at run time, because it is recursive or called through pointers. All
/// other functions are inlined.
///
/// A function has its own register slots; each call saves their values until it returns. Its local
/// variables lie on the thread's stack, in local memory.
#[derive(Clone, Debug)]
pub(crate) struct Callee {
    pub(crate) name: String,
    /// The address that pointers to the function hold.
    pub(crate) address: u64,
    pub(crate) entry: u32,
    pub(crate) words: Range<Slot>,
    pub(crate) doubles: Range<Slot>,
    pub(crate) predicates: Range<Slot>,
    /// The numbers of its parameters and results.
    pub(crate) formals: (usize, usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CallTarget {
    /// An index into [`Code::callees`](super::Code::callees).
    Function(u32),
    /// The slot of a function pointer.
    Pointer(Slot),
}

/// A run-time call. The positions of the arguments and results in local memory have been written to
/// slots that all functions share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) target: CallTarget,
    /// The numbers of arguments and results passed.
    pub(crate) actuals: (usize, usize),
}

/// A system call, served by the driver. The slots are 64-bit, except where noted
/// and for the result and the line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SystemCall {
    /// `vprintf`, with the addresses of the format string and the arguments.
    Print {
        format: Slot,
        arguments: Slot,
        result: Slot,
    },
    /// `malloc`, or the function with an alignment.
    Allocate {
        bytes: Slot,
        align: Option<Slot>,
        result: Slot,
    },
    /// `free`.
    Free { pointer: Slot },
    /// `cudaGraphSetConditional`: sets a condition of the graph that the kernel runs in.
    SetCondition {
        condition: Slot,
        /// 32-bit.
        value: Slot,
    },
    /// `__assertfail`, with the addresses of three strings.
    Assert {
        message: Slot,
        file: Slot,
        line: Slot,
        function: Slot,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum AsyncCopy {
    Start {
        target: Address,
        source: Address,
        source_space: AccessSpace,
        /// The number of bytes to write: 4, 8 or 16.
        bytes: usize,
        /// The number of bytes to read; the rest is zero.
        source_bytes: Option<Slot>,
        /// A predicate that makes all bytes zero.
        ignore: Option<Slot>,
    },
    /// `cp.async.mbarrier.arrive`: an arrival on a barrier object after all copies so far.
    Arrive {
        object: Address,
        space: AccessSpace,
        /// True if the phase waits for one more arrival than before.
        increments: bool,
    },
    /// `cp.async.commit_group`.
    Commit,
    /// `cp.async.wait_group`: waits for all groups except the latest `but`; `None` for `wait_all`.
    Wait { but: Option<u32> },
}
