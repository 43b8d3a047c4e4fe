//! What an operation or the host did to memory, as the checker is told.

use std::{ops::Range, sync::Arc};

use millstream_driver::FloatOperand;

use crate::{
    exec::{KernelAccess, KernelRace},
    memory::{Tag, Touch},
    ptx::ParamType,
};

/// Bytes of an allocation, in ascending runs that do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) tag: Arc<Tag>,
    pub(crate) runs: Vec<Range<u64>>,
}

impl Spot {
    /// The same access to all of the bytes.
    pub(crate) fn touched(self, touch: Touch) -> Effect {
        let runs = self.runs.into_iter().map(|range| (range, touch)).collect();
        Effect::Touch(self.tag, runs)
    }
}

/// One thing that an operation or the host did.
#[derive(Debug)]
pub(crate) enum Effect {
    /// It accessed bytes.
    Touch(Arc<Tag>, Vec<(Range<u64>, Touch)>),
    /// It copied bytes; an end that is not told is memory that nobody else can reach meanwhile.
    Copy {
        from: Option<Spot>,
        to: Option<Spot>,
    },
    /// It began the allocation's life.
    Birth(Arc<Tag>),
    /// It gave the allocation out again, with its users and without its content.
    Empty(Arc<Tag>),
    /// It ended the allocation's life.
    End(Arc<Tag>),
    /// The allocation is gone with its context, whoever used it.
    Forget(Arc<Tag>),
    /// Threads of it raced with each other, in memory of that allocation or in shared memory.
    KernelRace(Option<Arc<Tag>>, Box<KernelRace>),
    /// A thread of it accessed floating-point numbers that do not fit the declared element type.
    Mismatch(Box<(Mismatch, KernelAccess)>),
    /// It made an access that is out of bounds or misaligned.
    Stray(Box<Stray>),
}

/// An access that is out of bounds or misaligned.
#[derive(Debug)]
pub(crate) struct Stray {
    /// Whether it is not aligned; else it is out of bounds.
    pub(crate) misaligned: bool,
    /// The problem, up to the allocation.
    pub(crate) problem: String,
    /// The allocation around it, or the nearest.
    pub(crate) tag: Option<Arc<Tag>>,
    pub(crate) access: KernelAccess,
}

/// An instruction whose floating-point type has another size than the declared elements.
#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    pub(crate) pc: u32,
    pub(crate) accessed: ParamType,
    pub(crate) declared: FloatOperand,
}
