//! Occupancy: how many blocks of a kernel are resident at once, and the limits of cooperative and
//! cluster launches.

#![allow(unsafe_code, reason = "queries the occupancy of a loaded kernel")]

use millstream_driver::BlockSize;

use super::{Function, LaunchConfig};
use crate::{Result, UsageError, UsageErrorKind};

impl Function {
    /// Returns the number of blocks of `threads` threads and this much dynamic shared memory that
    /// can be resident on the whole device at once.
    pub(super) fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u64> {
        let device = &self.device;
        let handle = self.entry_point.handle;
        // SAFETY: the context is alive while the device is open, and the function's module stays
        // loaded.
        let blocks = device.checked(unsafe {
            device
                .driver
                .occupancy_blocks(device.context, handle, threads, shared_bytes as usize)
        })?;
        let number = |value: i32| u64::try_from(value).unwrap_or(0);
        Ok(number(blocks) * number(device.limits.multiprocessors))
    }

    /// Returns the suggested number of threads per block.
    pub(super) fn suggested_block(&self, shared_bytes: u32) -> Result<BlockSize> {
        let device = &self.device;
        let handle = self.entry_point.handle;
        // SAFETY: as above.
        device.checked(unsafe {
            device
                .driver
                .occupancy_block_size(device.context, handle, shared_bytes as usize)
        })
    }
}

/// Checks the attributes of a launch, whose dimensions are within the device's limits.
#[cold]
#[inline(never)]
pub(super) fn check_attributes(function: &Function, config: &LaunchConfig) -> Result<()> {
    let refuse = |problem| Err(UsageError::new(function.name, problem).into());
    let LaunchConfig { dims, attributes } = config;
    if let Some(cluster) = attributes.cluster {
        if function.device.is_simulated {
            let detail = "the simulated device runs no clusters of blocks: launch without \
                          `with_cluster` there, or on a GPU of compute capability 9.0 or newer";
            return refuse(UsageErrorKind::Unsupported {
                detail: detail.to_owned(),
            });
        }
        let divides = |axis: usize| cluster[axis] > 0 && dims.grid[axis] % cluster[axis] == 0;
        if let Some(axis) = (0..3).find(|&axis| !divides(axis)) {
            let detail = format!(
                "a cluster of {cluster:?} blocks does not divide a grid of {:?} blocks: in {} the \
                 grid must be a multiple",
                dims.grid,
                ["x", "y", "z"][axis]
            );
            return refuse(UsageErrorKind::LaunchConfig { detail });
        }
    }
    if attributes.cooperative {
        let threads = dims.block.iter().product();
        let most = function.resident_blocks(threads, dims.shared_bytes)?;
        let blocks: u64 = dims.grid.iter().map(|&blocks| u64::from(blocks)).product();
        if blocks > most {
            let detail = format!(
                "a cooperative grid of {blocks} blocks exceeds the {most} blocks of {threads} \
                 threads and {} bytes of dynamic shared memory that this device runs at once: \
                 let each thread do more, or use smaller blocks",
                dims.shared_bytes
            );
            return refuse(UsageErrorKind::LaunchConfig { detail });
        }
    }
    Ok(())
}
