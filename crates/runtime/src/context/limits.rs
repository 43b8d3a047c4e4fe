//! The limits of a device for launches and pitched copies.

use millstream_driver::{DeviceAttribute, DeviceOrdinal, Driver, DriverError, LaunchDims};

use crate::UsageErrorKind;

/// The device's limits and capabilities, read once when it is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    grid: [u32; 3],
    block: [u32; 3],
    threads_per_block: u32,
    /// The bytes of shared memory per block without opting in to more.
    shared_bytes: u32,
    /// The maximum bytes of shared memory per block that a kernel can opt in to.
    shared_bytes_max: u32,
    /// The maximum pitch of a 2D copy, in bytes.
    pub(crate) pitch_bytes: usize,
    pub(crate) multiprocessors: i32,
    /// True if the device supports managed memory that the host may access while kernels run (rules
    /// 49 and 50: managed memory and concurrent host access to it).
    pub(crate) managed_memory: bool,
    pub(crate) compute_capability: (i32, i32),
}

impl Limits {
    pub(crate) fn of(driver: &dyn Driver, device: DeviceOrdinal) -> Result<Self, DriverError> {
        let read = |attribute| driver.device_attribute(device, attribute);
        let size = |attribute| read(attribute).map(unsigned);
        Ok(Self {
            grid: [
                size(DeviceAttribute::MAX_GRID_DIM_X)?,
                size(DeviceAttribute::MAX_GRID_DIM_Y)?,
                size(DeviceAttribute::MAX_GRID_DIM_Z)?,
            ],
            block: [
                size(DeviceAttribute::MAX_BLOCK_DIM_X)?,
                size(DeviceAttribute::MAX_BLOCK_DIM_Y)?,
                size(DeviceAttribute::MAX_BLOCK_DIM_Z)?,
            ],
            threads_per_block: size(DeviceAttribute::MAX_THREADS_PER_BLOCK)?,
            shared_bytes: size(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK)?,
            shared_bytes_max: size(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
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

    /// Returns the maximum number of threads per block for a kernel whose own limit is
    /// `threads_max`.
    pub(crate) fn threads_per_block(&self, threads_max: i32) -> u32 {
        self.threads_per_block.min(unsigned(threads_max))
    }

    /// Returns the maximum dynamic shared memory per block in bytes, before and after opting in,
    /// for a kernel with `own_bytes` bytes of static shared memory.
    pub(crate) fn dynamic_shared_bytes(&self, own_bytes: u32) -> (u32, u32) {
        let most = self.shared_bytes_max.max(self.shared_bytes);
        (
            self.shared_bytes.saturating_sub(own_bytes),
            most.saturating_sub(own_bytes),
        )
    }

    /// Checks the grid and block dimensions of a launch, and returns the first violation.
    /// `threads_max` is the kernel's maximum number of threads per block. Shared memory is not
    /// checked.
    #[inline]
    pub(crate) fn check(&self, dims: &LaunchDims, threads_max: u32) -> Option<UsageErrorKind> {
        let threads: u64 = dims.block.iter().map(|&d| u64::from(d)).product();
        let within = are_within(&dims.grid, &self.grid) & are_within(&dims.block, &self.block);
        if within & (threads <= u64::from(threads_max)) {
            return None;
        }
        Some(self.violation(dims, threads, threads_max))
    }

    /// Returns the first violation of a launch of these dimensions, which has one.
    #[cold]
    fn violation(&self, dims: &LaunchDims, threads: u64, threads_max: u32) -> UsageErrorKind {
        let both = [
            ("grid", &dims.grid, &self.grid),
            ("block", &dims.block, &self.block),
        ];
        let outside = both.into_iter().find_map(|(what, asked, limits)| {
            let axis = (0..3).find(|&axis| !is_within(asked[axis], limits[axis]))?;
            Some(outside(what, axis, asked, limits))
        });
        outside.unwrap_or_else(|| too_many_threads(threads, threads_max))
    }
}

/// Converts a limit that the driver reports as an `int`. No limit is negative.
fn unsigned(limit: i32) -> u32 {
    u32::try_from(limit).unwrap_or(0)
}

/// Returns whether each extent is at least 1 and within its limit. Without a branch, because every
/// launch asks.
#[inline]
fn are_within(asked: &[u32; 3], limits: &[u32; 3]) -> bool {
    is_within(asked[0], limits[0]) & is_within(asked[1], limits[1]) & is_within(asked[2], limits[2])
}

#[inline]
fn is_within(asked: u32, limit: u32) -> bool {
    // 0 wraps to `u32::MAX`, which exceeds every limit.
    asked.wrapping_sub(1) < limit
}

fn outside(what: &str, axis: usize, asked: &[u32; 3], limits: &[u32; 3]) -> UsageErrorKind {
    let (name, asked, limit) = (["x", "y", "z"][axis], asked[axis], limits[axis]);
    let detail = format!("{what}.{name} is {asked}; it must be 1 to {limit}");
    UsageErrorKind::LaunchConfig { detail }
}

fn too_many_threads(threads: u64, limit: u32) -> UsageErrorKind {
    let detail = format!(
        "a block of {threads} threads exceeds this kernel's limit of {limit} on this device"
    );
    UsageErrorKind::LaunchConfig { detail }
}
