//! Launches of the built-in kernels for sorts and searches (`sort.cuh`).
//!
//! | rows | elements that are stored | kernels |
//! |---|---|---|
//! | of at most 2,048 elements | all, or the first | one, with several rows in a block |
//! | longer | the first 1,024 at most | one, or two if there are few rows, of which blocks share each |
//! | longer | all | one that counts digits, and one for each byte of an element |

#![allow(unsafe_code, reason = "launches its own kernels")]

mod source;

use std::panic::Location;

use millstream::{
    Buffer, LaunchConfig, Stream,
    kernel::{self, Argument},
};

use crate::{
    element::DType,
    error::Result,
    expr::{NodeRef, Op, Sorted},
    product::BLOCKS_MAX,
    run::{bound::BoundKernel, launch::allocate},
};
use source::{Format, OrderKernel, RawPlan, source};

/// The maximum number of elements of a row that one block sorts in shared memory.
const ROW_MAX: usize = 2048;
/// The maximum number of elements that are selected; more are sorted with all others.
pub(crate) const SELECTED_MAX: usize = 1024;
/// The maximum number of elements that are sorted along an axis: a published count has 30 bits.
pub(crate) const SORTED_MAX: usize = (1 << 30) - 1;
/// The words in front of the histograms.
const HEADER: usize = 32;
/// The digits of a byte.
const BINS: usize = 256;
/// The number of blocks that keep a device busy, and the least number of elements for each.
const BLOCKS: usize = 1024;
const PORTION_MIN: usize = 16_384;

/// The stream, the type of the elements and the line of an operation.
type Place<'a> = (&'a Stream, DType, &'static Location<'static>);

/// Returns whether the first `stored` elements of rows are found without sorting all.
pub(crate) fn is_selected(length: usize, stored: usize) -> bool {
    length <= ROW_MAX || stored <= SELECTED_MAX
}

/// Launches a kernel.
///
/// # Safety
///
/// The arguments match the kernel's parameters and keep its accesses within the arrays.
unsafe fn launch<const N: usize>(
    (stream, dtype, location): Place<'_>,
    kernel: OrderKernel,
    blocks: usize,
    arguments: [Argument<'_>; N],
) -> Result<()> {
    let functions = kernel::load(&stream.device(), source(dtype))?;
    let threads = match kernel {
        OrderKernel::Words | OrderKernel::Positions => PASS_THREADS,
        OrderKernel::Select | OrderKernel::Reselect => 512,
        _ => 256,
    };
    // A row has more than a thousandth of the elements that a block takes, or several are in one.
    debug_assert!(blocks <= BLOCKS_MAX, "{blocks} blocks");
    let grid = LaunchConfig::new([blocks as u32, 1, 1], [threads as u32, 1, 1]);
    let function = &functions[kernel as usize];
    // SAFETY: this function's contract.
    unsafe { kernel::launch_at(function, stream, grid, &arguments, location) }?;
    Ok(())
}

/// The threads of a pass, and the elements of a thread.
const PASS_THREADS: usize = 384;
fn pass_items(dtype: DType) -> usize {
    match dtype.bytes() {
        8 => 11,
        _ => 21,
    }
}

/// Enqueues a sort or a search with at least one element to write, whose operands are in memory.
pub(crate) fn enqueue(stream: &Stream, bound: BoundKernel<'_>, out: &mut Buffer<u8>) -> Result<()> {
    let node = bound.root();
    match &**bound.nodes.op(bound.kernel.root) {
        Op::Sort(source, sorted) => sort(stream, node, (source, *sorted), out),
        Op::Search {
            sorted,
            values,
            counts_equal,
        } => search(stream, node, (sorted, values), *counts_equal, out),
        _ => unreachable!("the plan of the kernel says that it is a sort or a search"),
    }
}

fn sort(
    stream: &Stream,
    node: &NodeRef,
    (source, sorted): (&NodeRef, Sorted),
    out: &mut Buffer<u8>,
) -> Result<()> {
    let last = |node: &NodeRef| *node.shape.last().expect("only arrays with axes are sorted");
    let (length, stored) = (last(source), last(node));
    let plan = RawPlan {
        format: Format::of(source.dtype, sorted == Sorted::PositionsDescending),
        rows: (source.elements / length) as u64,
        length: length as u64,
        stored: stored as u64,
        gives_positions: u32::from(sorted != Sorted::Elements),
        ..RawPlan::default()
    };
    let storage = source
        .storage()
        .expect("operands are enqueued before a sort");
    let place = (stream, source.dtype, node.location);
    if length <= ROW_MAX {
        rows(place, plan, &storage.buffer, out)
    } else if stored < length {
        select(place, plan, &storage.buffer, out)
    } else {
        sort_long(place, plan, &storage.buffer, out)
    }
}

/// Sorts short rows.
fn rows(
    place: Place<'_>,
    mut plan: RawPlan,
    source: &Buffer<u8>,
    mut out: &mut Buffer<u8>,
) -> Result<()> {
    let padded = (plan.length as usize).next_power_of_two();
    plan.portion = padded as u64;
    let blocks = (plan.rows as usize).div_ceil(ROW_MAX / padded);
    let arguments = [
        Argument::read::<u8, _>(source),
        Argument::write::<u8, _>(&mut out),
        Argument::scalar(&plan),
    ];
    // SAFETY: these are the kernel's parameters. It reads `rows · length` elements and writes
    // `rows · stored`, the numbers of the two arrays.
    unsafe { launch(place, OrderKernel::Rows, blocks, arguments) }
}

/// Selects the positions of the first elements of long rows.
fn select(
    place: Place<'_>,
    mut plan: RawPlan,
    source: &Buffer<u8>,
    out: &mut Buffer<u8>,
) -> Result<()> {
    let [rows, length, stored] =
        [plan.rows, plan.length, plan.stored].map(|number| number as usize);
    // Few rows are split, into parts from which blocks of their own select candidates.
    let parts = (BLOCKS / rows).clamp(1, length.div_ceil(PORTION_MIN));
    let portion = length.div_ceil(parts).max(stored);
    let parts = length.div_ceil(portion);
    let candidates = parts * stored;
    let bytes = if parts > 1 { rows * candidates * 4 } else { 0 };
    let mut temporary = allocate(place.0, bytes.max(16))?;
    let mut run = |kernel, plan: RawPlan| {
        let (mut out, mut temporary) = (&mut *out, &mut temporary);
        let arguments = [
            Argument::read::<u8, _>(source),
            Argument::write::<u8, _>(&mut out),
            Argument::write::<u8, _>(&mut temporary),
            Argument::scalar(&plan),
        ];
        let blocks = rows * plan.parts as usize;
        // SAFETY: these are the kernel's parameters. The portions cover a row, and the temporary
        // memory has `stored` words for each part.
        unsafe { launch(place, kernel, blocks, arguments) }
    };
    (plan.parts, plan.portion) = (parts as u64, portion as u64);
    run(OrderKernel::Select, plan)?;
    if parts == 1 {
        return Ok(());
    }
    (plan.parts, plan.portion, plan.candidates) = (1, candidates as u64, candidates as u64);
    run(OrderKernel::Reselect, plan)
}

/// Sorts long rows digit by digit.
fn sort_long(
    place: Place<'_>,
    mut plan: RawPlan,
    source: &Buffer<u8>,
    out: &mut Buffer<u8>,
) -> Result<()> {
    let (stream, dtype, _) = place;
    let (rows, length) = (plan.rows as usize, plan.length as usize);
    let (passes, elements) = (dtype.bytes(), rows * length);
    let tiles = length.div_ceil(PASS_THREADS * pass_items(dtype));
    let with_positions = plan.gives_positions != 0;
    // Positions are sorted with the words from one half of the temporary memory to the other.
    // Words alone go to `out` and back, so that they need one half.
    let words = (elements * dtype.bytes()).next_multiple_of(16);
    let (halves, positions) = match (passes, with_positions) {
        (1, _) => (0, 0),
        (_, false) => (1, 0),
        (_, true) => (2, (elements * 4).next_multiple_of(16)),
    };
    let half = words + positions;
    let mut temporary = allocate(stream, (halves * half).max(16))?;
    let count = HEADER + rows * passes * BINS + rows * tiles * BINS;
    let mut states = stream.zeros::<u32>(count)?;
    let at = |number: u64| number * (halves as u64 - 1).min(1) * half as u64;
    plan.passes = passes as u32;
    if with_positions && halves > 0 {
        plan.words = [0, 1].map(at);
        plan.positions = [0, 1].map(|number| at(number) + words as u64);
    }
    let portion = elements.div_ceil(2 * BLOCKS).max(PORTION_MIN);
    let parts = length.div_ceil(portion);
    let histogram = RawPlan {
        parts: parts as u64,
        portion: portion as u64,
        ..plan
    };
    let mut counts = &mut states;
    let arguments = [
        Argument::read::<u8, _>(source),
        Argument::write::<u32, _>(&mut counts),
        Argument::scalar(&histogram),
    ];
    // SAFETY: these are the kernel's parameters. The portions cover a row, and the states have a
    // histogram for each pass and row.
    unsafe { launch(place, OrderKernel::Histogram, rows * parts, arguments) }?;
    let kernel = match with_positions {
        true => OrderKernel::Positions,
        false => OrderKernel::Words,
    };
    plan.parts = tiles as u64;
    for pass in 0..passes as u32 {
        plan.pass = pass;
        let (mut out, mut temporary, mut states) = (&mut *out, &mut temporary, &mut states);
        let arguments = [
            Argument::read::<u8, _>(source),
            Argument::write::<u8, _>(&mut out),
            Argument::write::<u8, _>(&mut temporary),
            Argument::write::<u32, _>(&mut states),
            Argument::scalar(&plan),
        ];
        // SAFETY: these are the kernel's parameters. The histograms are those of the row, so that
        // elements are stored within it; the temporary memory has the halves that the kernel uses,
        // and the states a count for each tile and digit.
        unsafe { launch(place, kernel, rows * tiles, arguments) }?;
    }
    Ok(())
}

fn search(
    stream: &Stream,
    node: &NodeRef,
    (sorted, values): (&NodeRef, &NodeRef),
    counts_equal: bool,
    mut out: &mut Buffer<u8>,
) -> Result<()> {
    let plan = RawPlan {
        format: Format::of(sorted.dtype, false),
        length: sorted.elements as u64,
        stored: node.elements as u64,
        counts_equal: u32::from(counts_equal),
        ..RawPlan::default()
    };
    let [sorted_array, values] = [sorted, values].map(|operand| {
        let storage = operand.storage();
        storage.expect("operands are enqueued before a search")
    });
    let arguments = [
        Argument::read::<u8, _>(&sorted_array.buffer),
        Argument::read::<u8, _>(&values.buffer),
        Argument::write::<u8, _>(&mut out),
        Argument::scalar(&plan),
    ];
    let place = (stream, sorted.dtype, node.location);
    let blocks = node.elements.div_ceil(256);
    // SAFETY: these are the kernel's parameters, and the numbers of elements those of the arrays.
    unsafe { launch(place, OrderKernel::Search, blocks, arguments) }
}
