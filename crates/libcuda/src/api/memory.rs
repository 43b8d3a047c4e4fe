//! Memory: allocation, release, page-locked and managed memory.

use std::ptr::NonNull;

use millstream_driver::{DeviceOrdinal, DevicePtr, ManagedAdvice, ManagedLocation, ResultCode};

use crate::{
    abi::{Address, Device, Handle, LocationFields, Out},
    api::pointer::{allocation, is_page_locked},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
};

/// The alignment of the rows of [`allocate_pitch`], in bytes: the texture alignment of all devices
/// that CUDA 13 supports.
const PITCH_ALIGNMENT: usize = 512;

/// `CU_MEMHOSTALLOC_DEVICEMAP`: page-locked memory always is accessible to devices here.
const DEVICE_MAP: u32 = 2;
/// The flags of `cuMemHostAlloc`: portable, mapped, write-combined.
const HOST_FLAGS_KNOWN: u32 = 7;

/// Returns the pointer of an argument, which must not be null.
fn host_pointer(pointer: *mut u8) -> Answer<NonNull<u8>> {
    NonNull::new(pointer).ok_or(ResultCode::INVALID_VALUE)
}

/// `CU_MEMHOSTREGISTER_IOMEMORY`: memory of other devices, which are not simulated.
const IO_MEMORY: u32 = 4;
/// The flags of `cuMemHostRegister`: portable, mapped, [`IO_MEMORY`], read-only.
const REGISTER_FLAGS_KNOWN: u32 = 15;

/// `CU_DEVICE_CPU`
const HOST_DEVICE: Device = -1;

/// Returns the location that a device number names.
fn location_of_device(call: &Call, device: Device) -> Answer<ManagedLocation> {
    match device {
        HOST_DEVICE => Ok(ManagedLocation::Host),
        device => call.device(device).map(ManagedLocation::Device),
    }
}

/// Returns the location that a structure names: a device, the host, or a part of the host.
fn location(call: &Call, fields: LocationFields) -> Answer<ManagedLocation> {
    match fields.kind {
        1 => call.device(fields.id).map(ManagedLocation::Device),
        2..=4 => Ok(ManagedLocation::Host),
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

/// Names the function that the program called for an allocation in reports.
fn name_origin(call: &Call, address: Address, function: &'static str) -> Answer {
    let base = DevicePtr::from_raw(address);
    call.process()?.gpu.set_allocation_origin(base, function);
    Ok(())
}

fn prefetch_to(
    call: &Call,
    pointer: Address,
    bytes: usize,
    location: ManagedLocation,
    stream: Handle,
) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let pointer = DevicePtr::from_raw(pointer);
    call.process()?
        .mem_prefetch_async(context, pointer, bytes, location, stream)
}

fn advise_about(
    call: &Call,
    pointer: Address,
    bytes: usize,
    advice: i32,
    at: impl FnOnce(&Call) -> Answer<ManagedLocation>,
) -> Answer {
    let context = call.context()?;
    let advice = match advice {
        1 => ManagedAdvice::SetReadMostly,
        2 => ManagedAdvice::UnsetReadMostly,
        3 => ManagedAdvice::SetPreferredLocation,
        4 => ManagedAdvice::UnsetPreferredLocation,
        5 => ManagedAdvice::SetAccessedBy,
        6 => ManagedAdvice::UnsetAccessedBy,
        _ => return Err(ResultCode::INVALID_VALUE),
    };
    let location = if advice.uses_location() {
        at(call)?
    } else {
        ManagedLocation::Device(DeviceOrdinal::from_raw(0))
    };
    let pointer = DevicePtr::from_raw(pointer);
    call.process()?
        .mem_advise(context, pointer, bytes, advice, location)
}

exports! {
    [cuMemAlloc_v2]
    fn allocate(call, pointer: Out<Address>, bytes: usize) {
        pointer.check()?;
        let context = call.context()?;
        refuse_if(bytes == 0, ResultCode::INVALID_VALUE)?;
        pointer.set(call.process()?.mem_alloc(context, bytes)?.as_raw())
    }

    [cuMemAllocPitch_v2]
    fn allocate_pitch(
        call, pointer: Out<Address>, pitch: Out<usize>, width_bytes: usize, height: usize,
        element_bytes: u32
    ) {
        pointer.check()?;
        pitch.check()?;
        if width_bytes == 0 || height == 0 || ![4, 8, 16].contains(&element_bytes) {
            return Err(ResultCode::INVALID_VALUE);
        }
        let row = width_bytes.checked_next_multiple_of(PITCH_ALIGNMENT);
        let row = row.ok_or(ResultCode::OUT_OF_MEMORY)?;
        let bytes = row.checked_mul(height).ok_or(ResultCode::OUT_OF_MEMORY)?;
        allocate(call, pointer, bytes)?;
        name_origin(call, pointer.get_at(0)?, "cuMemAllocPitch")?;
        pitch.set(row)
    }

    /// A null pointer is ignored.
    [cuMemFree_v2]
    fn free(call, pointer: Address) {
        let context = call.context()?;
        if pointer == 0 {
            return Ok(());
        }
        call.process()?
            .mem_free(context, DevicePtr::from_raw(pointer))
    }

    [cuMemAllocAsync, cuMemAllocAsync_ptsz per_thread]
    fn allocate_async(call, pointer: Out<Address>, bytes: usize, stream: Handle) {
        pointer.check()?;
        let (context, stream) = call.stream(stream)?;
        refuse_if(bytes == 0, ResultCode::INVALID_VALUE)?;
        let allocated = call.process()?.mem_alloc_async(context, bytes, stream)?;
        pointer.set(allocated.as_raw())
    }

    /// A null pointer is ignored.
    [cuMemFreeAsync, cuMemFreeAsync_ptsz per_thread]
    fn free_async(call, pointer: Address, stream: Handle) {
        let (context, stream) = call.stream(stream)?;
        if pointer == 0 {
            return Ok(());
        }
        let pointer = DevicePtr::from_raw(pointer);
        call.process()?.mem_free_async(context, pointer, stream)
    }

    [cuMemGetInfo_v2]
    fn info(call, free: Out<usize>, total: Out<usize>) {
        let context = call.context()?;
        let (free_bytes, total_bytes) = call.process()?.mem_info(context)?;
        free.set_if_wanted(free_bytes as usize);
        total.set_if_wanted(total_bytes as usize);
        Ok(())
    }

    [cuMemGetAddressRange_v2]
    fn address_range(call, base: Out<Address>, bytes: Out<usize>, pointer: Address) {
        call.context()?;
        let found = allocation(call, pointer)?.ok_or(ResultCode::NOT_FOUND)?;
        base.set_if_wanted(found.base.as_raw());
        bytes.set_if_wanted(found.bytes as usize);
        Ok(())
    }

    [cuMemHostAlloc]
    fn allocate_host(call, pointer: Out<*mut u8>, bytes: usize, flags: u32) {
        pointer.check()?;
        let context = call.context()?;
        refuse_if(bytes == 0 || flags & !HOST_FLAGS_KNOWN != 0, ResultCode::INVALID_VALUE)?;
        let process = call.process()?;
        let allocated = process.host_alloc(context, bytes)?;
        let address = allocated.as_ptr().expose_provenance() as Address;
        let mut objects = process.objects.lock();
        objects.host_flags.insert(address, flags | DEVICE_MAP);
        drop(objects);
        pointer.set(allocated.as_ptr())
    }

    [cuMemAllocHost_v2]
    fn allocate_host_plain(call, pointer: Out<*mut u8>, bytes: usize) {
        allocate_host(call, pointer, bytes, 0)?;
        let address = pointer.get_at(0)?.expose_provenance() as Address;
        name_origin(call, address, "cuMemAllocHost")
    }

    [cuMemFreeHost]
    fn free_host(call, pointer: *mut u8) {
        let context = call.context()?;
        let pointer = host_pointer(pointer)?;
        let process = call.process()?;
        process.host_free(context, pointer)?;
        let address = pointer.as_ptr().expose_provenance() as Address;
        process.objects.lock().host_flags.remove(&address);
        Ok(())
    }

    [cuMemHostRegister, cuMemHostRegister_v2]
    fn register_host(call, pointer: *mut u8, bytes: usize, flags: u32) {
        let context = call.context()?;
        let pointer = host_pointer(pointer)?;
        refuse_if(bytes == 0 || flags & !REGISTER_FLAGS_KNOWN != 0, ResultCode::INVALID_VALUE)?;
        refuse_if(flags & IO_MEMORY != 0, ResultCode::NOT_SUPPORTED)?;
        let process = call.process()?;
        process.host_register(context, pointer, bytes)?;
        let address = pointer.as_ptr().expose_provenance() as Address;
        let mut objects = process.objects.lock();
        objects.host_flags.insert(address, flags | DEVICE_MAP);
        Ok(())
    }

    [cuMemHostUnregister]
    fn unregister_host(call, pointer: *mut u8) {
        let context = call.context()?;
        let pointer = host_pointer(pointer)?;
        let process = call.process()?;
        process.host_unregister(context, pointer)?;
        let address = pointer.as_ptr().expose_provenance() as Address;
        process.objects.lock().host_flags.remove(&address);
        Ok(())
    }

    /// The addresses of host and device are the same.
    [cuMemHostGetDevicePointer_v2]
    fn device_pointer_of_host(call, device: Out<Address>, pointer: *mut u8, flags: u32) {
        call.context()?;
        let address = pointer.expose_provenance() as Address;
        match allocation(call, address)? {
            Some(found) if flags == 0 && is_page_locked(found.kind) => device.set(address),
            _ => Err(ResultCode::INVALID_VALUE),
        }
    }

    [cuMemHostGetFlags]
    fn host_flags(call, flags: Out<u32>, pointer: *mut u8) {
        call.context()?;
        let address = pointer.expose_provenance() as Address;
        let objects = call.process()?.objects.lock();
        let found = objects.host_flags.get(&address);
        flags.set(*found.ok_or(ResultCode::INVALID_VALUE)?)
    }

    /// Attached to all streams, or to the host.
    [cuMemAllocManaged]
    fn allocate_managed(call, pointer: Out<Address>, bytes: usize, flags: u32) {
        pointer.check()?;
        let context = call.context()?;
        refuse_if(bytes == 0 || ![1, 2].contains(&flags), ResultCode::INVALID_VALUE)?;
        pointer.set(call.process()?.mem_alloc_managed(context, bytes)?.as_raw())
    }

    [cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz per_thread]
    fn prefetch(call, pointer: Address, bytes: usize, device: Device, stream: Handle) {
        let location = location_of_device(call, device)?;
        prefetch_to(call, pointer, bytes, location, stream)
    }

    [cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz per_thread]
    fn prefetch_to_location(
        call, pointer: Address, bytes: usize, fields: LocationFields, flags: u32, stream: Handle
    ) {
        refuse_if(flags != 0, ResultCode::INVALID_VALUE)?;
        let location = location(call, fields)?;
        prefetch_to(call, pointer, bytes, location, stream)
    }

    [cuMemAdvise]
    fn advise(call, pointer: Address, bytes: usize, advice: i32, device: Device) {
        advise_about(call, pointer, bytes, advice, |call| {
            location_of_device(call, device)
        })
    }

    [cuMemAdvise_v2]
    fn advise_at_location(
        call, pointer: Address, bytes: usize, advice: i32, fields: LocationFields
    ) {
        advise_about(call, pointer, bytes, advice, |call| location(call, fields))
    }
}
