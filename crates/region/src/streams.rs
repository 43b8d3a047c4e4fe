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
    streams: Vec<Queue>,
    /// The stream on which a node's elements were enqueued.
    of_nodes: FxHashMap<u64, usize>,
}

/// One stream with what was enqueued last.
struct Queue {
    stream: Stream,
    /// The last node that was enqueued here.
    last: u64,
    /// How many were.
    count: usize,
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
        let follows = operands.iter().rev().find_map(|operand| {
            let &queue = self.of_nodes.get(operand)?;
            (self.streams[queue].last == *operand).then_some(queue)
        });
        let queue = match follows {
            Some(queue) => queue,
            None if self.streams.len() < STREAMS_MAX => {
                self.streams.push(Queue {
                    stream: device.stream()?,
                    last: 0,
                    count: 0,
                });
                self.streams.len() - 1
            }
            None => {
                let least = (0..self.streams.len()).min_by_key(|&queue| self.streams[queue].count);
                least.expect("there are as many as there may be")
            }
        };
        if self.of_nodes.len() >= NODES_MAX {
            // Those at a stream's end are what others follow; of the rest, it is only good to know.
            let streams = &self.streams;
            self.of_nodes
                .retain(|node, queue| streams[*queue].last == *node);
        }
        self.of_nodes.insert(node, queue);
        let queue = &mut self.streams[queue];
        queue.last = node;
        queue.count += 1;
        Ok(queue.stream.clone())
    }

    /// The stream on which the node's elements were enqueued, or any.
    pub(crate) fn behind(&mut self, device: &Device, node: u64) -> Result<Stream> {
        match self.of_nodes.get(&node) {
            Some(&queue) => Ok(self.streams[queue].stream.clone()),
            None => self.any(device),
        }
    }

    /// Some stream.
    pub(crate) fn any(&mut self, device: &Device) -> Result<Stream> {
        if self.streams.is_empty() {
            self.streams.push(Queue {
                stream: device.stream()?,
                last: 0,
                count: 0,
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
            assert!(streams.of_nodes.len() <= NODES_MAX);
        }
        assert_eq!(streams.streams.len(), 1);
    }
}
