//! Operations: their sizes, and the exchange of their data between the ranks.

use super::{
    frame::ALL,
    link::{Aborted, Link},
    rank_number,
    reduce::combine,
};
use millstream_driver::StreamHandle;

use crate::nccl::{Operation, OperationType};

#[derive(Clone, Copy, Debug)]
pub(super) struct Issued {
    pub(super) operation: Operation,
    /// The operation's `count`, in bytes.
    pub(super) bytes: usize,
    pub(super) stream: StreamHandle,
}

/// The number of an operation among those that it must match on the other ranks.
pub(super) type Sequence = u64;

impl Issued {
    /// Returns the number that distinguishes frames of this kind from those of other kinds.
    fn tag(&self) -> u32 {
        match self.operation.kind {
            OperationType::AllReduce(_) => 0,
            OperationType::ReduceScatter(_) => 1,
            OperationType::AllGather => 2,
            OperationType::Broadcast { .. } => 3,
            OperationType::Reduce { .. } => 4,
            OperationType::Send { .. } | OperationType::Recv { .. } => 5,
        }
    }

    pub(super) fn named_rank(&self) -> Option<usize> {
        match self.operation.kind {
            OperationType::Broadcast { root: rank }
            | OperationType::Reduce { root: rank, .. }
            | OperationType::Send { peer: rank }
            | OperationType::Recv { peer: rank } => Some(rank),
            OperationType::AllReduce(_)
            | OperationType::ReduceScatter(_)
            | OperationType::AllGather => None,
        }
    }

    /// Returns the position in a group at which operations of this kind are issued: sends first,
    /// because they never wait, and receives last, so that no receive keeps back what another rank
    /// waits for.
    pub(super) fn place_in_group(&self) -> u8 {
        match self.operation.kind {
            OperationType::Send { .. } => 0,
            OperationType::Recv { .. } => 2,
            _ => 1,
        }
    }

    /// Returns the size of the array that the operation reads on this rank, or `None` if it exceeds
    /// the address space.
    pub(super) fn read_bytes(&self, rank: usize, size: usize) -> Option<usize> {
        match self.operation.kind {
            OperationType::ReduceScatter(_) => self.bytes.checked_mul(size),
            OperationType::Broadcast { root } if root != rank => Some(0),
            OperationType::Recv { .. } => Some(0),
            _ => Some(self.bytes),
        }
    }

    /// Returns the size of the array that the operation writes on this rank, or `None` if it
    /// exceeds the address space.
    pub(super) fn written_bytes(&self, rank: usize, size: usize) -> Option<usize> {
        match self.operation.kind {
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
        rank: usize,
        size: usize,
        sequence: Sequence,
        input: &[u8],
    ) -> Result<Vec<u8>, Aborted> {
        let tag = self.tag();
        let send_to = |to: u32, data: &[u8]| link.send_data(to, tag, sequence, data.to_vec());
        let send = |to: usize, data: &[u8]| send_to(rank_number(to), data);
        let send_all = |data: &[u8]| send_to(ALL, data);
        let receive = |from: usize| link.receive(rank_number(from), tag, sequence, self.bytes);
        // The parts of all ranks, with this rank's own in its place.
        let gather = |own: &[u8]| {
            let parts = (0..size).map(|from| {
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
            Ok(combine(&parts, self.operation.data_type, op))
        };
        match self.operation.kind {
            OperationType::AllReduce(op) => {
                send_all(input);
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
                send_all(input);
                Ok(gather(input)?.concat())
            }
            OperationType::Broadcast { root } if root == rank => {
                send_all(input);
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
