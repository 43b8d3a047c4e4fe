//! The generated code of one fused kernel: its passes and the temporaries between them.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use crate::{
    element::DType,
    emit::body::{BLOCK, Kernel, KernelParameter},
};

/// The passes that execute one fused kernel, in order; most have one.
pub(crate) struct GeneratedPasses<P = KernelParameter> {
    /// The arrays that passes write for later ones.
    pub(crate) temporaries: SmallVec<[Temporary; 2]>,
    pub(crate) passes: SmallVec<[Pass<P>; 1]>,
}

/// An array that one pass writes and a later one reads.
#[derive(Clone, Copy)]
pub(crate) struct Temporary {
    pub(crate) bytes: usize,
    /// True if the array must be zeroed before the first pass.
    pub(crate) is_zeroed: bool,
}

/// One launch of a generated kernel.
pub(crate) struct Pass<P = KernelParameter> {
    pub(crate) kernel: Kernel<P>,
    pub(crate) threads: Threads,
    pub(crate) writes: PassOutput,
    /// The temporaries that it reads; they precede those that it writes.
    pub(crate) reads: Range<usize>,
}

/// The minimum number of threads of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// A number that follows from the shapes for which the kernel was generated.
    Fixed(usize),
    /// A thread for every `lanes` elements of the root, and `more` threads besides.
    ForElements { lanes: usize, more: usize },
    /// `threads` threads for each row; the root has `elements` elements of a row.
    ForRows { elements: usize, threads: usize },
}

impl Threads {
    /// Returns the number for a root of this many elements.
    pub(crate) fn of(self, elements: usize) -> usize {
        match self {
            Self::Fixed(threads) => threads,
            Self::ForElements { lanes, more } => {
                (elements.div_ceil(lanes) + more).next_multiple_of(BLOCK)
            }
            Self::ForRows {
                elements: of_row,
                threads,
            } => elements / of_row * threads,
        }
    }
}

impl From<usize> for Threads {
    fn from(threads: usize) -> Self {
        Self::Fixed(threads)
    }
}

#[derive(Clone)]
pub(crate) enum PassOutput {
    /// The outputs of the fused kernel.
    Outputs,
    /// The outputs, and behind them, as outputs of the pass, temporaries that only it uses.
    OutputsAndTemporaries(Range<usize>),
    Temporaries(Range<usize>),
}

impl GeneratedPasses {
    /// Returns a single pass without temporaries.
    pub(crate) fn one(kernel: Kernel, threads: impl Into<Threads>) -> Self {
        Self {
            temporaries: SmallVec::new(),
            passes: smallvec![Pass {
                kernel,
                threads: threads.into(),
                writes: PassOutput::Outputs,
                reads: 0..0,
            }],
        }
    }

    /// Returns a single pass with temporaries that only it uses.
    pub(crate) fn one_with(
        temporaries: SmallVec<[Temporary; 2]>,
        kernel: Kernel,
        threads: usize,
    ) -> Self {
        let mut passes = Self::one(kernel, threads);
        passes.passes[0].writes = PassOutput::OutputsAndTemporaries(0..temporaries.len());
        Self {
            temporaries,
            ..passes
        }
    }

    /// Returns passes. Each reads the temporaries of the one before.
    pub(crate) fn chain<const N: usize>(
        temporaries: SmallVec<[Temporary; 2]>,
        passes: [(Kernel, usize); N],
    ) -> Self {
        let each = temporaries.len() / (N - 1);
        let pass = |(number, (kernel, threads)): (usize, (Kernel, usize))| Pass {
            kernel,
            threads: Threads::Fixed(threads),
            writes: match number + 1 {
                last if last == N => PassOutput::Outputs,
                _ => PassOutput::Temporaries(number * each..(number + 1) * each),
            },
            reads: number.saturating_sub(1) * each..number * each,
        };
        Self {
            temporaries,
            passes: passes.into_iter().enumerate().map(pass).collect(),
        }
    }
}

impl Temporary {
    pub(crate) fn of(elements: usize, dtype: DType) -> Self {
        Self {
            bytes: elements * dtype.bytes(),
            is_zeroed: false,
        }
    }
}

impl<P> GeneratedPasses<P> {
    pub(crate) fn map_parameters<Q>(
        &self,
        mut parameter: impl FnMut(&P) -> Q,
    ) -> GeneratedPasses<Q> {
        let passes = self.passes.iter().map(|pass| Pass {
            kernel: pass.kernel.map_parameters(&mut parameter),
            threads: pass.threads,
            writes: pass.writes.clone(),
            reads: pass.reads.clone(),
        });
        GeneratedPasses {
            temporaries: self.temporaries.clone(),
            passes: passes.collect(),
        }
    }
}
