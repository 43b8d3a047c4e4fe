//! Blocks that small uploads of one stream share, one behind the other.
//!
//! A block of its own for each would cost a search in the pool, a question to the driver whether it
//! is free, and, on a stream that is never idle, a new block. Of a section only the end is asked
//! about: the section goes back to its pool with the last ticket of the uploads that it was for.
//! Whoever has a part of a section holds the section; who lets go of it last gives it back.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{Block, StagingPool};
use crate::{
    Result,
    context::{DeviceState, StreamState, point_behind},
    tracker::Sequence,
};

/// Parts begin at multiples of this: what devices like to read from.
const PART_ALIGN: usize = 256;
/// A section is at most this part of the staging limit.
const SECTIONS_PER_LIMIT: u64 = 16;

/// A block that uploads of one stream share.
#[derive(Debug)]
struct Section {
    block: Block,
    /// The number of the last ticket that uses it.
    last: AtomicU64,
}

/// The section that a stream's next small upload gets a part of.
#[derive(Debug, Default)]
pub(crate) struct CurrentSection(Mutex<Option<Filling>>);

#[derive(Debug)]
struct Filling {
    section: Arc<Section>,
    used_bytes: usize,
}

impl Filling {
    fn of(block: Block) -> Self {
        let section = Section {
            block,
            last: AtomicU64::new(0),
        };
        Self {
            section: Arc::new(section),
            used_bytes: 0,
        }
    }

    /// The next part of the section, if there is room.
    fn carve(&mut self, bytes: usize) -> Option<(Arc<Section>, *mut u8)> {
        let start = self.used_bytes;
        if bytes > self.section.block.bytes - start {
            return None;
        }
        self.used_bytes = (start + bytes)
            .next_multiple_of(PART_ALIGN)
            .min(self.section.block.bytes);
        let pointer = self.section.block.pointer.as_ptr().wrapping_add(start);
        Some((Arc::clone(&self.section), pointer))
    }
}

impl CurrentSection {
    /// Gives the section up, to its pool unless someone still has a part of it.
    pub(crate) fn retire(&self, stream: &StreamState, pool: &StagingPool) {
        let filling = self.0.lock().take();
        if let Some(filling) = filling {
            give_up(filling.section, stream, pool);
        }
    }
}

/// Lets go of a section; the last to do so gives it back to its pool.
fn give_up(section: Arc<Section>, stream: &StreamState, pool: &StagingPool) {
    if let Some(Section { block, last }) = Arc::into_inner(section) {
        pool.give_lent(
            block,
            SmallVec::from_slice(&[stream.ticket(Sequence::of(last.into_inner()))]),
        );
    }
}

/// A part of a section, until it is dropped: its owner's alone, unless the operation that uses it
/// is enqueued by then.
pub(crate) struct Carved<'a> {
    device: &'a DeviceState,
    stream: &'a StreamState,
    section: Option<Arc<Section>>,
    pointer: *mut u8,
    used_by: Option<Sequence>,
}

impl<'a> Carved<'a> {
    /// A part of at least `bytes` bytes, for an operation on this stream.
    ///
    /// Blocks only where the staging limit is reached, as [`StagingPool::take`] does.
    pub(crate) fn new(
        device: &'a DeviceState,
        stream: &'a StreamState,
        bytes: usize,
    ) -> Result<Self> {
        let of = |(section, pointer)| Self {
            device,
            stream,
            section: Some(section),
            pointer,
            used_by: None,
        };
        if let Some(carved) = stream
            .memory()
            .section
            .0
            .lock()
            .as_mut()
            .and_then(|it| it.carve(bytes))
        {
            return Ok(of(carved));
        }
        Self::begin(device, stream, bytes).map(of)
    }

    /// The first part of a new section.
    #[cold]
    fn begin(
        device: &DeviceState,
        stream: &StreamState,
        bytes: usize,
    ) -> Result<(Arc<Section>, *mut u8)> {
        let full = stream.memory().section.0.lock().take();
        if let Some(Filling { section, .. }) = full {
            let last = Sequence::of(section.last.load(Ordering::Acquire));
            if !stream.is_done(last) {
                // So that it can be told when the section is free, should the stream never be idle.
                // If that fails, it is told later.
                point_behind(device, stream, last).ok();
            }
            give_up(section, stream, &device.memory().staging);
        }
        let limit_bytes = device.memory().staging.figures().limit_bytes / SECTIONS_PER_LIMIT;
        let section_bytes = device
            .tuning()
            .section_bytes
            .min(usize::try_from(limit_bytes).unwrap_or(usize::MAX))
            .max(bytes);
        let mut filling = Filling::of(device.memory().staging.lend(device, section_bytes)?);
        let carved = filling
            .carve(bytes)
            .expect("it is large enough, and unused");
        // Another thread may have begun one meanwhile.
        let other = stream.memory().section.0.lock().replace(filling);
        if let Some(other) = other {
            give_up(other.section, stream, &device.memory().staging);
        }
        Ok(carved)
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

impl Drop for Carved<'_> {
    fn drop(&mut self) {
        let Some(section) = self.section.take() else {
            return;
        };
        // A call that failed, or panicked, may have enqueued the copy all the same. Its ticket
        // counts as submitted by now.
        let sequence = self
            .used_by
            .unwrap_or_else(|| self.stream.shared.lock().points.submitted());
        section.last.fetch_max(sequence.get(), Ordering::AcqRel);
        give_up(section, self.stream, &self.device.memory().staging);
    }
}
