//! The calls of virtual memory management, which only programs of CUDA's driver API make.

use std::ops::Range;

use millstream_driver::{DeviceOrdinal, ResultCode};
use millstream_ptx::Site;

use super::driver::{Result, other};
use crate::{
    Gpu, ReportKind,
    core::{
        budgeted,
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        host_out_of_memory,
    },
    memory::virtual_memory::{GRANULARITY, Physical},
    race::{Effect, Input},
};

/// A call of virtual memory management, for [`Gpu::virtual_memory`]. Sizes are in bytes; they and
/// addresses are multiples of [`Gpu::MEMORY_GRANULARITY`].
///
/// ```
/// use millstream_driver::{DeviceOrdinal, DevicePtr, Driver, FillPattern};
/// use millstream_sim::{Gpu, SimConfig, VirtualMemoryCall as Call};
/// let gpu = Gpu::new(SimConfig::new());
/// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
/// let bytes = Gpu::MEMORY_GRANULARITY;
/// let call = |call| gpu.virtual_memory("example", call).unwrap();
/// let base = call(Call::Reserve { bytes: 2 * bytes, alignment: 0 });
/// let handle = call(Call::Create { bytes, device: 0 });
/// call(Call::Map { base, bytes, handle });
/// call(Call::SetAccess { base, bytes, device: 0, flags: 3 });
/// let fill = |address| {
///     let (pattern, stream) = (FillPattern::U8(7), millstream_driver::StreamHandle::LEGACY);
///     // SAFETY: context and stream are alive; the simulator checks the address.
///     unsafe { gpu.memset_async(context, DevicePtr::from_raw(address), pattern, 16, stream) }
/// };
/// fill(base).unwrap();
/// assert!(fill(base + bytes).is_err(), "nothing is mapped there");
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "the fields have the names of CUDA's parameters"
)]
pub enum VirtualMemoryCall {
    /// Reserves addresses at a multiple of `alignment`, which is 0 or a power of two
    /// (`cuMemAddressReserve`). The answer is the first one.
    Reserve { bytes: u64, alignment: u64 },
    /// Frees a whole reserved range, in which nothing is mapped (`cuMemAddressFree`).
    Unreserve { base: u64, bytes: u64 },
    /// Creates physical memory with undefined contents (`cuMemCreate`). The answer is its handle.
    Create { bytes: u64, device: i32 },
    /// Releases a handle (`cuMemRelease`). The memory lives on while it is mapped.
    Release { handle: u64 },
    /// Maps the first bytes of physical memory into a reserved range, without access (`cuMemMap`).
    Map { base: u64, bytes: u64, handle: u64 },
    /// Ends whole mappings (`cuMemUnmap`). It does not wait: work that uses them must be complete.
    Unmap { base: u64, bytes: u64 },
    /// Sets what a device may do with whole mappings (`cuMemSetAccess`): 0, nothing; 1, read; 3,
    /// read and write.
    #[rustfmt::skip]
    SetAccess { base: u64, bytes: u64, device: i32, flags: i32 },
    /// Answers what a device may do with mapped memory (`cuMemGetAccess`).
    Access { address: u64, device: i32 },
    /// Answers the handle of mapped memory, which must be released once more
    /// (`cuMemRetainAllocationHandle`).
    Retain { address: u64 },
    /// Answers the device of physical memory (`cuMemGetAllocationPropertiesFromHandle`).
    DeviceOf { handle: u64 },
}

use VirtualMemoryCall as Call;

impl Gpu {
    /// The granularity of physical memory, reserved ranges and mappings, in bytes.
    pub const MEMORY_GRANULARITY: u64 = GRANULARITY;

    /// Makes a call of virtual memory management, by its name in reports. Its answer is 0 unless
    /// the call says which it is.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for operands that are not as the call says, `OUT_OF_MEMORY` if memory or
    /// addresses run out.
    pub fn virtual_memory(&self, name: &'static str, call: VirtualMemoryCall) -> Result<u64> {
        self.call(name, other, |state| state.virtual_memory(call))
    }
}

impl StateGuard<'_> {
    fn virtual_memory(&mut self, call: VirtualMemoryCall) -> CallResult<u64> {
        let answer = match call {
            Call::Reserve { bytes, alignment } => {
                self.granular(0, bytes)?;
                if alignment != 0 && !alignment.is_power_of_two() {
                    return Err(self.refuse(format!("an alignment of {alignment} bytes")));
                }
                let text = format!("no range of {bytes} free addresses is left");
                let none = CallError::new(ResultCode::OUT_OF_MEMORY, text);
                return self.memory.reserve(bytes, alignment).ok_or(none);
            }
            Call::Unreserve { base, bytes } => self.memory.unreserve(base, bytes).map(|()| 0),
            Call::Create { bytes, device } => return self.create_physical(bytes, device),
            Call::Release { handle } => {
                let gone = self.memory.release(handle);
                gone.map(|gone| self.end_physical(gone)).map(|()| 0)
            }
            Call::Map {
                base,
                bytes,
                handle,
            } => {
                self.granular(base, bytes)?;
                let whole = self.memory.physical_bytes(handle);
                if let Ok(whole) = whole
                    && whole != bytes
                {
                    let text = format!("a mapping of {bytes} bytes of memory of {whole} bytes");
                    let (kind, code) = (ReportKind::BadArgument, ResultCode::NOT_SUPPORTED);
                    return Err(self.violation(kind, code, text));
                }
                whole.and_then(|_| self.memory.map(base, bytes, handle).map(|()| 0))
            }
            Call::Unmap { base, bytes } => {
                let range = self.granular(base, bytes)?;
                self.unmap(range).map(|()| 0)
            }
            Call::SetAccess {
                base,
                bytes,
                device,
                flags,
            } => {
                let index = self.device_index(DeviceOrdinal::from_raw(device))? as u32;
                let range = self.granular(base, bytes)?;
                let owner = self
                    .memory
                    .mapping(base)
                    .map_or(index, |found| found.device);
                if owner != index && !self.config.links.between(index, owner).is_peer() {
                    let text = format!("device {device} cannot access memory of device {owner}");
                    return Err(self.refuse(text));
                }
                let rights = [flags & 1 == 1, flags & 2 == 2];
                self.memory.set_access(range, index, rights).map(|()| 0)
            }
            Call::Access { address, device } => {
                let index = self.device_index(DeviceOrdinal::from_raw(device))?;
                let mapped = self
                    .memory
                    .mapping(address)
                    .and_then(|found| found.access());
                let flags = mapped.map(|it| it.read >> index & 1 | (it.write >> index & 1) << 1);
                flags.ok_or_else(|| format!("no memory is mapped at {address:#x}"))
            }
            Call::Retain { address } => self.memory.retain(address),
            Call::DeviceOf { handle } => {
                let found = self.memory.virtual_memory.of_handle(handle);
                found.map(|found| found.device.into())
            }
        };
        answer.map_err(|text| self.refuse(text))
    }

    fn refuse(&mut self, text: String) -> CallError {
        self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text)
    }

    /// Checks that address and size are multiples of the granularity, and the size is not 0.
    fn granular(&mut self, base: u64, bytes: u64) -> CallResult<Range<u64>> {
        match base.checked_add(bytes) {
            Some(end) if bytes > 0 && (base | bytes).is_multiple_of(GRANULARITY) => Ok(base..end),
            _ => Err(self.refuse(format!(
                "{bytes} bytes at {base:#x} are no multiple of the granularity, {GRANULARITY}"
            ))),
        }
    }

    fn create_physical(&mut self, bytes: u64, device: i32) -> CallResult<u64> {
        let index = self.device_index(DeviceOrdinal::from_raw(device))?;
        self.granular(0, bytes)?;
        if bytes > self.free_bytes(index as u32) {
            return Err(self.out_of_memory(bytes, index as u32));
        }
        let created = self.memory.add_physical(index as u32, bytes as usize);
        let handle = created.ok_or_else(|| host_out_of_memory(bytes as usize))?;
        self.devices[index].non_pool_bytes += budgeted(bytes);
        Ok(handle)
    }

    fn unmap(&mut self, range: Range<u64>) -> std::result::Result<(), String> {
        for (info, last, gone) in self.memory.unmap(range)? {
            if last {
                let (effects, call) = (vec![Effect::Unmap(info)], self.call);
                let input = Input::HostDid(effects, call, Site::current());
                self.race_checker.take(input);
                self.take_findings();
            }
            self.end_physical(gone);
        }
        Ok(())
    }

    /// Returns the bytes of physical memory that has ended to the device.
    fn end_physical(&mut self, gone: Option<Physical>) {
        if let Some(gone) = gone {
            self.devices[gone.device as usize].non_pool_bytes -= budgeted(gone.bytes);
            let (effects, call) = (vec![Effect::Discard(gone.info)], self.call);
            self.race_checker.take(Input::HostDid(effects, call, None));
        }
    }
}
