//! Operands of memory accesses, atomics, barriers and warp-wide exchanges.

use super::Slot;
use millstream_ptx::Type;

/// A window of the generic address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Global,
    Shared,
    Local,
    Param,
}

impl Window {
    /// The generic address of offset 0 of a block's shared memory. This and the two addresses below
    /// are outside the range of device and host addresses.
    pub(crate) const SHARED: u64 = 0x5a00_0000_0000_0000;
    /// The generic address of offset 0 of a thread's local memory.
    pub(crate) const LOCAL: u64 = 0x5b00_0000_0000_0000;
    /// The generic address of offset 0 of the kernel's parameters.
    pub(crate) const PARAM: u64 = 0x5c00_0000_0000_0000;

    /// Returns the generic address of the window's offset 0.
    pub(crate) fn base(self) -> u64 {
        match self {
            Self::Global => 0,
            Self::Shared => Self::SHARED,
            Self::Local => Self::LOCAL,
            Self::Param => Self::PARAM,
        }
    }

    pub(crate) fn of(address: u64) -> Self {
        match address >> 56 {
            0x5a => Self::Shared,
            0x5b => Self::Local,
            0x5c => Self::Param,
            _ => Self::Global,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessSpace {
    Is(Window),
    /// The space is given by each lane's address.
    Generic,
}

impl AccessSpace {
    /// Returns the window of an address, and the offset there.
    pub(crate) fn place(self, address: u64) -> (Window, u64) {
        match self {
            Self::Is(window) => (window, address),
            Self::Generic => {
                let window = Window::of(address);
                (window, address.wrapping_sub(window.base()))
            }
        }
    }

    /// Returns whether other blocks may access the same memory.
    pub(crate) fn is_outside_block(self) -> bool {
        matches!(self, Self::Generic | Self::Is(Window::Global))
    }
}

/// An address: an optional register plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: AddressBase,
    pub(crate) offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressBase {
    None,
    Word(Slot),
    Double(Slot),
    /// A 64-bit register with an address in shared or local memory. A sum with a value below 2^32
    /// wraps there, because GPUs use the lower half alone.
    Offset(Slot),
}

/// The memory order of a strong access or a fence, and its scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryOrder {
    /// The thread's later accesses happen after those released with the value read.
    pub(crate) acquire: bool,
    /// The thread's earlier accesses are released with the value written.
    pub(crate) release: bool,
    /// True for the scope `.cta`: the order holds only among threads of the same block.
    pub(crate) block_only: bool,
    /// True for a volatile access, which PTX treats like a relaxed one.
    pub(crate) volatile: bool,
    /// True for `fence.sc` and `membar`, which take part in Fence-SC order.
    pub(crate) sequential: bool,
    /// True for `red`, whose read begins no acquire pattern.
    pub(crate) reduction: bool,
}

/// A load or store of one, two or four values of one width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) space: AccessSpace,
    pub(crate) address: Address,
    /// The size of one value in bytes: 1, 2, 4 or 8.
    pub(crate) width: u8,
    /// The number of values: 1, 2 or 4.
    pub(crate) count: u8,
    /// For loads, the width in bits to which a signed value is extended; 0 for none.
    pub(crate) sign_extend: u8,
    /// True if the value registers are 64-bit.
    pub(crate) double: bool,
    /// The type, if the access is to one floating-point value.
    pub(crate) float: Option<Type>,
    /// True for volatile, relaxed, acquire and release accesses, with which threads can wait for
    /// each other.
    pub(crate) synchronises: bool,
    pub(crate) order: MemoryOrder,
    pub(crate) values: [Slot; 4],
}

impl Access {
    /// Returns the size of one lane's access in bytes, a power of two.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        usize::from(self.width) * usize::from(self.count)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Exchange,
    CompareSwap,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub(crate) f: AtomicOp,
    pub(crate) ty: Type,
    pub(crate) order: MemoryOrder,
    pub(crate) space: AccessSpace,
    pub(crate) address: Address,
    pub(crate) result: Option<Slot>,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
    /// The upper halves of the result and the operands of a 128-bit atomic.
    pub(crate) high: Option<HighHalves>,
}

impl Atomic {
    /// Returns the size of one lane's access in bytes, a power of two.
    pub(crate) fn bytes(&self) -> usize {
        match self.high {
            Some(_) => 16,
            None => self.ty.bytes(),
        }
    }
}

/// The upper halves of 128-bit operands of an atomic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HighHalves {
    pub(crate) result: Option<Slot>,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierOp {
    Sync,
    Arrive,
    /// Writes the number of threads whose predicate is true to a 32-bit slot.
    CountTrue(Slot),
    /// Writes to a predicate slot whether the predicate is true in all threads.
    All(Slot),
    Any(Slot),
}

/// A barrier instruction of the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) f: BarrierOp,
    pub(crate) id: Slot,
    /// The number of participating threads; `None` for all live threads.
    pub(crate) threads: Option<Slot>,
    /// The predicate to reduce.
    pub(crate) predicate: Slot,
    /// True if all lanes of a warp must execute the barrier together.
    pub(crate) aligned: bool,
}

impl Barrier {
    /// Returns the name of the PTX instruction, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match (self.f, self.aligned) {
            (BarrierOp::Sync, true) => "bar.sync",
            (BarrierOp::Sync, false) => "barrier.sync",
            (BarrierOp::Arrive, true) => "bar.arrive",
            (BarrierOp::Arrive, false) => "barrier.arrive",
            (BarrierOp::CountTrue(_), true) => "bar.red.popc",
            (BarrierOp::CountTrue(_), false) => "barrier.red.popc",
            (BarrierOp::All(_), true) => "bar.red.and",
            (BarrierOp::All(_), false) => "barrier.red.and",
            (BarrierOp::Any(_), true) => "bar.red.or",
            (BarrierOp::Any(_), false) => "barrier.red.or",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeOp {
    ShuffleUp,
    ShuffleDown,
    ShuffleButterfly,
    ShuffleIndex,
    VoteAll,
    VoteAny,
    VoteUniform,
    VoteBallot,
    MatchAny32,
    MatchAny64,
    MatchAll32,
    MatchAll64,
    ReduceAdd,
    ReduceMinS,
    ReduceMinU,
    ReduceMaxS,
    ReduceMaxU,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
    /// `elect.sync`.
    Elect,
    /// `bar.warp.sync`.
    Barrier,
    /// The start of an instruction of this name that all lanes of a warp must execute together.
    Together(&'static str),
}

impl ExchangeOp {
    /// Returns the name of the PTX instruction, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ShuffleUp | Self::ShuffleDown | Self::ShuffleButterfly | Self::ShuffleIndex => {
                "shfl.sync"
            }
            Self::VoteAll | Self::VoteAny | Self::VoteUniform | Self::VoteBallot => "vote.sync",
            Self::MatchAny32 | Self::MatchAny64 | Self::MatchAll32 | Self::MatchAll64 => {
                "match.sync"
            }
            Self::Elect => "elect.sync",
            Self::Barrier => "bar.warp.sync",
            Self::Together(name) => name,
            _ => "redux.sync",
        }
    }
}

/// A warp-wide operation between the lanes that `members` names, which wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) f: ExchangeOp,
    pub(crate) members: Slot,
    /// The 32-bit result; a predicate for votes other than `vote.ballot`.
    pub(crate) d: Slot,
    /// The second result, a predicate.
    pub(crate) p: Option<Slot>,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
}
