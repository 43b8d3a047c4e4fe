//! Row kernels of many rows of moderate length: a smaller block does the work of a usual one in
//! several parts, with the same bits, so that some blocks of a multiprocessor load while others
//! compute.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{BLOCK, Reg, RowThread, index},
        passes::GeneratedPasses,
        row::elements::{FirstOfTurn, RowElements, address_behind_first, begin, finish_row},
    },
    plan::{FusedKernel, RowShape, RowSplit},
};

/// Generates a kernel of many rows. A block has a `parts`-th of the usual threads, and a
/// multiprocessor has registers for `blocks` blocks.
pub(crate) fn many_rows(
    kernel: &FusedKernel,
    rows: RowShape,
    split: RowSplit,
    (parts, blocks): (usize, usize),
) -> GeneratedPasses {
    let threads = BLOCK / parts;
    let (classes, mut body) = begin(kernel, rows);
    body.blocks_min = Some(blocks);
    body.block = threads;
    let own = RowThread::of_block(&mut body, BLOCK);
    let (row, thread) = (own.row, own.thread);
    let length = body.named("length", rows.length);
    // The numbers of the threads whose work a thread does.
    let of_part = |part: usize| match part {
        0 => thread,
        _ => index!(body; "add.s# {thread}, {}", part * threads),
    };
    let of_parts: SmallVec<[Reg; 4]> = (0..parts).map(of_part).collect();
    let turns: SmallVec<[FirstOfTurn; 16]> = (0..split.turns() * parts)
        .map(|number| {
            let (turn, part) = (number / parts, number % parts);
            let numbers = part * threads..(part + 1) * threads;
            FirstOfTurn::new(&mut body, split, (of_parts[part], numbers), length, turn)
        })
        .collect();
    let of_turn = |&turn: &FirstOfTurn| RowElements::of_turn(&mut body, row, length, turn);
    let mut elements: Vec<RowElements> = turns.iter().map(of_turn).collect();
    address_behind_first(&mut elements, &turns);
    let begun = (classes, body);
    finish_row(kernel, rows, begun, &mut elements, own, (parts, threads))
}
