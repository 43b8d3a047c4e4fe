//! Kernels of rows whose code serves arrays of any number of rows.
//!
//! A program that calls a region for batches of many sizes has row kernels and reductions whose
//! arrays differ in the length of their first axis alone. Their text is the same, because a kernel
//! has its threads for each row, and so are all parameters but lengths of first axes and numbers of
//! rows, which a launch takes from its own nodes. The key of such code therefore leaves out the
//! length `n` of the first axis.
//!
//! Code generation compares lengths with each other, with bounds, and with 1. A kernel has
//! this property if
//!
//! - `n` is at least 2, and every computed node has a single element or a first axis of length `n`,
//!   so that no two of them have the same number of elements for one `n` only;
//! - no operation reduces, joins or scans the first axis, or checks an index against its length;
//! - no array is so large that its indices need 64 bits;
//! - the choice between kinds of kernels, which depends on the number of rows, is part of the key,
//!   and a row has its threads whatever the number of rows. That excludes rows that several blocks
//!   share, and rows that do not fit in registers.
//!
//! The key marks the lengths of first axes that are `n`, also those of inputs, and has all others.
//! An input that has the length `n` along another axis, or a step or start that follows from `n`,
//! therefore gives each `n` a key of its own.

use super::{
    body::KernelParameter,
    cache::{Code, CodeParameter},
    many_rows::has_many_rows,
    passes::Threads,
    reduce::{ReductionGenerator, ReductionKind},
};
use crate::{
    fuse::{ELEMENTS_32_MAX, FreeLengths, FusedKernel, FusedNode},
    graph::{NodeRef, Op},
};

/// Returns the length of the first axis, and the kind of kernel, if the code serves other lengths.
pub(super) fn free_first_axis(kernel: &FusedKernel) -> Option<FreeLengths<'static>> {
    let length = *kernel.root.shape.first()?;
    let is_plain = kernel.overwrites.is_none()
        && kernel.tiled.is_empty()
        && kernel
            .outputs
            .iter()
            .all(|output| output.target_map.is_none());
    if length < 2 || !is_plain {
        return None;
    }
    let computed = || kernel.nodes.iter().chain(&kernel.epilogue);
    let targets = kernel.outputs.iter().map(|output| &output.target);
    let mut all = computed()
        .map(|fused| &fused.node)
        .chain(&kernel.inputs)
        .chain(targets);
    if all.any(|node| node.elements > ELEMENTS_32_MAX)
        || !computed().all(|fused| keeps_first_axis(fused, length))
    {
        return None;
    }
    let kind = kind_of(kernel)?;
    Some(FreeLengths::First { length, kind })
}

/// Returns whether a node has a single element or a first axis of this length, with which its
/// operation does nothing.
fn keeps_first_axis(FusedNode { node, op }: &FusedNode, length: usize) -> bool {
    let is_first = |node: &NodeRef| node.shape.first() == Some(&length);
    let is_kept = match &**op {
        Op::Constant(_) | Op::Iota | Op::Apply(..) | Op::View(..) => true,
        Op::Reshape(source) => is_first(source),
        Op::Reduce { source, axes, .. } => !axes.contains(&0) && is_first(source),
        Op::Gather { source, axis, .. } => *axis != 0 || !is_first(source),
        _ => false,
    };
    is_kept && (node.elements == 1 || is_first(node))
}

/// Returns the number of the kind of kernel, if a row has its threads whatever the number of rows.
fn kind_of(kernel: &FusedKernel) -> Option<u64> {
    if let Some(rows) = kernel.rows {
        return (!rows.is_long()).then(|| u64::from(has_many_rows(kernel, rows)));
    }
    match ReductionGenerator::of(kernel)?.kind() {
        // The length of the rows determines the number of threads.
        ReductionKind::Row { .. } => Some(2),
        ReductionKind::Thread => Some(3),
        ReductionKind::Warp => Some(4),
        ReductionKind::Block => Some(5),
        ReductionKind::LastBlock { .. }
        | ReductionKind::LastBlockOfThreads { .. }
        | ReductionKind::TwoPasses { .. } => None,
    }
}

/// Returns whether the code takes all lengths of first axes and numbers of rows from the nodes of a
/// launch.
pub(super) fn is_free_of_first_axis(code: &Code) -> bool {
    let is_free = |parameter: &CodeParameter| {
        !matches!(
            parameter,
            CodeParameter::Fixed(
                KernelParameter::Length { axis: 0, .. } | KernelParameter::ElementsOf { .. }
            )
        )
    };
    code.temporaries.is_empty()
        && code.passes.iter().all(|pass| {
            let kernel = &pass.kernel;
            let mut parameters = kernel.parameters.iter().chain(&kernel.table);
            matches!(pass.threads, Threads::ForRows { .. }) && parameters.all(is_free)
        })
}
