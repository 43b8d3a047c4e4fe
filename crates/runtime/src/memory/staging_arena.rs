//! Blocks that small uploads of one stream share, one behind the other.
//!
//! A block of its own for each would cost a search in the pool, a question to the driver whether it
//! is free, and, on a stream that is never idle, a new block. Of an arena only the end is asked
//! about: the arena goes back to its pool with the last ticket of the uploads that it was for.
//! Whoever has a part of an arena holds the arena; who lets go of it last gives it back.

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

/// Parts begin at multiples of this: what devices like to read from.
const SUBALLOCATION_ALIGN: usize = 256;
/// An arena is at most this part of the staging limit.
const ARENAS_PER_LIMIT: u64 = 16;

/// A block that uploads of one stream share.
#[derive(Debug)]
struct StagingArena {
    block: PinnedBlock,
    /// The number of the last ticket that uses it.
    last: AtomicU64,
}

/// The arena that a stream's next small upload gets a part of.
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

    /// The next part of the arena, if there is room.
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
    /// Gives the arena up, to its pool unless someone still has a part of it.
    pub(crate) fn retire(&self, stream: &StreamState, pool: &StagingPool) {
        let open_arena = self.0.lock().take();
        if let Some(open_arena) = open_arena {
            give_up(open_arena.arena, stream, pool);
        }
    }
}

/// Lets go of an arena; the last to do so gives it back to its pool.
fn give_up(arena: Arc<StagingArena>, stream: &StreamState, pool: &StagingPool) {
    if let Some(StagingArena { block, last }) = Arc::into_inner(arena) {
        pool.give_lent(
            block,
            SmallVec::from_slice(&[stream.ticket(Sequence::of(last.into_inner()))]),
        );
    }
}

/// A part of an arena, until it is dropped: its owner's alone, unless the operation that uses it
/// is enqueued by then.
pub(crate) struct Suballocation<'a> {
    device: &'a DeviceState,
    stream: &'a StreamState,
    arena: Option<Arc<StagingArena>>,
    pointer: *mut u8,
    used_by: Option<Sequence>,
}

impl<'a> Suballocation<'a> {
    /// A part of at least `bytes` bytes, for an operation on this stream.
    ///
    /// Blocks only where the staging limit is reached, as [`StagingPool::take`] does.
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
            .memory()
            .arena
            .0
            .lock()
            .as_mut()
            .and_then(|it| it.suballocate(bytes))
        {
            return Ok(of(suballocation));
        }
        Self::begin(device, stream, bytes).map(of)
    }

    /// The first part of a new arena.
    #[cold]
    fn begin(
        device: &DeviceState,
        stream: &StreamState,
        bytes: usize,
    ) -> Result<(Arc<StagingArena>, *mut u8)> {
        let full = stream.memory().arena.0.lock().take();
        if let Some(OpenArena { arena, .. }) = full {
            let last = Sequence::of(arena.last.load(Ordering::Acquire));
            if !stream.is_done(last) {
                // So that it can be told when the arena is free, should the stream never be idle.
                // If that fails, it is told later.
                sync_point_after(device, stream, last).ok();
            }
            give_up(arena, stream, &device.memory().staging);
        }
        let limit_bytes = device.memory().staging.stats().limit_bytes / ARENAS_PER_LIMIT;
        let arena_bytes = device
            .staging_options()
            .arena_bytes
            .min(usize::try_from(limit_bytes).unwrap_or(usize::MAX))
            .max(bytes);
        let mut open_arena = OpenArena::of(device.memory().staging.lend(device, arena_bytes)?);
        let suballocation = open_arena
            .suballocate(bytes)
            .expect("it is large enough, and unused");
        // Another thread may have begun one meanwhile.
        let other = stream.memory().arena.0.lock().replace(open_arena);
        if let Some(other) = other {
            give_up(other.arena, stream, &device.memory().staging);
        }
        Ok(suballocation)
    }

    /// Where the part is.
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Notes that the operation with this number uses the part.
    pub(crate) fn used_by(&mut self, sequence: Sequence) {
        self.used_by = Some(sequence);
    }
}

impl Drop for Suballocation<'_> {
    fn drop(&mut self) {
        let Some(arena) = self.arena.take() else {
            return;
        };
        // A call that failed, or panicked, may have enqueued the copy all the same. Its ticket
        // counts as submitted by now.
        let sequence = self
            .used_by
            .unwrap_or_else(|| self.stream.shared.lock().points.submitted());
        arena.last.fetch_max(sequence.get(), Ordering::AcqRel);
        give_up(arena, self.stream, &self.device.memory().staging);
    }
}
