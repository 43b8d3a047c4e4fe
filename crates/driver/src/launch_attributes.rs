//! Attributes of a launch beyond its dimensions, and suggested block sizes.

/// The attributes of a launch that few launches have (`CUlaunchAttribute`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchAttributes {
    /// True if all blocks of the grid must be resident at once, so that they may wait for each
    /// other (`CU_LAUNCH_ATTRIBUTE_COOPERATIVE`).
    pub cooperative: bool,
    /// The number of blocks of a cluster in x, y and z (`CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`).
    pub cluster: Option<[u32; 3]>,
    /// The priority, as of a stream (`CU_LAUNCH_ATTRIBUTE_PRIORITY`).
    pub priority: Option<i32>,
}

impl LaunchAttributes {
    /// Returns whether the launch has attributes.
    #[inline]
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.cooperative | self.cluster.is_some() | self.priority.is_some()
    }
}

/// A suggested block size: see
/// [`Driver::occupancy_block_size`](crate::Driver::occupancy_block_size).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// The number of threads per block.
    pub threads: u32,
    /// The number of blocks with which the device is full.
    pub min_blocks: u32,
}
