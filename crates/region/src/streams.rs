//! Assignment of kernels to streams: dependent kernels follow each other on one stream, independent
//! ones run concurrently. A session begins on the stream of the session whose results it reads, if
//! that is over and has enqueued nothing behind them.

use std::sync::Arc;

use millstream::{Device, Stream};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{counters::Counters, error::Result};

/// The maximum number of streams of a session.
const STREAMS_MAX: usize = 4;

/// The maximum number of nodes whose stream is remembered, so that a long loop does not keep its
/// history.
const NODES_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Streams {
    streams: Vec<StreamState>,
    /// The index of the stream on which each node's kernels were enqueued, by node id.
    node_streams: FxHashMap<u64, usize>,
}

struct StreamState {
    stream: Stream,
    /// The last nodes whose kernels were enqueued on the stream, in one step.
    last_nodes: SmallVec<[u64; 1]>,
    /// The number of steps enqueued on the stream.
    enqueued: usize,
    counters: Option<Arc<Mutex<Counters>>>,
}

impl StreamState {
    fn new(stream: Stream) -> Self {
        Self {
            stream,
            last_nodes: SmallVec::new(),
            enqueued: 0,
            counters: None,
        }
    }
}

impl Streams {
    /// Returns recording streams as the only streams, with common counters. Memory is allocated in
    /// the order of the stream `eager`, which does not record.
    pub(crate) fn recording(
        eager: &Stream,
        mut record: impl FnMut() -> millstream::Result<Stream>,
    ) -> Result<Self> {
        let counters = Arc::new(Mutex::new(Counters::new(eager)?));
        let mut recording = Self::default();
        for _ in 0..STREAMS_MAX {
            recording.streams.push(StreamState {
                counters: Some(Arc::clone(&counters)),
                ..StreamState::new(record()?)
            });
        }
        Ok(recording)
    }

    /// Returns the stream for the nodes of a step that reads `operands`: the stream of an operand
    /// that is still a last node of that stream, else a stream that `acquire` returns while there
    /// are fewer than the maximum, else the stream with the fewest steps.
    pub(crate) fn choose(
        &mut self,
        nodes: impl Iterator<Item = u64>,
        operands: &[u64],
        acquire: impl FnOnce() -> Result<Stream>,
    ) -> Result<Stream> {
        let continued = operands.iter().rev().find_map(|operand| {
            let &index = self.node_streams.get(operand)?;
            (self.streams[index].last_nodes.contains(operand)).then_some(index)
        });
        let index = match continued {
            Some(index) => index,
            None if self.streams.len() < STREAMS_MAX => {
                self.streams.push(StreamState::new(acquire()?));
                self.streams.len() - 1
            }
            None => (0..STREAMS_MAX)
                .min_by_key(|&index| self.streams[index].enqueued)
                .expect("the maximum number of streams is at least 1"),
        };
        if self.node_streams.len() >= NODES_MAX {
            // Only the last node of each stream matters for `choose`; for the others, `stream_of`
            // merely avoids a wait between streams.
            let streams = &self.streams;
            self.node_streams
                .retain(|node, index| streams[*index].last_nodes.contains(node));
        }
        let state = &mut self.streams[index];
        state.last_nodes.clear();
        for node in nodes {
            self.node_streams.insert(node, index);
            state.last_nodes.push(node);
        }
        state.enqueued += 1;
        Ok(state.stream.clone())
    }

    /// Returns the stream on which the node was enqueued, or the first stream if that is forgotten.
    pub(crate) fn stream_of(&mut self, device: &Device, node: u64) -> Result<Stream> {
        match self.node_streams.get(&node) {
            Some(&index) => Ok(self.streams[index].stream.clone()),
            None => self.first(device),
        }
    }

    /// Returns the counters of a stream of this session, which the first call allocates.
    pub(crate) fn counters(&mut self, stream: &Stream) -> Result<Arc<Mutex<Counters>>> {
        let mut states = self.streams.iter_mut();
        let state = states
            .find(|state| state.stream.id() == stream.id())
            .expect("kernels are enqueued on the session's streams");
        if let Some(counters) = &state.counters {
            return Ok(Arc::clone(counters));
        }
        let counters = Arc::new(Mutex::new(Counters::new(stream)?));
        state.counters = Some(Arc::clone(&counters));
        Ok(counters)
    }

    /// Returns the first stream, which is created if there is none.
    pub(crate) fn first(&mut self, device: &Device) -> Result<Stream> {
        if self.streams.is_empty() {
            self.streams.push(StreamState::new(device.stream()?));
        }
        Ok(self.streams[0].stream.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_chain_stays_on_one_stream_and_is_forgotten() {
        let device = Device::simulated().unwrap();
        let mut streams = Streams::default();
        for node in 1..20_000_u64 {
            streams
                .choose(std::iter::once(node), &[node - 1], || Ok(device.stream()?))
                .unwrap();
            assert!(streams.node_streams.len() <= NODES_MAX);
        }
        assert_eq!(streams.streams.len(), 1);
    }
}
