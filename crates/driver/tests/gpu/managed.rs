//! Managed memory: one address for host and device, hints, and what is refused (rules 49 to 51).

#![allow(unsafe_code, reason = "the seam's methods trust their caller")]

use std::ptr::{self, NonNull};

use libtest_mimic::Failed;
use millstream_driver::{
    DeviceAttribute, DevicePtr, Driver, FillPattern, ManagedAdvice, ManagedLocation, ResultCode,
};

use crate::rig::{Gpu, Outcome, check};

const BYTES: usize = 1 << 16;

/// Managed memory, freed with this.
struct Managed<'a> {
    gpu: &'a Gpu,
    pointer: DevicePtr,
    host: NonNull<u8>,
}

impl<'a> Managed<'a> {
    fn new(gpu: &'a Gpu) -> Result<Self, Failed> {
        // SAFETY: the context is retained.
        let pointer = unsafe { gpu.cuda.mem_alloc_managed(gpu.context, BYTES) }?;
        let host = ptr::with_exposed_provenance_mut(pointer.as_raw() as usize);
        Ok(Self {
            gpu,
            pointer,
            host: NonNull::new(host).ok_or("an address that is not null")?,
        })
    }

    /// The host writes every byte. No work uses the memory meanwhile.
    fn write(&self, value: u8) {
        // SAFETY: the allocation has this size, and the tests order all accesses.
        unsafe { self.host.as_ptr().write_bytes(value, BYTES) };
    }

    /// Whether the host reads `value` in every byte. No work writes the memory meanwhile.
    fn is(&self, value: u8) -> bool {
        // SAFETY: the allocation has this size and has been written whole, and the tests order all accesses.
        let bytes = unsafe { std::slice::from_raw_parts(self.host.as_ptr(), BYTES) };
        bytes.iter().all(|&byte| byte == value)
    }

    fn prefetch(&self, location: ManagedLocation) -> Outcome {
        let Gpu {
            cuda,
            context,
            stream,
            ..
        } = self.gpu;
        // SAFETY: the allocation has this size, and is freed behind the stream's work.
        Ok(unsafe { cuda.mem_prefetch_async(*context, self.pointer, BYTES, location, *stream) }?)
    }

    fn advise(&self, advice: ManagedAdvice, location: ManagedLocation) -> Outcome {
        let Gpu { cuda, context, .. } = self.gpu;
        // SAFETY: the allocation has this size.
        Ok(unsafe { cuda.mem_advise(*context, self.pointer, BYTES, advice, location) }?)
    }

    /// Enqueues a fill of all of it.
    fn fill(&self, value: u8) -> Outcome {
        let Gpu {
            cuda,
            context,
            stream,
            ..
        } = self.gpu;
        // SAFETY: the allocation has this size, and the tests order all accesses.
        Ok(unsafe { cuda.memset_async(*context, self.pointer, FillPattern::U8(value), BYTES, *stream) }?)
    }
}

impl Drop for Managed<'_> {
    fn drop(&mut self) {
        // SAFETY: freed once; the call waits for the device.
        let _ = unsafe { self.gpu.cuda.mem_free(self.gpu.context, self.pointer) };
    }
}

fn concurrent(gpu: &Gpu) -> Result<bool, Failed> {
    let attribute = DeviceAttribute::CONCURRENT_MANAGED_ACCESS;
    Ok(gpu.cuda.device_attribute(gpu.device, attribute)? == 1)
}

pub(crate) fn managed_memory_goes_round(gpu: &Gpu) -> Outcome {
    let here = ManagedLocation::Device(gpu.device);
    check(
        gpu.cuda
            .device_attribute(gpu.device, DeviceAttribute::MANAGED_MEMORY)?
            == 1,
        "the device has managed memory",
    )?;
    let managed = Managed::new(gpu)?;
    managed.write(3);
    if concurrent(gpu)? {
        managed.advise(ManagedAdvice::SetPreferredLocation, here)?;
        managed.advise(ManagedAdvice::SetAccessedBy, ManagedLocation::Host)?;
        managed.prefetch(here)?;
    }
    check(
        gpu.read::<u8>(managed.pointer, BYTES)? == [3; BYTES],
        "the device sees what the host wrote",
    )?;
    managed.fill(9)?;
    if concurrent(gpu)? {
        managed.prefetch(ManagedLocation::Host)?;
        managed.advise(ManagedAdvice::UnsetPreferredLocation, here)?;
        managed.advise(ManagedAdvice::UnsetAccessedBy, ManagedLocation::Host)?;
        managed.advise(ManagedAdvice::SetReadMostly, ManagedLocation::Host)?;
        managed.advise(ManagedAdvice::UnsetReadMostly, ManagedLocation::Host)?;
    }
    gpu.synchronize()?;
    check(managed.is(9), "the host sees what the device wrote")?;
    let values: Vec<u8> = (0..BYTES).map(|index| index as u8).collect();
    gpu.write(managed.pointer, &values)?;
    check(
        gpu.read::<u8>(managed.pointer, BYTES)? == values,
        "copies take it for device memory",
    )
}

pub(crate) fn the_host_reads_managed_memory_while_a_stream_is_busy(gpu: &Gpu) -> Outcome {
    if !concurrent(gpu)? {
        return Ok(());
    }
    let (managed, other) = (Managed::new(gpu)?, gpu.alloc(64 << 20)?);
    managed.write(5);
    for _ in 0..20 {
        let fill = FillPattern::U8(1);
        // SAFETY: the allocation has this size.
        unsafe {
            gpu.cuda
                .memset_async(gpu.context, other, fill, 64 << 20, gpu.stream)
        }?;
    }
    check(managed.is(5), "rule 50: while fills of other memory run")?;
    managed.write(6);
    gpu.free(other)?;
    gpu.synchronize()?;
    check(managed.is(6), "and the host's write stays")
}

pub(crate) fn hints_about_other_memory_are_refused(gpu: &Gpu) -> Outcome {
    let Gpu {
        cuda,
        context,
        stream,
        device,
    } = gpu;
    let here = ManagedLocation::Device(*device);
    // SAFETY: the context is retained.
    let plain = unsafe { cuda.mem_alloc(*context, BYTES) }?;
    // SAFETY: the range is live; that it is not managed is what the call is to say.
    let prefetch = unsafe { cuda.mem_prefetch_async(*context, plain, BYTES, here, *stream) };
    // SAFETY: as above.
    let advice = unsafe { cuda.mem_advise(*context, plain, BYTES, ManagedAdvice::SetReadMostly, here) };
    // SAFETY: freed once, nothing uses it any more.
    unsafe { cuda.mem_free(*context, plain) }?;
    check(
        prefetch.is_err_and(|e| e.call() == "cuMemPrefetchAsync" && e.code() == ResultCode::INVALID_VALUE),
        "a prefetch of memory that is not managed",
    )?;
    check(
        advice.is_err_and(|e| e.call() == "cuMemAdvise" && e.code() == ResultCode::INVALID_VALUE),
        "advice about memory that is not managed",
    )
}
