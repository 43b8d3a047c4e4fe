//! The stream table of a device, with lock-free lookup by id.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use super::stream_state::StreamState;
use crate::{
    sync::ranked::{Ranked, RankedGuard, STREAM_COUNT},
    tracker::{DeviceNumber, StreamId},
};

/// The number of streams in the first block. Each later block is as long as all blocks before it.
const FIRST_BLOCK: u32 = 8;
/// The number of blocks, enough for all indices.
const BLOCKS: usize = (StreamId::INDICES / FIRST_BLOCK).ilog2() as usize + 1;

/// A block of slots, each empty until a stream is added there.
type Block = Box<[OnceLock<Arc<StreamState>>]>;

/// All streams that a device ever created. Streams are never removed, so a lookup takes no lock and
/// changes no reference count.
#[derive(Debug)]
pub(crate) struct Streams {
    device: DeviceNumber,
    blocks: [OnceLock<Block>; BLOCKS],
    /// The number of streams. Locked while one is added.
    count: Ranked<STREAM_COUNT, u32>,
}

impl Streams {
    pub(crate) fn new(device: DeviceNumber) -> Self {
        Self {
            device,
            blocks: Default::default(),
            count: Ranked::default(),
        }
    }

    pub(crate) fn device(&self) -> DeviceNumber {
        self.device
    }

    /// Adds the stream that `make` creates for a new id. Returns `None` if the table is full.
    pub(crate) fn add(
        &self,
        make: impl FnOnce(StreamId) -> StreamState,
    ) -> Option<Arc<StreamState>> {
        let mut count = self.count.lock();
        let id = StreamId::new(self.device, *count)?;
        let stream = Arc::new(make(id));
        let (block, offset) = position(*count);
        let len = FIRST_BLOCK << block.saturating_sub(1);
        let block = self.blocks[block].get_or_init(|| (0..len).map(|_| OnceLock::new()).collect());
        block[offset].get_or_init(|| Arc::clone(&stream));
        *count += 1;
        Some(stream)
    }

    #[inline]
    pub(crate) fn get(&self, id: StreamId) -> Option<&Arc<StreamState>> {
        let (block, offset) = position(id.index());
        let stream = self.blocks.get(block)?.get()?.get(offset)?.get()?;
        (stream.id == id).then_some(stream)
    }

    /// Iterates over all streams in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<StreamState>> {
        let blocks = self.blocks.iter().map_while(OnceLock::get);
        blocks.flat_map(|block| block.iter().map_while(OnceLock::get))
    }

    /// Locks the table: no stream is added while the guard lives.
    pub(crate) fn lock(&self) -> RankedGuard<'_, STREAM_COUNT, u32> {
        self.count.lock()
    }
}

/// Returns the block of an index and the offset within the block.
#[inline]
fn position(index: u32) -> (usize, usize) {
    match (index / FIRST_BLOCK).checked_ilog2() {
        None => (0, index as usize),
        Some(doublings) => (
            doublings as usize + 1,
            (index - (FIRST_BLOCK << doublings)) as usize,
        ),
    }
}

/// Streams whose handles were dropped. They are reused once idle, and not destroyed while the
/// device is open, because their tickets may still be waited for.
#[derive(Default)]
pub(super) struct RetiredStreams {
    /// Those retired first in front.
    pub(super) streams: VecDeque<Arc<StreamState>>,
    /// How many times the one retired last is not to be looked at.
    pub(super) last_skipped: usize,
}

impl RetiredStreams {
    /// Takes the stream of this priority that was retired last, or first.
    pub(super) fn take(&mut self, priority: i32, last: bool) -> Option<Arc<StreamState>> {
        let mut streams = self.streams.iter();
        let has_priority = |stream: &Arc<StreamState>| stream.priority == priority;
        let at = match last {
            true => streams.rposition(has_priority),
            false => streams.position(has_priority),
        };
        self.streams.remove(at?)
    }

    /// Returns whether the one retired last is to be looked at now.
    pub(super) fn begins_with_last(&mut self) -> bool {
        let skips = self.last_skipped > 0;
        self.last_skipped = self.last_skipped.saturating_sub(1);
        !skips
    }
}

#[cfg(test)]
mod tests {
    use millstream_driver::StreamHandle;

    use super::*;

    #[test]
    fn streams_are_found_by_their_own_id_only() {
        let [streams, others] = [(); 2].map(|()| Streams::new(DeviceNumber::next()));
        let add = |to: &Streams| to.add(|id| StreamState::new(id, StreamHandle::from_raw(16), 0));
        let added: Vec<_> = (0..100)
            .map(|_| add(&streams).expect("the table has room"))
            .collect();
        let other = add(&others).expect("the table has room");
        for stream in &added {
            let entry = streams.get(stream.id).expect("it was added");
            assert!(Arc::ptr_eq(entry, stream));
            assert!(others.get(stream.id).is_none());
        }
        assert!(
            streams.get(other.id).is_none(),
            "an id of another table with the same index"
        );
        assert!(
            streams
                .iter()
                .map(|stream| stream.id)
                .eq(added.iter().map(|stream| stream.id))
        );
    }

    #[test]
    fn indices_map_to_consecutive_positions() {
        let mut expected = (0, 0);
        for index in 0..1000 {
            assert_eq!(position(index), expected);
            let len = (FIRST_BLOCK << expected.0.saturating_sub(1)) as usize;
            expected = match expected {
                (block, offset) if offset + 1 == len => (block + 1, 0),
                (block, offset) => (block, offset + 1),
            };
        }
        let (block, offset) = position(StreamId::INDICES - 1);
        assert_eq!(block, BLOCKS - 1);
        assert_eq!(offset + 1, (FIRST_BLOCK << (block - 1)) as usize);
    }
}
