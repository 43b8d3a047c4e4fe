//! Allocations, copies, fills, page-locked memory and the pool.

#![allow(unsafe_code, reason = "calls the driver's unsafe methods")]

use std::ptr;

use millstream_driver::{DevicePtr, Driver, FillPattern, ResultCode};

use crate::gpu::harness::{Gpu, Outcome, check};

pub(crate) fn copies_and_fills_in_stream_order(gpu: &Gpu) -> Outcome {
    const COUNT: usize = 1000;
    let (a, b) = (gpu.alloc(COUNT * 4)?, gpu.alloc(COUNT * 4)?);
    let fill = |target: DevicePtr, pattern: FillPattern, count: usize| {
        // SAFETY: every use below stays within its allocation of `COUNT` words.
        unsafe {
            gpu.cuda
                .memset_async(gpu.context, target, pattern, count, gpu.stream)
        }
    };
    fill(a, FillPattern::U32(0x0102_0304), COUNT)?;
    fill(a, FillPattern::U16(0xabcd), 2)?;
    fill(a.offset(4), FillPattern::U8(0xff), 4)?;
    // SAFETY: both allocations have this size.
    unsafe {
        gpu.cuda
            .copy_device_to_device_async(gpu.context, b, a, COUNT * 4, gpu.stream)
    }?;
    let words: Vec<u32> = gpu.read(b, COUNT)?;
    check(words[..2] == [0xabcd_abcd, 0xffff_ffff], "the narrow fills")?;
    check(
        words[2..].iter().all(|&word| word == 0x0102_0304),
        "the wide fill",
    )?;

    let values: Vec<u32> = (0..COUNT as u32).collect();
    gpu.write(a, &values)?;
    // SAFETY: both allocations have this size.
    unsafe {
        gpu.cuda
            .copy_unified_async(gpu.context, b, a, COUNT * 4, gpu.stream)
    }?;
    check(gpu.read::<u32>(b, COUNT)? == values, "the round trip")?;
    gpu.free(a)?;
    gpu.free(b)?;
    gpu.synchronize()
}

pub(crate) fn synchronous_copies_and_plain_allocation(gpu: &Gpu) -> Outcome {
    let Gpu { cuda, context, .. } = gpu;
    let values: [u64; 4] = [1, 2, 3, u64::MAX];
    let bytes = size_of_val(&values);
    // SAFETY: the context is retained.
    let a = unsafe { cuda.mem_alloc(*context, bytes) }?;
    // SAFETY: the context is retained.
    let b = unsafe { cuda.mem_alloc(*context, bytes) }?;
    let mut back = [0_u64; 4];
    // SAFETY: the source is readable, the target an allocation of that size.
    unsafe { cuda.copy_host_to_device(*context, a, values.as_ptr().cast(), bytes) }?;
    // SAFETY: both are allocations of that size.
    unsafe { cuda.copy_device_to_device(*context, b, a, bytes) }?;
    // SAFETY: the target is writable, the source an allocation of that size.
    unsafe { cuda.copy_device_to_host(*context, back.as_mut_ptr().cast(), b, bytes) }?;
    // SAFETY: freed once, nothing uses it any more.
    unsafe { cuda.mem_free(*context, a) }?;
    // SAFETY: freed once, nothing uses it any more.
    unsafe { cuda.mem_free(*context, b) }?;
    check(back == values, "the copied values are equal")
}

pub(crate) fn page_locked_memory(gpu: &Gpu) -> Outcome {
    let Gpu { cuda, context, .. } = gpu;
    const BYTES: usize = 4096;
    // SAFETY: the context is retained, and the size is not 0.
    let pinned = unsafe { cuda.host_alloc(*context, BYTES) }?;
    // SAFETY: the memory has this size, and only this function uses it.
    unsafe { ptr::write_bytes(pinned.as_ptr(), 7, BYTES) };
    let device = gpu.alloc(BYTES)?;
    // SAFETY: both have this size, and the host leaves the source alone until the stream is
    // synchronised below.
    unsafe {
        cuda.copy_host_to_device_async(*context, device, pinned.as_ptr(), BYTES, gpu.stream)
    }?;
    check(
        gpu.read::<u8>(device, BYTES)? == [7; BYTES],
        "the contents of page-locked memory arrive",
    )?;
    // SAFETY: freed once; the copy from it is done.
    unsafe { cuda.host_free(*context, pinned) }?;

    let mut own = vec![9_u8; BYTES];
    let start = ptr::NonNull::new(own.as_mut_ptr()).ok_or("a vector's pointer is not null")?;
    // SAFETY: the vector lives until after it is unregistered.
    unsafe { cuda.host_register(*context, start, BYTES) }?;
    // SAFETY: this must fail: the range is registered already.
    let again = unsafe { cuda.host_register(*context, start, BYTES) };
    // SAFETY: both have this size, and the host leaves the source alone until the stream is
    // synchronised below.
    unsafe { cuda.copy_host_to_device_async(*context, device, start.as_ptr(), BYTES, gpu.stream) }?;
    let back = gpu.read::<u8>(device, BYTES)?;
    // SAFETY: registered above; the copy from it is done.
    unsafe { cuda.host_unregister(*context, start) }?;
    gpu.free(device)?;
    check(back == own, "the contents of registered memory arrive")?;
    check(
        again.is_err_and(|error| error.code() == ResultCode::HOST_MEMORY_ALREADY_REGISTERED),
        "a second registration is an error",
    )
}

pub(crate) fn pool_counters(gpu: &Gpu) -> Outcome {
    const BYTES: usize = 32 << 20;
    let pool = gpu.cuda.default_pool(gpu.device)?;
    // SAFETY: the default pool lives as long as the device.
    unsafe { gpu.cuda.pool_set_release_threshold(pool, u64::MAX) }?;
    let pointer = gpu.alloc(BYTES)?;
    // SAFETY: as above.
    let usage = unsafe { gpu.cuda.pool_usage(pool) }?;
    check(
        usage.used_bytes >= BYTES as u64,
        "the allocation is counted",
    )?;
    check(
        usage.used_peak_bytes >= usage.used_bytes,
        "the peak is at least the current value",
    )?;
    check(
        usage.reserved_bytes >= usage.used_bytes,
        "at least the used bytes are reserved",
    )?;
    check(
        usage.reserved_peak_bytes >= usage.reserved_bytes,
        "the peak is at least the current value",
    )?;
    gpu.free(pointer)?;
    gpu.synchronize()?;
    // SAFETY: as above.
    Ok(unsafe { gpu.cuda.pool_trim(pool, 0) }?)
}
