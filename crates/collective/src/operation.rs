//! Collective operations as values, and the trait of the backends that enqueue them.

use std::{fmt, ops::Range, panic::Location, time::Duration};

use super::{Reduce, element::DataType};
use millstream::{DeviceOperand, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectiveKind {
    AllReduce,
    ReduceScatter,
    AllGather,
    AllGatherUneven,
    Broadcast { root: usize },
    Reduce { root: usize },
    AllToAll,
    Send { to: usize },
    Recv { from: usize },
}

impl CollectiveKind {
    /// Returns the name of the method, for errors and logs.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllGather => "all_gather",
            Self::AllGatherUneven => "all_gather_uneven",
            Self::Broadcast { .. } => "broadcast",
            Self::Reduce { .. } => "reduce",
            Self::AllToAll => "all_to_all",
            Self::Send { .. } => "send",
            Self::Recv { .. } => "recv",
        }
    }
}

/// The operands of one local rank. For an operation in place both spans are the same.
#[derive(Clone)]
pub(super) struct Part<'a> {
    /// The index of the rank among the local ranks.
    pub(super) local: usize,
    /// The array that the rank contributes. `None` for ranks that contribute nothing: all but the
    /// root of a broadcast, and receivers.
    pub(super) source: Option<DeviceOperand<'a>>,
    /// The array that gets the result. `None` for ranks without a result: all but the root of a
    /// reduction to one rank, and senders.
    pub(super) target: Option<DeviceOperand<'a>>,
}

/// A checked collective operation: lengths match, and each array is on the device of its rank.
pub(super) struct CollectiveOp<'a> {
    pub(super) kind: CollectiveKind,
    pub(super) element: DataType,
    /// The reduction. `None` for kinds without one.
    pub(super) reduce: Option<Reduce>,
    pub(super) location: &'static Location<'static>,
    /// For uneven parts, the range of bytes of each rank's part; empty for other kinds.
    pub(super) ranges: Vec<Range<usize>>,
    /// The operands of all local ranks in their order, or of the one local rank of a message.
    pub(super) parts: Vec<Part<'a>>,
}

impl CollectiveOp<'_> {
    /// Returns whether there are no elements. The lengths match, so this is the same for all ranks.
    pub(super) fn is_empty(&self) -> bool {
        let mut spans = self
            .parts
            .iter()
            .flat_map(|part| part.source.iter().chain(&part.target));
        spans.all(|span| span.bytes() == 0)
    }
}

pub(super) trait Backend: Send + Sync + fmt::Debug {
    /// Returns the name of the implementation, for logs.
    fn name(&self) -> &'static str;

    /// Enqueues operations, none without elements. Either there is one, which is no message, or all
    /// are messages: those between two local ranks match in order, and no rank sends to itself what
    /// it does not receive.
    ///
    /// # Errors
    ///
    /// If memory is exhausted, a device is lost, an operand is invalid, or a driver call fails.
    fn submit(&self, group: &[CollectiveOp<'_>]) -> Result<()>;

    /// Sets the time that an operation may take. An implementation whose operations cannot wait for
    /// another process has no use for it.
    fn set_deadline(&self, _deadline: Option<Duration>) {}

    /// Waits until the operations of all ranks are complete, and ends the group. An implementation
    /// within one process has nothing to end.
    ///
    /// # Errors
    ///
    /// If the group is lost.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}
