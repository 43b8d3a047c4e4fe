//! Attributes of pointers.

use std::ffi::c_void;

use millstream_driver::{DevicePtr, PoolHandle, ResultCode};
use millstream_sim::{AllocationDetails, AllocationKind};

use crate::{
    abi::{Address, In, Out},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
};

/// Returns the live allocation that contains an address.
pub(crate) fn allocation(call: &Call, pointer: Address) -> Answer<Option<AllocationDetails>> {
    let process = call.process()?;
    Ok(process.gpu.allocation_at(DevicePtr::from_raw(pointer)))
}

/// Returns whether an allocation is page-locked host memory.
pub(crate) fn is_page_locked(kind: AllocationKind) -> bool {
    matches!(
        kind,
        AllocationKind::PageLocked | AllocationKind::Registered
    )
}

/// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`
const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// Writes an attribute of an address, with the values of no allocation if there is none.
fn write(
    data: Out<c_void>,
    attribute: i32,
    pointer: Address,
    found: Option<&AllocationDetails>,
) -> Answer {
    let host = found.is_some_and(|it| is_page_locked(it.kind));
    let managed = found.is_some_and(|it| it.kind == AllocationKind::Managed);
    let address = |wanted: bool| if wanted { pointer } else { 0 };
    match attribute {
        // CONTEXT
        1 => data.to().set(found.map_or(0, |it| it.context.as_raw())),
        // MEMORY_TYPE
        2 => data.to().set(match found {
            None => 0,
            Some(_) if host => HOST,
            Some(_) => DEVICE,
        }),
        // DEVICE_POINTER
        3 => data.to().set(address(found.is_some())),
        // HOST_POINTER
        4 => data.to().set(address(host || managed)),
        // SYNC_MEMOPS, a Boolean of 4 bytes
        6 => data.to().set(0_u32),
        // BUFFER_ID
        7 => data.to().set(found.map_or(0, |it| it.number)),
        // IS_MANAGED
        8 => data.to().set(u32::from(managed)),
        // DEVICE_ORDINAL; -2 is `CU_DEVICE_INVALID`
        9 => data.to().set(found.map_or(-2, |it| it.device as i32)),
        // IS_LEGACY_CUDA_IPC_CAPABLE
        10 => data.to().set(0_u32),
        // RANGE_START_ADDR
        11 => data.to().set(found.map_or(0, |it| it.base.as_raw())),
        // RANGE_SIZE
        12 => data.to().set(found.map_or(0, |it| it.bytes as usize)),
        // MAPPED
        13 => data.to().set(u32::from(found.is_some())),
        // ALLOWED_HANDLE_TYPES
        14 => data.to().set(0_u64),
        // ACCESS_FLAGS: read and write
        16 => data.to().set(if found.is_some() { 3_u32 } else { 0 }),
        // MEMPOOL_HANDLE
        17 => {
            let pool = found.and_then(|it| it.pool);
            data.to().set(pool.map_or(0, PoolHandle::as_raw))
        }
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

exports! {
    [cuPointerGetAttribute]
    fn attribute(call, data: Out<c_void>, attribute: i32, pointer: Address) {
        data.check()?;
        let found = allocation(call, pointer)?.ok_or(ResultCode::INVALID_VALUE)?;
        write(data, attribute, pointer, Some(&found))
    }

    /// An address without an allocation has the values of none.
    [cuPointerGetAttributes]
    fn attributes(call, count: u32, attributes: In<i32>, data: In<Out<c_void>>, pointer: Address) {
        refuse_if(count == 0, ResultCode::INVALID_VALUE)?;
        let found = allocation(call, pointer)?;
        let attributes = attributes.all(count as usize)?;
        for (attribute, data) in attributes.into_iter().zip(data.all(count as usize)?) {
            write(data, attribute, pointer, found.as_ref())?;
        }
        Ok(())
    }

    /// The only attribute that can be set makes memory operations synchronous; clearing it is
    /// accepted.
    [cuPointerSetAttribute]
    fn set_attribute(call, value: In<u32>, attribute: i32, pointer: Address) {
        const SYNC_MEMOPS: i32 = 6;
        let value = value.get()?;
        if allocation(call, pointer)?.is_none() || attribute != SYNC_MEMOPS {
            return Err(ResultCode::INVALID_VALUE);
        }
        refuse_if(value != 0, ResultCode::NOT_SUPPORTED)
    }
}
