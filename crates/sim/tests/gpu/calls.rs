//! Device properties, and errors of invalid calls.

#![allow(unsafe_code, reason = "calls an unsafe method of the driver")]

use millstream_driver::DeviceOrdinal;

use crate::{conformance::prelude::*, gpu::Outcome};

pub(crate) fn device_properties(dev: &DeviceHarness) -> Outcome {
    let (driver, device) = (&dev.driver, dev.device);
    check(driver.driver_version()? >= 12_000, "driver version")?;
    check(!driver.device_name(device)?.is_empty(), "a name")?;
    check(driver.device_uuid(device)? != [0; 16], "a UUID")?;
    let usual = dev.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK)?;
    let most = dev.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    check(
        usual == 48 << 10 && most >= usual,
        &format!("{usual} bytes of shared memory, {most} at most"),
    )?;
    check(
        dev.attribute(DeviceAttribute::WARP_SIZE)? == 32,
        "warps of 32",
    )?;
    check(
        dev.attribute(DeviceAttribute::UNIFIED_ADDRESSING)? == 1,
        "unified addresses",
    )?;
    let (free, total) = dev.mem_info()?;
    check(
        0 < free && free <= total && total <= driver.device_total_bytes(device)?,
        "memory adds up",
    )?;
    // SAFETY: the context is retained.
    let range = unsafe { driver.stream_priority_range(dev.context) }?;
    check(
        range.greatest <= range.least,
        "greater priorities have lower numbers",
    )?;
    let before = driver.now_ns();
    driver.pause(Duration::from_millis(2));
    check(
        driver.now_ns() >= before + 2_000_000,
        "`pause` uses the same clock",
    )
}

pub(crate) fn usage_errors_name_the_call(dev: &DeviceHarness) -> Outcome {
    let absent = dev.driver.device_name(DeviceOrdinal::from_raw(9999));
    check(
        absent.is_err_and(|e| e.call() == "cuDeviceGet" && e.code() == ResultCode::INVALID_DEVICE),
        "an absent device",
    )?;
    let huge = dev.mem_alloc(1 << 60);
    check(
        huge.is_err_and(|e| e.call() == "cuMemAlloc" && e.code() == ResultCode::OUT_OF_MEMORY),
        "an allocation larger than any device",
    )
}
