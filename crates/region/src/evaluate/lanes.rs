//! On which stream a kernel goes: behind what it needs, and beside what it does not.

use millstream::{Device, Stream};

use rustc_hash::FxHashMap;

use crate::error::Result;

/// Streams of one session, at most.
const LANES_MAX: usize = 4;

/// Nodes of which it is known where they were enqueued, at most, so that a long loop does not keep its history.
const NODES_MAX: usize = 4096;

/// The streams of one session.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    /// The stream on which a node's elements were enqueued.
    of_nodes: FxHashMap<u64, usize>,
}

struct Lane {
    stream: Stream,
    /// The last node that was enqueued here.
    last: u64,
    /// How many were.
    count: usize,
}

impl Lanes {
    /// The stream for a node that needs `operands`: that of an operand after which nothing else was enqueued, or else one
    /// with little to do.
    pub(crate) fn choose(&mut self, device: &Device, node: u64, operands: &[u64]) -> Result<Stream> {
        let follows = operands.iter().rev().find_map(|operand| {
            let &lane = self.of_nodes.get(operand)?;
            (self.lanes[lane].last == *operand).then_some(lane)
        });
        let lane = match follows {
            Some(lane) => lane,
            None if self.lanes.len() < LANES_MAX => {
                self.lanes.push(Lane {
                    stream: device.stream()?,
                    last: 0,
                    count: 0,
                });
                self.lanes.len() - 1
            }
            None => {
                let least = (0..self.lanes.len()).min_by_key(|&lane| self.lanes[lane].count);
                least.expect("there are as many as there may be")
            }
        };
        if self.of_nodes.len() >= NODES_MAX {
            // Those at a stream's end are what others follow; of the rest, it is only good to know.
            let lanes = &self.lanes;
            self.of_nodes.retain(|node, lane| lanes[*lane].last == *node);
        }
        self.of_nodes.insert(node, lane);
        let lane = &mut self.lanes[lane];
        lane.last = node;
        lane.count += 1;
        Ok(lane.stream.clone())
    }

    /// The stream on which the node's elements were enqueued, or any.
    pub(crate) fn behind(&mut self, device: &Device, node: u64) -> Result<Stream> {
        match self.of_nodes.get(&node) {
            Some(&lane) => Ok(self.lanes[lane].stream.clone()),
            None => self.any(device),
        }
    }

    /// Some stream.
    pub(crate) fn any(&mut self, device: &Device) -> Result<Stream> {
        if self.lanes.is_empty() {
            self.lanes.push(Lane {
                stream: device.stream()?,
                last: 0,
                count: 0,
            });
        }
        Ok(self.lanes[0].stream.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_chain_stays_on_its_stream_and_leaves_nothing() {
        let device = Device::simulated().unwrap();
        let mut lanes = Lanes::default();
        for node in 1..20_000_u64 {
            lanes.choose(&device, node, &[node - 1]).unwrap();
            assert!(lanes.of_nodes.len() <= NODES_MAX);
        }
        assert_eq!(lanes.lanes.len(), 1);
    }
}
