//! Copies, fills, page-locked memory and the pool.

use crate::{conformance::prelude::*, gpu::Outcome};

pub(crate) fn copies_and_fills_in_stream_order(dev: &DeviceHarness) -> Outcome {
    const BYTES: usize = 4000;
    let (stream, a, b) = (dev.stream()?, dev.memory(BYTES)?, dev.memory(BYTES)?);
    dev.memset_async(a, FillPattern::U32(0x0102_0304), BYTES / 4, stream)?;
    dev.memset_async(a, FillPattern::U16(0xabcd), 2, stream)?;
    dev.memset_async(a.offset(4), FillPattern::U8(0xff), 4, stream)?;
    dev.copy_device_to_device_async(b, a, BYTES, stream)?;
    let bytes = dev.read(b, BYTES, stream)?;
    check(
        bytes[..8] == [0xcd, 0xab, 0xcd, 0xab, 0xff, 0xff, 0xff, 0xff],
        "the narrow fills",
    )?;
    check(
        bytes[8..] == [4, 3, 2, 1].repeat(BYTES / 4 - 2),
        "the wide fill",
    )?;
    dev.copy_unified_async(a, dev.pageable(BYTES, 7).address(), BYTES, stream)?;
    dev.copy_unified_async(b, a, BYTES, stream)?;
    let back = dev.pinned(BYTES, 0)?;
    dev.copy_unified_async(back.address(), b, BYTES, stream)?;
    dev.stream_synchronize(stream)?;
    check(back.is(7), "the round trip")
}

pub(crate) fn registered_memory(dev: &DeviceHarness) -> Outcome {
    const BYTES: usize = 4096;
    let (stream, memory, own) = (dev.stream()?, dev.memory(BYTES)?, dev.pageable(BYTES, 9));
    dev.host_register(own)?;
    let again = dev.refusal(dev.host_register(own))?;
    dev.upload(memory, own, stream)?;
    let arrives = dev.holds(memory, 9, BYTES, stream)?;
    dev.host_unregister(own)?;
    check(arrives, "the contents of registered memory arrive")?;
    check(
        again == ResultCode::HOST_MEMORY_ALREADY_REGISTERED,
        "a second registration is an error",
    )
}

pub(crate) fn pool_counters(dev: &DeviceHarness) -> Outcome {
    const BYTES: usize = 32 << 20;
    let stream = dev.stream()?;
    dev.keep_pool_bytes(u64::MAX)?;
    let memory = dev.mem_alloc_async(BYTES, stream)?;
    let usage = dev.pool_usage()?;
    check(
        usage.used_bytes >= BYTES as u64 && usage.reserved_bytes >= usage.used_bytes,
        "the allocation is counted, and at least the used bytes are reserved",
    )?;
    check(
        usage.used_peak_bytes >= usage.used_bytes
            && usage.reserved_peak_bytes >= usage.reserved_bytes,
        "the peak is at least the current value",
    )?;
    dev.mem_free_async(memory, stream)?;
    dev.stream_synchronize(stream)?;
    Ok(dev.trim(0)?)
}
