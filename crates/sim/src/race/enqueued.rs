//! An operation as it is enqueued.

use std::collections::BTreeMap;

use millstream_driver::StreamHandle;
use millstream_ptx::Site;
use smallvec::SmallVec;

use super::{DestroyedStreams, OperationSummary, vector_clock::Timestamp};
use crate::ids::OpId;

#[derive(Clone, Debug)]
pub(crate) struct EnqueuedOp {
    pub(crate) id: OpId,
    pub(crate) stream: StreamHandle,
    /// The stream, or for a node of a graph its branch.
    pub(crate) branch: StreamHandle,
    /// The streams whose tails it is ordered after.
    pub(crate) queues: SmallVec<[StreamHandle; 2]>,
    /// The destroyed streams whose work it is ordered after.
    pub(crate) gone: DestroyedStreams,
    /// The kind of the operation; `None` for one that accesses no memory.
    pub(crate) summary: Option<OperationSummary>,
    pub(crate) call: &'static str,
    /// The label and source line of the operation, if recorded.
    pub(crate) site: Option<Site>,
    /// The start of the launch, for a node of a graph.
    pub(crate) launch: Option<OpId>,
}

/// The clock of an enqueued operation; empty if the checker is off.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpClock(pub(super) Option<Timestamp>);

/// The orders that the configuration adds, to try them.
#[derive(Debug)]
pub(super) struct TriedEdges {
    /// The earlier operations, by the later one.
    edges: BTreeMap<u64, Vec<u64>>,
    /// The timestamps of the earlier operations.
    ends: BTreeMap<u64, Timestamp>,
}

impl TriedEdges {
    pub(super) fn new(edges: &BTreeMap<u64, Vec<u64>>) -> Self {
        Self {
            edges: edges.clone(),
            ends: BTreeMap::new(),
        }
    }

    /// Returns the operations that come before one.
    pub(super) fn before(&self, op: OpId) -> impl Iterator<Item = Timestamp> {
        let after = self.edges.get(&op.0).into_iter().flatten();
        after.filter_map(|after| self.ends.get(after).cloned())
    }

    /// Notes an operation that others may have to come after.
    pub(super) fn enqueued(&mut self, op: OpId, timestamp: &Timestamp) {
        if self.edges.values().flatten().any(|after| *after == op.0) {
            self.ends.insert(op.0, timestamp.clone());
        }
    }
}
