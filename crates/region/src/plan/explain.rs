//! Explanations of plans: the kernels of an evaluation, and why each intermediate array is stored.

use std::{fmt, panic::Location};

use crate::{
    error::ArrayShape,
    expr::{NodeRef, Op},
    plan::{
        build, candidate::StoreReason, held::HeldNodes, kernel::FusedKernel, planned::PlannedGraph,
    },
};

/// The kernels that an evaluation would run, from [`Region::explain`](crate::Region::explain).
///
/// Its `Display` has a line for each kernel and each array that the kernel stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    kernels: Vec<ExplainedKernel>,
}

impl Explanation {
    /// Returns the kernels, in the order in which they would be enqueued.
    #[must_use]
    pub fn kernels(&self) -> &[ExplainedKernel] {
        &self.kernels
    }
}

/// One fused kernel of an [`Explanation`]. A long reduction or scan takes several launches. So does
/// a matrix product together with functions of its elements, if cuBLAS computes the product or its
/// sums are long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedKernel {
    /// The names of the operations that the kernel computes, operands first.
    pub operations: Vec<&'static str>,
    /// The sizes of the arrays that the kernel reads, in bytes.
    pub bytes_read: Vec<usize>,
    /// The arrays that the kernel stores.
    pub stored: Vec<StoredArray>,
    /// The names of the operations that a stencil reads at several positions: each block computes
    /// the elements that it needs once, in shared memory.
    pub in_shared_memory: Vec<&'static str>,
}

/// An array that a kernel stores in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredArray {
    /// The name of the operation.
    pub operation: &'static str,
    /// The source line of the operation.
    pub location: &'static Location<'static>,
    /// The lengths of the axes.
    pub shape: ArrayShape,
    /// Why the array is stored.
    pub reason: StoreReason,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, kernel) in (1..).zip(&self.kernels) {
            let (arrays, bytes) = (kernel.bytes_read.len(), &kernel.bytes_read);
            let bytes: usize = bytes.iter().sum();
            let operations = match &kernel.operations[..] {
                [] => String::from("copy"),
                operations => operations.join(", "),
            };
            writeln!(
                f,
                "kernel {number}: {operations} (arrays read: {arrays}, {bytes} bytes)"
            )?;
            for operation in &kernel.in_shared_memory {
                let reason = "a stencil reads it at several positions";
                writeln!(f, "    computes {operation} in shared memory: {reason}")?;
            }
            for stored in &kernel.stored {
                let (operation, shape, reason) = (stored.operation, &stored.shape, stored.reason);
                let location = stored.location;
                writeln!(f, "    stores {operation} {shape} ({location}): {reason}")?;
            }
        }
        Ok(())
    }
}

/// Plans the evaluation of nodes, and explains the plan.
pub(crate) fn explain(targets: &[NodeRef]) -> Explanation {
    let graph = PlannedGraph::of(targets);
    let (steps, candidates) = build::planned(&graph, u64::MAX);
    let nodes = HeldNodes::of(graph);
    let mut kernels = Vec::new();
    for step in &steps {
        let stored = |&number: &u32| {
            let candidate = candidates.get(number as usize)?;
            Some(StoredArray {
                operation: candidate.op.name(),
                location: candidate.node.location,
                shape: candidate.node.shape[..].into(),
                reason: candidate.reason?,
            })
        };
        kernels.extend(step.kernels.iter().map(|plan| {
            let kernel = plan.fused(&nodes);
            let name = |node| Some(kernel.op(node)?.name());
            ExplainedKernel {
                operations: operations(&kernel),
                bytes_read: kernel.inputs.iter().map(|input| input.bytes()).collect(),
                stored: step.nodes.iter().filter_map(stored).collect(),
                in_shared_memory: kernel.tiled.iter().filter_map(name).collect(),
            }
        }));
    }
    Explanation { kernels }
}

/// Returns the names of the operations of a kernel, without constants and views.
fn operations(kernel: &FusedKernel) -> Vec<&'static str> {
    let mut names: Vec<(u64, &'static str)> = Vec::new();
    for fused in kernel.nodes.iter().chain(&kernel.epilogue) {
        let is_work = !matches!(&*fused.op, Op::Constant(_) | Op::View(..) | Op::Reshape(_));
        if is_work && !names.iter().any(|&(id, _)| id == fused.node.id) {
            names.push((fused.node.id, fused.op.name()));
        }
    }
    names.into_iter().map(|(_, name)| name).collect()
}
