//! Pools of the stream-ordered allocator: each device has its default pool and no other.

use std::ffi::c_void;

use millstream_driver::{DeviceOrdinal, PoolHandle, ResultCode};

use crate::{
    abi::{AccessFields, Address, Handle, In, LocationFields, Out},
    api::memory,
    call::Call,
    codes::Answer,
};

/// Returns the pool of a handle, and its device.
fn pool_of(call: &Call, raw: Handle) -> Answer<(PoolHandle, DeviceOrdinal)> {
    let process = call.process()?;
    for ordinal in 0..process.device_count() {
        let device = DeviceOrdinal::from_raw(ordinal);
        let pool = process.default_pool(device)?;
        if pool.as_raw() == raw {
            return Ok((pool, device));
        }
    }
    call.wrong_handle("memory pool", raw);
    Err(ResultCode::INVALID_VALUE)
}

/// `cuMemAllocFromPoolAsync`. The memory is on the pool's device, which must be the stream's.
pub(crate) fn allocate(
    call: &Call,
    pointer: Out<Address>,
    bytes: usize,
    pool: Handle,
    stream: Handle,
) -> Answer {
    let (_, device) = pool_of(call, pool)?;
    let (context, _) = call.stream(stream)?;
    if call.context_entry(context)?.device != device.as_raw() {
        return Err(ResultCode::NOT_SUPPORTED);
    }
    memory::allocate_async(call, pointer, bytes, stream)
}

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: i32 = 4;

/// `cuMemPoolSetAttribute`. The three settings of reuse are kept and have no effect; the peaks
/// cannot be reset.
pub(crate) fn set_attribute(
    call: &Call,
    pool: Handle,
    attribute: i32,
    value: In<c_void>,
) -> Answer {
    let (pool, _) = pool_of(call, pool)?;
    let process = call.process()?;
    let value = match attribute {
        1..=3 => u64::from(value.to::<u32>().get()? != 0),
        RELEASE_THRESHOLD => {
            let bytes = value.to::<u64>().get()?;
            process.pool_set_release_threshold(pool, bytes)?;
            bytes
        }
        6 | 8 => return Err(ResultCode::NOT_SUPPORTED),
        _ => return Err(ResultCode::INVALID_VALUE),
    };
    let mut objects = process.objects.lock();
    let settings = &mut objects.pool_settings;
    settings.insert((pool, attribute), value);
    Ok(())
}

/// `cuMemPoolGetAttribute`
pub(crate) fn attribute(call: &Call, pool: Handle, attribute: i32, value: Out<c_void>) -> Answer {
    let (pool, _) = pool_of(call, pool)?;
    let process = call.process()?;
    let setting = |default| {
        let objects = process.objects.lock();
        let known = objects.pool_settings.get(&(pool, attribute)).copied();
        known.unwrap_or(default)
    };
    if (1..=4).contains(&attribute) {
        return if attribute == RELEASE_THRESHOLD {
            value.to().set(setting(0))
        } else {
            value.to().set(setting(1) as i32)
        };
    }
    let usage = process.pool_usage(pool)?;
    value.to().set(match attribute {
        5 => usage.reserved_bytes,
        6 => usage.reserved_peak_bytes,
        7 => usage.used_bytes,
        8 => usage.used_peak_bytes,
        _ => return Err(ResultCode::INVALID_VALUE),
    })
}

/// `cuMemPoolTrimTo`
pub(crate) fn trim(call: &Call, pool: Handle, keep_bytes: usize) -> Answer {
    let (pool, _) = pool_of(call, pool)?;
    call.process()?.pool_trim(pool, keep_bytes)
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`
const DEVICE_LOCATION: i32 = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_AND_WRITE: i32 = 3;

/// `cuMemPoolSetAccess`
pub(crate) fn set_access(
    call: &Call,
    pool: Handle,
    descriptions: In<AccessFields>,
    count: usize,
) -> Answer {
    let (pool, _) = pool_of(call, pool)?;
    for description in descriptions.all(count)? {
        if description.location.kind != DEVICE_LOCATION {
            return Err(ResultCode::INVALID_VALUE);
        }
        let device = call.device(description.location.id)?;
        let accessible = match description.flags {
            0 => false,
            READ_AND_WRITE => true,
            _ => return Err(ResultCode::INVALID_VALUE),
        };
        let process = call.process()?;
        process.pool_set_access(pool, device, accessible)?;
        let mut objects = process.objects.lock();
        objects
            .pool_access
            .insert((pool, device.as_raw()), accessible);
    }
    Ok(())
}

/// `cuMemPoolGetAccess`
pub(crate) fn access(
    call: &Call,
    flags: Out<i32>,
    pool: Handle,
    location: In<LocationFields>,
) -> Answer {
    flags.check()?;
    let (pool, own) = pool_of(call, pool)?;
    let location = location.get()?;
    if location.kind != DEVICE_LOCATION {
        return Err(ResultCode::INVALID_VALUE);
    }
    let device = call.device(location.id)?;
    let objects = call.process()?.objects.lock();
    let given = objects.pool_access.get(&(pool, device.as_raw()));
    let accessible = device == own || given.copied().unwrap_or(false);
    flags.set(if accessible { READ_AND_WRITE } else { 0 })
}
