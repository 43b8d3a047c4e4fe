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
//! # Why two kernels are not one
//!
//! [`Region::explain`](crate::Region::explain) tells for each stored array the reason for which
//! [`Candidate::store`](candidate::Candidate::store) was called first. The bounds are those of
//! `limits.rs`.
//!
//! | reason | decided by |
//! |---|---|
//! | `Requested` | the caller: it is a result |
//! | `OwnKernel` | `candidate.rs`: `has_own_kernel` |
//! | `Operand` | `partition.rs`: `store_kernel_operands` |
//! | `Size` | `cut.rs`: `bound_sizes` |
//! | `Shared` | `share.rs`: `pays`, and `store_branched` for joins |
//!
//! Reductions, scans, products, attention, scatters, updates and long joins have kernels of their
//! own. What leads to a reduction or a scan is in its kernel. The kernel of a stored join computes
//! the parts in their places (`joins.rs`), and that of an update those before it (`updates.rs`).
//!
//! A node that is stored for one of these reasons is computed in the kernel of others all the same
//! if `nested.rs`, `row_kernels.rs`, `epilogue.rs`, `stencil.rs` or `groups.rs` finds that one
//! kernel can compute both. Its functions say under which conditions.

pub(crate) mod ancestors; // the nodes on which each depends
pub(crate) mod build; // builds the kernels that follow from these decisions
pub(crate) mod candidate; // a planned node, with the decisions about it
pub(crate) mod cut; // cuts computations that would make a kernel too large
pub(crate) mod epilogue; // fuses functions of the results of reductions and products
pub(crate) mod explain; // tells the kernels of a plan, and why arrays are stored
pub(crate) mod first_axis; // graphs of rows whose plan is that of any number of rows
pub(crate) mod followers; // functions of the results of reductions as further outputs
pub(crate) mod groups; // groups both in kernels of several outputs, and orders the steps
pub(crate) mod held; // the nodes of a graph that the remaining steps of its plan need
pub(crate) mod indices; // the indices of a kernel
pub(crate) mod joins; // finds joins of arrays in memory
pub(crate) mod kernel; // `FusedKernel`: a kernel with the nodes of a graph
pub(crate) mod key; // the keys of graphs, without the lengths on which the plan does not depend
pub(crate) mod limits; // the limits of fusion, each with its reason
pub(crate) mod nested; // fuses reductions of few elements into the kernels that use them
pub(crate) mod numbers; // the numbers of nodes by their identifiers
pub(crate) mod order; // the order in which kernels combine elements
pub(crate) mod partition; // decides which nodes are stored and which are fused into other kernels
pub(crate) mod planned; // the graph of planned nodes that an evaluation depends on
pub(crate) mod replace; // updates of parts, in place where nothing else needs the old elements
pub(crate) mod row_kernels; // fuses reductions of rows with what leads to them and what follows
pub(crate) mod row_outputs; // stored values as further outputs of row kernels
pub(crate) mod rows; // contiguous rows, and the values that belong to one row
pub(crate) mod share; // stores shared values where that takes less time than computing them again
pub(crate) mod siblings; // finds stored nodes over the same inputs, which one kernel computes
pub(crate) mod size; // the size of a kernel, which is limited
pub(crate) mod stencil; // fuses functions that stencils read, computed in shared memory
pub(crate) mod step; // the steps of a plan and their kernels, in terms of node numbers
pub(crate) mod strided; // the strides of operands that kernels read through views
pub(crate) mod uniform; // graphs and kernels whose plan and code serve other lengths, too
pub(crate) mod updates; // fuses updates of one array
pub(crate) mod varying; // on which axes of a kernel's elements a value depends

pub use candidate::StoreReason;
pub(crate) use explain::explain;
pub use explain::{ExplainedKernel, Explanation, StoredArray};
pub(crate) use first_axis::first_axis_of_kernel;
pub(crate) use held::HeldNodes;
pub(crate) use indices::{IndexAnalysis, are_flat};
pub(crate) use kernel::{FusedKernel, FusedNode, KernelOutput};
pub(crate) use order::{
    attention::TileSizes,
    nested::nested_order,
    reduction::{ReducedRows, ReductionOrder},
    row::{RowOrder, arrays_of_simple},
    scan::{LANES, ScanOrder},
    split::{ROW_THREADS, RowSplit},
};
pub(crate) use planned::PlannedGraph;
pub(crate) use rows::{RowClass, RowShape};
pub(crate) use stencil::{Stencil, TileAxes};
pub(crate) use step::{KernelKind, KernelPlan, Release, Replacement, Step};
pub(crate) use strided::Strided;
pub(crate) use uniform::{KeyFreeLengths, Uniform, push_computed, push_stored};
pub(crate) use varying::AxisSet;

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
