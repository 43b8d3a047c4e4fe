//! What really called functions, the services of the driver, and asynchronous copies refer to.

use std::ops::Range;

use super::{AccessSpace, Address, Slot};

/// Where functions' addresses begin: outside of what any address of memory can be.
pub(crate) const FUNCTION_ADDRESSES: u64 = 0x5d00_0000_0000_0000;

/// A function that is called at run time, because it calls itself or is called through pointers.
/// All others are put in place.
///
/// A function's registers are its own slots, and each call keeps what they held before until it
/// returns. Its local variables lie on the thread's stack, in local memory.
#[derive(Clone, Debug)]
pub(crate) struct Callee {
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: u64,
    pub(crate) entry: u32,
    pub(crate) words: Range<Slot>,
    pub(crate) doubles: Range<Slot>,
    pub(crate) predicates: Range<Slot>,
    /// How many parameters and results it has.
    pub(crate) formals: (usize, usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CallTarget {
    /// Index into [`Code::callees`](super::Code::callees).
    Function(u32),
    /// The slot of a function's address.
    Pointer(Slot),
}

/// A call. Where the arguments and results lie in local memory has been put into slots that all
/// functions know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) target: CallTarget,
    /// How many arguments and results are given.
    pub(crate) actuals: (usize, usize),
}

/// A service of the driver that a kernel asks for. The slots are 64-bit but for the result and the
/// line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SystemCall {
    /// `vprintf`: the addresses of the format and of the arguments.
    Print {
        format: Slot,
        arguments: Slot,
        result: Slot,
    },
    /// `free`: of nothing, as there is no heap. Destructors that are called through pointers bring
    /// it along.
    Free { pointer: Slot },
    /// `__assertfail`: the addresses of three texts.
    Assert {
        message: Slot,
        file: Slot,
        line: Slot,
        function: Slot,
    },
}

/// `cp.async` and what waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AsyncCopy {
    Start {
        target: Address,
        source: Address,
        source_space: AccessSpace,
        /// Bytes to write: 4, 8 or 16.
        bytes: usize,
        /// How many of them are read; the rest is zero.
        source_bytes: Option<Slot>,
        /// A predicate that makes all of them zero.
        ignore: Option<Slot>,
    },
    /// `cp.async.mbarrier.arrive`: an arrival on a barrier object behind all copies so far.
    Arrive {
        object: Address,
        space: AccessSpace,
        /// Whether the phase waits for this arrival besides those that it waits for already.
        increments: bool,
    },
    /// `cp.async.commit_group`
    Commit,
    /// `cp.async.wait_group`: for all but that many groups, the youngest. `None` for `wait_all`.
    Wait { but: Option<u32> },
}
