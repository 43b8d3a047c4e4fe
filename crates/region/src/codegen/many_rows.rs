//! Row kernels of many rows that a block each computes: smaller blocks that stay and compute one
//! row after another.
//!
//! A row of some hundred elements takes a block of 256 threads more instructions for the row than
//! for its elements: each warp combines accumulators, computes the values for the row and the
//! addresses of its elements. A smaller block does the work of the larger one in several parts: a
//! thread has the elements of several threads, and an accumulator for each of them, which are
//! combined as those of the larger block. The bits are the same. So many of these blocks fit on a
//! multiprocessor that some of them load while others compute.

use smallvec::SmallVec;

use super::{
    body::{BLOCK, ParameterKey, Reg, RegClass, line},
    long_row::MULTIPROCESSORS,
    lowering::Lowering,
    passes::GeneratedPasses,
    reduce::block_and_thread,
    row::{FirstOfTurn, RowElements, RowNodes, address_behind_first, begin, reduce_row, store},
    warp::RowThread,
};
use crate::{
    element::DType,
    fuse::{FusedKernel, FusedNode, RowShape, threads_of_row, turns_of_row},
    graph::{NodeRef, Op},
};

/// The number of blocks of a multiprocessor, which determines the registers of a thread.
const BLOCKS_PER_MULTIPROCESSOR: usize = 12;
/// The number of blocks of all multiprocessors.
const BLOCKS: usize = MULTIPROCESSORS * BLOCKS_PER_MULTIPROCESSOR;
/// The number of parts of a larger block whose work a block does.
const PARTS: usize = 2;
/// The number of threads of a block.
const THREADS: usize = BLOCK / PARTS;
/// The minimum number of rows of each block, so that few blocks are idle at the end.
const ROWS_PER_BLOCK_MIN: usize = 8;
/// The maximum number of elements of arrays in the registers of a thread.
const ELEMENTS_MAX: usize = 8;
/// The maximum number of nodes of a kernel, so that its values fit in the registers that are left.
const NODES_MAX: usize = 24;

/// Returns whether blocks compute one row of a kernel after another. Otherwise a block of 256
/// threads computes each row.
pub(super) fn has_many_rows(kernel: &FusedKernel, rows: RowShape) -> bool {
    let reduced = kernel.nodes.iter().filter_map(|fused| match &*fused.op {
        Op::Reduce { source, .. } => Some(source),
        _ => None,
    });
    let root = Some(&kernel.root).filter(|root| root.elements == rows.rows * rows.length);
    let arrays = kernel.arrays_of(reduced.chain(root));
    let is_word = |array: &&NodeRef| array.dtype.bytes() <= 4 && array.dtype != DType::Bool;
    threads_of_row(rows.length) == BLOCK
        && rows.rows >= ROWS_PER_BLOCK_MIN * BLOCKS
        && kernel.nodes.len() <= NODES_MAX
        && PARTS * arrays.len() * rows.elements_per_thread() <= ELEMENTS_MAX
        && arrays.iter().all(is_word)
        && kernel.overwrites.is_none()
}

/// Generates a row kernel of many rows.
pub(super) fn many_rows(kernel: &FusedKernel, rows: RowShape) -> GeneratedPasses {
    let (classes, mut body) = begin(kernel, rows);
    body.blocks_min = Some(BLOCKS_PER_MULTIPROCESSOR);
    body.block = THREADS;
    let bits = body.bits();
    let (row, thread) = block_and_thread(&mut body);
    let own = RowThread {
        row,
        thread,
        beyond: None,
        threads: BLOCK,
    };
    let mut parameter =
        |name, value: usize| body.index_parameter(ParameterKey::Named(name), value as i64);
    let (all, step) = (parameter("rows", rows.rows), parameter("blocks", BLOCKS));
    let length = parameter("length", rows.length);
    // The numbers of the threads whose work a thread does.
    let of_part = |part: usize| {
        if part == 0 {
            return thread;
        }
        let other = body.index_reg();
        line!(body, "add.s{bits} {other}, {thread}, {};", part * THREADS);
        other
    };
    let of_parts: SmallVec<[Reg; 8]> = (0..PARTS).map(of_part).collect();
    let turns: SmallVec<[FirstOfTurn; 8]> = (0..turns_of_row(rows.length) * PARTS)
        .map(|number| {
            let (turn, part) = (number / PARTS, number % PARTS);
            let numbers = part * THREADS..(part + 1) * THREADS;
            FirstOfTurn::new(&mut body, rows, (of_parts[part], numbers), length, turn)
        })
        .collect();
    let mut lowering = Lowering::new(&mut body, kernel, false);
    lowering.row_nodes = Some(RowNodes::new(&classes, rows, row));
    lowering.body.label("ROW");
    let of_turn = |&turn: &FirstOfTurn| RowElements::of_turn(lowering.body, row, length, turn);
    let mut elements: Vec<RowElements> = turns.iter().map(of_turn).collect();
    address_behind_first(&mut elements, &turns);
    let shared = reduce_row(&mut lowering, kernel, &mut elements, own, PARTS);
    let class = classes[&kernel.root.id];
    store(&mut lowering, kernel, &mut elements, own, class, "STORED");
    body.label("STORED");
    let is_reduction = |fused: &&FusedNode| matches!(&*fused.op, Op::Reduce { .. });
    if kernel.nodes.iter().filter(is_reduction).count() == 1 {
        // All threads have read the accumulators before any of them writes those of the next row.
        // Between two reductions, the barrier of the other one is enough.
        line!(body, "bar.sync 0;");
    }
    let is_within = body.reg(RegClass::Predicate);
    line!(body, "add.s{bits} {row}, {row}, {step};");
    line!(body, "setp.lt.u{bits} {is_within}, {row}, {all};");
    line!(body, "@{is_within} bra ROW;");
    GeneratedPasses::one(body.finish(&shared), BLOCKS * THREADS)
}
