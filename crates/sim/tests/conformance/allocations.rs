//! Rule 56: the alignment of allocations.

use libtest_mimic::Failed;
use millstream_driver::{ALLOCATION_ALIGNMENT, StreamHandle};

use crate::conformance::device_harness::{DeviceHarness, Observation, check};

/// Allocation sizes around the thresholds at which allocators switch strategy.
const SIZES: [usize; 8] = [1, 4, 100, 4096, 5000, 65_536, 70_000, 3 << 20];

pub(crate) fn r56(dev: &DeviceHarness) -> Observation {
    let stream = dev.stream()?;
    let device = least_alignment(|bytes| Ok(dev.memory_to_keep(bytes)?.as_raw()))?;
    let pooled = least_alignment(|bytes| {
        let pointer = dev.mem_alloc_async(bytes, stream)?;
        dev.mem_free_async(pointer, stream)?;
        Ok(pointer.as_raw())
    })?;
    dev.stream_synchronize(stream)?;
    let pinned = least_alignment(|bytes| Ok(dev.pinned(bytes, 0)?.address().as_raw()))?;
    let managed = least_alignment(|bytes| {
        let host = dev.managed(bytes)?;
        dev.stream_synchronize(StreamHandle::LEGACY)?;
        dev.mem_free(host.address())?;
        Ok(host.address().as_raw())
    })?;
    for (memory, alignment) in [
        ("cuMemAlloc", device),
        ("cuMemAllocAsync", pooled),
        ("cuMemHostAlloc", pinned),
        ("cuMemAllocManaged", managed),
    ] {
        check(
            alignment >= ALLOCATION_ALIGNMENT as u64,
            &format!("{memory} aligns to {alignment} bytes only"),
        )?;
    }
    dev.stream_synchronize(stream)?;
    Ok(format!(
        "cuMemAlloc aligned to {device} bytes, cuMemAllocAsync to {pooled}, cuMemHostAlloc to \
         {pinned}, \
         cuMemAllocManaged to {managed}"
    ))
}

/// Returns the largest power of two that divides the addresses of several allocations of each size,
/// at most a page: any larger alignment is chance.
fn least_alignment(mut allocate: impl FnMut(usize) -> Result<u64, Failed>) -> Result<u64, Failed> {
    let mut common = 4096;
    for bytes in SIZES {
        for _ in 0..4 {
            common |= allocate(bytes)?;
        }
    }
    Ok(1 << common.trailing_zeros())
}
