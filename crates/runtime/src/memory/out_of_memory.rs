//! Allocation under memory pressure: waiting for pending frees, and trimming unused memory.
//!
//! When an allocation fails, memory may be about to be freed: by deferred frees, and by frees that
//! their streams have not reached yet. Deferred frees are retried. An event is recorded behind the
//! pending frees of each stream, and the allocation is retried whenever one of these events
//! completes. An allocation thus never waits for a stream that frees nothing, and waits for the
//! others only as long as it fails. It also waits for the uses of dropped textures and managed
//! memory, which can then be freed if the devices are idle. If all of this together would not
//! suffice, it fails without waiting.

#![allow(unsafe_code, reason = "trims the device's pool and queries events")]

use std::{sync::Arc, time::Duration};

use super::{
    budget::BudgetStats,
    cache::{self, CacheStats},
};
use crate::{
    Error, Result,
    context::{DeviceState, PooledEvent, StreamState, record_at_tail, wait_until},
    error::OutOfMemory,
    memory::drain_frees,
};

/// The time for which trimming waits for frees that are about to complete.
const TRIM_WAIT_MAX: Duration = Duration::from_micros(200);

/// An event behind pending frees of a stream.
struct Fence<'a> {
    device: &'a DeviceState,
    stream: Arc<StreamState>,
    event: PooledEvent,
    /// The watermark of the stream's frees before the event.
    watermark: u64,
}

impl Drop for Fence<'_> {
    fn drop(&mut self) {
        self.device.events.give(Arc::clone(&self.event));
    }
}

impl Fence<'_> {
    /// Returns whether the frees before the event are complete. The runtime then counts them as
    /// freed. The driver has seen them complete too, so its pool can reuse and trim the memory
    /// (rules 34 and 36).
    fn is_passed(&self) -> Result<bool> {
        let device = self.device;
        // SAFETY: the fence holds the event.
        let answer = device
            .checked(unsafe { device.driver.event_query(device.context, self.event.event) })?;
        if answer.is_complete() {
            // SAFETY: the fence holds the event, which is complete, so that this does not wait.
            device.checked(unsafe {
                device
                    .driver
                    .event_synchronize(device.context, self.event.event)
            })?;
            self.stream.memory().frees.mark_freed(self.watermark);
        }
        Ok(answer.is_complete())
    }
}

/// A wait for the pending frees of a device.
struct ReclaimWait<'a> {
    device: &'a DeviceState,
    fences: Vec<Fence<'a>>,
    /// The bytes of dropped arrays and managed memory that operations still use.
    used_bytes: u64,
}

impl<'a> ReclaimWait<'a> {
    fn new(device: &'a DeviceState) -> Self {
        Self {
            device,
            fences: Vec::new(),
            used_bytes: 0,
        }
    }

    /// Updates the completed frees and returns the bytes that are still pending.
    fn poll(&mut self) -> Result<u64> {
        let device = self.device;
        drain_frees(device);
        let mut coming_bytes = device.memory().deferred.deferred_bytes();
        for stream in device.all_streams() {
            let watermark = stream.memory().frees.watermark();
            let fenced = self
                .fences
                .iter()
                .any(|fence| Arc::ptr_eq(&fence.stream, &stream) && fence.watermark == watermark);
            if stream.memory().frees.pending_bytes() > 0 && !fenced {
                let event = record_at_tail(device, &stream)?;
                self.fences.push(Fence {
                    device,
                    stream,
                    event,
                    watermark,
                });
            }
        }
        let mut failed = Ok(());
        self.fences.retain(|fence| match fence.is_passed() {
            Ok(passed) => !passed,
            Err(error) => {
                failed = Err(error);
                true
            }
        });
        failed?;
        for stream in device.all_streams() {
            coming_bytes += stream.memory().frees.pending_bytes();
        }
        self.used_bytes = device.page_locked().idle_frees.used_bytes(device)?;
        Ok(coming_bytes + self.used_bytes)
    }
}

/// Allocates `bytes` bytes by calling `attempt`, which returns `None` when memory is short, and
/// retries as frees complete.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if memory is short and the pending frees would not suffice; and any error
/// of `attempt`.
pub(super) fn retry_until_freed<T>(
    device: &DeviceState,
    bytes: u64,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    if let Some(memory) = attempt()? {
        return Ok(memory);
    }
    // Before the cache's frees, which are work of the device.
    device.page_locked().idle_frees.release_if_idle(device);
    cache::empty(device);
    let mut reclaim = ReclaimWait::new(device);
    let mut has_released = false;
    loop {
        let coming_bytes = reclaim.poll()?;
        device.page_locked().idle_frees.release_if_idle(device);
        trim_pool(device)?;
        if let Some(memory) = attempt()? {
            return Ok(memory);
        }
        if coming_bytes == 0 || !could_fit(device, bytes, reclaim.used_bytes) {
            if !has_released && device.slots.release_memory() {
                has_released = true;
                continue;
            }
            return Err(out_of_memory(device, bytes));
        }
        wait_until(&*device.driver, || Ok(reclaim.poll()? != coming_bytes))?;
    }
}

/// Returns whether the allocation could succeed once all pending frees are complete, and the memory
/// of dropped arrays is freed.
fn could_fit(device: &DeviceState, bytes: u64, used_bytes: u64) -> bool {
    let BudgetStats {
        allocated_bytes,
        limit_bytes,
        ..
    } = device.memory().budget.stats();
    let live_bytes = allocated_bytes.saturating_sub(device.memory().deferred.deferred_bytes());
    let is_beyond_limit = limit_bytes.is_some_and(|limit| live_bytes.saturating_add(bytes) > limit);
    let (usage, free) = driver_stats(device);
    let best_bytes = free.map(|(free_bytes, _)| {
        let idle_bytes = usage
            .unwrap_or_default()
            .reserved_bytes
            .saturating_sub(live_bytes);
        free_bytes
            .saturating_add(idle_bytes)
            .saturating_add(used_bytes)
    });
    !is_beyond_limit && best_bytes.is_none_or(|best_bytes| bytes <= best_bytes)
}

/// Returns the pool's statistics and the device's free and total memory, as far as the driver
/// reports them.
fn driver_stats(
    device: &DeviceState,
) -> (Option<millstream_driver::PoolUsage>, Option<(u64, u64)>) {
    // SAFETY: the device's default pool is alive as long as the device.
    let usage = unsafe { device.driver.pool_usage(device.pool) };
    // SAFETY: the device's context is alive as long as the device.
    let free = unsafe { device.driver.mem_info(device.context) };
    (usage.ok(), free.ok())
}

fn out_of_memory(device: &DeviceState, bytes: u64) -> Error {
    let stats = device.memory().budget.stats();
    let (usage, free) = driver_stats(device);
    let usage = usage.unwrap_or_default();
    let (free_bytes, total_bytes) = free.unwrap_or_default();
    OutOfMemory {
        requested_bytes: bytes,
        allocated_bytes: stats.allocated_bytes,
        limit_bytes: stats.limit_bytes,
        used_bytes: usage.used_bytes,
        reserved_bytes: usage.reserved_bytes,
        free_bytes,
        total_bytes,
    }
    .into()
}

/// Releases the pool's unused memory to the system.
fn trim_pool(device: &DeviceState) -> Result<()> {
    // SAFETY: the device's default pool is alive as long as the device.
    device.checked(unsafe { device.driver.pool_trim(device.pool, 0) })
}

/// Releases unused memory: device memory whose frees are complete or about to complete, and
/// page-locked memory if the devices are idle.
pub(super) fn trim(device: &DeviceState) -> Result<()> {
    cache::empty(device);
    let mut reclaim = ReclaimWait::new(device);
    let started_ns = device.driver.now_ns();
    wait_until(&*device.driver, || {
        let waited_ns = device.driver.now_ns().saturating_sub(started_ns);
        Ok(reclaim.poll()? == 0 || u128::from(waited_ns) > TRIM_WAIT_MAX.as_nanos())
    })?;
    trim_pool(device)?;
    device.page_locked().idle_frees.release_if_idle(device);
    device.page_locked().staging.trim(device)
}

/// Returns the device's memory statistics. Retries the deferred frees first, because the device may
/// stay unused for long.
pub(super) fn stats(device: &DeviceState) -> Result<super::MemoryStats> {
    drain_frees(device);
    let BudgetStats {
        allocated_bytes,
        allocated_peak_bytes,
        allocations,
        limit_bytes,
    } = device.memory().budget.stats();
    device.check_alive()?;
    // SAFETY: the device's default pool is alive as long as the device.
    let usage = device.checked(unsafe { device.driver.pool_usage(device.pool) })?;
    // SAFETY: the device's context is alive as long as the device.
    let (free_bytes, total_bytes) =
        device.checked(unsafe { device.driver.mem_info(device.context) })?;
    let staging = device.page_locked().staging.stats();
    let CacheStats {
        cached_bytes,
        limit_bytes: cache_limit_bytes,
        hits,
        misses,
    } = device.memory().budget.with_cache(|cache| cache.stats());
    Ok(super::MemoryStats {
        allocated_bytes,
        allocated_peak_bytes,
        allocations,
        limit_bytes,
        cached_bytes,
        cache_limit_bytes,
        cache_hits: hits,
        cache_misses: misses,
        used_bytes: usage.used_bytes,
        used_peak_bytes: usage.used_peak_bytes,
        reserved_bytes: usage.reserved_bytes,
        reserved_peak_bytes: usage.reserved_peak_bytes,
        free_bytes,
        total_bytes,
        page_locked_bytes: staging.allocated_bytes,
        page_locked_kept_bytes: staging.cached_bytes,
        staging_limit_bytes: staging.limit_bytes,
    })
}
