//! What a launch on a device may ask for at most.

use millstream_driver::{DeviceAttribute, DeviceOrdinal, Driver, DriverError, LaunchDims};

use crate::Problem;

/// The device's limits, read once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    grid: [i32; 3],
    block: [i32; 3],
    threads_per_block: i32,
    shared_bytes: i32,
    /// The longest pitch of a copy of rows.
    pub(crate) pitch_bytes: usize,
    pub(crate) multiprocessors: i32,
    /// Whether there is managed memory that the host may touch while kernels run (rules 49 and 50).
    pub(crate) managed_memory: bool,
    pub(crate) compute_capability: (i32, i32),
}

impl Limits {
    pub(crate) fn of(driver: &dyn Driver, device: DeviceOrdinal) -> Result<Self, DriverError> {
        let read = |attribute| driver.device_attribute(device, attribute);
        Ok(Self {
            grid: [
                read(DeviceAttribute::MAX_GRID_DIM_X)?,
                read(DeviceAttribute::MAX_GRID_DIM_Y)?,
                read(DeviceAttribute::MAX_GRID_DIM_Z)?,
            ],
            block: [
                read(DeviceAttribute::MAX_BLOCK_DIM_X)?,
                read(DeviceAttribute::MAX_BLOCK_DIM_Y)?,
                read(DeviceAttribute::MAX_BLOCK_DIM_Z)?,
            ],
            threads_per_block: read(DeviceAttribute::MAX_THREADS_PER_BLOCK)?,
            shared_bytes: read(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK)?,
            managed_memory: read(DeviceAttribute::MANAGED_MEMORY)? != 0
                && read(DeviceAttribute::CONCURRENT_MANAGED_ACCESS)? != 0,
            pitch_bytes: usize::try_from(read(DeviceAttribute::MAX_PITCH)?).unwrap_or(0),
            multiprocessors: read(DeviceAttribute::MULTIPROCESSOR_COUNT)?,
            compute_capability: (
                read(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?,
                read(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?,
            ),
        })
    }

    /// What is wrong with a launch of this shape, if anything is. `threads_max` is the kernel's own limit.
    pub(crate) fn check(&self, dims: &LaunchDims, threads_max: i32) -> Option<Problem> {
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            for (what, asked, limit) in [
                ("grid", dims.grid[axis], self.grid[axis]),
                ("block", dims.block[axis], self.block[axis]),
            ] {
                if asked == 0 || i64::from(asked) > i64::from(limit) {
                    let detail = format!("{what}.{name} is {asked}; it must be 1 to {limit}");
                    return Some(Problem::Grid { detail });
                }
            }
        }
        if i64::from(dims.shared_bytes) > i64::from(self.shared_bytes) {
            let (asked, limit) = (dims.shared_bytes, self.shared_bytes);
            let detail = format!("{asked} bytes of dynamic shared memory; a block has at most {limit} here");
            return Some(Problem::Grid { detail });
        }
        let threads: u64 = dims.block.iter().map(|&d| u64::from(d)).product();
        let limit = self.threads_per_block.min(threads_max);
        (threads > u64::try_from(limit).unwrap_or(0)).then(|| Problem::Grid {
            detail: format!("a block of {threads} threads; this kernel takes at most {limit} here"),
        })
    }
}
