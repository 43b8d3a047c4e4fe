//! On which stream a kernel goes: behind what it needs, and beside what it does not.

use millstream::{Device, Stream};

use rustc_hash::FxHashMap;

use crate::error::Result;

/// Streams of one session, at most.
const STREAMS_MAX: usize = 4;

/// Nodes of which it is known where they were enqueued, at most, so that a long loop does not keep
/// its history.
const NODES_MAX: usize = 4096;

/// The streams of one session.
#[derive(Default)]
pub(crate) struct Streams {
    streams: Vec<StreamState>,
    /// The stream on which a node's elements were enqueued.
    node_streams: FxHashMap<u64, usize>,
}

/// One stream with what was enqueued last.
struct StreamState {
    stream: Stream,
    /// The last node that was enqueued here.
    last_node: u64,
    /// How many were.
    enqueued: usize,
}

impl Streams {
    /// The stream for a node that needs `operands`: that of an operand after which nothing else was
    /// enqueued, or else one with little to do.
    pub(crate) fn choose(
        &mut self,
        device: &Device,
        node: u64,
        operands: &[u64],
    ) -> Result<Stream> {
        let continued = operands.iter().rev().find_map(|operand| {
            let &index = self.node_streams.get(operand)?;
            (self.streams[index].last_node == *operand).then_some(index)
        });
        let index = match continued {
            Some(index) => index,
            None if self.streams.len() < STREAMS_MAX => {
                self.streams.push(StreamState {
                    stream: device.stream()?,
                    last_node: 0,
                    enqueued: 0,
                });
                self.streams.len() - 1
            }
            None => {
                let least =
                    (0..self.streams.len()).min_by_key(|&index| self.streams[index].enqueued);
                least.expect("there are as many as there may be")
            }
        };
        if self.node_streams.len() >= NODES_MAX {
            // Those at a stream's end are what others follow; of the rest, it is only good to know.
            let streams = &self.streams;
            self.node_streams
                .retain(|node, index| streams[*index].last_node == *node);
        }
        self.node_streams.insert(node, index);
        let index = &mut self.streams[index];
        index.last_node = node;
        index.enqueued += 1;
        Ok(index.stream.clone())
    }

    /// The stream on which the node's elements were enqueued, or any.
    pub(crate) fn stream_of(&mut self, device: &Device, node: u64) -> Result<Stream> {
        match self.node_streams.get(&node) {
            Some(&index) => Ok(self.streams[index].stream.clone()),
            None => self.first(device),
        }
    }

    /// Some stream.
    pub(crate) fn first(&mut self, device: &Device) -> Result<Stream> {
        if self.streams.is_empty() {
            self.streams.push(StreamState {
                stream: device.stream()?,
                last_node: 0,
                enqueued: 0,
            });
        }
        Ok(self.streams[0].stream.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_chain_stays_on_its_stream_and_leaves_nothing() {
        let device = Device::simulated().unwrap();
        let mut streams = Streams::default();
        for node in 1..20_000_u64 {
            streams.choose(&device, node, &[node - 1]).unwrap();
            assert!(streams.node_streams.len() <= NODES_MAX);
        }
        assert_eq!(streams.streams.len(), 1);
    }
}
