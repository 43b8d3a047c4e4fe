//! Planning: partitions the expression graph into fused kernels.
//!
//! Storing each intermediate result costs a write and a read of memory, while computing one for
//! each of its uses costs instructions. [`steps`] therefore decides which planned nodes are stored,
//! and builds for each of them the [`FusedKernel`]s that compute it: the nodes inside, the inputs
//! and the outputs. All later stages take these boundaries from the `FusedKernel`.
//!
//! | file | contents |
//! |---|---|
//! | `kernel.rs` | `FusedKernel`, and the steps that consist of them |
//! | `partition.rs` | decides which nodes are stored and which are fused into other kernels |
//! | `size.rs` | cuts computations that would make a kernel too large |
//! | `share.rs` | stores shared values where that takes less time than computing them again |
//! | `rows.rs` | fuses reductions of rows with what leads to them and what follows |
//! | `stencil.rs` | fuses functions that stencils read, which their kernels compute in shared memory |
//! | `epilogue.rs` | fuses functions of the results of reductions and products into their kernels |
//! | `siblings.rs` | computes several stored nodes over the same inputs in one kernel |
//! | `followers.rs` | functions of the results of reductions as further outputs of their kernels |
//! | `replace.rs` | updates of parts, in place where nothing else needs the old elements |
//! | `planned.rs` | the graph of planned nodes that an evaluation depends on |
//! | `numbers.rs` | the numbers of its nodes by their identifiers |
//! | `joins.rs` | finds joins of arrays in memory |
//! | `build.rs` | builds the kernels that follow from these decisions |
//! | `strided.rs` | the strides of operands that kernels read through views |
//! | `first_axis.rs` | graphs of rows whose plan is that of any number of rows |
//! | `uniform.rs` | graphs and kernels whose plan and code serve other lengths, too |
//! | `explain.rs` | tells the kernels of a plan, and why arrays are stored |

pub(crate) mod build;
pub(crate) mod epilogue;
pub(crate) mod explain;
pub(crate) mod first_axis;
pub(crate) mod followers;
pub(crate) mod joins;
pub(crate) mod kernel;
pub(crate) mod numbers;
pub(crate) mod partition;
pub(crate) mod planned;
pub(crate) mod replace;
pub(crate) mod rows;
pub(crate) mod share;
pub(crate) mod siblings;
pub(crate) mod size;
pub(crate) mod stencil;
pub(crate) mod strided;
pub(crate) mod uniform;

pub(crate) use explain::explain;
pub use explain::{ExplainedKernel, Explanation, StoreReason, StoredArray};
pub(crate) use first_axis::keeps_first_axis;
pub(crate) use kernel::{CodeSlot, FusedKernel, FusedNode, PlanLengths, Step, Work};
pub(crate) use planned::PlannedGraph;
pub(crate) use replace::Replacement;
pub(crate) use rows::{LONG_ROW_THREADS, ROW_THREADS, RowClass, RowShape, RowSplit};
pub(crate) use share::{SCAN_SEGMENT, scans_in_one_pass};
pub(crate) use size::MULTIPROCESSORS;
pub(crate) use stencil::{Stencil, TileAxes};
pub(crate) use strided::Strided;
pub(crate) use uniform::{ELEMENTS_32_MAX, FreeLengths, Uniform, push_computed, push_stored};

/// Returns the steps of a new plan for these nodes.
#[cfg(test)]
pub(crate) fn new_steps(targets: &[crate::expr::NodeRef]) -> Vec<Step> {
    build::steps(&PlannedGraph::of(targets), u64::MAX)
}

/// Returns the only kernel of a node whose operands are in memory or fused with it.
#[cfg(test)]
pub(crate) fn only_kernel(node: &crate::expr::NodeRef) -> FusedKernel {
    let mut steps = new_steps(std::slice::from_ref(node)).into_iter();
    let (Some(step), None) = (steps.next(), steps.next()) else {
        panic!("the node takes more than one step");
    };
    match step.work {
        Work::Kernels(mut kernels) if kernels.len() == 1 => kernels.remove(0),
        _ => panic!("the step takes more than one kernel"),
    }
}
