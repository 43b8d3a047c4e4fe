//! Page-locked memory through which operations reach the arrays of the device.
//!
//! Freeing page-locked memory waits until the device is idle (rule 30), so blocks are reused, and
//! freed when the last communicator of their context ends.

#![allow(unsafe_code, reason = "allocates, uses and frees page-locked memory")]

use std::{
    ptr::NonNull,
    time::{Duration, Instant},
};

use millstream_driver::{
    Completion, ContextHandle, Driver, DriverError, EventHandle, EventKind, StreamHandle,
};

/// The real time after which memory of operations that do not end is left allocated.
const FREE_LIMIT: Duration = Duration::from_secs(5);

/// A block of page-locked memory.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) memory: Memory,
    /// Recorded after the last use.
    event: EventHandle,
    /// Unset while a use may be on a stream without the event behind it.
    recorded: bool,
}

/// The address and size of page-locked memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) pointer: NonNull<u8>,
    pub(super) bytes: usize,
}

// SAFETY: the memory belongs to no thread; operations on one stream use it one after another.
unsafe impl Send for Memory {}

#[derive(Debug, Default)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    /// Takes a block of at least `bytes` bytes that no operation uses any more, or allocates one.
    ///
    /// # Safety
    ///
    /// `context` is alive, and the one of all blocks here.
    pub(super) unsafe fn take(
        &mut self,
        driver: &dyn Driver,
        context: ContextHandle,
        bytes: usize,
    ) -> Result<Block, DriverError> {
        let free = self.0.iter().position(|block| {
            // SAFETY: the context and so its events are alive.
            block.memory.bytes >= bytes && unsafe { block.is_free(driver, context) }
        });
        if let Some(index) = free {
            let mut block = self.0.swap_remove(index);
            block.recorded = false;
            return Ok(block);
        }
        let bytes = bytes.next_power_of_two();
        // SAFETY: the context is alive.
        let event = unsafe { driver.event_create(context, EventKind::Ordering) }?;
        // SAFETY: the context is alive, and the size at least 1.
        let allocated = unsafe { driver.host_alloc(context, bytes) };
        let pointer = allocated.inspect_err(|_| {
            // SAFETY: the event was just created.
            let _ = unsafe { driver.event_destroy(context, event) };
        })?;
        Ok(Block {
            memory: Memory { pointer, bytes },
            event,
            recorded: false,
        })
    }

    /// Puts a block back whose uses are all enqueued on `stream`.
    ///
    /// # Safety
    ///
    /// `context` and `stream` are alive; the block came from [`take`](Self::take) for `context`.
    pub(super) unsafe fn put(
        &mut self,
        driver: &dyn Driver,
        context: ContextHandle,
        mut block: Block,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        // SAFETY: the caller vouches for the handles.
        let recorded = unsafe { driver.event_record(context, block.event, stream) };
        block.recorded = recorded.is_ok();
        self.0.push(block);
        recorded
    }

    /// Frees all blocks, once their operations are complete. Leaves blocks allocated whose
    /// operations do not end in time, and those of a lost device.
    ///
    /// # Safety
    ///
    /// `context` is alive, and the one of all blocks here.
    pub(super) unsafe fn free(self, driver: &dyn Driver, context: ContextHandle) {
        let deadline = Instant::now() + FREE_LIMIT;
        for block in self.0 {
            // SAFETY: as this method's.
            while !unsafe { block.is_free(driver, context) } {
                if !block.recorded || Instant::now() > deadline {
                    break;
                }
                driver.pause(Duration::from_micros(50));
            }
            // SAFETY: as this method's.
            if !unsafe { block.is_free(driver, context) } {
                continue;
            }
            // SAFETY: the event is alive and is not used again.
            let _ = unsafe { driver.event_destroy(context, block.event) };
            // SAFETY: every operation that uses the block is complete.
            let _ = unsafe { driver.host_free(context, block.memory.pointer) };
        }
    }
}

impl Block {
    /// Returns whether every operation that uses the block is complete.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn is_free(&self, driver: &dyn Driver, context: ContextHandle) -> bool {
        // SAFETY: events live as long as their block.
        let complete = || unsafe { driver.event_query(context, self.event) };
        self.recorded && complete() == Ok(Completion::Complete)
    }
}
