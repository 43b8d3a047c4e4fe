//! Kernel and host function launches: configuration and arguments are validated and copied before
//! the enqueueing.

use std::sync::Arc;

use millstream_driver::{
    ContextHandle, FunctionHandle, HostFunction, LaunchDims, ResultCode, StreamHandle,
};

use super::{
    attributes::{GRID_MAX, SHARED_BYTES},
    module::BLOCK_THREADS_MAX,
};
use crate::{
    ReportKind,
    core::{
        call_error::CallResult,
        gpu::StateGuard,
        graph::NodeOperation,
        objects::stream::WaitSet,
        op::{KernelLaunch, OpKind},
    },
    exec::{SHARED_BYTES_MAX, resident_blocks},
    memory::host::HostParams,
    ptx::Kernel,
};

/// The maximum block size in each dimension.
pub(crate) const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];

/// Validates a launch configuration, with at most `dynamic_max` bytes of dynamic shared memory.
/// Returns the error code and the problem, or `None` if it is valid.
fn wrong_shape(
    kernel: &Kernel,
    dynamic_max: u32,
    dims: &LaunchDims,
) -> Option<(ResultCode, String)> {
    let LaunchDims {
        grid,
        block,
        shared_bytes,
    } = *dims;
    let invalid = |text: String| Some((ResultCode::INVALID_VALUE, text));
    let within = |dims: [u32; 3], max: [u32; 3]| {
        dims.iter().zip(max).all(|(&d, max)| (1..=max).contains(&d))
    };
    if !within(grid, GRID_MAX) {
        return invalid(format!(
            "a grid of {grid:?} blocks; each dimension must be from 1 to {GRID_MAX:?}"
        ));
    }
    if !within(block, BLOCK_MAX) {
        return invalid(format!(
            "a block of {block:?} threads; each dimension must be from 1 to {BLOCK_MAX:?}"
        ));
    }
    let threads = block.iter().product::<u32>();
    if threads > BLOCK_THREADS_MAX {
        return invalid(format!(
            "a block of {threads} threads; the limit is {BLOCK_THREADS_MAX}"
        ));
    }
    if let Some(required) = kernel.required_block()
        && required != block
    {
        return invalid(format!(
            "a block of {block:?} threads; the kernel's `.reqntid` requires {required:?}"
        ));
    }
    // PTX's documentation says that such a launch fails, and not how; the test `TestLaunchBounds`
    // of NVIDIA's numba-cuda expects this code of a GPU.
    if let Some(max) = kernel.max_threads()
        && threads > max
    {
        return invalid(format!(
            "a block of {threads} threads; the kernel's `.maxntid` allows {max}"
        ));
    }
    let own = kernel.static_shared_bytes();
    if own > SHARED_BYTES {
        return invalid(format!(
            "{own} bytes of static shared memory; the limit is {SHARED_BYTES}"
        ));
    }
    if shared_bytes > dynamic_max {
        return invalid(format!(
            "{shared_bytes} bytes of dynamic shared memory; the limit is {dynamic_max} in addition \
             to {own} bytes of static shared memory; cuFuncSetAttribute allows up to {} (rule 57)",
            dynamic_shared_limit(kernel)
        ));
    }
    None
}

/// Returns the error code and the problem of a valid launch configuration that has more blocks than
/// the device holds at the same time, as a cooperative launch requires.
fn too_large_together(kernel: &Kernel, dims: &LaunchDims) -> Option<(ResultCode, String)> {
    let blocks: u64 = dims.grid.iter().map(|size| u64::from(*size)).product();
    let threads = dims.block.iter().product();
    let shared_bytes = kernel.static_shared_bytes() + dims.shared_bytes;
    let resident = resident_blocks(threads, shared_bytes);
    let text = format!(
        "a cooperative launch of {blocks} blocks of {threads} threads and {shared_bytes} bytes of \
         shared memory; the device holds {resident} of them at the same time"
    );
    (blocks > u64::from(resident)).then_some((ResultCode::COOPERATIVE_LAUNCH_TOO_LARGE, text))
}

/// Returns the default limit of a kernel's dynamic shared memory in bytes.
pub(crate) fn dynamic_shared_default(kernel: &Kernel) -> u32 {
    SHARED_BYTES.saturating_sub(kernel.static_shared_bytes())
}

/// Returns the maximum dynamic shared memory that a kernel can opt in to, in bytes.
pub(crate) fn dynamic_shared_limit(kernel: &Kernel) -> u32 {
    SHARED_BYTES_MAX.saturating_sub(kernel.static_shared_bytes())
}

impl StateGuard<'_> {
    /// Enqueues a host function and wakes the callback thread. On success the function is taken
    /// from `function`.
    pub(crate) fn launch_host_function(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        function: &mut Option<HostFunction>,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        if self.captures(stream)? {
            self.refuse_in_capture(stream, "a host function")?;
        }
        let id = self.enqueue(
            stream,
            OpKind::HostFunction(function.take()),
            &WaitSet::default(),
        );
        self.host_functions.enqueued(id);
        self.wake_callback_thread();
        Ok(())
    }

    /// Validates and enqueues a kernel launch, which may be cooperative.
    pub(crate) fn launch_kernel(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
        (dims, cooperative): (&LaunchDims, bool),
        stream: StreamHandle,
        params: HostParams<'_>,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        let launch = self.prepare_launch(context, function, (dims, cooperative), params)?;
        if self.captures(stream)? {
            self.capture_node(stream, NodeOperation::Kernel(Arc::new(launch)));
            return Ok(());
        }
        self.wait_for_queue_space(context, stream)?;
        self.enqueue(
            stream,
            OpKind::Kernel(Box::new(launch)),
            &WaitSet::default(),
        );
        Ok(())
    }

    /// Validates a kernel launch, which may be cooperative, and copies its arguments.
    pub(crate) fn prepare_launch(
        &mut self,
        context: ContextHandle,
        function: FunctionHandle,
        (dims, cooperative): (&LaunchDims, bool),
        params: HostParams<'_>,
    ) -> CallResult<KernelLaunch> {
        let (module_handle, module, name) = self.function(context, function)?;
        let kernel = module
            .ptx
            .kernel(&name)
            .expect("the module of a function handle contains its kernel");
        if let Some(text) = kernel.refused() {
            return Err(self.violation(ReportKind::BadLaunch, ResultCode::INVALID_PTX, text));
        }
        let opted_in = self.functions[&function].dynamic_shared_bytes;
        let dynamic_max = opted_in.unwrap_or_else(|| dynamic_shared_default(kernel));
        let too_large = || too_large_together(kernel, dims).filter(|_| cooperative);
        if let Some((code, text)) = wrong_shape(kernel, dynamic_max, dims).or_else(too_large) {
            return Err(self.violation(
                ReportKind::BadLaunch,
                code,
                format!("kernel `{name}`: {text}"),
            ));
        }
        let signature = kernel.signature();
        let bytes = collect(signature, params).map_err(|text| {
            let text = format!("kernel `{name}`: {text}");
            self.violation(ReportKind::BadLaunch, ResultCode::INVALID_VALUE, text)
        })?;
        if kernel.uses_heap()
            && let Some(context) = self.contexts.get_mut(&context)
        {
            context.heap_is_used = true;
        }
        let of = &self.functions[&function];
        let (mismatches, launches) = (Arc::clone(&of.mismatches), Arc::clone(&of.launches));
        Ok(KernelLaunch {
            threads: self.config.cost.kernel_threads(dims.grid, dims.block),
            module_handle,
            name,
            dims: *dims,
            cooperative,
            params: bytes,
            module,
            mismatches,
            launches,
        })
    }
}

/// Copies the arguments of a launch into a parameter block.
fn collect(signature: &crate::ptx::Signature, params: HostParams<'_>) -> Result<Box<[u8]>, String> {
    if params.len() != signature.params.len() {
        return Err(format!(
            "{} arguments for {} parameters",
            params.len(),
            signature.params.len()
        ));
    }
    let mut bytes = vec![0; signature.param_bytes()];
    for (index, param) in signature.params.iter().enumerate() {
        let place = &mut bytes[param.offset..param.offset + param.size];
        if !params.read(index, place) {
            return Err(format!("argument {index} is a null pointer"));
        }
    }
    Ok(bytes.into_boxed_slice())
}
