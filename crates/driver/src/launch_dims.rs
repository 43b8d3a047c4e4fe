//! The dimensions of a launch.

/// The launch dimensions of a kernel: its grid, its blocks and their dynamic shared memory.
///
/// ```
/// use millstream_driver::LaunchDims;
/// let dims = LaunchDims { grid: [4, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
/// assert_eq!(dims.threads(), 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchDims {
    /// The number of blocks in x, y and z.
    pub grid: [u32; 3],
    /// The number of threads of a block in x, y and z.
    pub block: [u32; 3],
    /// The dynamic shared memory of each block, in bytes.
    pub shared_bytes: u32,
}

impl LaunchDims {
    /// Returns the number of threads in the grid, saturated at [`u64::MAX`].
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.grid
            .iter()
            .chain(&self.block)
            .fold(1, |n: u64, &d| n.saturating_mul(u64::from(d)))
    }
}
