//! Row kernels of rows that fit in the registers of a larger block than the usual one.
//!
//! A block that visits its row several times reads it from the L2 cache each time but the first.
//! With as many threads as a row of up to 32,768 elements takes, it reads its row once. A thread
//! then has half of the registers that a thread of a usual block can have, or a quarter, which are
//! enough for simple kernels: those of one array. Rows whose length is no multiple of four have at
//! most 16,384 elements.

use crate::{
    emit::row::elements::arrays_of_simple,
    expr::NodeRef,
    plan::{FusedKernel, RowShape, RowSplit},
};

/// The numbers of threads of larger blocks.
const THREADS: [usize; 2] = [512, 1024];
/// The maximum number of elements of a thread, each of 32 bits.
const ELEMENTS_MAX: usize = 32;

/// Returns the division of a row among the threads of a larger block, if one can keep the row.
pub(crate) fn split_in_larger_block(kernel: &FusedKernel, rows: RowShape) -> Option<RowSplit> {
    let arrays = arrays_of_simple(kernel, rows)?;
    let is_wide = |node: &NodeRef| node.elements > rows.rows && node.dtype.bytes() > 4;
    if arrays.len() != 1 || kernel.nodes.iter().any(|fused| is_wide(&fused.node)) {
        return None;
    }
    let splits = THREADS.map(|threads| RowSplit::of_block(rows.length, threads));
    splits.into_iter().find(|split| {
        // Single elements have an index each, for which the largest block has no registers.
        let has_registers = split.neighbours > 1 || split.threads == THREADS[0];
        has_registers && split.turns() * split.neighbours <= ELEMENTS_MAX
    })
}
