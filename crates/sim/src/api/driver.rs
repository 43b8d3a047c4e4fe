//! The implementation of [`Driver`]: each method locks the simulator state with its name and cost,
//! and delegates to a method of the guard.

#![allow(
    unsafe_code,
    reason = "implements unsafe methods and takes over the caller's promises about host memory"
)]

use std::{ffi::c_void, ptr::NonNull, sync::Arc, time::Duration};

use millstream_driver::{
    BlockSize, CaptureInfo, CaptureMode, Completion, ConditionHandle, ConditionalKind,
    ConditionalNode, ContextHandle, Copy2d, DeviceAttribute, DeviceOrdinal, DevicePtr, Driver,
    DriverError, EventHandle, EventKind, FillPattern, FloatOperand, FunctionAttribute,
    FunctionHandle, GraphExecHandle, GraphHandle, GraphKernel, GraphNode, GraphNodeHandle,
    HostAccess, HostFunction, LaunchAttributes, LaunchDims, ManagedAdvice, ManagedLocation,
    Memory2d, MemoryReuse, ModuleHandle, P2pAttribute, PeerCopy, PeerCopy2d, PointerInfo,
    PoolHandle, PoolUsage, PriorityRange, ResultCode, Side2d, StreamHandle,
};

use super::{
    attributes,
    copy::{CopyForm, CopyOperand},
    graph::GivenNode,
    stream::PRIORITIES,
};
use crate::{
    CostModel, Gpu,
    core::{call_error::CallError, graph::ConditionalForm},
    ids,
    memory::host::{HostParams, HostRange},
};

/// The result of a driver call.
pub(super) type Result<T> = std::result::Result<T, DriverError>;

/// The maximum real time that a pause sleeps if no operation can run.
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// Returns the cost of a call that was not measured separately.
pub(super) fn other(cost: &CostModel) -> u64 {
    cost.other_call_ns
}

/// Returns 0, for a call that adds its cost once it knows its operands.
pub(super) fn counted_inside(_: &CostModel) -> u64 {
    0
}

/// Converts a device address to a copy operand.
fn device(pointer: DevicePtr) -> CopyOperand {
    CopyOperand::Device(pointer)
}

/// Converts host memory to a copy operand.
///
/// # Safety
///
/// The contract of [`HostRange::new`] applies.
unsafe fn host(pointer: *const u8, bytes: usize) -> CopyOperand {
    // SAFETY: the caller upholds the contract of `HostRange::new`.
    CopyOperand::Host(unsafe { HostRange::new(pointer, bytes) })
}

/// Converts an address of the unified address space to a copy operand.
///
/// # Safety
///
/// For a host address the contract of [`HostRange::new`] applies.
unsafe fn unified(pointer: DevicePtr, bytes: usize) -> CopyOperand {
    let pointer = std::ptr::with_exposed_provenance(pointer.as_raw() as usize);
    // SAFETY: a range at a device address is never accessed as host memory; for a host address the
    // caller upholds the contract of `HostRange::new`.
    CopyOperand::Unified(unsafe { HostRange::new(pointer, bytes) })
}

/// Converts one side of a 2-D copy to a copy operand.
///
/// # Safety
///
/// For rows in host memory the contract of [`HostRange::new`] applies.
pub(super) unsafe fn side(side: &Side2d, copy: &Copy2d) -> CopyOperand {
    match side.memory {
        Memory2d::Device(first) => device(first),
        Memory2d::Host(first) => {
            // A span that overflows is rejected before the range is used.
            let span = side.span_bytes(copy.width_bytes, copy.height);
            // SAFETY: the caller promises that the rows are valid; the bytes between them are never
            // accessed.
            unsafe { host(first, span.unwrap_or(0)) }
        }
    }
}

/// Converts the operation of a graph node.
///
/// # Safety
///
/// Each pointer to an argument of a kernel points to a readable value of the parameter's size. For
/// a copy of host memory the contract of [`HostRange::new`] applies.
pub(super) unsafe fn given<'a>(node: &'a GraphNode<'a>) -> GivenNode<'a> {
    match node {
        GraphNode::Kernel(kernel) => {
            // SAFETY: the caller promises readable values.
            let params = unsafe { HostParams::new(kernel.params) };
            GivenNode::Kernel(kernel, params)
        }
        GraphNode::Copy(copy) => {
            // SAFETY: the caller upholds the contract of `HostRange::new`.
            let target = unsafe { side(&copy.target, copy) };
            // SAFETY: the caller upholds the contract of `HostRange::new`.
            let source = unsafe { side(&copy.source, copy) };
            GivenNode::Copy((target, source), copy)
        }
        other => GivenNode::Other(other),
    }
}

impl Driver for Gpu {
    fn name(&self) -> String {
        "the simulator".into()
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn now_ns(&self) -> u64 {
        if !self.is_of_this_process() {
            return 0;
        }
        let mut state = self.enter();
        // Reading the clock costs time too, so that a loop that waits for a time terminates.
        state.now_ns += state.config.cost.other_call_ns;
        state.now_ns
    }

    fn pause(&self, duration: Duration) {
        if !self.is_of_this_process() {
            return;
        }
        let mut state = self.enter();
        let before = state.progress;
        state.now_ns += u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        state.pause();
        state.settle();
        if state.progress == before {
            // No operation ran, so a polling thread sleeps instead of burning a core.
            state.sleep(PAUSE_MAX.min(duration));
        } else {
            drop(state);
            self.inner.changed.notify_all();
        }
    }

    fn stream_number(&self, stream: StreamHandle) -> Option<u64> {
        ids::stream_number(stream)
    }

    fn note_host_access(&self, access: &HostAccess) {
        if self.is_of_this_process() {
            self.host_accesses(access);
        }
    }

    fn note_memory_reuse(&self, reuse: &MemoryReuse) {
        if self.is_of_this_process() {
            self.memory_is_reused(reuse);
        }
    }

    fn note_float_operands(&self, function: FunctionHandle, operands: &[FloatOperand]) {
        self.enter().note_float_operands(function, operands);
    }

    fn driver_version(&self) -> Result<i32> {
        self.call("cuDriverGetVersion", other, |_| {
            Ok(attributes::DRIVER_VERSION)
        })
    }

    fn device_count(&self) -> Result<i32> {
        self.call("cuDeviceGetCount", other, |state| {
            Ok(state.devices.len() as i32)
        })
    }

    fn device_name(&self, device: DeviceOrdinal) -> Result<String> {
        self.call("cuDeviceGetName", other, |state| {
            state.device_index(device).map(|_| attributes::NAME.into())
        })
    }

    fn device_uuid(&self, device: DeviceOrdinal) -> Result<[u8; 16]> {
        self.call("cuDeviceGetUuid", other, |state| {
            state.device_index(device).map(attributes::uuid)
        })
    }

    fn device_total_bytes(&self, device: DeviceOrdinal) -> Result<u64> {
        self.call("cuDeviceTotalMem", other, |state| {
            state
                .device_index(device)
                .map(|_| state.config.memory_bytes)
        })
    }

    fn device_attribute(&self, device: DeviceOrdinal, attribute: DeviceAttribute) -> Result<i32> {
        self.call("cuDeviceGetAttribute", other, |state| {
            attributes::value(state.device_index(device)?, attribute)
        })
    }

    fn device_pci_bus_id(&self, device: DeviceOrdinal) -> Result<String> {
        self.call("cuDeviceGetPCIBusId", other, |state| {
            state.device_index(device).map(attributes::pci_bus_id)
        })
    }

    fn device_can_access_peer(&self, device: DeviceOrdinal, peer: DeviceOrdinal) -> Result<bool> {
        self.call("cuDeviceCanAccessPeer", other, |state| {
            state.device_can_access_peer(device, peer)
        })
    }

    fn device_p2p_attribute(
        &self,
        attribute: P2pAttribute,
        from: DeviceOrdinal,
        to: DeviceOrdinal,
    ) -> Result<i32> {
        self.call("cuDeviceGetP2PAttribute", other, |state| {
            state.device_p2p_attribute(attribute, from, to)
        })
    }

    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle> {
        self.call("cuDevicePrimaryCtxRetain", other, |state| {
            state.primary_context_retain(device)
        })
    }

    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()> {
        self.call("cuDevicePrimaryCtxRelease", other, |state| {
            state.primary_context_release(device)
        })
    }

    unsafe fn context_synchronize(&self, context: ContextHandle) -> Result<()> {
        self.call(
            "cuCtxSynchronize",
            |cost| cost.synchronize_call_ns,
            |state| state.context_synchronize(context),
        )
    }

    unsafe fn context_enable_peer_access(
        &self,
        context: ContextHandle,
        peer: ContextHandle,
    ) -> Result<()> {
        self.call(
            "cuCtxEnablePeerAccess",
            |cost| cost.peer_access_call_ns,
            |state| state.context_enable_peer_access(context, peer),
        )
    }

    unsafe fn stream_priority_range(&self, context: ContextHandle) -> Result<PriorityRange> {
        self.call("cuCtxGetStreamPriorityRange", other, |state| {
            state.context(context).map(|_| PRIORITIES)
        })
    }

    unsafe fn stream_create(
        &self,
        context: ContextHandle,
        non_blocking: bool,
        priority: i32,
    ) -> Result<StreamHandle> {
        self.call(
            "cuStreamCreateWithPriority",
            |cost| cost.stream_lifetime_call_ns,
            |state| state.stream_create(context, non_blocking, priority),
        )
    }

    unsafe fn stream_destroy(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        self.call(
            "cuStreamDestroy",
            |cost| cost.stream_lifetime_call_ns,
            |state| state.stream_destroy(context, stream),
        )
    }

    unsafe fn stream_query(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<Completion> {
        self.call(
            "cuStreamQuery",
            |cost| cost.query_call_ns,
            |state| state.stream_query(context, stream),
        )
    }

    unsafe fn stream_context(&self, stream: StreamHandle) -> Result<ContextHandle> {
        self.call("cuStreamGetCtx", other, |state| {
            state.stream_context(stream)
        })
    }

    unsafe fn stream_synchronize(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call(
            "cuStreamSynchronize",
            |cost| cost.synchronize_call_ns,
            |state| state.stream_synchronize(context, stream),
        )
    }

    unsafe fn stream_wait_event(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Result<()> {
        self.call(
            "cuStreamWaitEvent",
            |cost| cost.wait_call_ns,
            |state| state.stream_wait_event(context, stream, event),
        )
    }

    unsafe fn event_create(&self, context: ContextHandle, kind: EventKind) -> Result<EventHandle> {
        self.call(
            "cuEventCreate",
            |cost| cost.event_lifetime_call_ns,
            |state| state.event_create(context, kind),
        )
    }

    unsafe fn event_destroy(&self, context: ContextHandle, event: EventHandle) -> Result<()> {
        self.call(
            "cuEventDestroy",
            |cost| cost.event_lifetime_call_ns,
            |state| state.event_destroy(context, event),
        )
    }

    unsafe fn event_record(
        &self,
        context: ContextHandle,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call(
            "cuEventRecord",
            |cost| cost.record_call_ns,
            |state| state.event_record(context, event, stream),
        )
    }

    unsafe fn event_query(&self, context: ContextHandle, event: EventHandle) -> Result<Completion> {
        self.call(
            "cuEventQuery",
            |cost| cost.query_call_ns,
            |state| state.event_query(context, event),
        )
    }

    unsafe fn event_synchronize(&self, context: ContextHandle, event: EventHandle) -> Result<()> {
        self.call(
            "cuEventSynchronize",
            |cost| cost.synchronize_call_ns,
            |state| state.event_synchronize(context, event),
        )
    }

    unsafe fn event_elapsed_ms(
        &self,
        context: ContextHandle,
        start: EventHandle,
        end: EventHandle,
    ) -> Result<f32> {
        self.call("cuEventElapsedTime", other, |state| {
            state.event_elapsed_ms(context, start, end)
        })
    }

    fn pointer_info(&self, pointer: DevicePtr) -> Result<Option<PointerInfo>> {
        self.call("cuPointerGetAttributes", other, |state| {
            Ok(state.pointer_info(pointer))
        })
    }

    unsafe fn mem_info(&self, context: ContextHandle) -> Result<(u64, u64)> {
        self.call("cuMemGetInfo", other, |state| state.mem_info(context))
    }

    unsafe fn mem_alloc(&self, context: ContextHandle, bytes: usize) -> Result<DevicePtr> {
        self.call(
            "cuMemAlloc",
            |cost| cost.device_memory_call_ns,
            |state| state.mem_alloc(context, bytes),
        )
    }

    unsafe fn mem_alloc_managed(&self, context: ContextHandle, bytes: usize) -> Result<DevicePtr> {
        self.call(
            "cuMemAllocManaged",
            |cost| cost.device_memory_call_ns,
            |state| state.mem_alloc_managed(context, bytes),
        )
    }

    unsafe fn mem_prefetch_async(
        &self,
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        location: ManagedLocation,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call(
            "cuMemPrefetchAsync",
            |cost| cost.prefetch_call_ns,
            |state| state.mem_prefetch_async(context, pointer, bytes, location, stream),
        )
    }

    unsafe fn mem_advise(
        &self,
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        advice: ManagedAdvice,
        location: ManagedLocation,
    ) -> Result<()> {
        self.call("cuMemAdvise", other, |state| {
            state.mem_advise(context, pointer, bytes, advice, location)
        })
    }

    unsafe fn mem_free(&self, context: ContextHandle, pointer: DevicePtr) -> Result<()> {
        self.call(
            "cuMemFree",
            |cost| cost.device_memory_call_ns,
            |state| state.mem_free(context, pointer),
        )
    }

    unsafe fn mem_alloc_async(
        &self,
        context: ContextHandle,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<DevicePtr> {
        self.call(
            "cuMemAllocAsync",
            |cost| cost.pool_call_ns,
            |state| state.mem_alloc_async(context, bytes, None, stream),
        )
    }

    unsafe fn mem_free_async(
        &self,
        context: ContextHandle,
        pointer: DevicePtr,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call(
            "cuMemFreeAsync",
            |cost| cost.pool_call_ns,
            |state| state.mem_free_async(context, pointer, stream),
        )
    }

    fn default_pool(&self, device: DeviceOrdinal) -> Result<PoolHandle> {
        self.call("cuDeviceGetDefaultMemPool", other, |state| {
            let index = state.device_index(device)?;
            Ok(state.devices[index].default_pool)
        })
    }

    unsafe fn pool_set_release_threshold(&self, pool: PoolHandle, bytes: u64) -> Result<()> {
        self.call("cuMemPoolSetAttribute", other, |state| {
            state.pool_set_release_threshold(pool, bytes)
        })
    }

    unsafe fn pool_set_access(
        &self,
        pool: PoolHandle,
        device: DeviceOrdinal,
        accessible: bool,
    ) -> Result<()> {
        self.call(
            "cuMemPoolSetAccess",
            |cost| cost.pool_access_call_ns,
            |state| state.pool_set_access(pool, device, accessible),
        )
    }

    unsafe fn pool_trim(&self, pool: PoolHandle, keep_bytes: usize) -> Result<()> {
        self.call("cuMemPoolTrimTo", other, |state| {
            state.pool_trim(pool, keep_bytes)
        })
    }

    unsafe fn pool_usage(&self, pool: PoolHandle) -> Result<PoolUsage> {
        self.call("cuMemPoolGetAttribute", other, |state| {
            state.pool_usage(pool)
        })
    }

    unsafe fn host_alloc(&self, context: ContextHandle, bytes: usize) -> Result<NonNull<u8>> {
        self.call(
            "cuMemHostAlloc",
            |cost| cost.pinned_memory_call_ns,
            |state| state.host_alloc(context, bytes),
        )
    }

    unsafe fn host_free(&self, context: ContextHandle, pointer: NonNull<u8>) -> Result<()> {
        self.call(
            "cuMemFreeHost",
            |cost| cost.pinned_memory_call_ns,
            |state| state.host_free(context, pointer),
        )
    }

    unsafe fn host_register(
        &self,
        context: ContextHandle,
        pointer: NonNull<u8>,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the caller promises that the range is valid until it is unregistered.
        let range = unsafe { HostRange::new(pointer.as_ptr(), bytes) };
        self.call(
            "cuMemHostRegister",
            |cost| cost.register_call_ns,
            |state| state.host_register(context, range),
        )
    }

    unsafe fn host_unregister(&self, context: ContextHandle, pointer: NonNull<u8>) -> Result<()> {
        self.call(
            "cuMemHostUnregister",
            |cost| cost.register_call_ns,
            |state| state.host_unregister(context, pointer),
        )
    }

    unsafe fn copy_host_to_device(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the caller promises a source that is readable until the copy is complete.
        let ends = (device(target), unsafe { host(source, bytes) });
        self.call("cuMemcpyHtoD", counted_inside, |state| {
            state.copy(
                context,
                ends,
                bytes,
                StreamHandle::LEGACY,
                CopyForm::Synchronous,
            )
        })
    }

    unsafe fn copy_device_to_host(
        &self,
        context: ContextHandle,
        target: *mut u8,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the caller promises a destination that is writable, with exclusive access for the
        // copy, until the copy is complete.
        let ends = (unsafe { host(target, bytes) }, device(source));
        self.call("cuMemcpyDtoH", counted_inside, |state| {
            state.copy(
                context,
                ends,
                bytes,
                StreamHandle::LEGACY,
                CopyForm::Synchronous,
            )
        })
    }

    unsafe fn copy_device_to_device(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()> {
        let ends = (device(target), device(source));
        self.call("cuMemcpyDtoD", counted_inside, |state| {
            state.copy(
                context,
                ends,
                bytes,
                StreamHandle::LEGACY,
                CopyForm::Synchronous,
            )
        })
    }

    unsafe fn copy_host_to_device_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the caller promises a source that is readable until the copy is complete.
        let ends = (device(target), unsafe { host(source, bytes) });
        self.call("cuMemcpyHtoDAsync", counted_inside, |state| {
            state.copy(context, ends, bytes, stream, CopyForm::Async)
        })
    }

    unsafe fn copy_device_to_host_async(
        &self,
        context: ContextHandle,
        target: *mut u8,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the caller promises a destination that is writable, with exclusive access for the
        // copy, until the copy is complete.
        let ends = (unsafe { host(target, bytes) }, device(source));
        self.call("cuMemcpyDtoHAsync", counted_inside, |state| {
            state.copy(context, ends, bytes, stream, CopyForm::Async)
        })
    }

    unsafe fn copy_device_to_device_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        let ends = (device(target), device(source));
        self.call("cuMemcpyDtoDAsync", counted_inside, |state| {
            state.copy(context, ends, bytes, stream, CopyForm::Async)
        })
    }

    unsafe fn copy_unified(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the caller promises that a destination in host memory is writable until the copy
        // is complete.
        let target = unsafe { unified(target, bytes) };
        // SAFETY: the caller promises that a source in host memory is readable until the copy is
        // complete.
        let source = unsafe { unified(source, bytes) };
        let ends = (target, source);
        self.call("cuMemcpy", counted_inside, |state| {
            state.copy(
                context,
                ends,
                bytes,
                StreamHandle::LEGACY,
                CopyForm::Synchronous,
            )
        })
    }

    unsafe fn copy_captured_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the caller promises a source that is readable during the call; it is not read
        // later.
        let ends = (device(target), unsafe { host(source, bytes) });
        self.call("cuMemcpyBatchAsync", counted_inside, |state| {
            state.copy(context, ends, bytes, stream, CopyForm::AsyncCaptured)
        })
    }

    unsafe fn copy_unified_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the caller promises that a destination in host memory is writable until the copy
        // is complete.
        let target = unsafe { unified(target, bytes) };
        // SAFETY: the caller promises that a source in host memory is readable until the copy is
        // complete.
        let source = unsafe { unified(source, bytes) };
        let ends = (target, source);
        self.call("cuMemcpyAsync", counted_inside, |state| {
            state.copy(context, ends, bytes, stream, CopyForm::Async)
        })
    }

    unsafe fn copy_2d_async(
        &self,
        context: ContextHandle,
        copy: &Copy2d,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the caller promises rows that are writable, with exclusive access for the copy,
        // until the copy is complete.
        let target = unsafe { side(&copy.target, copy) };
        // SAFETY: the caller promises rows that are readable until the copy is complete.
        let source = unsafe { side(&copy.source, copy) };
        let ends = (target, source);
        self.call("cuMemcpy2DAsync", counted_inside, |state| {
            state.copy_2d(context, ends, copy, stream, CopyForm::Async)
        })
    }

    unsafe fn copy_peer_async(
        &self,
        context: ContextHandle,
        copy: &PeerCopy,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call("cuMemcpyPeerAsync", counted_inside, |state| {
            state.copy_peer(context, copy, stream)
        })
    }

    unsafe fn copy_peer_2d_async(
        &self,
        context: ContextHandle,
        copy: &PeerCopy2d,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call("cuMemcpy3DPeerAsync", counted_inside, |state| {
            state.copy_peer_2d(context, copy, stream)
        })
    }

    unsafe fn memset_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        let name = match pattern {
            FillPattern::U8(_) => "cuMemsetD8Async",
            FillPattern::U16(_) => "cuMemsetD16Async",
            FillPattern::U32(_) => "cuMemsetD32Async",
        };
        self.call(
            name,
            |cost| cost.memset_call_ns,
            |state| state.memset(context, target, pattern, count, stream),
        )
    }

    unsafe fn module_load(&self, context: ContextHandle, image: &[u8]) -> Result<ModuleHandle> {
        self.call(
            "cuModuleLoadDataEx",
            |cost| cost.module_call_ns,
            |state| state.module_load(context, image),
        )
    }

    unsafe fn module_load_binary(&self, _: ContextHandle, image: &[u8]) -> Result<ModuleHandle> {
        let text = format!(
            "the simulated device runs PTX text, and this is a binary image of {} bytes: pass the \
             PTX from which it was made",
            image.len()
        );
        self.call(
            "cuModuleLoadData",
            |cost| cost.module_call_ns,
            |_| Err(CallError::new(ResultCode::NOT_SUPPORTED, text)),
        )
    }

    unsafe fn module_unload(&self, context: ContextHandle, module: ModuleHandle) -> Result<()> {
        self.call(
            "cuModuleUnload",
            |cost| cost.module_call_ns,
            |state| state.module_unload(context, module),
        )
    }

    unsafe fn module_function(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<FunctionHandle> {
        self.call("cuModuleGetFunction", other, |state| {
            state.module_function(context, module, name)
        })
    }

    unsafe fn module_global(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<(DevicePtr, usize)> {
        self.call("cuModuleGetGlobal", other, |state| {
            state.module_global(context, module, name)
        })
    }

    unsafe fn function_load(&self, context: ContextHandle, function: FunctionHandle) -> Result<()> {
        self.call("cuFuncLoad", other, |state| {
            state.function(context, function).map(|_| ())
        })
    }

    unsafe fn function_attribute(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
    ) -> Result<i32> {
        self.call("cuFuncGetAttribute", other, |state| {
            state.function_attribute(context, function, attribute)
        })
    }

    unsafe fn function_set_attribute(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
        value: i32,
    ) -> Result<()> {
        self.call("cuFuncSetAttribute", other, |state| {
            state.function_set_attribute(context, function, attribute, value)
        })
    }

    unsafe fn launch_kernel(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        // SAFETY: the caller promises a readable value of each parameter's size.
        let params = unsafe { HostParams::new(params) };
        self.call(
            "cuLaunchKernel",
            |cost| cost.launch_call_ns,
            |state| state.launch_kernel(context, function, (dims, false), stream, params),
        )
    }

    unsafe fn launch_kernel_with(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        attributes: &LaunchAttributes,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        // SAFETY: the caller promises a readable value of each parameter's size.
        let params = unsafe { HostParams::new(params) };
        self.call(
            "cuLaunchKernelEx",
            |cost| cost.launch_call_ns,
            |state| state.launch_kernel_with(context, function, dims, attributes, stream, params),
        )
    }

    unsafe fn occupancy_blocks(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        block_threads: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<i32> {
        self.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            other,
            |state| state.occupancy_blocks(context, function, block_threads, dynamic_shared_bytes),
        )
    }

    unsafe fn occupancy_block_size(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dynamic_shared_bytes: usize,
    ) -> Result<BlockSize> {
        self.call("cuOccupancyMaxPotentialBlockSize", other, |state| {
            state.occupancy_block_size(context, function, dynamic_shared_bytes)
        })
    }

    unsafe fn launch_host_function(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        function: HostFunction,
    ) -> Result<()> {
        // The option outlives the call, so that a rejected function is dropped without the lock:
        // its captures belong to the caller and may call the driver.
        let mut function = Some(function);
        self.call(
            "cuLaunchHostFunc",
            |cost| cost.host_function_call_ns,
            |state| state.launch_host_function(context, stream, &mut function),
        )
    }

    unsafe fn graph_create(&self, context: ContextHandle) -> Result<GraphHandle> {
        self.call("cuGraphCreate", other, |state| state.graph_create(context))
    }

    unsafe fn graph_destroy(&self, context: ContextHandle, graph: GraphHandle) -> Result<()> {
        self.call("cuGraphDestroy", other, |state| {
            state.graph_destroy(context, graph)
        })
    }

    unsafe fn graph_clone(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<GraphHandle> {
        self.call("cuGraphClone", other, |state| {
            state.graph_clone(context, graph)
        })
    }

    unsafe fn graph_add_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        node: &GraphNode<'_>,
    ) -> Result<GraphNodeHandle> {
        let name = match node {
            GraphNode::Kernel(_) => "cuGraphAddKernelNode",
            GraphNode::Copy(_) => "cuGraphAddMemcpyNode",
            GraphNode::Fill { .. } => "cuGraphAddMemsetNode",
            GraphNode::Empty => "cuGraphAddEmptyNode",
            GraphNode::Child(_) => "cuGraphAddChildGraphNode",
        };
        // SAFETY: the caller promises what the node's operation requires, in every launch.
        let node = unsafe { given(node) };
        self.call(
            name,
            |cost| cost.graph_node_call_ns,
            |state| state.graph_add_node(context, graph, dependencies, &node),
        )
    }

    unsafe fn graph_add_dependencies(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        pairs: &[(GraphNodeHandle, GraphNodeHandle)],
    ) -> Result<()> {
        self.call("cuGraphAddDependencies", other, |state| {
            state.graph_add_dependencies(context, graph, pairs)
        })
    }

    unsafe fn graph_condition(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        initial: u32,
    ) -> Result<ConditionHandle> {
        self.call("cuGraphConditionalHandleCreate", other, |state| {
            state.graph_condition(context, graph, initial)
        })
    }

    unsafe fn graph_add_conditional(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        kind: ConditionalKind,
    ) -> Result<ConditionalNode> {
        self.call(
            "cuGraphAddNode",
            |cost| cost.graph_node_call_ns,
            |state| {
                let form = match kind {
                    ConditionalKind::If => ConditionalForm::If,
                    ConditionalKind::While => ConditionalForm::While,
                };
                let (node, bodies) = state.graph_add_conditional(
                    context,
                    graph,
                    dependencies,
                    condition,
                    (form, 1),
                )?;
                Ok(ConditionalNode {
                    node,
                    body: bodies[0],
                })
            },
        )
    }

    unsafe fn graph_instantiate(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<GraphExecHandle> {
        self.call(
            "cuGraphInstantiateWithParams",
            |cost| cost.graph_instantiate_call_ns,
            |state| state.graph_instantiate(context, graph),
        )
    }

    unsafe fn graph_exec_destroy(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
    ) -> Result<()> {
        self.call("cuGraphExecDestroy", other, |state| {
            state.graph_exec_destroy(context, exec)
        })
    }

    unsafe fn graph_upload(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call(
            "cuGraphUpload",
            |cost| cost.graph_upload_call_ns,
            |state| state.graph_upload(context, exec, stream),
        )
    }

    unsafe fn graph_launch(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call("cuGraphLaunch", counted_inside, |state| {
            state.graph_launch(context, exec, stream)
        })
    }

    unsafe fn graph_exec_set_node(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        let name = match operation {
            GraphNode::Kernel(_) => "cuGraphExecKernelNodeSetParams",
            GraphNode::Copy(_) => "cuGraphExecMemcpyNodeSetParams",
            GraphNode::Fill { .. } => "cuGraphExecMemsetNodeSetParams",
            GraphNode::Empty => "cuGraphExecNodeSetParams",
            GraphNode::Child(_) => "cuGraphExecChildGraphNodeSetParams",
        };
        // SAFETY: the caller promises what the node's operation requires, in every launch.
        let operation = unsafe { given(operation) };
        self.call(
            name,
            |cost| cost.graph_set_node_call_ns,
            |state| state.graph_exec_set_node(context, exec, node, &operation),
        )
    }

    unsafe fn graph_set_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        let name = match operation {
            GraphNode::Kernel(_) => "cuGraphKernelNodeSetParams",
            GraphNode::Copy(_) => "cuGraphMemcpyNodeSetParams",
            GraphNode::Fill { .. } => "cuGraphMemsetNodeSetParams",
            GraphNode::Empty | GraphNode::Child(_) => "cuGraphNodeSetParams",
        };
        // SAFETY: the caller promises what the node's operation requires, in every launch.
        let operation = unsafe { given(operation) };
        self.call(
            name,
            |cost| cost.graph_set_node_call_ns,
            |state| {
                state.graph(context, graph)?;
                state.check_node(graph, node)?;
                state.graph_set_node(context, node, &operation)
            },
        )
    }

    unsafe fn graph_kernels(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<Option<Vec<GraphKernel>>> {
        self.call("cuGraphGetNodes", other, |state| {
            state.graph(context, graph)?;
            Ok(state.graph_kernels(graph))
        })
    }

    unsafe fn graph_exec_update(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        graph: GraphHandle,
    ) -> Result<()> {
        self.call("cuGraphExecUpdate", other, |state| {
            state.graph_exec_update(context, exec, graph)
        })
    }

    unsafe fn stream_begin_capture(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        mode: CaptureMode,
    ) -> Result<()> {
        self.call("cuStreamBeginCapture", other, |state| {
            state.stream_begin_capture(context, stream, mode)
        })
    }

    unsafe fn stream_end_capture(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<GraphHandle> {
        self.call("cuStreamEndCapture", other, |state| {
            state.stream_end_capture(context, stream)
        })
    }

    unsafe fn stream_capture_info(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<CaptureInfo> {
        self.call("cuStreamGetCaptureInfo", other, |state| {
            state.stream_capture_info(context, stream)
        })
    }

    unsafe fn stream_set_capture_dependencies(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        dependencies: &[GraphNodeHandle],
    ) -> Result<()> {
        self.call("cuStreamUpdateCaptureDependencies", other, |state| {
            state.stream_set_capture_dependencies(context, stream, dependencies)
        })
    }
}
