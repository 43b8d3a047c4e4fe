//! Row kernels of many rows that a block each computes: smaller blocks that stay and compute one
//! row after another.
//!
//! A row of some hundred elements takes a block of 256 threads more instructions for the row than
//! for its elements: each warp combines accumulators, computes the values for the row and the
//! addresses of its elements. A smaller block does the work of the larger one in several parts: a
//! thread has the elements of several threads, and an accumulator for each of them, which are
//! combined as those of the larger block. The bits are the same. So many of these blocks fit on a
//! multiprocessor that some of them load while others compute.
//!
//! A block can load the elements of its next rows before it computes the current one.

use smallvec::SmallVec;

use super::{
    body::{BLOCK, KernelBody, ParameterKey, Reg, RegClass, line},
    long_row::MULTIPROCESSORS,
    lowering::{IndexAnalysis, Lowering},
    passes::GeneratedPasses,
    reduce::block_and_thread,
    row::{FirstOfTurn, RowElements, RowNodes, address_behind_first, reduce_row, store},
    warp::RowThread,
};
use crate::{
    element::DType,
    fuse::{FusedKernel, FusedNode, RowShape, threads_of_row, turns_of_row},
    graph::{NodeRef, Op},
};

/// The blocks of a multiprocessor, and their work.
#[derive(Clone, Copy)]
struct Strategy {
    /// The number of blocks of a multiprocessor, which determines the registers of a thread.
    blocks: usize,
    /// The number of parts of a larger block whose work a block does.
    parts: usize,
    /// The number of rows that a block loads ahead.
    rows_ahead: usize,
}

/// The strategy, or `None` if a block of 256 threads computes each row.
const STRATEGY: Option<Strategy> = Some(Strategy {
    blocks: 12,
    parts: 2,
    rows_ahead: 0,
});

/// The minimum number of rows of each block, so that few blocks are idle at the end.
const ROWS_PER_BLOCK_MIN: usize = 8;
/// The maximum number of elements of arrays in the registers of a thread.
const ELEMENTS_MAX: usize = 8;
/// The maximum number of nodes of a kernel, so that its values fit in the registers that are left.
const NODES_MAX: usize = 24;

/// A kernel of many rows.
pub(super) struct ManyRows<'a> {
    strategy: Strategy,
    /// The arrays with the shape of the rows.
    arrays: SmallVec<[&'a NodeRef; 4]>,
}

impl<'a> ManyRows<'a> {
    /// Returns how blocks compute the rows of a kernel, or `None` if a block of 256 threads
    /// computes each.
    pub(super) fn of(kernel: &'a FusedKernel, rows: RowShape) -> Option<Self> {
        let strategy = STRATEGY?;
        let blocks = MULTIPROCESSORS * strategy.blocks;
        let reduced = kernel.nodes.iter().filter_map(|fused| match &*fused.op {
            Op::Reduce { source, .. } => Some(source),
            _ => None,
        });
        let root = Some(&kernel.root).filter(|root| root.elements == rows.rows * rows.length);
        let arrays = kernel.arrays_of(reduced.chain(root));
        let is_word = |array: &&NodeRef| array.dtype.bytes() <= 4 && array.dtype != DType::Bool;
        let elements = strategy.parts * arrays.len() * rows.elements_per_thread();
        let is_possible = threads_of_row(rows.length) == BLOCK
            && rows.rows >= ROWS_PER_BLOCK_MIN * blocks
            && kernel.nodes.len() <= NODES_MAX
            && elements <= ELEMENTS_MAX
            && arrays.iter().all(is_word)
            && kernel.overwrites.is_none();
        is_possible.then_some(Self { strategy, arrays })
    }
}

/// Generates a row kernel of many rows.
pub(super) fn many_rows(
    kernel: &FusedKernel,
    rows: RowShape,
    many: &ManyRows<'_>,
) -> GeneratedPasses {
    let nodes = kernel.nodes.iter().map(|fused| (&fused.node, &*fused.op));
    let classes = rows
        .classify(nodes)
        .expect("planning has checked that all nodes belong to rows");
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    body.inlines = true;
    let Strategy {
        blocks: blocks_per_multiprocessor,
        parts,
        rows_ahead,
    } = many.strategy;
    body.blocks_min = Some(blocks_per_multiprocessor);
    let threads = BLOCK / parts;
    body.block = threads;
    let bits = body.bits();
    let (row, thread) = block_and_thread(&mut body);
    let own = RowThread {
        row,
        thread,
        beyond: None,
        threads: BLOCK,
    };
    let blocks = rows.rows.min(MULTIPROCESSORS * blocks_per_multiprocessor);
    let mut parameter =
        |name, value: usize| body.index_parameter(ParameterKey::Named(name), value as i64);
    let (all, step) = (parameter("rows", rows.rows), parameter("blocks", blocks));
    let length = parameter("length", rows.length);
    let last = body.index_reg();
    line!(body, "sub.s{bits} {last}, {all}, 1;");
    // The numbers of the threads whose work a thread does.
    let of_part = |part: usize| {
        if part == 0 {
            return thread;
        }
        let other = body.index_reg();
        line!(body, "add.s{bits} {other}, {thread}, {};", part * threads);
        other
    };
    let of_parts: SmallVec<[Reg; 8]> = (0..parts).map(of_part).collect();
    let turns: SmallVec<[FirstOfTurn; 8]> = (0..turns_of_row(rows.length) * parts)
        .map(|number| {
            let (turn, part) = (number / parts, number % parts);
            let numbers = part * threads..(part + 1) * threads;
            FirstOfTurn::new(&mut body, rows, (of_parts[part], numbers), length, turn)
        })
        .collect();
    let elements_of = |body: &mut KernelBody, row: Reg| -> Vec<RowElements> {
        let of_turn = |&turn: &FirstOfTurn| RowElements::of_turn(body, row, length, turn);
        let mut elements: Vec<RowElements> = turns.iter().map(of_turn).collect();
        address_behind_first(&mut elements, &turns);
        elements
    };
    let mut lowering = Lowering::new(&mut body, kernel, false);
    lowering.row_nodes = Some(RowNodes::new(&classes, rows, row));
    // Loads the elements of the row that is so many rows of the block behind a row: behind the last
    // row of all, those of the last row.
    let load = |lowering: &mut Lowering<'_>, row: Reg, behind: usize| -> SmallVec<[Reg; 8]> {
        let mut at = row;
        for _ in 0..behind {
            let next = lowering.body.index_reg();
            line!(lowering.body, "add.s{bits} {next}, {at}, {step};");
            at = next;
        }
        if behind > 0 {
            line!(lowering.body, "min.u{bits} {at}, {at}, {last};");
        }
        let mut loaded = SmallVec::new();
        for mut elements in elements_of(lowering.body, at) {
            loaded.extend(elements.load(lowering, &many.arrays, at));
        }
        loaded
    };
    // The registers of the current row, and those of the rows behind it.
    let in_flight: SmallVec<[SmallVec<[Reg; 8]>; 2]> = (0..rows_ahead)
        .map(|behind| load(&mut lowering, row, behind))
        .collect();

    lowering.body.label("ROW");
    let mut elements = elements_of(lowering.body, row);
    let mut next = None;
    if let Some(current) = in_flight.first() {
        next = Some(load(&mut lowering, row, rows_ahead));
        let mut current = current.iter().copied();
        for elements in &mut elements {
            elements.define(&mut lowering, &many.arrays, row, &mut current);
        }
    }
    let shared = reduce_row(&mut lowering, kernel, &mut elements, own, parts);
    let class = classes[&kernel.root.id];
    store(&mut lowering, kernel, &mut elements, own, class, "STORED");
    body.label("STORED");
    let is_reduction = |fused: &&FusedNode| matches!(&*fused.op, Op::Reduce { .. });
    if kernel.nodes.iter().filter(is_reduction).count() == 1 {
        // All threads have read the accumulators before any of them writes those of the next row.
        // Between two reductions, the barrier of the other one is enough.
        line!(body, "bar.sync 0;");
    }
    let following = in_flight.iter().skip(1).chain(&next);
    for (registers, following) in in_flight.iter().zip(following) {
        for (register, following) in registers.iter().zip(following) {
            let kind = register.class.move_type();
            line!(body, "mov.{kind} {register}, {following};");
        }
    }
    let is_within = body.reg(RegClass::Predicate);
    line!(body, "add.s{bits} {row}, {row}, {step};");
    line!(body, "setp.lt.u{bits} {is_within}, {row}, {all};");
    line!(body, "@{is_within} bra ROW;");
    GeneratedPasses::one(body.finish(&shared), blocks * threads)
}
