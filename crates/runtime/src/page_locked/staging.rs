//! The pool of page-locked host memory, for pending uploads and downloads and for
//! [`Pinned`](crate::Pinned).
//!
//! A block is returned with the tickets of the copies that may still use it, and is not reused
//! before they are done. No block is freed while the device has work, because `cuMemFreeHost` would
//! wait for all of it (rule 30).

#![allow(unsafe_code, reason = "allocates and frees page-locked memory")]

use std::{collections::BTreeMap, ops::RangeInclusive, ptr::NonNull};

use millstream_driver::{ContextHandle, DevicePtr, Driver, DriverError};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{
    Result, UsageError, UsageErrorKind,
    context::{DeviceState, wait_until},
    disposal::log,
    future::{all_done, prepare_wait},
    tracker::{StreamId, Ticket},
};

/// The name of pooled memory in the simulated device's reports.
pub(crate) const POOLED: &str = "kept for reuse";

/// The default amount of memory above which copies wait for a block instead of allocating one.
const LIMIT_BYTES_DEFAULT: u64 = 256 << 20;

/// An owned block of `bytes` bytes of page-locked host memory, to be returned to its pool.
#[derive(Debug)]
pub(crate) struct PinnedBlock {
    pub(crate) pointer: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: a block is plain memory; tickets decide when it may be accessed, from whichever thread.
unsafe impl Send for PinnedBlock {}
// SAFETY: a shared reference only exposes the address.
unsafe impl Sync for PinnedBlock {}

impl PinnedBlock {
    /// Returns the address of the first byte as a device pointer.
    pub(super) fn address(&self) -> DevicePtr {
        DevicePtr::from_raw(self.pointer.as_ptr().addr() as u64)
    }

    /// Frees the memory, whose uses are complete. The device must be idle, so that this does not
    /// wait (rule 30).
    pub(super) fn free(
        self,
        driver: &dyn Driver,
        context: ContextHandle,
    ) -> Result<(), DriverError> {
        // SAFETY: the block came from this context, and by this function's contract nothing uses
        // it.
        unsafe { driver.host_free(context, self.pointer) }
    }
}

/// The number of blocks of a size that are examined, oldest first, before a new one is allocated.
const SCAN_MAX: usize = 64;

/// The tickets that may still use a block.
type Uses = SmallVec<[Ticket; 4]>;

/// Returned blocks: size, address, and the tickets that may still use them.
type Candidates = SmallVec<[(usize, NonNull<u8>, Uses); 2]>;

/// Returns whether a use is one of another device that is lost, so that it never completes.
fn has_lost_user(device: &DeviceState, uses: &Uses) -> bool {
    let mut elsewhere = uses
        .iter()
        .filter(|ticket| device.stream(ticket.stream).is_none());
    let is_lost = |ticket: Ticket| {
        let is_lost = device.with_stream(ticket.stream, |owner, _| owner.lost().is_some());
        is_lost.unwrap_or(false)
    };
    elsewhere.any(|ticket| is_lost(*ticket))
}

/// Returns whether all uses of a block are complete.
fn are_complete(device: &DeviceState, uses: &Uses) -> Result<bool> {
    match all_done(device, uses) {
        Err(_) if has_lost_user(device, uses) => Ok(false),
        answer => answer,
    }
}

/// A returned block, with the tickets that may still use it.
#[derive(Debug)]
struct Returned {
    block: PinnedBlock,
    uses: Uses,
}

/// The pool of a device's page-locked memory.
#[derive(Debug, Default)]
pub(crate) struct StagingPool {
    sizes: Mutex<SizeClasses>,
}

/// Returned blocks by size, oldest first.
#[derive(Debug)]
struct SizeClasses {
    returned: BTreeMap<usize, Vec<Returned>>,
    stats: StagingStats,
}

impl Default for SizeClasses {
    fn default() -> Self {
        Self {
            returned: BTreeMap::new(),
            stats: StagingStats {
                allocated_bytes: 0,
                cached_bytes: 0,
                limit_bytes: LIMIT_BYTES_DEFAULT,
            },
        }
    }
}

/// The statistics of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagingStats {
    /// Bytes of all blocks.
    pub(crate) allocated_bytes: u64,
    /// Bytes of the returned blocks.
    pub(crate) cached_bytes: u64,
    /// The amount of memory above which copies wait for a block.
    pub(crate) limit_bytes: u64,
}

impl SizeClasses {
    /// Returns whether another block of this size is within the limit.
    fn has_room(&self, size: usize) -> bool {
        self.stats.allocated_bytes.saturating_add(size as u64) <= self.stats.limit_bytes
    }

    /// Removes the largest returned block whose uses are complete.
    fn take_largest(&mut self, is_done: &dyn Fn(Ticket) -> bool) -> Option<PinnedBlock> {
        let is_done = |returned: &Returned| returned.uses.iter().all(|&ticket| is_done(ticket));
        let found = self
            .returned
            .iter()
            .rev()
            .find_map(|(&size, blocks)| Some((size, blocks.iter().position(is_done)?)));
        found.map(|(size, at)| self.take_out(size, at).block)
    }

    fn take_out(&mut self, size: usize, at: usize) -> Returned {
        self.stats.cached_bytes -= size as u64;
        let blocks = self
            .returned
            .get_mut(&size)
            .expect("blocks of this size were seen");
        blocks.remove(at)
    }
}

/// The bytes of a block that is being allocated, uncounted again if this is dropped before that.
struct PinnedReservation<'a> {
    pool: &'a StagingPool,
    size: usize,
}

impl PinnedReservation<'_> {
    fn allocate(self, device: &DeviceState) -> Result<PinnedBlock> {
        let bytes = self.size;
        // SAFETY: the device's context is alive, and the size is not 0.
        let pointer = device.checked(unsafe { device.driver.host_alloc(device.context, bytes) })?;
        std::mem::forget(self);
        Ok(PinnedBlock { pointer, bytes })
    }
}

impl Drop for PinnedReservation<'_> {
    fn drop(&mut self) {
        self.pool.sizes.lock().stats.allocated_bytes -= self.size as u64;
    }
}

impl StagingPool {
    /// Returns an unused block of at least `bytes` bytes with undefined contents.
    ///
    /// Blocks only if the limit is reached and a block in use is large enough.
    pub(crate) fn take(&self, device: &DeviceState, bytes: usize) -> Result<PinnedBlock> {
        let size = block_size(device, bytes)?;
        if let Some(block) = self.take_within(device, size)? {
            return Ok(block);
        }
        self.free_idle(device, size)?;
        let reserved = match self.reserve(size) {
            Some(reserved) => reserved,
            None => match self.wait_for_one(device, size)? {
                Some(block) => return Ok(block),
                None => self.reserve_beyond(size),
            },
        };
        reserved.allocate(device)
    }

    /// Like [`take`](Self::take), but returns `None` instead of blocking or exceeding the limit.
    pub(crate) fn try_take(
        &self,
        device: &DeviceState,
        bytes: usize,
    ) -> Result<Option<PinnedBlock>> {
        self.take_within(device, block_size(device, bytes)?)
    }

    fn take_within(&self, device: &DeviceState, size: usize) -> Result<Option<PinnedBlock>> {
        if let Some(block) = self.reuse(device, &self.candidates(size..=size, SCAN_MAX))? {
            return Ok(Some(block));
        }
        let reserved = self.reserve(size);
        reserved
            .map(|reserved| reserved.allocate(device))
            .transpose()
    }

    /// Like [`take`](Self::take), for a block that serves several copies: it counts as pooled.
    pub(super) fn lend(&self, device: &DeviceState, bytes: usize) -> Result<PinnedBlock> {
        let block = self.take(device, bytes)?;
        self.sizes.lock().stats.cached_bytes += block.bytes as u64;
        Ok(block)
    }

    pub(super) fn give_lent(&self, block: PinnedBlock, uses: Uses) {
        self.sizes.lock().stats.cached_bytes -= block.bytes as u64;
        self.give(block, uses);
    }

    /// Returns a block to the pool. The operations `uses` may still read or write it.
    pub(crate) fn give(&self, block: PinnedBlock, uses: Uses) {
        let size = block.bytes;
        let mut sizes = self.sizes.lock();
        sizes.stats.cached_bytes += size as u64;
        let returned = Returned { block, uses };
        sizes.returned.entry(size).or_default().push(returned);
    }

    /// Removes all returned blocks, even those that may still be in use.
    pub(crate) fn take_all(&self) -> Vec<PinnedBlock> {
        self.take_until(&|_| true, |_| false)
    }

    /// Frees every returned block if the devices are idle.
    pub(crate) fn trim(&self, device: &DeviceState) -> Result<()> {
        for stream in device.all_streams() {
            stream.arena().retire(&stream, self);
        }
        let free = |is_done: &dyn Fn(Ticket) -> bool| {
            self.free_until(&*device.driver, device.context, is_done, |_| false);
        };
        device.while_idle(free)
    }

    /// Sets the amount of memory above which copies wait for a block.
    pub(crate) fn set_limit(&self, limit_bytes: u64) {
        self.sizes.lock().stats.limit_bytes = limit_bytes;
    }

    pub(crate) fn stats(&self) -> StagingStats {
        self.sizes.lock().stats
    }

    /// Counts a block of this size, if that is within the limit.
    fn reserve(&self, size: usize) -> Option<PinnedReservation<'_>> {
        let mut sizes = self.sizes.lock();
        sizes.has_room(size).then(|| {
            sizes.stats.allocated_bytes += size as u64;
            PinnedReservation { pool: self, size }
        })
    }

    /// Counts a block of this size, even beyond the limit.
    fn reserve_beyond(&self, size: usize) -> PinnedReservation<'_> {
        self.sizes.lock().stats.allocated_bytes += size as u64;
        PinnedReservation { pool: self, size }
    }

    /// Removes an unused block among the candidates.
    fn reuse(&self, device: &DeviceState, candidates: &Candidates) -> Result<Option<PinnedBlock>> {
        for &(size, pointer, ref uses) in candidates {
            if !are_complete(device, uses)? {
                continue;
            }
            let mut sizes = self.sizes.lock();
            let blocks = sizes.returned.get(&size);
            // Another thread may have taken the block and returned it with other uses. Tickets are
            // never reused, so equal uses are those that were queried.
            let at = blocks.and_then(|blocks| {
                blocks.iter().position(|returned| {
                    returned.block.pointer == pointer && returned.uses == *uses
                })
            });
            if let Some(at) = at {
                return Ok(Some(sizes.take_out(size, at).block));
            }
        }
        Ok(None)
    }

    /// Returns the blocks of these sizes to query, smallest first: of the `look_at` oldest of each
    /// size, the oldest of each stream. One stream may be held up while the blocks of another are
    /// free.
    fn candidates(&self, sizes: RangeInclusive<usize>, look_at: usize) -> Candidates {
        let mut candidates = Candidates::new();
        for (&size, blocks) in self.sizes.lock().returned.range(sizes) {
            let mut streams: SmallVec<[Option<StreamId>; 4]> = SmallVec::new();
            for returned in blocks.iter().take(look_at) {
                let stream = returned.uses.last().map(|ticket| ticket.stream);
                if !streams.contains(&stream) {
                    streams.push(stream);
                    candidates.push((size, returned.block.pointer, returned.uses.clone()));
                }
            }
        }
        candidates
    }

    /// Waits until the uses of a block of at least this size are complete, but not for later work.
    /// `None` if there is no such block.
    fn wait_for_one(&self, device: &DeviceState, size: usize) -> Result<Option<PinnedBlock>> {
        let mut marked: Vec<Uses> = Vec::new();
        let mut block = None;
        wait_until(&*device.driver, || {
            let mut candidates = self.candidates(size..=usize::MAX, usize::MAX);
            block = self.reuse(device, &candidates)?;
            if block.is_some() {
                return Ok(true);
            }
            candidates.retain(|(_, _, uses)| !has_lost_user(device, uses));
            for (_, _, uses) in &candidates {
                if !marked.contains(uses) {
                    marked.push(uses.clone());
                    record_sync_points(device, uses)?;
                }
            }
            Ok(candidates.is_empty())
        })?;
        Ok(block)
    }

    /// Frees returned blocks, largest first, until a block of this size is within the limit, if the
    /// device is idle.
    fn free_idle(&self, device: &DeviceState, size: usize) -> Result<()> {
        if self.sizes.lock().stats.cached_bytes == 0 {
            return Ok(());
        }
        let free = |is_done: &dyn Fn(Ticket) -> bool| {
            let enough = |sizes: &SizeClasses| sizes.has_room(size);
            self.free_until(&*device.driver, device.context, is_done, enough);
        };
        device.while_idle(free)
    }

    /// Frees unused returned blocks, largest first, until `enough` holds. The device must be idle.
    fn free_until(
        &self,
        driver: &dyn Driver,
        context: ContextHandle,
        is_done: &dyn Fn(Ticket) -> bool,
        enough: impl Fn(&SizeClasses) -> bool,
    ) {
        for block in self.take_until(is_done, enough) {
            // The block is unused: its operations are complete, and its owner returned it.
            if let Err(error) = block.free(driver, context) {
                log!(debug, %error, "cannot free page-locked memory; it is leaked");
            }
        }
    }

    /// Removes unused returned blocks, largest first, until `enough` holds.
    fn take_until(
        &self,
        is_done: &dyn Fn(Ticket) -> bool,
        enough: impl Fn(&SizeClasses) -> bool,
    ) -> Vec<PinnedBlock> {
        let mut blocks = Vec::new();
        let mut sizes = self.sizes.lock();
        while !enough(&sizes) {
            let Some(block) = sizes.take_largest(is_done) else {
                break;
            };
            sizes.stats.allocated_bytes -= block.bytes as u64;
            blocks.push(block);
        }
        blocks
    }
}

/// Returns the size of the block for `bytes` bytes.
fn block_size(device: &DeviceState, bytes: usize) -> Result<usize, UsageError> {
    let size = bytes
        .max(device.staging_options().block_bytes_min)
        .checked_next_power_of_two();
    size.ok_or_else(|| {
        let problem = UsageErrorKind::TooLarge {
            elements: bytes,
            element_bytes: 1,
        };
        UsageError::new("pinned", problem)
    })
}

/// Records sync points behind these operations, so that a wait for them does not cover later work.
fn record_sync_points(device: &DeviceState, uses: &Uses) -> Result<()> {
    for &ticket in uses {
        prepare_wait(device, ticket)?;
    }
    Ok(())
}

#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests {
    use millstream_sim::{Gpu, Schedule, SimConfig};

    use super::*;
    use crate::Device;

    #[test]
    fn a_block_that_was_used_again_meanwhile_is_not_taken_for_the_one_that_was_asked_about() {
        let gpu = Gpu::new(SimConfig::new().schedule(Schedule::Lazy));
        let device = Device::open_simulated(&gpu, 0).unwrap();
        let state = device.state();
        let pool = &state.page_locked().staging;
        // Too large to share a block with others.
        const LEN: usize = 100_000;
        pool.give(pool.take(state, LEN).unwrap(), Uses::new());
        let candidates = pool.candidates(0..=usize::MAX, SCAN_MAX);
        // Another thread takes the block, and gives it back to be read by a copy that has not run.
        let stream = device.stream().unwrap();
        let buffer = stream.upload(&[1_u8; LEN]).unwrap();
        assert_eq!(candidates.len(), 1);
        assert!(pool.reuse(state, &candidates).unwrap().is_none());
        assert_eq!(stream.download(&buffer).unwrap().wait().unwrap(), [1; LEN]);
    }
}
