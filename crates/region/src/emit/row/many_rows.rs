//! Row kernels of many rows of moderate length: a block of fewer threads for each.
//!
//! A row of some hundred elements takes a block of 256 threads more instructions for the row than
//! for its elements: each warp combines accumulators, computes the values for the row and the
//! addresses of its elements. A smaller block does the work of the larger one in several parts: a
//! thread has the elements of several threads, and an accumulator for each of them, which are
//! combined as those of the larger block. The bits are the same. So many of these blocks fit on a
//! multiprocessor that some of them load while others compute.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{
            kernel::{BLOCK, Reg, line},
            warp::RowThread,
        },
        lower::{lowering::Lowering, row_nodes::RowNodes},
        passes::GeneratedPasses,
        row::elements::{
            FirstOfTurn, RowElements, address_behind_first, arrays_of_simple, begin, reduce_row,
            store,
        },
    },
    plan::{FusedKernel, MULTIPROCESSORS, RowShape, RowSplit},
};

/// The number of parts of a larger block whose work a block does.
const PARTS: usize = 4;
/// The number of threads of a block.
const THREADS: usize = BLOCK / PARTS;
/// The number of blocks of a multiprocessor, which determines the registers of a thread.
const BLOCKS_PER_MULTIPROCESSOR: usize = 20;
/// The minimum number of rows, of which each multiprocessor then has several at a time.
pub(crate) const ROWS_MIN: usize = 96 * MULTIPROCESSORS;
/// The maximum number of elements of arrays in the registers of a thread.
const ELEMENTS_MAX: usize = 16;

/// Returns whether each row of a kernel has such a block. Otherwise a block of 256 threads computes
/// it.
pub(crate) fn has_many_rows(kernel: &FusedKernel, rows: RowShape) -> bool {
    rows.rows >= ROWS_MIN && can_have_many_rows(kernel, rows)
}

/// Returns whether each row of a kernel would have such a block if there were many.
pub(crate) fn can_have_many_rows(kernel: &FusedKernel, rows: RowShape) -> bool {
    let fits = |arrays: usize| PARTS * arrays * rows.elements_per_thread() <= ELEMENTS_MAX;
    !rows.is_long()
        && RowSplit::of(rows.length).threads == BLOCK
        && arrays_of_simple(kernel, rows).is_some_and(|arrays| fits(arrays.len()))
}

/// Generates a row kernel of many rows.
pub(crate) fn many_rows(kernel: &FusedKernel, rows: RowShape) -> GeneratedPasses {
    let (classes, mut body) = begin(kernel, rows);
    body.blocks_min = Some(BLOCKS_PER_MULTIPROCESSOR);
    body.block = THREADS;
    let bits = body.bits();
    let (row, thread) = body.block_and_thread();
    let own = RowThread {
        row,
        thread,
        beyond: None,
        threads: BLOCK,
    };
    let length = body.named("length", rows.length);
    // The numbers of the threads whose work a thread does.
    let of_part = |part: usize| {
        if part == 0 {
            return thread;
        }
        let other = body.index_reg();
        line!(body; "add.s{bits} {other}, {thread}, {};", part * THREADS);
        other
    };
    let of_parts: SmallVec<[Reg; PARTS]> = (0..PARTS).map(of_part).collect();
    let split = RowSplit::of(rows.length);
    let turns: SmallVec<[FirstOfTurn; 16]> = (0..split.turns() * PARTS)
        .map(|number| {
            let (turn, part) = (number / PARTS, number % PARTS);
            let numbers = part * THREADS..(part + 1) * THREADS;
            FirstOfTurn::new(&mut body, split, (of_parts[part], numbers), length, turn)
        })
        .collect();
    let mut lowering = Lowering::new(&mut body, kernel, false);
    lowering.row_nodes = Some(RowNodes::new(&classes, rows, row));
    let of_turn = |&turn: &FirstOfTurn| RowElements::of_turn(lowering.body, row, length, turn);
    let mut elements: Vec<RowElements> = turns.iter().map(of_turn).collect();
    address_behind_first(&mut elements, &turns);
    let shared = reduce_row(&mut lowering, kernel, &mut elements, own, PARTS);
    let class = classes[&kernel.root.id];
    store(&mut lowering, kernel, &mut elements, own, class, "DONE");
    body.label("DONE");
    let threads = class.threads_of_rows(rows, THREADS);
    GeneratedPasses::one(body.finish(&shared), threads)
}
