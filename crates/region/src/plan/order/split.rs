//! The accumulators of contiguous rows.
//!
//! Row kernels and reductions of rows add in the same order: accumulator `t` of 256 has every 256th
//! group of four neighbours, or every 256th element, from the `t`th on; those of each 32 are
//! combined by halves, and the results one after another. Rows of up to 256 elements have fewer.

/// The number of accumulators of a row of up to 8,192 elements, which were those of a block's
/// threads when there was one kernel of rows.
pub(crate) const ROW_THREADS: usize = 256;
/// The maximum number of elements of a row that a part of a warp computes.
const WARP_LENGTH_MAX: usize = 256;
const WARP: usize = 32;

/// The number of neighbours of a row that a thread computes together. It reads and writes them at
/// once where they are aligned.
const NEIGHBOURS: usize = 4;
/// The number of elements of a thread of a short row. It loads all before it waits for them. The
/// fewer threads a row has, the fewer steps combine them.
const ELEMENTS_OF_SHORT: usize = 8;
/// The minimum number of threads of a short row that do not compute neighbours together, so that
/// they read 32 bytes at once.
const SINGLE_THREADS_MIN: usize = 8;

/// The division of a row among accumulators. A thread has each, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowSplit {
    pub(crate) length: usize,
    /// The number of accumulators, a power of two.
    pub(crate) threads: usize,
    /// The number of neighbours that a thread computes together.
    pub(crate) neighbours: usize,
}

impl RowSplit {
    /// Returns the division of a row of this many elements, in row kernels and in reductions of
    /// contiguous rows.
    pub(crate) fn of(length: usize) -> Self {
        let is_short = length <= WARP_LENGTH_MAX;
        let of_neighbours = if is_short {
            let threads = length.div_ceil(ELEMENTS_OF_SHORT);
            threads.next_power_of_two().min(WARP)
        } else {
            ROW_THREADS
        };
        let of_threads = length.next_multiple_of(NEIGHBOURS * of_neighbours);
        let (threads, neighbours) =
            if length.is_multiple_of(NEIGHBOURS) && of_threads <= length + length / 4 {
                (of_neighbours, NEIGHBOURS)
            } else if is_short {
                let threads = of_neighbours.max(SINGLE_THREADS_MIN);
                (threads.min(length.next_power_of_two()), 1)
            } else {
                (ROW_THREADS, 1)
            };
        Self {
            length,
            threads,
            neighbours,
        }
    }

    /// Returns the division of a row among the threads of a larger block.
    pub(crate) fn of_block(length: usize, threads: usize) -> Self {
        Self {
            length,
            threads,
            neighbours: match length.is_multiple_of(NEIGHBOURS) {
                true => NEIGHBOURS,
                false => 1,
            },
        }
    }

    /// Returns the number of groups of neighbours of each thread. For short rows it is a power of
    /// two, so that rows of other lengths have the same kernels.
    pub(crate) fn turns(self) -> usize {
        let turns = self.length.div_ceil(self.threads * self.neighbours);
        match self.length {
            ..=WARP_LENGTH_MAX => turns.next_power_of_two(),
            _ => turns,
        }
    }

    /// Returns whether threads may be beyond the end of the row in a turn: in the last one, or in
    /// the second half of those of a short row.
    pub(crate) fn has_beyond(self, turn: usize) -> bool {
        let turns = self.turns();
        let first = match self.length {
            ..=WARP_LENGTH_MAX => turns / 2,
            _ => turns - 1,
        };
        turn >= first && self.length < turns * self.threads * self.neighbours
    }
}
