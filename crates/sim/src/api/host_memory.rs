//! Calls for page-locked host memory.

use std::ptr::NonNull;

use millstream_driver::{ContextHandle, DevicePtr, ResultCode};

use crate::{
    ReportKind,
    core::{gpu::Session, host_out_of_memory, world::Answer},
    memory::{HostMemory, Kind, host::HostRange},
};

impl Session<'_> {
    pub(crate) fn host_alloc(
        &mut self,
        context: ContextHandle,
        bytes: usize,
    ) -> Answer<NonNull<u8>> {
        let device = self.context(context)?;
        if bytes == 0 {
            let text = "a page-locked allocation of 0 bytes".to_owned();
            return Err(self.breach(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        let start = self
            .memory
            .add_host(Kind::Pinned, context, device, bytes)
            .ok_or_else(|| host_out_of_memory(bytes))?;
        self.fence(context);
        Ok(start)
    }

    /// Ends page-locked memory of one kind, once every device is idle (rule 30).
    fn end_host(&mut self, context: ContextHandle, pointer: NonNull<u8>, kind: Kind) -> Answer<()> {
        // Also in a lost context; the synchronisation at the end answers that.
        self.known_context(context)?;
        let address = DevicePtr::from_raw(pointer.as_ptr().addr() as u64);
        let base = self.freeable(address, &[kind])?;
        self.wait_for_devices();
        self.freeable(address, &[kind])?;
        self.end_allocation(base, None);
        self.synchronised(context)
    }

    pub(crate) fn host_free(&mut self, context: ContextHandle, pointer: NonNull<u8>) -> Answer<()> {
        self.end_host(context, pointer, Kind::Pinned)
    }

    pub(crate) fn host_register(&mut self, context: ContextHandle, range: HostRange) -> Answer<()> {
        let device = self.context(context)?;
        if range.bytes() == 0 {
            let text = "a registration of 0 bytes".to_owned();
            return Err(self.breach(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        match self
            .memory
            .classify_host(range.address(), range.bytes() as u64)
        {
            Ok(HostMemory::Pageable) => {}
            Ok(HostMemory::Pinned) => {
                let text = format!(
                    "{} bytes of host memory at {:#x} are page-locked already",
                    range.bytes(),
                    range.address()
                );
                let code = ResultCode::HOST_MEMORY_ALREADY_REGISTERED;
                return Err(self.breach(ReportKind::BadArgument, code, text));
            }
            Ok(HostMemory::Managed) => {
                let text = format!(
                    "{} bytes at {:#x} are managed",
                    range.bytes(),
                    range.address()
                );
                return Err(self.breach(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
            }
            Err(error) => {
                let code = match error.kind {
                    ReportKind::PartlyRegistered => ResultCode::HOST_MEMORY_ALREADY_REGISTERED,
                    _ => ResultCode::INVALID_VALUE,
                };
                return Err(self.breach(error.kind, code, error.to_string()));
            }
        }
        self.memory.add_registered(context, device, range);
        Ok(())
    }

    pub(crate) fn host_unregister(
        &mut self,
        context: ContextHandle,
        pointer: NonNull<u8>,
    ) -> Answer<()> {
        self.end_host(context, pointer, Kind::Registered)
            .map_err(|mut refusal| {
                if refusal.code == ResultCode::INVALID_VALUE {
                    refusal.code = ResultCode::HOST_MEMORY_NOT_REGISTERED;
                }
                refusal
            })
    }
}
