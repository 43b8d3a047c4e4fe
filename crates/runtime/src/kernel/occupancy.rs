//! Occupancy: how many blocks of a kernel are resident at once, and the limits of cooperative and
//! cluster launches.

#![allow(unsafe_code, reason = "queries the occupancy of a loaded kernel")]

use millstream_driver::BlockSize;

use super::{Function, LaunchConfig};
use crate::{Result, UsageError, UsageErrorKind};

/// The occupancy of a kernel on its device: how many of its blocks run at once.
///
/// For a kernel `NAME` that [`kernels!`](crate::kernels) declares, the method `NAME_occupancy` of
/// the loaded kernels returns it. A [`Kernel`](crate::Kernel) has these methods itself.
///
/// ```standalone_crate
/// use millstream::Device;
///
/// millstream::kernels! {
///     // SAFETY: the signature is that of the kernel, which accesses the first n elements.
///     unsafe mod vectors from include_str!("../../kernels/vecadd.ptx") {
///         safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64)
///             requires a.len() >= n, b.len() >= n, c.len() >= n,
///                 grid.blocks.y * grid.blocks.z * grid.block.y * grid.block.z == 1;
///     }
/// }
///
/// # fn main() -> millstream::Result<()> {
/// let device = Device::simulated()?;
/// let kernels = vectors::load(&device)?;
/// let suggested = kernels.vecadd_occupancy().suggested_block(0)?;
///
/// let stream = device.stream()?;
/// let a = stream.upload(&vec![1.0_f32; 1000])?;
/// let mut c = stream.zeros::<f32>(1000)?;
/// let blocks = 1000_u32.div_ceil(suggested.threads);
/// kernels.vecadd(&stream, (blocks, suggested.threads), &a, &a, &mut c, 1000)?;
/// assert_eq!(stream.download(&c)?.wait()?, [2.0; 1000]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Occupancy<'a>(&'a Function);

/// Returns the occupancy of a kernel.
#[doc(hidden)]
#[must_use]
pub fn occupancy(function: &Function) -> Occupancy<'_> {
    Occupancy(function)
}

impl Occupancy<'_> {
    /// Returns the maximum number of threads per block.
    #[must_use]
    pub fn threads_max(&self) -> u32 {
        self.0.entry_point.threads_max
    }

    /// Returns the number of blocks of `threads` threads and `shared_bytes` bytes of dynamic shared
    /// memory that the whole device can run at once: the most of a
    /// [cooperative](LaunchConfig::cooperative) grid.
    ///
    /// # Errors
    ///
    /// If `threads` is 0, or the device is lost.
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u64> {
        let device = &self.0.device;
        let handle = self.0.entry_point.handle;
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

    /// Returns a number of threads per block with which most threads of the kernel run at once, if
    /// each block has `shared_bytes` bytes of dynamic shared memory, and the number of such blocks
    /// that fill the device.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn suggested_block(&self, shared_bytes: u32) -> Result<BlockSize> {
        let device = &self.0.device;
        let handle = self.0.entry_point.handle;
        // SAFETY: the context is alive, and the kernel's module stays loaded.
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
    let LaunchConfig {
        dims, attributes, ..
    } = config;
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
        let most = occupancy(function).resident_blocks(threads, dims.shared_bytes)?;
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
