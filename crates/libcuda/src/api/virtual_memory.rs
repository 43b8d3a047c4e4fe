//! Virtual memory management: reserved address ranges, physical memory, and mappings.

use millstream_driver::ResultCode;
use millstream_sim::{Gpu, VirtualMemoryCall};

use crate::{
    abi::{AccessFields, Address, AllocationPropertyFields, Device, In, LocationFields, Out},
    api::pool,
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    simulated::code_of,
};

/// `CU_MEM_LOCATION_TYPE_DEVICE` and `CU_MEM_ALLOCATION_TYPE_PINNED`
const DEVICE_LOCATION: i32 = 1;
const PINNED: i32 = 1;

/// Returns the device of physical memory with these properties. Memory of the host, and memory that
/// other processes can open, are not supported.
fn device_of(call: &Call, properties: In<AllocationPropertyFields>) -> Answer<Device> {
    let fields = properties.get()?;
    let is_device = fields.location.kind == DEVICE_LOCATION;
    refuse_if(
        is_device && call.device(fields.location.id).is_err(),
        ResultCode::INVALID_DEVICE,
    )?;
    let device = pool::device_of(call, fields.location, fields.kind)?;
    let special = fields.handle_types != 0 || fields.flags != [0; 8];
    refuse_if(special, ResultCode::NOT_SUPPORTED)?;
    Ok(device.as_raw())
}

fn make(call: &Call, operation: VirtualMemoryCall) -> Answer<u64> {
    let process = call.process()?;
    let _label = process.label();
    process
        .gpu
        .virtual_memory(call.name, operation)
        .map_err(code_of)
}

exports! {
    /// Which addresses the range gets does not depend on the hint.
    [cuMemAddressReserve]
    fn _(call, base: Out<Address>, bytes: u64, alignment: u64, hint: Address, flags: u64) {
        base.check()?;
        let misaligned = !hint.is_multiple_of(Gpu::MEMORY_GRANULARITY);
        refuse_if(flags != 0 || misaligned, ResultCode::INVALID_VALUE)?;
        base.set(make(call, VirtualMemoryCall::Reserve { bytes, alignment })?)
    }

    [cuMemAddressFree]
    fn _(call, base: Address, bytes: u64) {
        make(call, VirtualMemoryCall::Unreserve { base, bytes }).map(drop)
    }

    [cuMemCreate]
    fn _(
        call, handle: Out<u64>, bytes: u64, properties: In<AllocationPropertyFields>, flags: u64
    ) {
        handle.check()?;
        refuse_if(flags != 0, ResultCode::INVALID_VALUE)?;
        let device = device_of(call, properties)?;
        handle.set(make(call, VirtualMemoryCall::Create { bytes, device })?)
    }

    [cuMemRelease]
    fn _(call, handle: u64) {
        make(call, VirtualMemoryCall::Release { handle }).map(drop)
    }

    /// As CUDA's documentation says, the offset is 0.
    [cuMemMap]
    fn _(call, base: Address, bytes: u64, offset: u64, handle: u64, flags: u64) {
        refuse_if(offset != 0, ResultCode::NOT_SUPPORTED)?;
        refuse_if(flags != 0, ResultCode::INVALID_VALUE)?;
        make(call, VirtualMemoryCall::Map { base, bytes, handle }).map(drop)
    }

    [cuMemUnmap]
    fn _(call, base: Address, bytes: u64) {
        make(call, VirtualMemoryCall::Unmap { base, bytes }).map(drop)
    }

    [cuMemSetAccess]
    fn _(call, base: Address, bytes: u64, descriptions: In<AccessFields>, count: usize) {
        refuse_if(count == 0, ResultCode::INVALID_VALUE)?;
        let descriptions = descriptions.all(count)?;
        for description in &descriptions {
            pool::device_of(call, description.location, PINNED)?;
            refuse_if(![0, 1, 3].contains(&description.flags), ResultCode::INVALID_VALUE)?;
        }
        for AccessFields { location, flags } in descriptions {
            let device = location.id;
            make(call, VirtualMemoryCall::SetAccess { base, bytes, device, flags })?;
        }
        Ok(())
    }

    [cuMemGetAccess]
    fn _(call, flags: Out<u64>, location: In<LocationFields>, address: Address) {
        flags.check()?;
        let device = pool::device_of(call, location.get()?, PINNED)?.as_raw();
        flags.set(make(call, VirtualMemoryCall::Access { address, device })?)
    }

    /// The minimum and the recommended granularity are the same.
    [cuMemGetAllocationGranularity]
    fn _(call, bytes: Out<u64>, properties: In<AllocationPropertyFields>, option: i32) {
        bytes.check()?;
        refuse_if(![0, 1].contains(&option), ResultCode::INVALID_VALUE)?;
        device_of(call, properties)?;
        bytes.set(Gpu::MEMORY_GRANULARITY)
    }

    [cuMemGetAllocationPropertiesFromHandle]
    fn _(call, properties: Out<AllocationPropertyFields>, handle: u64) {
        properties.check()?;
        let device = make(call, VirtualMemoryCall::DeviceOf { handle })?;
        properties.set(AllocationPropertyFields {
            kind: PINNED,
            handle_types: 0,
            location: LocationFields { kind: DEVICE_LOCATION, id: device as Device },
            win32_metadata: 0,
            flags: [0; 8],
        })
    }

    [cuMemRetainAllocationHandle]
    fn _(call, handle: Out<u64>, address: Address) {
        handle.check()?;
        handle.set(make(call, VirtualMemoryCall::Retain { address })?)
    }
}
