//! Row kernels: a block or a part of a warp computes a row, whose elements stay in registers
//! between its reductions.
//!
//! A thread has the same elements as in a reduction of rows of this length, so the bits are the
//! same. For example, in a block of 256 threads it has every 256th group of four neighbours, read
//! and written at once.

use crate::{
    emit::{
        body::{BLOCK, RowThread},
        passes::GeneratedPasses,
        row::elements::{FirstOfTurn, RowElements, begin, finish_row},
    },
    plan::{FusedKernel, ROW_THREADS, RowShape, RowSplit},
};

const _: () = assert!(ROW_THREADS == BLOCK, "a block computes a long row");

/// Generates a row kernel with a block, or a part of a warp, for each row.
pub(crate) fn block_row(kernel: &FusedKernel, rows: RowShape, split: RowSplit) -> GeneratedPasses {
    let (classes, mut body) = begin(kernel, rows);
    body.block = split.threads.max(BLOCK);
    let (results, ..) = (kernel.reductions().next()).expect("a row kernel has a reduction");
    let own = RowThread::new(&mut body, results, split.threads);
    let length = body.named("length", rows.length);
    let element_of = |turn| {
        let threads = (own.thread, 0..own.threads);
        let first = FirstOfTurn::new(&mut body, split, threads, length, turn);
        RowElements::of_turn(&mut body, own.row, length, first)
    };
    let mut elements: Vec<RowElements> = (0..split.turns()).map(element_of).collect();
    let begun = (classes, body);
    finish_row(kernel, rows, begun, &mut elements, own, (1, own.threads))
}
