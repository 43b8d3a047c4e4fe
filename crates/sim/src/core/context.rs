//! Devices and their contexts.

use std::collections::VecDeque;

use millstream_driver::{ContextHandle, DeviceOrdinal, ResultCode, StreamHandle};
use millstream_ptx::Site;

use super::{
    call_error::{CallError, CallResult},
    objects::{pool::MemoryPool, stream::Stream},
    op::OpKind,
    state::SimState,
};
use crate::{
    ReportKind,
    ids::{OpId, StreamKind, name},
    race::Input,
};

impl SimState {
    /// Returns the index of the device with this ordinal. Fails with `INVALID_DEVICE` if there is
    /// none.
    pub(crate) fn device_index(&self, ordinal: DeviceOrdinal) -> CallResult<usize> {
        usize::try_from(ordinal.as_raw())
            .ok()
            .filter(|&index| index < self.devices.len())
            .ok_or_else(|| {
                CallError::new(
                    ResultCode::INVALID_DEVICE,
                    format!(
                        "there is no device {}; the simulated GPU has {} devices",
                        ordinal.as_raw(),
                        self.devices.len()
                    ),
                )
            })
    }

    /// Checks that the context exists. A lost context exists too.
    pub(crate) fn check_context(&mut self, context: ContextHandle) -> CallResult<()> {
        if let Some(state) = self.contexts.get(&context) {
            self.call_device.get_or_insert(state.device);
            return Ok(());
        }
        let (kind, text) = self.handles.explain(context);
        Err(self.violation(kind, ResultCode::INVALID_CONTEXT, text))
    }

    /// Checks that the context exists and returns its sticky error, if any, as the inner result.
    /// Calls that clean up use it, because they also work in a lost context.
    pub(crate) fn context_even_lost(
        &mut self,
        context: ContextHandle,
    ) -> CallResult<CallResult<()>> {
        self.check_context(context)?;
        Ok(self.contexts[&context].lost.clone().map_or(Ok(()), Err))
    }

    /// Returns the context's device. Fails with the sticky error if the context is lost.
    pub(crate) fn context(&mut self, context: ContextHandle) -> CallResult<u32> {
        self.context_even_lost(context)??;
        Ok(self.contexts[&context].device)
    }

    pub(crate) fn free_bytes(&self, device: u32) -> u64 {
        let reserved = |pool: &MemoryPool| pool.bytes.usage().reserved_bytes;
        let reserved_bytes = self.pools_of(device).map(reserved).sum::<u64>();
        let outside_bytes = self.devices[device as usize].non_pool_bytes;
        let memory_bytes = self.config.memory_bytes;
        memory_bytes.saturating_sub(outside_bytes + reserved_bytes)
    }

    /// Registers a stream under a new handle.
    pub(crate) fn add_stream(
        &mut self,
        handle: StreamHandle,
        context: ContextHandle,
        non_blocking: bool,
        priority: i32,
    ) {
        self.streams.insert(
            handle,
            Stream {
                context,
                non_blocking,
                priority,
                last_finish_ns: 0,
                site: Site::current(),
                destroyed: false,
                pending: VecDeque::new(),
                queued: VecDeque::new(),
                capture: None,
            },
        );
    }

    /// Marks a context as lost: its queues drain without effect, and its host functions are never
    /// called (rule 28). Every later call in it fails with `code`; the error text names the cause
    /// `by`.
    pub(crate) fn lose_context(&mut self, context: ContextHandle, code: ResultCode, by: &str) {
        if let Some(context) = self.contexts.get_mut(&context) {
            context.lost = Some(CallError::new(
                code,
                format!("the context was lost by {by}"),
            ));
        }
        // No operation of the context runs after this.
        let seen = self.context_snapshot(context);
        self.race_checker.take(Input::Observed(seen));
        self.drain(context);
    }

    /// Retires the context's unfinished operations. Allocations begin and frees end their memory's
    /// lifetime; all other operations have no effect.
    fn drain(&mut self, context: ContextHandle) {
        let pending: Vec<OpId> = self
            .ops
            .iter()
            .filter(|(_, op)| op.context == context)
            .map(|(id, _)| *id)
            .collect();
        for id in pending {
            let Some(mut op) = self.ops.remove(&id) else {
                continue;
            };
            self.eligible.remove(&id);
            if self.waiting.remove(&id).is_some() {
                self.show_waiting();
            }
            self.race_cancelled(id, &op.kind);
            match &mut op.kind {
                // Code that waits for the function may use its captures, so the closure is leaked,
                // as the driver leaks it.
                OpKind::HostFunction(function) => std::mem::forget(function.take()),
                OpKind::Allocation(base) => self.memory.begin(*base),
                OpKind::Free(base) => self.end_allocation(*base, Some(id)),
                _ => {}
            }
            self.retire(id, op, self.now_ns);
        }
    }
}

impl SimState {
    /// Tells the pools of the context's device that the host has synchronised with the context, so
    /// that they may reuse and release memory. Fails with the sticky error if the context is lost.
    pub(crate) fn synchronised(&mut self, context: ContextHandle) -> CallResult<()> {
        let device = self.context(context)?;
        let pools = self.pools.values_mut();
        for pool in pools.filter(|pool| pool.device == device) {
            pool.bytes.synchronised();
        }
        Ok(())
    }

    /// Resolves a stream handle, which must belong to `context` (rule 20: a stream belongs to the
    /// context that created it). Fails with the sticky error if the context is lost, and for the
    /// legacy default stream while a blocking stream captures (rule 42).
    pub(crate) fn stream(
        &mut self,
        context: ContextHandle,
        handle: StreamHandle,
    ) -> CallResult<StreamHandle> {
        self.context(context)?;
        let stream = self.stream_even_lost(context, handle)?;
        if stream == self.contexts[&context].legacy {
            self.refuse_legacy_in_capture(context)?;
        }
        Ok(stream)
    }

    /// Resolves a stream handle like [`stream`](Self::stream), but also in a lost context.
    pub(crate) fn stream_even_lost(
        &mut self,
        context: ContextHandle,
        handle: StreamHandle,
    ) -> CallResult<StreamHandle> {
        let null = StreamHandle::from_raw(0);
        if handle == StreamHandle::LEGACY || handle == null {
            return Ok(self.contexts[&context].legacy);
        }
        if handle == StreamHandle::PER_THREAD {
            return Ok(self.per_thread_stream(context));
        }
        let (kind, text) = match self.streams.get(&handle) {
            Some(stream) if stream.context == context && !stream.destroyed => return Ok(handle),
            Some(stream) if !stream.destroyed => (
                ReportKind::WrongContext,
                format!(
                    "{} belongs to {}, not {} (rule 20)",
                    name(handle),
                    name(stream.context),
                    name(context)
                ),
            ),
            _ => self.handles.explain(handle),
        };
        Err(self.violation(kind, ResultCode::INVALID_HANDLE, text))
    }

    /// Returns the calling thread's default stream in the context; creates it at the first use.
    fn per_thread_stream(&mut self, context: ContextHandle) -> StreamHandle {
        let thread = std::thread::current().id();
        let streams = &self.contexts[&context].per_thread;
        if let Some((_, stream)) = streams.iter().find(|(id, _)| *id == thread) {
            return *stream;
        }
        let device = self.contexts[&context].device;
        let stream = self.handles.next_stream(device, StreamKind::PerThread);
        self.add_stream(stream, context, false, 0);
        if let Some(context) = self.contexts.get_mut(&context) {
            context.per_thread.push((thread, stream));
        }
        stream
    }
}
