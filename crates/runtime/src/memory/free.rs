//! Freeing device memory in stream order, after every use, without blocking the caller.
//!
//! A free must come after every use of the allocation (rule 32: memory of a pool is used between
//! its allocation and its free in stream order), and must not delay work of an unrelated stream. If
//! the tail of a stream is ordered after all uses already, the free goes there. Otherwise it goes
//! to a stream that does nothing but wait for uses and free. If a lock is taken or a use is not
//! submitted yet, the free is deferred to the next submission, allocation or wait on the device, or
//! query of its memory statistics.

#![allow(unsafe_code, reason = "frees device memory")]

use std::sync::Arc;

use millstream_driver::{DevicePtr, DriverError};
use smallvec::SmallVec;

use super::budget::Reservation;
use crate::{
    context::{Command, DeviceState, DriverStream, Free, StreamState, SubmitQueue, order_after},
    disposal::log,
    tracker::{Dependencies, StreamId, Ticket},
};

/// The contents of device memory once all operations on it are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Undefined,
    Zeros,
}

/// Device memory without an owner, with the tickets that may still use it.
#[derive(Debug)]
pub(crate) struct DroppedBlock {
    pub(crate) pointer: DevicePtr,
    pub(crate) bytes: u64,
    /// The stream of its allocation, on which it is freed if all uses are complete.
    pub(crate) origin: StreamId,
    pub(crate) uses: SmallVec<[Ticket; 4]>,
    pub(crate) contents: Contents,
}

/// A block to be freed, which counts as allocated until its free is enqueued.
#[derive(Debug)]
pub(crate) struct FreeingBlock {
    pub(super) block: DroppedBlock,
    pub(super) reservation: Reservation,
}

/// Frees the memory after every use. Never blocks and never fails: memory of a lost device needs no
/// free.
pub(crate) fn release(device: &DeviceState, freed: FreeingBlock) {
    if let Err(freed) = try_free(device, freed) {
        device.memory().deferred.defer(device, freed);
    }
}

pub(crate) fn drain_frees(device: &DeviceState) {
    if !device.has_deferred() {
        return;
    }
    for freed in device.memory().deferred.take_deferred(device) {
        release(device, freed);
    }
}

/// Enqueues the free, or returns the block if that would wait for a lock or a submission.
fn try_free(device: &DeviceState, mut freed: FreeingBlock) -> Result<(), FreeingBlock> {
    if device.lost().is_some() {
        freed.reservation.commit();
        return Ok(());
    }
    freed.block.uses.retain(|ticket| !device.is_done(*ticket));
    let submitted = |ticket: &Ticket| {
        device.stream(ticket.stream).is_none_or(|stream| {
            stream
                .shared
                .try_lock()
                .is_some_and(|shared| shared.points.submitted() >= ticket.sequence)
        })
    };
    if !freed.block.uses.iter().all(submitted) {
        return Err(freed);
    }
    if freed.block.uses.is_empty() {
        return match device.stream(freed.block.origin) {
            Some(origin) if origin.is_own() => free_after(device, origin, freed, |_| true),
            Some(_) => free_apart(device, freed),
            None => {
                freed.reservation.commit();
                Ok(())
            }
        };
    }
    for at in 0..freed.block.uses.len() {
        let stream = device.stream(freed.block.uses[at].stream);
        let Some(stream) = stream.filter(|stream| stream.is_own()) else {
            continue;
        };
        let uses = freed.block.uses.clone();
        let ordered = |submit_queue: &SubmitQueue| {
            uses.iter()
                .all(|&ticket| ticket.stream == stream.id || submit_queue.clock.covers(ticket))
        };
        match free_after(device, stream, freed, ordered) {
            Ok(()) => return Ok(()),
            Err(back) => freed = back,
        }
    }
    free_apart(device, freed)
}

/// Frees at the stream's tail, if its submit queue is not locked and `ordered` finds the tail
/// ordered after every use.
fn free_after(
    device: &DeviceState,
    stream: &StreamState,
    freed: FreeingBlock,
    ordered: impl FnOnce(&SubmitQueue) -> bool,
) -> Result<(), FreeingBlock> {
    match stream.submit_queue.try_lock() {
        Some(submit_queue) if ordered(&submit_queue) => {
            enqueue_free(device, stream, freed);
            Ok(())
        }
        _ => Err(freed),
    }
}

/// Frees on the stream for frees, after a wait for each use.
fn free_apart(device: &DeviceState, freed: FreeingBlock) -> Result<(), FreeingBlock> {
    let Some(stream) = device.memory().deferred.stream(|| device.acquire_stream(0)) else {
        return Err(freed);
    };
    let stream: &Arc<StreamState> = &stream;
    let Some(mut submit_queue) = stream.submit_queue.try_lock() else {
        return Err(freed);
    };
    // Every use is submitted, so this does not wait.
    if order_after(
        device,
        stream,
        &mut submit_queue,
        Dependencies::from_slice(&freed.block.uses),
    )
    .is_err()
    {
        return Err(freed);
    }
    enqueue_free(device, stream, freed);
    Ok(())
}

/// Frees memory at the tail of any stream of a context whose work is over.
///
/// # Safety
///
/// Context and stream are alive, the memory belongs to the context and was not freed, and all work
/// that uses it is complete.
pub(crate) unsafe fn free_unused(
    driver_stream: DriverStream<'_>,
    freed: FreeingBlock,
) -> Result<(), DriverError> {
    let pointer = freed.block.pointer;
    // SAFETY: this function's contract.
    unsafe { Free { pointer }.enqueue(driver_stream) }
}

/// Makes the driver call that frees the memory. The caller holds the stream's submit queue, and
/// every use is ordered before the stream's tail.
///
/// A failed call is not repeated, because the driver may have freed the memory in spite of the
/// error and reused the address. The memory then counts as allocated for good.
fn enqueue_free(device: &DeviceState, stream: &StreamState, freed: FreeingBlock) {
    let FreeingBlock { block, reservation } = freed;
    let pointer = block.pointer;
    // SAFETY: the allocation's owner is gone, so that no later operation can use it; every use is
    // ordered before this point of the stream; the device owns context and stream.
    let result = unsafe { Free { pointer }.enqueue(device.driver_stream(stream)) };
    match device.checked(result) {
        Ok(()) => {
            stream.memory().frees.enqueue(block.bytes);
            drop(reservation);
        }
        Err(error) => {
            reservation.commit();
            log!(warn, %error, ?pointer, "device memory could not be freed");
        }
    }
}
