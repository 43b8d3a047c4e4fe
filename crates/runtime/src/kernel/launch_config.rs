//! `LaunchConfig`: the shape of a launch.

use millstream_driver::LaunchDims;

use super::clause;

/// Threads of a block in one dimension, unless another number is asked for: a multiple of a warp
/// that suits any device.
const LINEAR_BLOCK: u32 = 256;

/// How many threads a kernel runs with, and in what arrangement.
///
/// ```
/// use millstream::LaunchConfig;
///
/// assert_eq!(LaunchConfig::linear(1000).blocks(), [4, 1, 1]);
/// assert_eq!(LaunchConfig::tiled((640, 480), (32, 8)).blocks(), [20, 60, 1]);
/// assert_eq!(LaunchConfig::new([2, 1, 1], [64, 1, 1]).threads(), 128);
/// assert!(LaunchConfig::linear(0).is_empty());
/// ```
///
/// The methods of kernels take whatever becomes a grid:
///
/// | written | the grid |
/// |---|---|
/// | `n`, a `usize`, `u32` or `i32` | [`LaunchConfig::linear`] of `n`: at least `n` threads in blocks of 256 |
/// | `(blocks, threads)` | blocks of so many threads, as `<<<blocks, threads>>>` in CUDA C++ |
/// | `(blocks, threads, bytes)` | the same with dynamic shared memory for each block |
///
/// `blocks` and `threads` are each a number, or a tuple or array of two or three: in x, in y, in z.
///
/// ```
/// use millstream::LaunchConfig;
///
/// let (n, height) = (1000_usize, 480_u32);
/// assert_eq!(LaunchConfig::from(n), LaunchConfig::linear(1000));
/// assert_eq!(LaunchConfig::from((4, 256)), LaunchConfig::new([4, 1, 1], [256, 1, 1]));
/// assert_eq!(LaunchConfig::from(((20, height / 8), (32, 8))), LaunchConfig::new([20, 60, 1], [32, 8, 1]));
/// assert_eq!(LaunchConfig::from(([1, 2, 3], (4, 5, 6))), LaunchConfig::new([1, 2, 3], [4, 5, 6]));
/// assert_eq!(LaunchConfig::from((1, 64, 1024)), LaunchConfig::new([1, 1, 1], [64, 1, 1]).with_shared_bytes(1024));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LaunchConfig {
    pub(crate) dims: LaunchDims,
}

impl LaunchConfig {
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

    /// At least `n` threads in one dimension, in blocks of 256. For 0 the grid is empty, and
    /// launching it does nothing.
    pub fn linear(n: usize) -> Self {
        Self::new([blocks_for(n, LINEAR_BLOCK), 1, 1], [LINEAR_BLOCK, 1, 1])
    }

    /// At least `size` threads in two dimensions, in blocks of `tile`. If either side is 0 the grid
    /// is empty.
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
    ///
    /// More than 48 KiB, with what the kernel declares itself, is not for every kernel to have on a
    /// GPU. A launch that asks for more opts its kernel in to all that the device has (227 KiB on
    /// an H200, see [`DeviceProperties`](crate::DeviceProperties)); beyond that it is an error.
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

impl From<usize> for LaunchConfig {
    /// [`LaunchConfig::linear`].
    fn from(n: usize) -> Self {
        Self::linear(n)
    }
}

impl From<u32> for LaunchConfig {
    /// [`LaunchConfig::linear`].
    fn from(n: u32) -> Self {
        Self::linear(n as usize)
    }
}

impl From<i32> for LaunchConfig {
    /// [`LaunchConfig::linear`]. A negative number makes a grid that no device can have, so that
    /// launching it is an error.
    fn from(n: i32) -> Self {
        Self::linear(usize::try_from(n).unwrap_or(usize::MAX))
    }
}

impl<B: Into<Dim3>, T: Into<Dim3>> From<(B, T)> for LaunchConfig {
    /// So many blocks of so many threads.
    fn from((blocks, threads): (B, T)) -> Self {
        Self::new(blocks.into().0, threads.into().0)
    }
}

impl<B: Into<Dim3>, T: Into<Dim3>> From<(B, T, u32)> for LaunchConfig {
    /// So many blocks of so many threads, each with so many bytes of dynamic shared memory.
    fn from((blocks, threads, shared_bytes): (B, T, u32)) -> Self {
        Self::new(blocks.into().0, threads.into().0).with_shared_bytes(shared_bytes)
    }
}

/// Blocks of a grid, or threads of a block, in x, y and z (CUDA's `dim3`). Made from a number, or a
/// tuple or array of up to three; what is left away is 1.
///
/// ```
/// use millstream::Dim3;
///
/// assert_eq!(Dim3::from(4), Dim3([4, 1, 1]));
/// assert_eq!(Dim3::from((4, 2)), Dim3([4, 2, 1]));
/// assert_eq!(Dim3::from([4, 2, 3]), Dim3::from((4, 2, 3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3(pub [u32; 3]);

macro_rules! dims {
    ($($type:ty: $pattern:pat => [$x:expr, $y:expr, $z:expr];)*) => {
        $(
            impl From<$type> for Dim3 {
                fn from($pattern: $type) -> Self {
                    Self([$x, $y, $z])
                }
            }
        )*
    };
}

dims! {
    u32: x => [x, 1, 1];
    (u32, u32): (x, y) => [x, y, 1];
    (u32, u32, u32): (x, y, z) => [x, y, z];
    [u32; 2]: [x, y] => [x, y, 1];
    [u32; 3]: [x, y, z] => [x, y, z];
}

impl From<&LaunchConfig> for clause::LaunchShape {
    #[inline]
    fn from(config: &LaunchConfig) -> Self {
        Self::new(
            config.dims.grid,
            config.dims.block,
            config.dims.shared_bytes,
        )
    }
}

/// Blocks that together have at least `n` threads. More than a grid can have stays more, and is
/// refused at the launch.
fn blocks_for(n: usize, threads: u32) -> u32 {
    u32::try_from(n.div_ceil(threads as usize)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_every_element_and_no_block_more() {
        assert_eq!(LaunchConfig::linear(256).blocks(), [1, 1, 1]);
        assert_eq!(LaunchConfig::linear(257).blocks(), [2, 1, 1]);
        assert_eq!(LaunchConfig::tiled((33, 1), (32, 8)).blocks(), [2, 1, 1]);
        assert_eq!(LaunchConfig::linear(usize::MAX).blocks(), [u32::MAX, 1, 1]);
        assert!(LaunchConfig::tiled((0, 5), (32, 8)).is_empty());
    }

    #[test]
    fn a_number_alone_is_a_number_of_threads() {
        assert_eq!(LaunchConfig::from(257), LaunchConfig::linear(257));
        assert_eq!(LaunchConfig::from(257_u32), LaunchConfig::linear(257));
        assert_eq!(LaunchConfig::from(257_usize), LaunchConfig::linear(257));
        assert!(LaunchConfig::from(0).is_empty());
        assert_eq!(
            LaunchConfig::from(-1).blocks(),
            [u32::MAX, 1, 1],
            "more than any device has"
        );
    }
}
