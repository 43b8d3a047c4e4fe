//! Operations: their sizes, and the exchange of their data between the ranks.

use super::{
    frame::ALL,
    link::{Aborted, Link},
    reduce::combine,
};
use millstream_driver::{DevicePtr, StreamHandle};

use crate::nccl::{DataType, ReduceOp};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OperationType {
    AllReduce(ReduceOp),
    ReduceScatter(ReduceOp),
    AllGather,
    Broadcast { root: u32 },
    Reduce { op: ReduceOp, root: u32 },
    Send { peer: u32 },
    Recv { peer: u32 },
}

/// An operation of one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) kind: OperationType,
    pub(super) call: &'static str,
    pub(super) data_type: DataType,
    /// The `count` of NCCL's function, in bytes.
    pub(super) bytes: usize,
    pub(super) send: DevicePtr,
    pub(super) recv: DevicePtr,
    pub(super) stream: StreamHandle,
}

/// The number of an operation among those that it must match on the other ranks.
pub(super) type Sequence = u64;

impl OperationType {
    /// Returns the number that distinguishes frames of this kind from those of other kinds.
    fn tag(self) -> u32 {
        match self {
            Self::AllReduce(_) => 0,
            Self::ReduceScatter(_) => 1,
            Self::AllGather => 2,
            Self::Broadcast { .. } => 3,
            Self::Reduce { .. } => 4,
            Self::Send { .. } | Self::Recv { .. } => 5,
        }
    }

    /// Returns the other rank that the operation names, if any.
    pub(super) fn named_rank(self) -> Option<u32> {
        match self {
            Self::Broadcast { root: rank }
            | Self::Reduce { root: rank, .. }
            | Self::Send { peer: rank }
            | Self::Recv { peer: rank } => Some(rank),
            Self::AllReduce(_) | Self::ReduceScatter(_) | Self::AllGather => None,
        }
    }

    /// Returns the position in a group at which operations of this kind are issued: sends first,
    /// because they never wait, and receives last, so that no receive keeps back what another rank
    /// waits for.
    pub(super) fn place_in_group(self) -> u8 {
        match self {
            Self::Send { .. } => 0,
            Self::Recv { .. } => 2,
            _ => 1,
        }
    }
}

impl Operation {
    /// Returns the size of the array that the operation reads on this rank, or `None` if it exceeds
    /// the address space.
    pub(super) fn read_bytes(&self, rank: u32, size: usize) -> Option<usize> {
        match self.kind {
            OperationType::ReduceScatter(_) => self.bytes.checked_mul(size),
            OperationType::Broadcast { root } if root != rank => Some(0),
            OperationType::Recv { .. } => Some(0),
            _ => Some(self.bytes),
        }
    }

    /// Returns the size of the array that the operation writes on this rank, or `None` if it
    /// exceeds the address space.
    pub(super) fn written_bytes(&self, rank: u32, size: usize) -> Option<usize> {
        match self.kind {
            OperationType::AllGather => self.bytes.checked_mul(size),
            OperationType::Reduce { root, .. } if root != rank => Some(0),
            OperationType::Send { .. } => Some(0),
            _ => Some(self.bytes),
        }
    }

    /// Exchanges data with the other ranks: `input` is the array that the operation reads, and the
    /// result the one that it writes.
    pub(super) fn exchange(
        &self,
        link: &Link,
        rank: u32,
        size: usize,
        sequence: Sequence,
        input: &[u8],
    ) -> Result<Vec<u8>, Aborted> {
        let tag = self.kind.tag();
        let send = |to: u32, data: &[u8]| link.send_data(to, tag, sequence, data.to_vec());
        let receive = |from: u32| link.receive(from, tag, sequence, self.bytes);
        // The parts of all ranks, with this rank's own in its place.
        let gather = |own: &[u8]| {
            let parts = (0..).take(size).map(|from: u32| {
                if from == rank {
                    Ok(own.to_vec())
                } else {
                    receive(from)
                }
            });
            parts.collect::<Result<Vec<_>, _>>()
        };
        let reduce = |own: &[u8], op| {
            let parts = gather(own)?;
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            Ok(combine(&parts, self.data_type, op))
        };
        match self.kind {
            OperationType::AllReduce(op) => {
                send(ALL, input);
                reduce(input, op)
            }
            OperationType::ReduceScatter(op) => {
                let mut own: &[u8] = &[];
                for (to, part) in (0..).zip(input.chunks_exact(self.bytes)) {
                    if to == rank {
                        own = part;
                    } else {
                        send(to, part);
                    }
                }
                reduce(own, op)
            }
            OperationType::AllGather => {
                send(ALL, input);
                Ok(gather(input)?.concat())
            }
            OperationType::Broadcast { root } if root == rank => {
                send(ALL, input);
                Ok(input.to_vec())
            }
            OperationType::Broadcast { root } => receive(root),
            OperationType::Reduce { op, root } if root == rank => reduce(input, op),
            OperationType::Reduce { root, .. } => {
                send(root, input);
                Ok(Vec::new())
            }
            OperationType::Send { peer } => {
                send(peer, input);
                Ok(Vec::new())
            }
            OperationType::Recv { peer } => receive(peer),
        }
    }
}
