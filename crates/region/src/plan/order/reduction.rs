//! The accumulators and partial results of reductions.

use crate::{
    counters::COUNTERS,
    element::DType,
    expr::{Op, Reduction},
    plan::{
        indices::IndexAnalysis,
        kernel::FusedKernel,
        limits::ROW_LENGTH_MAX,
        order::split::{ROW_THREADS, RowSplit},
        varying::is_shared,
    },
    shape::{are_last, last_axis},
};

/// The number of elements per result up to which they are combined one after another.
const PER_THREAD_MAX: usize = 32;
/// The number of results from which on neighbouring results, whose elements are then neighbours,
/// are combined beside each other.
const RESULTS_SOME: usize = 32;
/// The maximum number of partial results of each of them that are combined one after another.
const SPLITS_FEW: usize = 32;
/// The number of elements per block where several blocks share a result.
const SPLIT_LENGTH: usize = 1 << 14;
/// The approximate number of blocks of a grid where several blocks share a result.
const BLOCKS_MAX: usize = 1 << 10;
const _: () = assert!(BLOCKS_MAX <= COUNTERS, "each shared result has a counter");
/// The maximum number of blocks that share the only result: eight for each multiprocessor of the
/// large device on which a sum of 2^28 took 4 µs less with them than with 1,024
/// (docs/measurements/2026-11-26-h200-regions.md).
const BLOCKS_OF_ONE: usize = 1056;

/// The number of groups of neighbours that an accumulator takes at once. Squared deviations are
/// combined in such groups.
const AT_ONCE: usize = 4;
/// The same number for single elements where combining many at once takes less than one by one.
const AT_ONCE_OF_MANY: usize = 16;
/// The maximum numbers of arrays and of nodes of a kernel whose threads have several vectors of
/// neighbours in flight, so that all elements are in registers.
const SIMPLE_INPUTS_MAX: usize = 2;
const SIMPLE_NODES_MAX: usize = 16;

/// The order in which a reduction combines the elements of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReductionOrder {
    /// By `threads` accumulators of a part of a warp ([`RowSplit`]).
    Row { threads: usize },
    /// One after another.
    Thread,
    /// By the accumulators of a block.
    Block,
    /// By the accumulators of `splits` blocks, whose results are combined as by a block.
    Blocks { splits: usize },
    /// By `splits` accumulators, combined in order.
    Threads { splits: usize },
    /// By `splits` accumulators, combined as by a block.
    ManyThreads { splits: usize },
}

/// What the order of a reduction depends on besides the number of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReducedRows {
    /// The number of elements per result.
    pub(crate) length: usize,
    /// True if the elements of each result are contiguous, in the order of the results.
    pub(crate) is_contiguous: bool,
    /// True if there are enough registers for several vectors of each array.
    pub(crate) is_simple: bool,
    /// True if all results read the same elements of an array.
    pub(crate) is_shared: bool,
    /// True if the last axis is not reduced.
    last_is_kept: bool,
    /// The number of neighbours that an accumulator takes together: for rows that row kernels
    /// compute, theirs.
    pub(crate) lanes: usize,
    /// The number of groups of neighbours that an accumulator takes at once.
    pub(crate) at_once: usize,
}

impl ReducedRows {
    /// Returns those of a kernel whose root is a reduction, else `None`.
    pub(crate) fn of(kernel: &FusedKernel) -> Option<Self> {
        let Some(Op::Reduce { source, axes, .. }) = kernel.op(&kernel.root) else {
            return None;
        };
        let shape = &source.shape;
        let length = axes.iter().map(|&axis| shape[axis]).product();
        let last = last_axis(shape);
        let mut rows = Self {
            length,
            is_contiguous: are_last(shape, axes),
            is_simple: kernel.inputs.len() <= SIMPLE_INPUTS_MAX
                && kernel.nodes.len() <= SIMPLE_NODES_MAX,
            is_shared: is_shared(kernel, source, axes),
            last_is_kept: last.is_some_and(|axis| !axes.contains(&axis)),
            lanes: 1,
            at_once: 1,
        };
        rows.lanes = rows.lanes_of(kernel);
        let is_of_deviations = |(_, of, _)| of == Reduction::SquaredDeviations;
        rows.at_once = match (rows.lanes, rows.is_simple) {
            (1, true) if kernel.reductions().any(is_of_deviations) => {
                AT_ONCE_OF_MANY.min(length.max(1))
            }
            (1, _) | (_, true) => AT_ONCE,
            _ => 1,
        };
        Some(rows)
    }

    fn lanes_of(self, kernel: &FusedKernel) -> usize {
        if !self.is_contiguous {
            return 1;
        }
        if self.length <= ROW_LENGTH_MAX {
            return RowSplit::of(self.length).neighbours;
        }
        let types = kernel.reductions().map(|(_, _, source)| source.dtype);
        let widths = types.map(DType::vector_width);
        let lanes = widths.min().expect("there is a reduction");
        let source = kernel.reductions().next().map(|(.., source)| &source.shape);
        let last = source.and_then(|shape| Some(shape[last_axis(shape)?]));
        let is_whole = last.is_some_and(|length| length.is_multiple_of(lanes));
        let is_flat = IndexAnalysis::of(kernel).flat && self.length.is_multiple_of(lanes);
        let is_possible = is_flat || is_whole;
        if self.is_simple && is_possible {
            lanes
        } else {
            1
        }
    }

    pub(crate) fn order(self, results: usize) -> ReductionOrder {
        let length = self.length;
        let threads = RowSplit::of(length).threads;
        let is_part = (2..ROW_THREADS).contains(&threads);
        if self.is_contiguous && is_part && i32::try_from(results).is_ok() {
            return ReductionOrder::Row { threads };
        }
        if length <= PER_THREAD_MAX || results > i32::MAX as usize {
            return ReductionOrder::Thread;
        }
        if self.last_is_kept && results >= RESULTS_SOME {
            let splits = length
                .div_ceil(PER_THREAD_MAX)
                .min(BLOCKS_MAX.div_ceil(results.div_ceil(ROW_THREADS)));
            return match splits {
                1 => ReductionOrder::Thread,
                ..=SPLITS_FEW => ReductionOrder::Threads { splits },
                _ => ReductionOrder::ManyThreads { splits },
            };
        }
        let splits_max = match results {
            1 => BLOCKS_OF_ONE,
            _ => BLOCKS_MAX.div_ceil(results),
        };
        match length.div_ceil(SPLIT_LENGTH).min(splits_max) {
            0 | 1 => ReductionOrder::Block,
            splits => ReductionOrder::Blocks { splits },
        }
    }
}
