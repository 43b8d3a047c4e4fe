//! Partitioning of the graph: which nodes are stored, and which are fused into the kernels of
//! others.
//!
//! Stored are requested nodes, nodes whose operations have kernels of their own (reductions,
//! products, …), and operands that such kernels must find in memory. All other nodes are computed
//! within the kernels that use them, unless `cut.rs` or `share.rs` stores them. The other modules
//! then fuse some stored nodes into the kernels of others after all.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op, ScatterMode},
    plan::{
        candidate::{Candidate, CandidateOperand, StoreReason, has_own_kernel, storable},
        cut::bound_sizes,
        epilogue::{fuse_epilogues, reduction_to_fuse},
        kernel::FusedNode,
        nested::fuse_nested,
        planned::PlannedGraph,
        row_kernels::fuse_rows,
        share::{store_branched, store_shared},
        size::Size,
        stencil::fuse_stencils,
        updates::fuse_updates,
    },
};

/// Decides about all nodes of a graph, operands first.
pub(crate) fn partition(graph: &PlannedGraph) -> Vec<Candidate> {
    let mut candidates = candidates_of(graph);
    store_kernel_operands(&mut candidates);
    store_branched(&mut candidates);
    bound_sizes(&mut candidates);
    store_shared(&mut candidates);
    fuse_nested(&mut candidates);
    fuse_rows(&mut candidates);
    fuse_epilogues(&mut candidates, reduction_to_fuse);
    fuse_stencils(&mut candidates);
    fuse_updates(&mut candidates);
    candidates
}

fn candidates_of(graph: &PlannedGraph) -> Vec<Candidate> {
    let candidate = |FusedNode { node, op }: &FusedNode| {
        let mut operands = SmallVec::new();
        op.operands(|operand| {
            let (node, candidate) = (NodeRef::clone(operand), graph.planned_number(operand));
            operands.push(CandidateOperand { node, candidate });
        });
        Candidate {
            node: NodeRef::clone(node),
            op: Arc::clone(op),
            operands,
            consumers: SmallVec::new(),
            is_stored: false,
            is_split: false,
            reason: None,
            size: Size::default(),
            epilogue_of: None,
            rows: None,
            group: None,
            tiled: SmallVec::new(),
        }
    };
    let mut candidates: Vec<Candidate> = graph.nodes.iter().map(candidate).collect();
    for &target in &graph.targets {
        if let Some(candidate) = candidates.get_mut(target as usize) {
            candidate.store(StoreReason::Requested);
        }
    }
    // A join in another shape shares the memory of the join.
    for at in (0..candidates.len()).rev() {
        if candidates[at].is_stored
            && let Some(source) = candidates[at].source_of_same_elements()
            && is_join(&candidates, source)
        {
            candidates[source].store(StoreReason::Requested);
        }
    }
    let own = candidates
        .iter_mut()
        .filter(|candidate| has_own_kernel(&candidate.op));
    own.for_each(|candidate| candidate.store(StoreReason::OwnKernel));
    candidates
}

/// Returns whether a candidate is a join, or has the elements of one in the same order.
fn is_join(candidates: &[Candidate], at: usize) -> bool {
    match &*candidates[at].op {
        Op::Concatenate { .. } => true,
        _ => {
            let source = candidates[at].source_of_same_elements();
            source.is_some_and(|source| is_join(candidates, source))
        }
    }
}

/// Stores the operands that other nodes' kernels must find in memory.
fn store_kernel_operands(candidates: &mut [Candidate]) {
    for at in 0..candidates.len() {
        let candidate = &candidates[at];
        let needed: SmallVec<[usize; 4]> = match &*candidate.op {
            // Both take strides, so that the source of a view is enough.
            Op::MatrixProduct(..) | Op::Attention(_) => {
                let source = |at: usize| match &*candidates[at].op {
                    Op::View(..) => candidates[at].operand(0),
                    _ => Some(at),
                };
                candidate.candidate_operands().filter_map(source).collect()
            }
            Op::Sort(..) | Op::Search { .. } => candidate.candidate_operands().collect(),
            // Both kernels of the scatter compute the indices.
            Op::Scatter {
                mode: ScatterMode::Last,
                ..
            } => {
                let indices = candidate.operand(1);
                let stored = indices.and_then(|at| storable(candidates, at));
                stored.into_iter().collect()
            }
            // A scan computes functions of elements itself. Other operands, such as transposed
            // views, are read in another order than that of its threads.
            Op::Scan { .. } => {
                let is_other = |&at: &usize| !matches!(&*candidates[at].op, Op::Apply(..));
                candidate.candidate_operands().filter(is_other).collect()
            }
            _ => continue,
        };
        for at in needed {
            candidates[at].store(StoreReason::Operand);
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Ix1, array};

    use super::*;
    use crate::{
        Array, Region,
        plan::{build::steps, limits::INPUTS_MAX},
    };

    /// Returns the number of nodes that are stored to evaluate the targets, the targets included.
    fn stored<const N: usize>(targets: [&NodeRef; N]) -> usize {
        let steps = steps(&PlannedGraph::of(&targets.map(NodeRef::clone)), u64::MAX);
        steps.iter().map(|step| step.nodes.len()).sum()
    }

    /// Returns a selection between selections, `levels` deep, each of distinct arrays and masks.
    fn choices(region: &Region, levels: u32) -> Array<f32, Ix1> {
        let x: Array<f32, Ix1> = region.array(&array![1.0, 2.0]);
        if levels == 0 {
            return x;
        }
        let mask: Array<bool, Ix1> = region.array(&array![true, false]);
        mask.where_cond(choices(region, levels - 1), choices(region, levels - 1)) + x
    }

    #[test]
    fn a_kernel_reads_sixteen_arrays_at_most() {
        let region = Region::new(Device::simulated().unwrap());
        let root = choices(&region, 5);
        let steps = steps(&PlannedGraph::of(&[NodeRef::clone(root.node())]), u64::MAX);
        for step in &steps {
            assert!(step.alias_of.is_none(), "nothing here is in memory already");
            for kernel in &step.kernels {
                assert!(kernel.inputs.len() <= INPUTS_MAX, "{}", kernel.inputs.len());
            }
        }
        assert!(steps.len() < 16, "{}", steps.len());
    }

    #[test]
    fn a_costly_node_that_two_kernels_share_is_stored() {
        let region = Region::new(Device::simulated().unwrap());
        let x: Array<f32, Ix1> = region.array(&array![1.0, 2.0, 3.0]);
        let (cheap, costly) = (&x + 1.0, x.tanh().exp().tanh());
        assert_eq!(stored([(&cheap * 2.0).node(), (&cheap * 3.0).node()]), 2);
        assert_eq!(stored([(&costly * 2.0).node(), (&costly * 3.0).node()]), 2);
        assert_eq!(stored([(&costly * 2.0).node(), costly.sum().node()]), 3);
        assert_eq!(stored([(&costly * &costly).node()]), 1);
        // Its few instructions take no longer than a write and a read.
        let powers = x.exp();
        assert_eq!(stored([(&powers * 2.0).node(), powers.sum().node()]), 2);
    }
}
