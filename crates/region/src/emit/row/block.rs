//! Row kernels: a block or a part of a warp computes a row, whose elements stay in registers
//! between its reductions.
//!
//! A thread has the same elements of the row as in a reduction of rows of this length, so that both
//! add in the same order and give the same bits: every 256th group of four neighbours, which are
//! read and written at once, or every 256th element. Rows that do not fit in registers are read
//! again for each reduction that depends on another (`long_row.rs`).

use crate::{
    emit::{
        body::{kernel::BLOCK, warp::RowThread},
        lower::{lowering::Lowering, row_nodes::RowNodes},
        passes::GeneratedPasses,
        row::elements::{RowElements, begin, reduce_row, store},
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
    let mut elements: Vec<RowElements> = (0..split.turns())
        .map(|turn| RowElements::new(&mut body, split, own, length, turn))
        .collect();
    let mut lowering = Lowering::new(&mut body, kernel, false);
    lowering.row_nodes = Some(RowNodes::new(&classes, rows, own.row));
    let shared = reduce_row(&mut lowering, kernel, &mut elements, own, 1);
    let class = classes[&kernel.root.id];
    store(&mut lowering, kernel, &mut elements, own, class, "DONE");
    body.label("DONE");
    let threads = class.threads_of_rows(rows, own.threads);
    GeneratedPasses::one(body.finish(&shared), threads)
}
