//! Context calls: primary contexts, which a device shares by counting references, and own contexts,
//! which one call creates and another destroys.

use millstream_driver::{
    ContextHandle, DeviceOrdinal, DevicePtr, PointerInfo, ResultCode, StreamHandle,
};

use crate::{
    ReportKind,
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        objects::{device::Context, stream::WaitSet},
    },
    ids::StreamKind,
    memory::{HEAP_BYTES, MemoryKind},
    race::Input,
};

impl StateGuard<'_> {
    /// Retains a device's primary context, and creates it at the first call.
    pub(crate) fn primary_context_retain(
        &mut self,
        ordinal: DeviceOrdinal,
    ) -> CallResult<ContextHandle> {
        let index = self.device_index(ordinal)?;
        self.devices[index].references += 1;
        if let Some(context) = self.devices[index].context {
            return Ok(context);
        }
        let handle = self.handles.next_context(index as u32);
        let legacy = self.handles.next_stream(index as u32, StreamKind::Legacy);
        self.add_context(handle, index, legacy);
        self.devices[index].context = Some(handle);
        Ok(handle)
    }

    /// Creates a context that is not its device's primary context.
    pub(crate) fn context_create(&mut self, ordinal: DeviceOrdinal) -> CallResult<ContextHandle> {
        let index = self.device_index(ordinal)?;
        let handle = self.handles.next_own_context(index as u32);
        let legacy = self
            .handles
            .next_stream(index as u32, StreamKind::OwnLegacy);
        self.add_context(handle, index, legacy);
        Ok(handle)
    }

    /// Destroys a context of [`context_create`](Self::context_create) after its work is complete.
    pub(crate) fn context_destroy(&mut self, context: ContextHandle) -> CallResult<()> {
        self.check_context(context)?;
        let primary = self
            .devices
            .iter()
            .position(|it| it.context == Some(context));
        if let Some(index) = primary {
            return Err(self.violation(
                ReportKind::BadArgument,
                ResultCode::INVALID_CONTEXT,
                format!("the primary context of device {index} is released, not destroyed"),
            ));
        }
        self.end_context(context);
        Ok(())
    }

    /// Registers a context with its legacy default stream.
    fn add_context(&mut self, handle: ContextHandle, device: usize, legacy: StreamHandle) {
        self.add_stream(legacy, handle, false, 0);
        let now_ns = self.now_ns;
        self.contexts.insert(
            handle,
            Context {
                device: device as u32,
                legacy,
                per_thread: Vec::new(),
                busy_until_ns: now_ns,
                destroyed_blocking_until_ns: now_ns,
                fence: WaitSet::default(),
                peers: Default::default(),
                heap_bytes: HEAP_BYTES,
                heap_is_used: false,
                lost: None,
            },
        );
    }

    /// Releases a reference to a device's primary context. The last release waits for the context's
    /// work and destroys it.
    pub(crate) fn primary_context_release(&mut self, ordinal: DeviceOrdinal) -> CallResult<()> {
        let index = self.device_index(ordinal)?;
        let Some(context) = self.devices[index].context else {
            return Err(self.violation(
                ReportKind::DeadHandle,
                ResultCode::INVALID_CONTEXT,
                format!("device {index} has no primary context to release"),
            ));
        };
        self.devices[index].references -= 1;
        if self.devices[index].references > 0 {
            return Ok(());
        }
        self.devices[index].context = None;
        self.end_context(context);
        Ok(())
    }

    /// Waits for the context's work and destroys it.
    fn end_context(&mut self, context: ContextHandle) {
        self.release_holds(context);
        let wait_set = self.context_wait_set(context);
        let seen = self.context_snapshot(context);
        self.wait(&wait_set);
        self.race_checker.take(Input::Observed(seen));
        self.destroy_context(context);
    }

    /// Destroys all objects of the context. Its work must be complete.
    fn destroy_context(&mut self, context: ContextHandle) {
        for base in self.memory.live_in(context) {
            self.end_allocation(base, None);
        }
        let state = &mut **self;
        if let Some(gone) = state.contexts.remove(&context) {
            // All memory of the device is idle now, if this was its last context. Its pools release
            // everything, since there may never be another context.
            if !state.contexts.values().any(|it| it.device == gone.device) {
                let pools = state.pools.values_mut();
                for pool in pools.filter(|pool| pool.device == gone.device) {
                    pool.bytes.synchronised();
                    pool.bytes.trim(0);
                }
            }
        }
        for other in state.contexts.values_mut() {
            other.peers.remove(&context);
        }
        state.streams.retain(|_, stream| stream.context != context);
        state.race_checker.take(Input::ContextDestroyed(context));
        state.events.retain(|_, event| event.context != context);
        state.drop_captures(context);
        state.images.context_destroyed(context);
        state.graphs.retain(|_, graph| graph.context != context);
        state
            .executables
            .retain(|_, executable| executable.context != context);
        state
            .functions
            .retain(|_, function| function.context != context);
        state.modules.retain(|_, module| module.context != context);
        state.print_profile();
    }

    /// Waits for all work of the context.
    pub(crate) fn context_synchronize(&mut self, context: ContextHandle) -> CallResult<()> {
        self.context(context)?;
        self.refuse_in_capture_of(context)?;
        let wait_set = self.context_wait_set(context);
        let seen = self.context_snapshot(context);
        self.wait_of_program(&wait_set, seen);
        self.synchronised(context)
    }

    /// Sets the size of the heap of the context's kernels, before the first launch that uses it.
    pub(crate) fn context_set_heap(
        &mut self,
        context: ContextHandle,
        bytes: u64,
    ) -> CallResult<()> {
        let device = self.context(context)?;
        let free = self.free_bytes(device);
        if bytes > free {
            let text = format!("a heap of {bytes} bytes; {free} are free");
            return Err(CallError::new(ResultCode::OUT_OF_MEMORY, text));
        }
        match self.contexts.get_mut(&context) {
            Some(state) if !state.heap_is_used => state.heap_bytes = bytes,
            _ => {
                let text = "the size of the heap, after the launch of a kernel that uses the heap";
                let code = ResultCode::INVALID_VALUE;
                return Err(self.violation(ReportKind::BadArgument, code, text.to_owned()));
            }
        }
        Ok(())
    }

    /// Returns the free and the total memory of the context's device in bytes.
    pub(crate) fn mem_info(&mut self, context: ContextHandle) -> CallResult<(u64, u64)> {
        let device = self.context(context)?;
        Ok((self.free_bytes(device), self.config.memory_bytes))
    }

    /// Returns the allocation that contains the address, unless its free was enqueued.
    pub(crate) fn pointer_info(&self, pointer: DevicePtr) -> CallResult<Option<PointerInfo>> {
        let found = self.memory.around(pointer.as_raw());
        let found =
            found.filter(|found| !found.is_dead_to_new_work() && found.kind != MemoryKind::Heap);
        Ok(found.map(|found| PointerInfo {
            device: DeviceOrdinal::from_raw(found.device.cast_signed()),
            on_device: !matches!(found.kind, MemoryKind::Pinned | MemoryKind::Registered),
            start: DevicePtr::from_raw(found.base),
            bytes: found.bytes,
        }))
    }
}
