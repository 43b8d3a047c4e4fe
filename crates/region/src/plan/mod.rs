//! Planning: partitions the expression graph into fused kernels.
//!
//! Storing each intermediate result costs a write and a read of memory, while computing one for
//! each of its uses costs instructions. [`build::steps`] therefore decides which planned nodes are
//! stored, and builds for each of them the kernels that compute it: the nodes inside, the inputs
//! and the outputs. All later stages take these boundaries from the [`FusedKernel`].
//!
//! A plan follows from shapes, types and operations alone, so that every device gives the same
//! bits: no number of a machine is in it.
//!
//! | file | contents |
//! |---|---|
//! | `kernel.rs` | `FusedKernel`: a kernel with the nodes of a graph |
//! | `numbers.rs` | the numbers of nodes by their identifiers |
//! | `planned.rs` | the graph of planned nodes that an evaluation depends on |
//! | `held.rs` | the nodes of a graph that the remaining steps of its plan need |
//! | `step.rs` | the steps of a plan and their kernels, in terms of node numbers |
//! | `order/` | the order in which kernels combine elements |
//! | `indices.rs` | the indices of a kernel |
//! | `limits.rs` | the limits of fusion, each with its reason |
//! | `size.rs` | the size of a kernel, which is limited |
//! | `rows.rs` | contiguous rows, and the values that belong to one row |
//! | `candidate.rs` | a planned node, with the decisions about it |
//! | `cut.rs` | cuts computations that would make a kernel too large |
//! | `share.rs` | stores shared values where that takes less time than computing them again |
//! | `row_kernels.rs` | fuses reductions of rows with what leads to them and what follows |
//! | `stencil.rs` | fuses functions that stencils read, which their kernels compute in shared memory |
//! | `epilogue.rs` | fuses functions of the results of reductions and products into their kernels |
//! | `partition.rs` | decides which nodes are stored and which are fused into other kernels |
//! | `ancestors.rs` | the nodes on which each depends |
//! | `siblings.rs` | finds stored nodes over the same inputs, which one kernel computes |
//! | `followers.rs` | functions of the results of reductions as further outputs of their kernels |
//! | `groups.rs` | groups both in kernels of several outputs, and orders the steps |
//! | `joins.rs` | finds joins of arrays in memory |
//! | `replace.rs` | updates of parts, in place where nothing else needs the old elements |
//! | `build.rs` | builds the kernels that follow from these decisions |
//! | `explain.rs` | tells the kernels of a plan, and why arrays are stored |
//! | `uniform.rs` | graphs and kernels whose plan and code serve other lengths, too |
//! | `first_axis.rs` | graphs of rows whose plan is that of any number of rows |
//! | `key.rs` | the keys of graphs, without the lengths on which the plan does not depend |
//! | `strided.rs` | the strides of operands that kernels read through views |
//!
//! # Why two kernels are not one
//!
//! [`Region::explain`](crate::Region::explain) tells for each stored array the reason for which
//! [`Candidate::store`](candidate::Candidate::store) was called first. The bounds are those of
//! `limits.rs`.
//!
//! | reason | decided by |
//! |---|---|
//! | `OwnKernel` | `candidate.rs`: `has_own_kernel` |
//! | `Operand` | `partition.rs`: `store_kernel_operands` |
//! | `Size` | `cut.rs`: `bound_sizes` |
//! | `Shared` | `share.rs`: `pays` |
//!
//! A node that is stored for one of these reasons, or requested, is computed in the kernel of
//! others all the same if `row_kernels.rs`, `epilogue.rs`, `stencil.rs` or `groups.rs` finds that
//! one kernel can compute both. Its functions say under which conditions.

pub(crate) mod ancestors;
pub(crate) mod build;
pub(crate) mod candidate;
pub(crate) mod cut;
pub(crate) mod epilogue;
pub(crate) mod explain;
pub(crate) mod first_axis;
pub(crate) mod followers;
pub(crate) mod groups;
pub(crate) mod held;
pub(crate) mod indices;
pub(crate) mod joins;
pub(crate) mod kernel;
pub(crate) mod key;
pub(crate) mod limits;
pub(crate) mod numbers;
pub(crate) mod order;
pub(crate) mod partition;
pub(crate) mod planned;
pub(crate) mod replace;
pub(crate) mod row_kernels;
pub(crate) mod rows;
pub(crate) mod share;
pub(crate) mod siblings;
pub(crate) mod size;
pub(crate) mod stencil;
pub(crate) mod step;
pub(crate) mod strided;
pub(crate) mod uniform;

pub use candidate::StoreReason;
pub(crate) use explain::explain;
pub use explain::{ExplainedKernel, Explanation, StoredArray};
pub(crate) use first_axis::first_axis_of_kernel;
pub(crate) use held::HeldNodes;
pub(crate) use indices::{IndexAnalysis, are_flat};
pub(crate) use kernel::{FusedKernel, FusedNode};
pub(crate) use order::{
    LANES, ROW_THREADS, ReducedRows, ReductionOrder, RowOrder, RowSplit, ScanOrder, TileSizes,
    arrays_of_simple,
};
pub(crate) use planned::PlannedGraph;
pub(crate) use rows::{RowClass, RowShape};
pub(crate) use stencil::{Stencil, TileAxes};
pub(crate) use step::{KernelKind, KernelPlan, PlanLengths, Release, Replacement, Step};
pub(crate) use strided::Strided;
pub(crate) use uniform::{FreeLengths, Uniform, push_computed, push_stored};

/// Returns the only kernel of a node whose operands are in memory or fused with it.
#[cfg(test)]
pub(crate) fn only_kernel(node: &crate::expr::NodeRef) -> FusedKernel {
    let graph = PlannedGraph::of(std::slice::from_ref(node));
    let (steps, nodes) = (build::steps(&graph, u64::MAX), HeldNodes::of(graph));
    match &steps[..] {
        [step] if step.kernels.len() == 1 => step.kernels[0].fused(&nodes),
        _ => panic!("the node takes more than one step, or its step more than one kernel"),
    }
}
