//! The pool of page-locked host memory: for uploads and downloads on their way, and behind [`Pinned`](crate::Pinned).
//!
//! A block that is given back while a copy may still use it comes with that copy's tickets, and is not handed out again
//! before they are done. Nothing is freed while the device has work: `cuMemFreeHost` would wait for all of it (rule 30).

#![allow(unsafe_code, reason = "allocates and frees page-locked memory")]

use std::{collections::BTreeMap, ptr::NonNull};

use millstream_driver::{ContextHandle, Driver};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{
    Misuse, Problem, Result,
    completion::{poll_ticket, wait_for_ticket},
    device::DeviceState,
    tracker::Ticket,
};

/// The smallest block. Sizes are powers of two from here on.
const BLOCK_BYTES_MIN: usize = 4096;
/// How much may be allocated before a new block is waited for rather than made. A single block may be larger.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Page-locked host memory of `bytes` bytes, owned by whoever holds this until it is given back to its pool.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) pointer: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: a block is plain memory; who may touch it when is decided by tickets, not by threads.
unsafe impl Send for Block {}
// SAFETY: as above; a shared block gives out only its address.
unsafe impl Sync for Block {}

/// A block that was given back, and what may still use it.
#[derive(Debug)]
struct Returned {
    block: Block,
    uses: SmallVec<[Ticket; 4]>,
}

/// The device's page-locked memory.
#[derive(Debug, Default)]
pub(crate) struct StagingPool {
    sizes: Mutex<Sizes>,
}

/// Returned blocks by size, oldest first.
#[derive(Debug, Default)]
struct Sizes {
    returned: BTreeMap<usize, Vec<Returned>>,
    allocated_bytes: usize,
}

impl StagingPool {
    /// A block of at least `bytes` that nobody uses. Its content is undefined.
    ///
    /// Blocks only when so much memory is on its way that making more would be unreasonable.
    pub(crate) fn take(&self, device: &DeviceState, bytes: usize) -> Result<Block> {
        let size = bytes
            .max(BLOCK_BYTES_MIN)
            .checked_next_power_of_two()
            .ok_or_else(|| {
                Misuse::new(
                    "pinned",
                    Problem::TooLarge {
                        elements: bytes,
                        element_bytes: 1,
                    },
                )
            })?;
        if let Some(oldest) = self.take_oldest(size) {
            let over = is_over(device, &oldest);
            if matches!(over, Ok(true)) {
                return Ok(oldest.block);
            }
            self.put_first(size, oldest);
            over?;
        }
        let full = {
            let sizes = self.sizes.lock();
            size <= KEPT_BYTES_MAX && sizes.allocated_bytes + size > KEPT_BYTES_MAX
        };
        if full && let Some(oldest) = self.take_oldest(size) {
            let waited = wait_for(device, &oldest);
            if waited.is_ok() {
                return Ok(oldest.block);
            }
            self.put_first(size, oldest);
            waited?;
        }
        // SAFETY: the device's context is alive, and the size is not 0.
        let pointer = device.checked(unsafe { device.driver.host_alloc(device.context, size) })?;
        self.sizes.lock().allocated_bytes += size;
        Ok(Block { pointer, bytes: size })
    }

    /// Takes a block back. `uses` may still read or write it.
    pub(crate) fn give(&self, block: Block, uses: SmallVec<[Ticket; 4]>) {
        let size = block.bytes;
        self.sizes
            .lock()
            .returned
            .entry(size)
            .or_default()
            .push(Returned { block, uses });
    }

    /// Frees every returned block. The device is idle, so this does not wait (rule 30).
    pub(crate) fn free_all(&self, driver: &dyn Driver, context: ContextHandle) {
        let mut sizes = self.sizes.lock();
        for returned in std::mem::take(&mut sizes.returned).into_values().flatten() {
            // SAFETY: the block came from this context and nobody uses it: the device is idle, and its owner gave it up.
            if let Err(error) = unsafe { driver.host_free(context, returned.block.pointer) } {
                tracing::debug!(%error, "page-locked memory could not be freed");
            }
            sizes.allocated_bytes -= returned.block.bytes;
        }
    }

    fn take_oldest(&self, size: usize) -> Option<Returned> {
        let mut sizes = self.sizes.lock();
        let blocks = sizes.returned.get_mut(&size)?;
        (!blocks.is_empty()).then(|| blocks.remove(0))
    }

    fn put_first(&self, size: usize, returned: Returned) {
        self.sizes
            .lock()
            .returned
            .entry(size)
            .or_default()
            .insert(0, returned);
    }
}

/// Whether nothing uses the block any more.
fn is_over(device: &DeviceState, returned: &Returned) -> Result<bool> {
    for &ticket in &returned.uses {
        let Some(stream) = device.stream(ticket.stream) else {
            continue;
        };
        if !poll_ticket(device, &stream, ticket.sequence)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits until nothing uses the block, but not for work that comes later.
fn wait_for(device: &DeviceState, returned: &Returned) -> Result<()> {
    for &ticket in &returned.uses {
        wait_for_ticket(device, ticket)?;
    }
    Ok(())
}
