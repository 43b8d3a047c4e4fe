//! Occupancy, and launches with attributes: how many blocks of a kernel are resident at once.

use millstream_driver::{
    BlockSize, ContextHandle, DeviceAttribute, FunctionHandle, LaunchAttributes, LaunchDims,
    ResultCode, StreamHandle,
};

use super::{attributes, module::BLOCK_THREADS_MAX};
use crate::{
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
    },
    exec::resident_blocks,
    memory::host::HostParams,
    ptx::Kernel,
};

const WARP: u32 = 32;

/// Returns the number of multiprocessors of every simulated device.
fn multiprocessors() -> u32 {
    let value = attributes::value(0, DeviceAttribute::MULTIPROCESSOR_COUNT).ok();
    value
        .and_then(|value| u32::try_from(value).ok())
        .unwrap_or(1)
}

/// Returns the number of blocks that can be resident on a multiprocessor at once.
fn blocks_on_one(kernel: &Kernel, block_threads: u32, dynamic_shared_bytes: usize) -> u32 {
    let most = kernel.max_threads().unwrap_or(BLOCK_THREADS_MAX);
    let Ok(dynamic) = u32::try_from(dynamic_shared_bytes) else {
        return 0;
    };
    if block_threads > most.min(BLOCK_THREADS_MAX) {
        return 0;
    }
    let shared_bytes = kernel.static_shared_bytes().saturating_add(dynamic);
    resident_blocks(block_threads, shared_bytes) / multiprocessors()
}

impl StateGuard<'_> {
    /// Returns the number of blocks of this size that can be resident on a multiprocessor at once.
    pub(crate) fn occupancy_blocks(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
        block_threads: u32,
        dynamic_shared_bytes: usize,
    ) -> CallResult<i32> {
        if block_threads == 0 {
            let text = "a block of 0 threads; it must have at least 1";
            return Err(CallError::new(ResultCode::INVALID_VALUE, text));
        }
        let (_, module, name) = self.function(context, function)?;
        let kernel = super::module::kernel_of(&module, &name);
        Ok(blocks_on_one(kernel, block_threads, dynamic_shared_bytes).cast_signed())
    }

    /// Returns the block size with which most threads are resident; of equal ones the largest.
    pub(crate) fn occupancy_block_size(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
        dynamic_shared_bytes: usize,
    ) -> CallResult<BlockSize> {
        let (_, module, name) = self.function(context, function)?;
        let kernel = super::module::kernel_of(&module, &name);
        let sizes = (1..=BLOCK_THREADS_MAX / WARP).map(|warps| warps * WARP);
        let resident = |threads| blocks_on_one(kernel, threads, dynamic_shared_bytes);
        let threads = sizes.max_by_key(|&threads| (resident(threads) * threads, threads));
        let threads = threads.unwrap_or(WARP);
        Ok(BlockSize {
            threads,
            min_blocks: resident(threads) * multiprocessors(),
        })
    }

    /// Validates and enqueues a kernel launch with attributes. The priority has no effect: the
    /// schedule decides what runs next.
    pub(crate) fn launch_kernel_with(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        attributes: &LaunchAttributes,
        stream: StreamHandle,
        params: HostParams<'_>,
    ) -> CallResult<()> {
        self.refuse_clusters(context, function, attributes)?;
        let dims = (dims, attributes.cooperative);
        self.launch_kernel(context, function, dims, stream, params)
    }

    pub(crate) fn refuse_clusters(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
        attributes: &LaunchAttributes,
    ) -> CallResult<()> {
        let (_, _, name) = self.function(context, function)?;
        if let Some(cluster) = attributes.cluster {
            let text = format!(
                "kernel `{name}`: a cluster of {cluster:?} blocks; the simulated device does not \
                 run clusters"
            );
            return Err(CallError::new(ResultCode::NOT_SUPPORTED, text));
        }
        Ok(())
    }
}
