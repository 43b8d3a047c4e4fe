//! The program with the mistake: two streams and an array, written against the driver's own calls.

#![allow(unsafe_code, reason = "calls the driver's unsafe methods")]

use std::slice;

use millstream::{
    driver::{DeviceOrdinal, Driver, DriverError, EventKind, FillPattern},
    sim::{Gpu, race::Label},
};

pub(crate) const BYTES: usize = 1 << 16;
/// The value of every byte before and after the fill.
const OLD: u8 = 1;
const NEW: u8 = 9;

/// Fills an array on one stream and downloads it on another. Returns how many bytes were downloaded
/// before they were filled.
///
/// The second stream must wait for the first. It does so only if the program is `repaired`.
pub(crate) fn fill_and_fetch(gpu: &Gpu, repaired: bool) -> Result<usize, DriverError> {
    let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0))?;
    // SAFETY: the context is alive.
    let stream = || unsafe { gpu.stream_create(context, true, 0) };
    let (compute, copies) = (stream()?, stream()?);
    // SAFETY: the context is alive.
    let array = unsafe { gpu.mem_alloc(context, BYTES) }?;
    // SAFETY: the context is alive.
    let home = unsafe { gpu.host_alloc(context, BYTES) }?;
    // SAFETY: the context is alive.
    let filled = unsafe { gpu.event_create(context, EventKind::Ordering) }?;

    // SAFETY: stream and array are alive.
    unsafe { gpu.memset_async(context, array, FillPattern::U8(OLD), BYTES, compute) }?;
    // SAFETY: the context is alive.
    unsafe { gpu.context_synchronize(context) }?;

    let label = Label::new("fill");
    // SAFETY: stream and array are alive.
    unsafe { gpu.memset_async(context, array, FillPattern::U8(NEW), BYTES, compute) }?;
    // SAFETY: event and stream are alive.
    unsafe { gpu.event_record(context, filled, compute) }?;
    drop(label);
    if repaired {
        // SAFETY: event and stream are alive.
        unsafe { gpu.stream_wait_event(context, copies, filled) }?;
    }
    let label = Label::new("fetch");
    // SAFETY: array and page-locked memory are alive, and nothing else uses the latter until the
    // stream is synchronised.
    unsafe { gpu.copy_device_to_host_async(context, home.as_ptr(), array, BYTES, copies) }?;
    // SAFETY: the stream is alive.
    unsafe { gpu.stream_synchronize(context, copies) }?;
    drop(label);

    gpu.host_read(home.as_ptr(), BYTES);
    // SAFETY: the page-locked memory is alive, the copy has written all of it, and it is over.
    let bytes = unsafe { slice::from_raw_parts(home.as_ptr(), BYTES) };
    let stale = bytes.iter().filter(|byte| **byte != NEW).count();

    // SAFETY: the context is alive.
    unsafe { gpu.context_synchronize(context) }?;
    // SAFETY: nothing uses the event any more.
    unsafe { gpu.event_destroy(context, filled) }?;
    // SAFETY: nothing uses the memory any more.
    unsafe { gpu.mem_free(context, array) }?;
    // SAFETY: nothing uses the memory any more.
    unsafe { gpu.host_free(context, home) }?;
    for stream in [compute, copies] {
        // SAFETY: nothing uses the stream any more.
        unsafe { gpu.stream_destroy(context, stream) }?;
    }
    Ok(stale)
}
