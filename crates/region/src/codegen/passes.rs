//! What is generated for one fused kernel: passes, and what they leave for each other.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use super::{
    body::{Kernel, KernelParameter},
    map::map,
    reduce::reduce,
    scan::scan,
    scatter::scatter,
};
use crate::{element::DType, fuse::FusedKernel, graph::Op};

/// The generated kernels that do the work of one fused kernel, one after the other: mostly one.
pub(crate) struct GeneratedPasses<P = KernelParameter> {
    /// Arrays that passes leave for later ones.
    pub(crate) temporaries: SmallVec<[Temporary; 2]>,
    pub(crate) passes: SmallVec<[Pass<P>; 1]>,
}

/// An array between passes.
#[derive(Clone, Copy)]
pub(crate) struct Temporary {
    pub(crate) bytes: usize,
    /// Whether it is 0 everywhere in front of the first pass.
    pub(crate) is_zeroed: bool,
}

/// One launch.
pub(crate) struct Pass<P = KernelParameter> {
    pub(crate) kernel: Kernel<P>,
    /// Threads that it needs, at least.
    pub(crate) threads: usize,
    pub(crate) writes: PassOutput,
    /// The temporaries that it reads; they are ahead of those that it writes.
    pub(crate) reads: Range<usize>,
}

/// What a pass writes.
#[derive(Clone)]
pub(crate) enum PassOutput {
    /// The fused kernel's outputs.
    Outputs,
    Temporaries(Range<usize>),
}

impl GeneratedPasses {
    /// The passes of a fused kernel that has something to write.
    pub(super) fn of(kernel: &FusedKernel) -> Self {
        match kernel.op(&kernel.root) {
            Some(Op::Reduce { .. }) => reduce(kernel),
            Some(Op::Scan { .. }) => scan(kernel),
            Some(Op::Scatter { .. }) => scatter(kernel),
            _ => map(kernel),
        }
    }

    /// A single pass.
    pub(super) fn one(kernel: Kernel, threads: usize) -> Self {
        Self {
            temporaries: SmallVec::new(),
            passes: smallvec![Pass {
                kernel,
                threads,
                writes: PassOutput::Outputs,
                reads: 0..0,
            }],
        }
    }
}

impl Temporary {
    /// An array of so many elements.
    pub(super) fn of(elements: usize, dtype: DType) -> Self {
        Self {
            bytes: elements * dtype.bytes(),
            is_zeroed: false,
        }
    }
}

impl<P> GeneratedPasses<P> {
    /// The same passes with other parameters.
    pub(super) fn each<Q>(&self, mut parameter: impl FnMut(&P) -> Q) -> GeneratedPasses<Q> {
        let passes = self.passes.iter().map(|pass| Pass {
            kernel: pass.kernel.each(&mut parameter),
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
