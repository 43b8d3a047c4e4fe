//! Staging arenas: blocks that consecutive small uploads of one stream share.
//!
//! A separate block for each upload would cost a search in the pool, a driver query whether the
//! block is free, and, on a stream that is never idle, a new block. An arena is queried once: it
//! returns to its pool with the last ticket of its uploads. Each suballocation holds a reference to
//! the arena, and dropping the last reference returns it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{PinnedBlock, StagingPool};
use crate::{
    Result,
    context::{DeviceState, StreamState, sync_point_after},
    tracker::Sequence,
};

/// The alignment of suballocations, favourable for reads of the device.
const SUBALLOCATION_ALIGN: usize = 256;
/// The divisor of the staging limit that bounds the size of an arena.
const ARENAS_PER_LIMIT: u64 = 16;

/// A block shared by uploads of one stream.
#[derive(Debug)]
struct StagingArena {
    block: PinnedBlock,
    /// The sequence number of the last ticket that uses it.
    last: AtomicU64,
}

/// The arena from which a stream's next small upload is allocated.
#[derive(Debug, Default)]
pub(crate) struct CurrentArena(Mutex<Option<OpenArena>>);

#[derive(Debug)]
struct OpenArena {
    arena: Arc<StagingArena>,
    used_bytes: usize,
}

impl OpenArena {
    fn of(block: PinnedBlock) -> Self {
        let arena = StagingArena {
            block,
            last: AtomicU64::new(0),
        };
        Self {
            arena: Arc::new(arena),
            used_bytes: 0,
        }
    }

    /// Allocates the next part of the arena, if enough is left.
    fn suballocate(&mut self, bytes: usize) -> Option<(Arc<StagingArena>, *mut u8)> {
        let start = self.used_bytes;
        if bytes > self.arena.block.bytes - start {
            return None;
        }
        self.used_bytes = (start + bytes)
            .next_multiple_of(SUBALLOCATION_ALIGN)
            .min(self.arena.block.bytes);
        let pointer = self.arena.block.pointer.as_ptr().wrapping_add(start);
        Some((Arc::clone(&self.arena), pointer))
    }
}

impl CurrentArena {
    /// Drops the stream's reference to the arena, which returns it to its pool unless a
    /// suballocation remains.
    pub(crate) fn retire(&self, stream: &StreamState, pool: &StagingPool) {
        let open_arena = self.0.lock().take();
        if let Some(open_arena) = open_arena {
            give_up(open_arena.arena, stream, pool);
        }
    }
}

/// Drops a reference to an arena. The last one returns it to its pool.
fn give_up(arena: Arc<StagingArena>, stream: &StreamState, pool: &StagingPool) {
    if let Some(StagingArena { block, last }) = Arc::into_inner(arena) {
        pool.give_lent(
            block,
            SmallVec::from_slice(&[stream.ticket(Sequence::of(last.into_inner()))]),
        );
    }
}

/// A part of an arena with exclusive access, until this is dropped or the operation that uses it is
/// enqueued.
pub(crate) struct Suballocation<'a> {
    device: &'a DeviceState,
    stream: &'a StreamState,
    arena: Option<Arc<StagingArena>>,
    pointer: *mut u8,
    used_by: Option<Sequence>,
}

impl<'a> Suballocation<'a> {
    /// Allocates at least `bytes` bytes for an operation on this stream.
    ///
    /// Blocks only if the staging limit is reached, as [`StagingPool::take`] does.
    pub(crate) fn new(
        device: &'a DeviceState,
        stream: &'a StreamState,
        bytes: usize,
    ) -> Result<Self> {
        let of = |(arena, pointer)| Self {
            device,
            stream,
            arena: Some(arena),
            pointer,
            used_by: None,
        };
        if let Some(suballocation) = stream
            .arena()
            .0
            .lock()
            .as_mut()
            .and_then(|it| it.suballocate(bytes))
        {
            return Ok(of(suballocation));
        }
        Self::begin(device, stream, bytes).map(of)
    }

    /// Allocates the first part of a new arena.
    #[cold]
    fn begin(
        device: &DeviceState,
        stream: &StreamState,
        bytes: usize,
    ) -> Result<(Arc<StagingArena>, *mut u8)> {
        let full = stream.arena().0.lock().take();
        if let Some(OpenArena { arena, .. }) = full {
            let last = Sequence::of(arena.last.load(Ordering::Acquire));
            if !stream.is_done(last) {
                // An event shows when the arena is free, even if the stream is never idle. If
                // recording fails, a later one does.
                sync_point_after(device, stream, last).ok();
            }
            give_up(arena, stream, &device.page_locked().staging);
        }
        let limit_bytes = device.page_locked().staging.stats().limit_bytes / ARENAS_PER_LIMIT;
        let arena_bytes = device
            .staging_options()
            .arena_bytes
            .min(usize::try_from(limit_bytes).unwrap_or(usize::MAX))
            .max(bytes);
        let mut open_arena = OpenArena::of(device.page_locked().staging.lend(device, arena_bytes)?);
        let suballocation = open_arena
            .suballocate(bytes)
            .expect("it is large enough, and unused");
        // Another thread may have begun an arena meanwhile.
        let other = stream.arena().0.lock().replace(open_arena);
        if let Some(other) = other {
            give_up(other.arena, stream, &device.page_locked().staging);
        }
        Ok(suballocation)
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Notes that the operation with this sequence number uses the part.
    pub(crate) fn used_by(&mut self, sequence: Sequence) {
        self.used_by = Some(sequence);
    }
}

impl Drop for Suballocation<'_> {
    fn drop(&mut self) {
        let Some(arena) = self.arena.take() else {
            return;
        };
        // A call that failed or panicked may have enqueued the copy. Its ticket counts as submitted
        // by now.
        let sequence = self
            .used_by
            .unwrap_or_else(|| self.stream.shared.lock().points.submitted());
        arena.last.fetch_max(sequence.get(), Ordering::AcqRel);
        give_up(arena, self.stream, &self.device.page_locked().staging);
    }
}
