//! The accumulators of the rows of a row kernel.
//!
//! Rows of more than 8,192 elements have as many as the threads of the smallest block that can keep
//! the row; others have those of reductions.

use smallvec::SmallVec;

use crate::{
    element::DType,
    expr::NodeRef,
    plan::{kernel::FusedKernel, order::split::RowSplit, rows::RowShape},
};

/// The numbers of accumulators of longer rows: the threads of larger blocks. If a thread of neither
/// can keep its elements, there are as many as threads of the smaller.
const LONG_ROW_THREADS: [usize; 2] = [512, 1024];
/// The maximum number of elements that a thread of a larger block keeps, each of 32 bits. It has
/// half of the registers that a thread of a usual block can have, or a quarter.
const KEPT_MAX: usize = 32;
/// The maximum number of nodes of a simple kernel, so that its values fit in the registers that its
/// arrays leave.
const SIMPLE_NODES_MAX: usize = 24;

/// The order in which a row kernel combines the elements of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowOrder {
    pub(crate) split: RowSplit,
    /// True if a thread for each accumulator can keep its elements in registers.
    pub(crate) is_kept: bool,
}

impl RowOrder {
    pub(crate) fn of(kernel: &FusedKernel, rows: RowShape) -> Self {
        if !rows.is_long() {
            return Self {
                split: RowSplit::of(rows.length),
                is_kept: true,
            };
        }
        let splits = LONG_ROW_THREADS.map(|threads| RowSplit::of_block(rows.length, threads));
        let whole = splits.into_iter().find(|split| {
            // Single elements have an index each, for which the largest block has no registers.
            let has_registers = split.neighbours > 1 || split.threads == LONG_ROW_THREADS[0];
            has_registers && split.turns() * split.neighbours <= KEPT_MAX
        });
        let is_wide = |node: &NodeRef| node.elements > rows.rows && node.dtype.bytes() > 4;
        let whole = whole.filter(|_| {
            arrays_of_simple(kernel, rows).is_some_and(|arrays| arrays.len() == 1)
                && !kernel.nodes.iter().any(|fused| is_wide(&fused.node))
        });
        Self {
            split: whole.unwrap_or(splits[0]),
            is_kept: whole.is_some(),
        }
    }
}

/// Returns the arrays whose elements of a row a thread has in registers, each in one of 32 bits, if
/// the kernel is so simple that few other registers are needed.
pub(crate) fn arrays_of_simple(
    kernel: &FusedKernel,
    rows: RowShape,
) -> Option<SmallVec<[&NodeRef; 4]>> {
    let reduced = kernel.reductions().map(|(_, _, source)| source);
    let root = Some(&kernel.root).filter(|root| root.elements == rows.rows * rows.length);
    let arrays = kernel.arrays_of(reduced.chain(root));
    let is_word = |array: &&NodeRef| array.dtype.bytes() <= 4 && array.dtype != DType::Bool;
    let is_simple = kernel.nodes.len() <= SIMPLE_NODES_MAX
        && kernel.overwrites.is_none()
        && arrays.iter().all(is_word);
    is_simple.then_some(arrays)
}
