//! Pools of the stream-ordered allocator: the default pool of each device, and own pools.

use std::ffi::c_void;

use millstream_driver::{DeviceOrdinal, PoolHandle, ResultCode};
use millstream_sim::PoolSettings;

use crate::{
    abi::{AccessFields, Address, Device, Handle, In, LocationFields, Out, PoolFields},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
};

/// `CU_MEM_LOCATION_TYPE_DEVICE`
const DEVICE_LOCATION: i32 = 1;
/// `CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT`, the last kind of location.
const LAST_LOCATION: i32 = 4;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`: memory of one device, or of the host.
const PINNED: i32 = 1;
/// `CU_MEM_ALLOCATION_TYPE_MANAGED`
const MANAGED: i32 = 2;

fn pool_of(call: &Call, raw: Handle) -> Answer<(PoolHandle, PoolSettings)> {
    let pool = PoolHandle::from_raw(raw);
    let settings = call.process()?.gpu.pool_settings(pool);
    let settings = settings.ok_or_else(|| call.wrong_value("memory pool", raw))?;
    Ok((pool, settings))
}

/// Returns the device of a location for pools of this kind of memory. Pools of the host's memory
/// and of managed memory are not supported.
pub(super) fn device_of(call: &Call, location: LocationFields, kind: i32) -> Answer<DeviceOrdinal> {
    match (kind, location.kind) {
        (PINNED, DEVICE_LOCATION) => {
            let device = call.device(location.id);
            device.map_err(|_| ResultCode::INVALID_VALUE)
        }
        (PINNED, 2..LAST_LOCATION) | (MANAGED, 0..LAST_LOCATION) => Err(ResultCode::NOT_SUPPORTED),
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

/// Returns the properties of a pool of a device.
pub(super) fn fields_of(device: Device) -> PoolFields {
    PoolFields {
        kind: PINNED,
        handle_types: 0,
        location: LocationFields {
            kind: DEVICE_LOCATION,
            id: device,
        },
        security_attributes: 0,
        bytes_max: 0,
        usage: 0,
        reserved: [0; 54],
    }
}

/// `CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES`
const FOLLOW_EVENTS: i32 = 1;
/// `CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`
const OPPORTUNISTIC: i32 = 2;
/// `CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES`
const INTERNAL_DEPENDENCIES: i32 = 3;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: i32 = 4;
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`, `..._HIGH`
const RESERVED: i32 = 5;
const RESERVED_PEAK: i32 = 6;
/// `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`, `..._HIGH`
const USED: i32 = 7;
const USED_PEAK: i32 = 8;

/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_AND_WRITE: i32 = 3;

exports! {
    /// Pools whose memory other processes can open are not supported.
    [cuMemPoolCreate]
    fn create(call, pool: Out<Handle>, fields: In<PoolFields>) {
        pool.check()?;
        let fields = fields.get()?;
        refuse_if(fields.reserved.iter().any(|byte| *byte != 0), ResultCode::INVALID_VALUE)?;
        let device = device_of(call, fields.location, fields.kind)?;
        refuse_if(fields.handle_types != 0 || fields.usage != 0, ResultCode::NOT_SUPPORTED)?;
        let bytes_max = fields.bytes_max as u64;
        let created = call.process()?.pool_create(device, bytes_max)?;
        pool.set(created.as_raw())
    }

    [cuMemPoolDestroy]
    fn destroy(call, pool: Handle) {
        let (pool, _) = pool_of(call, pool)?;
        let process = call.process()?;
        process.pool_destroy(pool)?;
        process.objects.lock().pools_without_events.remove(&pool);
        Ok(())
    }

    [cuDeviceGetDefaultMemPool]
    fn default_of(call, pool: Out<Handle>, device: Device) {
        let device = call.device(device)?;
        pool.set(call.process()?.default_pool(device)?.as_raw())
    }

    [cuDeviceGetMemPool]
    fn current_of(call, pool: Out<Handle>, device: Device) {
        let device = call.device(device);
        let device = device.map_err(|_| ResultCode::INVALID_VALUE)?;
        pool.set(call.process()?.device_pool(device)?.as_raw())
    }

    [cuDeviceSetMemPool]
    fn set_current(call, device: Device, pool: Handle) {
        let device = call.device(device)?;
        let (pool, _) = pool_of(call, pool)?;
        call.process()?.device_set_pool(device, pool)
    }

    [cuMemGetDefaultMemPool]
    fn default_at(call, pool: Out<Handle>, location: In<LocationFields>, kind: i32) {
        let device = device_of(call, location.get()?, kind)?;
        default_of(call, pool, device.as_raw())
    }

    [cuMemGetMemPool]
    fn current_at(call, pool: Out<Handle>, location: In<LocationFields>, kind: i32) {
        let device = device_of(call, location.get()?, kind)?;
        current_of(call, pool, device.as_raw())
    }

    [cuMemSetMemPool]
    fn set_current_at(call, location: In<LocationFields>, kind: i32, pool: Handle) {
        let device = device_of(call, location.get()?, kind)?;
        set_current(call, device.as_raw(), pool)
    }

    /// The memory is on the pool's device.
    [cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz per_thread]
    fn allocate(call, pointer: Out<Address>, bytes: usize, pool: Handle, stream: Handle) {
        pointer.check()?;
        let (pool, _) = pool_of(call, pool)?;
        let (context, stream) = call.stream(stream)?;
        refuse_if(bytes == 0, ResultCode::INVALID_VALUE)?;
        let process = call.process()?;
        let allocated = process.mem_alloc_from_pool_async(context, bytes, pool, stream)?;
        pointer.set(allocated.as_raw())
    }

    /// Whether event dependencies allow reuse is kept and has no effect.
    [cuMemPoolSetAttribute]
    fn set_attribute(call, pool: Handle, attribute: i32, value: In<c_void>) {
        let (pool, settings) = pool_of(call, pool)?;
        let process = call.process()?;
        match attribute {
            FOLLOW_EVENTS | OPPORTUNISTIC | INTERNAL_DEPENDENCIES => {
                let on = value.to::<i32>().get()? != 0;
                match attribute {
                    FOLLOW_EVENTS => {
                        let without = &mut process.objects.lock().pools_without_events;
                        if on {
                            without.remove(&pool);
                        } else {
                            without.insert(pool);
                        }
                        Ok(())
                    }
                    OPPORTUNISTIC => process.pool_set_reuse(pool, on, settings.reuses_behind_frees),
                    _ => process.pool_set_reuse(pool, settings.reuses_idle, on),
                }
            }
            RELEASE_THRESHOLD => {
                let bytes = value.to::<u64>().get()?;
                process.pool_set_release_threshold(pool, bytes)
            }
            RESERVED_PEAK | USED_PEAK => match value.to::<u64>().get()? {
                0 => process.pool_reset_peak(pool, attribute == RESERVED_PEAK),
                _ => Err(ResultCode::INVALID_VALUE),
            },
            _ => Err(ResultCode::INVALID_VALUE),
        }
    }

    [cuMemPoolGetAttribute]
    fn attribute(call, pool: Handle, attribute: i32, value: Out<c_void>) {
        let (pool, settings) = pool_of(call, pool)?;
        let process = call.process()?;
        let usage = process.pool_usage(pool)?;
        let bytes = match attribute {
            FOLLOW_EVENTS | OPPORTUNISTIC | INTERNAL_DEPENDENCIES => {
                let on = match attribute {
                    FOLLOW_EVENTS => !process.objects.lock().pools_without_events.contains(&pool),
                    OPPORTUNISTIC => settings.reuses_idle,
                    _ => settings.reuses_behind_frees,
                };
                return value.to().set(i32::from(on));
            }
            RELEASE_THRESHOLD => settings.release_threshold,
            RESERVED => usage.reserved_bytes,
            RESERVED_PEAK => usage.reserved_peak_bytes,
            USED => usage.used_bytes,
            USED_PEAK => usage.used_peak_bytes,
            _ => return Err(ResultCode::INVALID_VALUE),
        };
        value.to().set(bytes)
    }

    [cuMemPoolTrimTo]
    fn trim(call, pool: Handle, keep_bytes: usize) {
        let (pool, _) = pool_of(call, pool)?;
        call.process()?.pool_trim(pool, keep_bytes)
    }

    [cuMemPoolSetAccess]
    fn set_access(call, pool: Handle, descriptions: In<AccessFields>, count: usize) {
        let (pool, _) = pool_of(call, pool)?;
        for description in descriptions.all(count)? {
            let device = device_of(call, description.location, PINNED)?;
            let accessible = match description.flags {
                0 => false,
                READ_AND_WRITE => true,
                _ => return Err(ResultCode::INVALID_VALUE),
            };
            call.process()?.pool_set_access(pool, device, accessible)?;
        }
        Ok(())
    }

    [cuMemPoolGetAccess]
    fn access(call, flags: Out<i32>, pool: Handle, location: In<LocationFields>) {
        flags.check()?;
        let (_, settings) = pool_of(call, pool)?;
        let device = device_of(call, location.get()?, PINNED)?;
        let accessible = device == settings.device || settings.accessible_to.contains(&device);
        flags.set(if accessible { READ_AND_WRITE } else { 0 })
    }
}
