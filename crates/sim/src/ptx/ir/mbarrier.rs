//! Operations on barrier objects in shared memory.

use super::{AccessSpace, Address, Slot};

/// What an `mbarrier` instruction does to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MbarrierOp {
    /// Makes an object that waits for `count` arrivals.
    Init,
    Invalidate,
    /// Arrives `count` times.
    Arrive {
        /// All later phases wait for so many arrivals less.
        drop: bool,
        /// The phase must not complete by this.
        incomplete: bool,
        /// `count` is added to the bytes that the phase waits for, and the arrival is one.
        expects: bool,
    },
    /// Adds `count` to the bytes that the phase waits for.
    Expect,
    /// Takes `count` off the bytes that the phase waits for.
    Complete,
    /// Asks whether a phase has completed: that of the state, or the last one of a parity.
    Wait {
        parity: bool,
    },
}

/// An `mbarrier` instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mbarrier {
    pub(crate) f: MbarrierOp,
    /// Shared memory, or generic addresses that lie there.
    pub(crate) space: AccessSpace,
    pub(crate) address: Address,
    /// A 32-bit operand: a count, a number of bytes, or a parity.
    pub(crate) count: Slot,
    /// The 64-bit state: an arrival's result, if it is wanted, or what a wait asks about.
    pub(crate) state: Option<Slot>,
    /// The predicate that a wait sets.
    pub(crate) answer: Slot,
    /// Whether an arrival releases, and a wait that succeeds acquires.
    pub(crate) orders: bool,
}

impl Mbarrier {
    /// The PTX instruction, for messages.
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

/// The bits of an object's state, and of what an arrival returns, that hold the arrivals that the
/// phase still waits for.
pub(crate) const PENDING_MASK: u64 = (1 << 20) - 1;
