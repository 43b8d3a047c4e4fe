//! Memory pools beside the default pool of a device (`Gpu::pool_create`).

#![allow(unsafe_code, reason = "calls the simulated driver as a program does")]

use millstream_driver::{ContextHandle, PoolHandle};

use crate::rules::prelude::*;

const MIB: usize = 1 << 20;

/// Calls an unsafe method of the driver.
macro_rules! call {
    ($gpu:ident.$method:ident($($argument:expr),*)) => {
        // SAFETY: the simulator checks handles and addresses, and no host memory is involved.
        unsafe { $gpu.$method($($argument),*) }
    };
}

/// Creates a device whose operations run only when something waits for them, with a pool of 4 MiB.
fn lazy() -> (Gpu, ContextHandle, PoolHandle) {
    let gpu = Gpu::new(SimConfig::new().schedule(Schedule::Lazy));
    let context = gpu.primary_context_retain(DEVICE).unwrap();
    let pool = gpu.pool_create(DEVICE, 4 * MIB as u64).unwrap();
    (gpu, context, pool)
}

#[test]
fn a_pool_that_is_destroyed_in_use_ends_with_its_last_free() {
    let (gpu, context, pool) = lazy();
    let stream = call!(gpu.stream_create(context, true, 0)).unwrap();
    let free = || call!(gpu.mem_info(context)).unwrap().0;
    let before = free();
    let memory = call!(gpu.mem_alloc_from_pool_async(context, MIB, pool, stream)).unwrap();
    call!(gpu.pool_destroy(pool)).unwrap();
    assert!(gpu.pool_settings(pool).is_none());
    call!(gpu.memset_async(context, memory, FillPattern::U8(1), MIB, stream)).unwrap();
    call!(gpu.mem_free_async(context, memory, stream)).unwrap();
    assert_eq!(free(), before - 2 * MIB as u64, "the free has not run");
    call!(gpu.stream_synchronize(context, stream)).unwrap();
    assert_eq!(free(), before);
    assert!(gpu.reports().is_empty(), "{:?}", gpu.reports());
}

#[test]
fn an_allocation_waits_for_a_pending_free_only_if_the_pool_allows_it() {
    let (gpu, context, pool) = lazy();
    let [first, second] = [(); 2].map(|()| call!(gpu.stream_create(context, true, 0)).unwrap());
    let from_pool = |stream| call!(gpu.mem_alloc_from_pool_async(context, 4 * MIB, pool, stream));
    let memory = from_pool(first).unwrap();
    call!(gpu.mem_free_async(context, memory, first)).unwrap();
    gpu.pool_set_reuse(pool, true, false).unwrap();
    assert_eq!(
        from_pool(second).unwrap_err().code(),
        ResultCode::OUT_OF_MEMORY
    );
    gpu.pool_set_reuse(pool, true, true).unwrap();
    from_pool(second).unwrap();
    // The allocation runs behind the free of the other stream.
    call!(gpu.stream_synchronize(context, second)).unwrap();
    assert_eq!(gpu.live_object_counts().pending_operations, 0);
}

#[test]
fn an_own_pool_is_a_live_object_until_it_is_destroyed() {
    let (gpu, _, pool) = lazy();
    let live = gpu.live_objects();
    assert_eq!(live.len(), 1);
    assert_eq!(
        (live[0].kind, live[0].to_string()),
        (LiveKind::MemoryPool, "pool 2".into())
    );
    call!(gpu.pool_destroy(pool)).unwrap();
    assert!(gpu.live_objects().is_empty());
}

#[test]
fn a_default_pool_and_a_pool_of_another_device_are_refused() {
    let gpu = Gpu::new(SimConfig::new().devices(2));
    let default = gpu.default_pool(DEVICE).unwrap();
    let refused = call!(gpu.pool_destroy(default)).unwrap_err();
    assert_eq!(refused.code(), ResultCode::INVALID_VALUE);
    let pool = gpu.pool_create(DeviceOrdinal::from_raw(1), 0).unwrap();
    let refused = gpu.device_set_pool(DEVICE, pool).unwrap_err();
    assert_contains(&refused.to_string(), "memory of another device");
    assert_eq!(gpu.device_pool(DEVICE).unwrap(), default);
}
