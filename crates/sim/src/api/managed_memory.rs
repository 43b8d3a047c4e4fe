//! Managed memory calls (rules 49 to 51: one address for the host and every device; prefetches and
//! advice are hints).

use millstream_driver::{
    ContextHandle, DevicePtr, ManagedAdvice, ManagedLocation, ResultCode, StreamHandle,
};

use crate::{
    ReportKind,
    core::{
        call_error::CallResult,
        gpu::StateGuard,
        host_out_of_memory,
        objects::stream::WaitSet,
        op::{OpKind, PrefetchOp},
    },
    memory::{AccessTime, MemoryKind},
};

impl StateGuard<'_> {
    /// Allocates managed memory.
    pub(crate) fn mem_alloc_managed(
        &mut self,
        context: ContextHandle,
        bytes: usize,
    ) -> CallResult<DevicePtr> {
        let device = self.context(context)?;
        self.refuse_empty(bytes)?;
        let start = self
            .memory
            .add_host(MemoryKind::Managed, context, device, bytes)
            .ok_or_else(|| host_out_of_memory(bytes))?;
        self.fence(context);
        Ok(DevicePtr::from_raw(
            start.as_ptr().expose_provenance() as u64
        ))
    }

    /// Validates the operands of a hint. The range must be within one managed allocation, and the
    /// location must exist.
    fn managed_range(
        &mut self,
        pointer: DevicePtr,
        bytes: usize,
        location: ManagedLocation,
    ) -> CallResult<()> {
        if let ManagedLocation::Device(ordinal) = location {
            self.device_index(ordinal)?;
        }
        let (kind, text) = if bytes == 0 {
            (
                ReportKind::BadArgument,
                "a hint about 0 bytes; give at least 1".to_owned(),
            )
        } else {
            match self
                .memory
                .locate(pointer.as_raw(), bytes as u64, AccessTime::Call)
            {
                Ok((found, _)) if found.kind.is_managed() => return Ok(()),
                Ok((found, _)) => (
                    ReportKind::BadArgument,
                    format!(
                        "a hint about memory that is not managed: {}",
                        found.describe()
                    ),
                ),
                Err(error) => (error.kind, error.to_string()),
            }
        };
        Err(self.violation(kind, ResultCode::INVALID_VALUE, text))
    }

    /// Enqueues a prefetch of managed memory.
    pub(crate) fn mem_prefetch_async(
        &mut self,
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        location: ManagedLocation,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let stream = self.stream(context, stream)?;
        self.managed_range(pointer, bytes, location)?;
        if self.captures(stream)? {
            self.refuse_in_capture(stream, "a prefetch")?;
        }
        let prefetch = PrefetchOp {
            start: pointer.as_raw(),
            bytes: bytes as u64,
            location,
        };
        self.enqueue(stream, OpKind::Prefetch(prefetch), &WaitSet::default());
        Ok(())
    }

    /// Validates advice about managed memory, which has no effect. The location matters only for
    /// advice about one.
    pub(crate) fn mem_advise(
        &mut self,
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        advice: ManagedAdvice,
        location: ManagedLocation,
    ) -> CallResult<()> {
        self.context(context)?;
        let location = if advice.uses_location() {
            location
        } else {
            ManagedLocation::Host
        };
        self.managed_range(pointer, bytes, location)
    }
}
