//! Page-locked host memory calls.

use std::ptr::NonNull;

use millstream_driver::{ContextHandle, DevicePtr, ResultCode};

use crate::{
    ReportKind,
    core::{call_error::CallResult, gpu::StateGuard, host_out_of_memory},
    memory::{HostMemoryKind, MemoryKind, host::HostRange},
};

impl StateGuard<'_> {
    /// Allocates page-locked memory.
    pub(crate) fn host_alloc(
        &mut self,
        context: ContextHandle,
        bytes: usize,
    ) -> CallResult<NonNull<u8>> {
        let device = self.context(context)?;
        if bytes == 0 {
            let text = "a page-locked allocation of 0 bytes; allocate at least 1".to_owned();
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        let start = self
            .memory
            .add_host(MemoryKind::Pinned, context, device, bytes)
            .ok_or_else(|| host_out_of_memory(bytes))?;
        self.fence(context);
        Ok(start)
    }

    /// Frees or unregisters page-locked memory after every device is idle (rule 30: freeing memory
    /// waits for the device).
    fn end_host(
        &mut self,
        context: ContextHandle,
        pointer: NonNull<u8>,
        kind: MemoryKind,
    ) -> CallResult<()> {
        // Freeing also works in a lost context; the final `synchronised` returns the sticky error.
        self.check_context(context)?;
        let address = DevicePtr::from_raw(pointer.as_ptr().addr() as u64);
        let base = self.freeable(address, &[kind])?;
        self.wait_for_devices();
        self.freeable(address, &[kind])?;
        self.end_allocation(base, None);
        self.synchronised(context)
    }

    pub(crate) fn host_free(
        &mut self,
        context: ContextHandle,
        pointer: NonNull<u8>,
    ) -> CallResult<()> {
        self.end_host(context, pointer, MemoryKind::Pinned)
    }

    /// Registers pageable memory as page-locked.
    pub(crate) fn host_register(
        &mut self,
        context: ContextHandle,
        range: HostRange,
    ) -> CallResult<()> {
        let device = self.context(context)?;
        if range.bytes() == 0 {
            let text = "a registration of 0 bytes; register at least 1".to_owned();
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        match self
            .memory
            .classify_host(range.address(), range.bytes() as u64)
        {
            Ok(HostMemoryKind::Pageable) => {}
            Ok(HostMemoryKind::Pinned) => {
                let text = format!(
                    "{} bytes of host memory at {:#x} are page-locked already",
                    range.bytes(),
                    range.address()
                );
                let code = ResultCode::HOST_MEMORY_ALREADY_REGISTERED;
                return Err(self.violation(ReportKind::BadArgument, code, text));
            }
            Ok(HostMemoryKind::Managed) => {
                let text = format!(
                    "{} bytes at {:#x} are managed memory, which cannot be registered",
                    range.bytes(),
                    range.address()
                );
                return Err(self.violation(
                    ReportKind::BadArgument,
                    ResultCode::INVALID_VALUE,
                    text,
                ));
            }
            Err(error) => {
                let code = match error.kind {
                    ReportKind::PartlyRegistered => ResultCode::HOST_MEMORY_ALREADY_REGISTERED,
                    _ => ResultCode::INVALID_VALUE,
                };
                return Err(self.violation(error.kind, code, error.to_string()));
            }
        }
        self.memory.add_registered(context, device, range);
        Ok(())
    }

    pub(crate) fn host_unregister(
        &mut self,
        context: ContextHandle,
        pointer: NonNull<u8>,
    ) -> CallResult<()> {
        self.end_host(context, pointer, MemoryKind::Registered)
            .map_err(|mut error| {
                if error.code == ResultCode::INVALID_VALUE {
                    error.code = ResultCode::HOST_MEMORY_NOT_REGISTERED;
                }
                error
            })
    }
}
