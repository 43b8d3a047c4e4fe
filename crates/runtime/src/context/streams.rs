//! The streams of a device, found by their tickets without a lock.

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use super::stream_state::StreamState;
use crate::tracker::StreamId;

/// Streams of the first block; each later block is as long as all before it.
const FIRST_BLOCK: u32 = 8;
/// Enough blocks for all places that there are.
const BLOCKS: usize = (StreamId::INDICES / FIRST_BLOCK).ilog2() as usize + 1;

/// Some places, each empty until a stream gets it.
type Block = Box<[OnceLock<Arc<StreamState>>]>;

/// All streams that a device ever made. Since none goes, whoever looks one up takes no lock and
/// counts no reference.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    blocks: [OnceLock<Block>; BLOCKS],
    /// How many there are. Locked while one is added.
    count: Mutex<u32>,
}

impl Streams {
    /// Adds a stream that `make` makes of its number; nothing if a device cannot have so many.
    pub(crate) fn add(
        &self,
        make: impl FnOnce(StreamId) -> StreamState,
    ) -> Option<Arc<StreamState>> {
        let mut count = self.count.lock();
        let id = StreamId::at(*count)?;
        let stream = Arc::new(make(id));
        let (block, offset) = position(*count);
        let len = FIRST_BLOCK << block.saturating_sub(1);
        let block = self.blocks[block].get_or_init(|| (0..len).map(|_| OnceLock::new()).collect());
        block[offset].get_or_init(|| Arc::clone(&stream));
        *count += 1;
        Some(stream)
    }

    /// The stream of this number, if it is one of these.
    #[inline]
    pub(crate) fn get(&self, id: StreamId) -> Option<&Arc<StreamState>> {
        let (block, offset) = position(id.index());
        let stream = self.blocks.get(block)?.get()?.get(offset)?.get()?;
        (stream.id == id).then_some(stream)
    }

    /// All of them, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<StreamState>> {
        let blocks = self.blocks.iter().map_while(OnceLock::get);
        blocks.flat_map(|block| block.iter().map_while(OnceLock::get))
    }

    /// While this is held, no stream is added.
    pub(crate) fn lock(&self) -> MutexGuard<'_, u32> {
        self.count.lock()
    }
}

/// The block that an index is in, and where there.
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

#[cfg(test)]
mod tests {
    use millstream_driver::StreamHandle;

    use super::*;

    #[test]
    fn each_is_found_by_its_number_and_by_no_other() {
        let (streams, others) = (Streams::default(), Streams::default());
        let add = |to: &Streams| to.add(|id| StreamState::new(id, StreamHandle::from_raw(16), 0));
        let added: Vec<_> = (0..100)
            .map(|_| add(&streams).expect("there is room"))
            .collect();
        let other = add(&others).expect("there is room");
        for stream in &added {
            let found = streams.get(stream.id).expect("it was added");
            assert!(Arc::ptr_eq(found, stream));
            assert!(others.get(stream.id).is_none());
        }
        assert!(
            streams.get(other.id).is_none(),
            "it has the index of another"
        );
        assert!(
            streams
                .iter()
                .map(|stream| stream.id)
                .eq(added.iter().map(|stream| stream.id))
        );
    }

    #[test]
    fn every_place_has_a_position_of_its_own() {
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
