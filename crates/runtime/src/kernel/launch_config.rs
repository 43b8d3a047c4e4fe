//! `LaunchConfig`: the grid, block and shared memory of a launch.

use millstream_driver::{LaunchAttributes, LaunchDims};

use super::clause;

/// The number of threads per block of [`LaunchConfig::linear`]: a multiple of the warp size that
/// suits any device.
const LINEAR_BLOCK: u32 = 256;

/// The configuration of a kernel launch: the dimensions of the grid and of its blocks, and the
/// dynamic shared memory.
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
/// The generated methods of kernels accept any value that converts to a launch configuration:
///
/// | value | configuration |
/// |---|---|
/// | `n` (`usize`, `u32`, `i32`) | [`LaunchConfig::linear(n)`](LaunchConfig::linear) |
/// | `(blocks, threads)` | `<<<blocks, threads>>>` in CUDA C++ |
/// | `(blocks, threads, bytes)` | the same, and `bytes` bytes of dynamic shared memory per block |
///
/// `blocks` and `threads` are each a number, or a tuple or array of two or three numbers: in x, y
/// and z.
///
/// ```
/// use millstream::LaunchConfig;
///
/// let (n, height) = (1000_usize, 480_u32);
/// assert_eq!(LaunchConfig::from(n), LaunchConfig::linear(1000));
/// assert_eq!(LaunchConfig::from((4, 256)), LaunchConfig::new([4, 1, 1], [256, 1, 1]));
/// let tiles = LaunchConfig::from(((20, height / 8), (32, 8)));
/// assert_eq!(tiles, LaunchConfig::new([20, 60, 1], [32, 8, 1]));
/// assert_eq!(LaunchConfig::from(([1, 2, 3], (4, 5, 6))), LaunchConfig::new([1, 2, 3], [4, 5, 6]));
/// let shared = LaunchConfig::from((1, 64, 1024));
/// assert_eq!(shared, LaunchConfig::new([1, 1, 1], [64, 1, 1]).with_shared_bytes(1024));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LaunchConfig {
    pub(crate) dims: LaunchDims,
    pub(super) attributes: LaunchAttributes,
    /// The number of threads that was asked for, if a grid cannot have so many; otherwise 0.
    pub(super) asked: i64,
}

impl LaunchConfig {
    /// Creates a configuration with these numbers of blocks, and of threads per block, in x, y and
    /// z.
    pub fn new(blocks: [u32; 3], threads: [u32; 3]) -> Self {
        Self {
            dims: LaunchDims {
                grid: blocks,
                block: threads,
                shared_bytes: 0,
            },
            attributes: LaunchAttributes::default(),
            asked: 0,
        }
    }

    /// Keeps the number that was asked for, as an `i64`: a `usize` above it is mostly a negative
    /// number without its sign.
    fn asked(mut self, threads: usize) -> Self {
        let [x, y, _] = self.dims.grid;
        if x.max(y) > i32::MAX.unsigned_abs() {
            self.asked = threads as i64;
        }
        self
    }

    /// Creates a one-dimensional configuration of at least `n` threads in blocks of 256. For `n` =
    /// 0 the grid is empty, and launching it does nothing. If no grid is large enough, the launch
    /// is an error that names `n`.
    #[doc(alias("for_num_elems"))]
    pub fn linear(n: usize) -> Self {
        Self::new([blocks_for(n, LINEAR_BLOCK), 1, 1], [LINEAR_BLOCK, 1, 1]).asked(n)
    }

    /// Creates a two-dimensional configuration of at least `size` threads in blocks of `tile`
    /// threads. If either side is 0, the grid is empty.
    ///
    /// # Panics
    ///
    /// If a side of the tile is 0.
    #[track_caller]
    pub fn tiled(size: (usize, usize), tile: (u32, u32)) -> Self {
        assert!(
            tile.0 > 0 && tile.1 > 0,
            "invalid tile of {} × {} threads: both sides must be at least 1",
            tile.0,
            tile.1
        );
        let blocks = [blocks_for(size.0, tile.0), blocks_for(size.1, tile.1), 1];
        Self::new(blocks, [tile.0, tile.1, 1]).asked(size.0.max(size.1))
    }

    /// Sets the dynamic shared memory per block, in bytes.
    ///
    /// On a GPU a kernel must opt in to more than 48 KiB of shared memory per block, its static
    /// shared memory included. A launch that requests more opts its kernel in to the device's
    /// maximum: 227 KiB on an H200, see [`DeviceProperties`](crate::device::DeviceProperties). A
    /// request beyond that is an error.
    pub fn with_shared_bytes(mut self, bytes: u32) -> Self {
        self.dims.shared_bytes = bytes;
        self
    }

    /// Makes the launch cooperative: all blocks of the grid are resident at once, so that they may
    /// wait for each other (`grid.sync()` of cooperative groups). A grid that does not fit on the
    /// device is an error; [`Kernel::resident_blocks`](crate::Kernel::resident_blocks) tells how
    /// many blocks fit.
    #[doc(alias("cuLaunchCooperativeKernel", "cudaLaunchCooperativeKernel"))]
    pub fn cooperative(mut self) -> Self {
        self.attributes.cooperative = true;
        self
    }

    /// Launches the grid in clusters of this many blocks in x, y and z (compute capability 9.0 and
    /// newer), which divide the grid. The simulated device runs no clusters: there the launch is an
    /// error.
    pub fn with_cluster(mut self, blocks: [u32; 3]) -> Self {
        self.attributes.cluster = Some(blocks);
        self
    }

    /// Sets the priority of the launch, which otherwise is its stream's; lower numbers run first.
    /// The simulated device ignores it.
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.attributes.priority = Some(priority);
        self
    }

    #[inline]
    pub(crate) fn has_attributes(&self) -> bool {
        self.attributes.is_any()
    }

    #[inline]
    pub(crate) fn attributes(&self) -> Option<&LaunchAttributes> {
        if self.has_attributes() {
            Some(&self.attributes)
        } else {
            None
        }
    }

    /// Returns the number of blocks in x, y and z.
    #[must_use]
    pub fn blocks(&self) -> [u32; 3] {
        self.dims.grid
    }

    /// Returns the number of threads per block in x, y and z.
    #[must_use]
    pub fn threads_per_block(&self) -> [u32; 3] {
        self.dims.block
    }

    /// Returns the number of threads of the whole grid.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.dims.threads()
    }

    /// Returns whether the grid has no blocks, so that launching it does nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dims.grid.contains(&0)
    }
}

impl From<usize> for LaunchConfig {
    fn from(n: usize) -> Self {
        Self::linear(n)
    }
}

impl From<u32> for LaunchConfig {
    fn from(n: u32) -> Self {
        Self::linear(n as usize)
    }
}

impl From<i32> for LaunchConfig {
    fn from(n: i32) -> Self {
        // A negative number becomes one that no grid has.
        Self::linear(n as usize)
    }
}

impl<B: Into<Dim3>, T: Into<Dim3>> From<(B, T)> for LaunchConfig {
    /// Creates a configuration from the numbers of blocks and of threads per block.
    fn from((blocks, threads): (B, T)) -> Self {
        Self::new(blocks.into().0, threads.into().0)
    }
}

impl<B: Into<Dim3>, T: Into<Dim3>> From<(B, T, u32)> for LaunchConfig {
    /// Creates a configuration from the numbers of blocks and of threads per block, and the bytes
    /// of dynamic shared memory per block.
    fn from((blocks, threads, shared_bytes): (B, T, u32)) -> Self {
        Self::new(blocks.into().0, threads.into().0).with_shared_bytes(shared_bytes)
    }
}

/// Dimensions in x, y and z: the blocks of a grid, or the threads of a block (CUDA's `dim3`). It
/// converts from a number, or a tuple or array of up to three numbers; omitted dimensions are 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias("dim3"))]
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

/// Returns the number of blocks that together have at least `n` threads. It saturates at
/// `u32::MAX`, which exceeds the limits of a grid and fails at the launch.
fn blocks_for(n: usize, threads: u32) -> u32 {
    u32::try_from(n.div_ceil(threads as usize)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_have_the_fewest_blocks_that_cover_all_elements() {
        assert_eq!(LaunchConfig::linear(256).blocks(), [1, 1, 1]);
        assert_eq!(LaunchConfig::linear(257).blocks(), [2, 1, 1]);
        assert_eq!(LaunchConfig::tiled((33, 1), (32, 8)).blocks(), [2, 1, 1]);
        assert_eq!(LaunchConfig::linear(usize::MAX).blocks(), [u32::MAX, 1, 1]);
        assert!(LaunchConfig::tiled((0, 5), (32, 8)).is_empty());
    }

    #[test]
    fn a_number_converts_to_a_linear_configuration() {
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
