//! What the operations on memory, and those between threads, refer to.

use super::Slot;
use millstream_ptx::Type;

/// A part of the generic address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Global,
    Shared,
    Local,
    Param,
}

impl Window {
    /// The generic address of offset 0 of a block's shared memory. This and the two below lie
    /// outside of what any device or host address can be.
    pub(crate) const SHARED: u64 = 0x5a00_0000_0000_0000;
    /// The generic address of offset 0 of a thread's local memory.
    pub(crate) const LOCAL: u64 = 0x5b00_0000_0000_0000;
    /// The generic address of offset 0 of the kernel's parameters.
    pub(crate) const PARAM: u64 = 0x5c00_0000_0000_0000;

    /// The generic address of this window's offset 0.
    pub(crate) fn base(self) -> u64 {
        match self {
            Self::Global => 0,
            Self::Shared => Self::SHARED,
            Self::Local => Self::LOCAL,
            Self::Param => Self::PARAM,
        }
    }

    /// The window that a generic address lies in.
    pub(crate) fn of(address: u64) -> Self {
        match address >> 56 {
            0x5a => Self::Shared,
            0x5b => Self::Local,
            0x5c => Self::Param,
            _ => Self::Global,
        }
    }
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessSpace {
    Is(Window),
    /// Each lane's address says.
    Generic,
}

/// An address: a register, if any, plus a constant.
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
}

/// What an access that synchronises orders besides itself, and for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryOrder {
    /// What the thread does later comes after what the writer of the value read released with it.
    pub(crate) acquire: bool,
    /// What the thread did before is released with the value written.
    pub(crate) release: bool,
    /// Only threads of the same block can rely on it: the scope is `.cta`.
    pub(crate) block_only: bool,
}

/// A load or a store of one to four values of one width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) space: AccessSpace,
    pub(crate) address: Address,
    /// Bytes of one value: 1, 2, 4 or 8.
    pub(crate) width: u8,
    /// How many values: 1, 2 or 4.
    pub(crate) count: u8,
    /// Loads: the width in bits to which a signed value is extended; 0 for none.
    pub(crate) sign_extend: u8,
    /// Whether the registers are 64-bit ones.
    pub(crate) double: bool,
    /// The type, if it is one floating-point value.
    pub(crate) float: Option<Type>,
    /// Whether this is how threads wait for each other: volatile, relaxed, acquire, release.
    pub(crate) synchronises: bool,
    pub(crate) order: MemoryOrder,
    pub(crate) values: [Slot; 4],
}

impl Access {
    /// Bytes of one lane's access, a power of two.
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

/// An atomic operation.
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
    /// The upper halves of the result and the operands, which have 128 bits then.
    pub(crate) high: Option<HighHalves>,
}

impl Atomic {
    /// Bytes of one lane's access, a power of two.
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
    /// How many threads' predicate is true, into a 32-bit slot.
    CountTrue(Slot),
    /// Whether all threads' predicate is true, into a predicate.
    All(Slot),
    Any(Slot),
}

/// A barrier of the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) f: BarrierOp,
    pub(crate) id: Slot,
    /// How many threads take part; all if none is given.
    pub(crate) threads: Option<Slot>,
    /// The predicate that is reduced.
    pub(crate) predicate: Slot,
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
    /// `elect.sync`
    Elect,
    /// `bar.warp.sync`
    Barrier,
}

impl ExchangeOp {
    /// The PTX instruction, for messages.
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
            _ => "redux.sync",
        }
    }
}

/// An operation between the lanes that `members` names, which wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) f: ExchangeOp,
    pub(crate) members: Slot,
    /// 32-bit result (votes but the ballot: a predicate).
    pub(crate) d: Slot,
    /// Second result, a predicate.
    pub(crate) p: Option<Slot>,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
}
