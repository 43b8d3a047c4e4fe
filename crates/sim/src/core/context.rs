//! Devices and their primary contexts.

use std::{collections::VecDeque, thread::ThreadId};

use millstream_driver::{ContextHandle, DeviceOrdinal, PoolHandle, ResultCode, StreamHandle};
use millstream_ptx::Site;

use super::{
    engine::Engines,
    op::OpKind,
    state::{CallError, CallResult, SimState, Stream},
    wait_set::WaitSet,
};
use crate::{
    ReportKind,
    ids::{OpId, StreamKind, name},
    memory::pool::Pool,
};

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) pool_handle: PoolHandle,
    pub(crate) pool: Pool,
    /// Bytes of memory outside the pool.
    pub(crate) non_pool_bytes: u64,
    pub(crate) context: Option<ContextHandle>,
    pub(crate) references: u64,
    pub(crate) engines: Engines,
}

/// A device's primary context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: u32,
    /// The legacy default stream (rule 17).
    pub(crate) legacy: StreamHandle,
    /// The per-thread default streams (rule 19).
    pub(crate) per_thread: Vec<(ThreadId, StreamHandle)>,
    /// When the last of the finished work was done.
    pub(crate) busy_until_ns: u64,
    /// The same for the work of blocking streams that were destroyed.
    pub(crate) destroyed_blocking_until_ns: u64,
    /// What all later work waits for, when rule 29 is read strictly.
    pub(crate) fence: WaitSet,
    /// The sticky error, once there is one.
    pub(crate) lost: Option<CallError>,
}

impl SimState {
    /// The device that `ordinal` names.
    pub(crate) fn device_index(&self, ordinal: DeviceOrdinal) -> CallResult<usize> {
        usize::try_from(ordinal.as_raw())
            .ok()
            .filter(|&index| index < self.devices.len())
            .ok_or_else(|| {
                CallError::new(
                    ResultCode::INVALID_DEVICE,
                    format!("there are {} devices", self.devices.len()),
                )
            })
    }

    /// Refuses a context that is not alive. A lost one is alive.
    pub(crate) fn known_context(&mut self, context: ContextHandle) -> CallResult<()> {
        if let Some(found) = self.contexts.get(&context) {
            self.call_device.get_or_insert(found.device);
            return Ok(());
        }
        let (kind, text) = self.handles.explain(context);
        Err(self.violation(kind, ResultCode::INVALID_CONTEXT, text))
    }

    /// The context's sticky error, if it has one: for calls that clean up even when the context is
    /// lost.
    pub(crate) fn context_even_lost(
        &mut self,
        context: ContextHandle,
    ) -> CallResult<CallResult<()>> {
        self.known_context(context)?;
        Ok(self.contexts[&context].lost.clone().map_or(Ok(()), Err))
    }

    /// The context's device, or the context's sticky error.
    pub(crate) fn context(&mut self, context: ContextHandle) -> CallResult<u32> {
        self.context_even_lost(context)??;
        Ok(self.contexts[&context].device)
    }

    /// Free memory of a device, in bytes.
    pub(crate) fn free_bytes(&self, device: u32) -> u64 {
        let device = &self.devices[device as usize];
        self.config
            .memory_bytes
            .saturating_sub(device.non_pool_bytes + device.pool.usage().reserved_bytes)
    }

    /// Makes a stream record for a new handle.
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
                last: None,
                last_finish_ns: 0,
                site: Site::current(),
                destroyed: false,
                queued: VecDeque::new(),
            },
        );
    }

    /// The context fails for good: its queues drain without effect, and its host functions are
    /// never called (rule 28). Every later call in it answers `code`, and tells by what it was
    /// lost.
    pub(crate) fn lose_context(&mut self, context: ContextHandle, code: ResultCode, by: &str) {
        if let Some(context) = self.contexts.get_mut(&context) {
            context.lost = Some(CallError::new(
                code,
                format!("the context was lost by {by}"),
            ));
        }
        // Nothing of it will run any more.
        let seen = self.context_snapshot(context);
        self.race_checker.host_observed(&seen);
        self.drain(context);
    }

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
            self.race_cancelled(id, &op.kind);
            match &mut op.kind {
                // Its captures may be in use by whoever waits for it, so it is leaked, as the
                // driver leaks it.
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
    /// The host has waited for work of the context: its pool may reuse and release, and the wait
    /// may have failed.
    pub(crate) fn synchronised(&mut self, context: ContextHandle) -> CallResult<()> {
        let device = self.context(context)?;
        self.devices[device as usize].pool.synchronised();
        Ok(())
    }

    /// The stream behind a handle, which must belong to `context` (rule 20).
    pub(crate) fn stream(
        &mut self,
        context: ContextHandle,
        handle: StreamHandle,
    ) -> CallResult<StreamHandle> {
        self.context(context)?;
        self.stream_even_lost(context, handle)
    }

    /// The same, when the context may be lost.
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

    fn per_thread_stream(&mut self, context: ContextHandle) -> StreamHandle {
        let thread = std::thread::current().id();
        let known = &self.contexts[&context].per_thread;
        if let Some((_, stream)) = known.iter().find(|(id, _)| *id == thread) {
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
