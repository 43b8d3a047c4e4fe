//! Device properties, and errors of invalid calls.

#![allow(unsafe_code, reason = "calls the driver's unsafe methods")]

use std::time::Duration;

use millstream_driver::{DeviceAttribute, DeviceOrdinal, Driver, ResultCode};

use crate::gpu::harness::{Gpu, Outcome, check};

pub(crate) fn device_properties(gpu: &Gpu) -> Outcome {
    let Gpu {
        cuda,
        device,
        context,
        ..
    } = gpu;
    check(cuda.driver_version()? >= 12_000, "driver version")?;
    check(!cuda.device_name(*device)?.is_empty(), "a name")?;
    check(cuda.device_uuid(*device)? != [0; 16], "a UUID")?;
    let usual = cuda.device_attribute(*device, DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK)?;
    let most =
        cuda.device_attribute(*device, DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    check(
        usual == 48 << 10 && most >= usual,
        &format!("{usual} bytes of shared memory, {most} at most"),
    )?;
    check(
        cuda.device_attribute(*device, DeviceAttribute::WARP_SIZE)? == 32,
        "warps of 32",
    )?;
    check(
        cuda.device_attribute(*device, DeviceAttribute::UNIFIED_ADDRESSING)? == 1,
        "unified addresses",
    )?;
    // SAFETY: the context is retained.
    let (free, total) = unsafe { cuda.mem_info(*context) }?;
    check(
        0 < free && free <= total && total <= cuda.device_total_bytes(*device)?,
        "memory adds up",
    )?;
    // SAFETY: the context is retained.
    let range = unsafe { cuda.stream_priority_range(*context) }?;
    check(
        range.greatest <= range.least,
        "greater priorities have lower numbers",
    )?;
    let before = cuda.now_ns();
    cuda.pause(Duration::from_millis(2));
    check(
        cuda.now_ns() >= before + 2_000_000,
        "`pause` uses the same clock",
    )
}

pub(crate) fn usage_errors_name_the_call(gpu: &Gpu) -> Outcome {
    let absent = gpu.cuda.device_name(DeviceOrdinal::from_raw(9999));
    check(
        absent.is_err_and(|e| e.call() == "cuDeviceGet" && e.code() == ResultCode::INVALID_DEVICE),
        "an absent device",
    )?;
    // SAFETY: the context is retained; an allocation that cannot succeed.
    let huge = unsafe { gpu.cuda.mem_alloc(gpu.context, 1 << 60) };
    check(
        huge.is_err_and(|e| e.call() == "cuMemAlloc" && e.code() == ResultCode::OUT_OF_MEMORY),
        "an allocation larger than any device",
    )
}
