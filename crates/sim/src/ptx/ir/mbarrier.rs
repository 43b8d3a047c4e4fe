//! Operands of operations on barrier objects in shared memory.

use super::{AccessSpace, Address, Slot};

/// The effect of an `mbarrier` instruction on its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MbarrierOp {
    /// Initialises an object that waits for `count` arrivals.
    Init,
    Invalidate,
    /// Arrives `count` times.
    Arrive {
        /// All later phases wait for `count` fewer arrivals.
        drop: bool,
        /// The arrival must not complete the phase.
        incomplete: bool,
        /// Adds `count` to the bytes that the phase waits for, and arrives once.
        expects: bool,
    },
    /// Adds `count` to the bytes that the phase waits for.
    Expect,
    /// Subtracts `count` from the bytes that the phase waits for.
    Complete,
    /// Tests whether a phase has completed: the phase of the state or, with `parity`, the last
    /// phase of that parity.
    Wait {
        parity: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mbarrier {
    pub(crate) f: MbarrierOp,
    /// Shared memory, or generic addresses of shared memory.
    pub(crate) space: AccessSpace,
    pub(crate) address: Address,
    /// A 32-bit operand: a count, a number of bytes, or a parity.
    pub(crate) count: Slot,
    /// The 64-bit state: the optional result of an arrival, or the operand of a wait.
    pub(crate) state: Option<Slot>,
    /// The predicate that a wait writes.
    pub(crate) answer: Slot,
    /// True if an arrival releases, and a successful wait acquires.
    pub(crate) orders: bool,
}

impl Mbarrier {
    /// Returns the name of the PTX instruction, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match self.f {
            MbarrierOp::Init => "mbarrier.init",
            MbarrierOp::Invalidate => "mbarrier.inval",
            MbarrierOp::Arrive { drop: false, .. } => "mbarrier.arrive",
            MbarrierOp::Arrive { drop: true, .. } => "mbarrier.arrive_drop",
            MbarrierOp::Expect => "mbarrier.expect_tx",
            MbarrierOp::Complete => "mbarrier.complete_tx",
            MbarrierOp::Wait { .. } => "mbarrier.test_wait",
        }
    }
}

/// The bits of an object's state that hold the number of arrivals that the phase still waits for.
pub(crate) const PENDING_MASK: u64 = (1 << 20) - 1;
