//! `Grid`: the shape of a launch.

use millstream_driver::LaunchDims;

use super::clause;

/// Threads of a block in one dimension, unless another number is asked for: a multiple of a warp that suits any device.
const LINEAR_BLOCK: u32 = 256;

/// How many threads a kernel runs with, and in what arrangement.
///
/// ```
/// use millstream::Grid;
///
/// assert_eq!(Grid::linear(1000).blocks(), [4, 1, 1]);
/// assert_eq!(Grid::tiled((640, 480), (32, 8)).blocks(), [20, 60, 1]);
/// assert_eq!(Grid::new([2, 1, 1], [64, 1, 1]).threads(), 128);
/// assert!(Grid::linear(0).is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Grid {
    pub(crate) dims: LaunchDims,
}

impl Grid {
    /// Exactly these blocks of these threads, in x, y and z.
    pub fn new(blocks: [u32; 3], threads: [u32; 3]) -> Self {
        Self {
            dims: LaunchDims {
                grid: blocks,
                block: threads,
                shared_bytes: 0,
            },
        }
    }

    /// At least `n` threads in one dimension, in blocks of 256. For 0 the grid is empty, and launching it does nothing.
    pub fn linear(n: usize) -> Self {
        Self::new([blocks_for(n, LINEAR_BLOCK), 1, 1], [LINEAR_BLOCK, 1, 1])
    }

    /// At least `size` threads in two dimensions, in blocks of `tile`. If either side is 0 the grid is empty.
    ///
    /// # Panics
    ///
    /// If a side of the tile is 0.
    #[track_caller]
    pub fn tiled(size: (usize, usize), tile: (u32, u32)) -> Self {
        assert!(
            tile.0 > 0 && tile.1 > 0,
            "a tile of {} × {} threads",
            tile.0,
            tile.1
        );
        let blocks = [blocks_for(size.0, tile.0), blocks_for(size.1, tile.1), 1];
        Self::new(blocks, [tile.0, tile.1, 1])
    }

    /// The same grid with this much dynamic shared memory for each block, in bytes.
    pub fn with_shared_bytes(mut self, bytes: u32) -> Self {
        self.dims.shared_bytes = bytes;
        self
    }

    /// Blocks in x, y and z.
    #[must_use]
    pub fn blocks(&self) -> [u32; 3] {
        self.dims.grid
    }

    /// Threads of a block in x, y and z.
    #[must_use]
    pub fn threads_per_block(&self) -> [u32; 3] {
        self.dims.block
    }

    /// Threads of the whole grid.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.dims.threads()
    }

    /// Whether the grid has no block, so that launching it does nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dims.grid.contains(&0)
    }
}

impl From<&Grid> for clause::Shape {
    #[inline]
    fn from(grid: &Grid) -> Self {
        Self::new(grid.dims.grid, grid.dims.block, grid.dims.shared_bytes)
    }
}

/// Blocks that together have at least `n` threads. More than a grid can have stays more, and is refused at the launch.
fn blocks_for(n: usize, threads: u32) -> u32 {
    u32::try_from(n.div_ceil(threads as usize)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_every_element_and_no_block_more() {
        assert_eq!(Grid::linear(256).blocks(), [1, 1, 1]);
        assert_eq!(Grid::linear(257).blocks(), [2, 1, 1]);
        assert_eq!(Grid::tiled((33, 1), (32, 8)).blocks(), [2, 1, 1]);
        assert_eq!(Grid::linear(usize::MAX).blocks(), [u32::MAX, 1, 1]);
        assert!(Grid::tiled((0, 5), (32, 8)).is_empty());
    }
}
