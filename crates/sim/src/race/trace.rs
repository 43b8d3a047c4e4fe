//! The trace of a run: the calls of the race checker, and the waits among them.

use std::{cell::RefCell, collections::BTreeMap, fmt};

use millstream_driver::{ContextHandle, EventHandle, StreamHandle};
use millstream_ptx::Site;

use super::{describe::OperationSummary, effect::Effect, happens_before::DestroyedStreams};
use crate::ids::OpId;

/// A call of the race checker.
#[derive(Debug)]
pub(super) enum Entry {
    Enqueued {
        id: OpId,
        stream: StreamHandle,
        branch: StreamHandle,
        queues: Vec<StreamHandle>,
        gone: DestroyedStreams,
        /// Further operations that it is ordered after.
        after: Vec<u64>,
        summary: Option<OperationSummary>,
        launch: Option<OpId>,
    },
    Recorded(EventHandle, StreamHandle),
    Waits(StreamHandle, EventHandle),
    EventDestroyed(EventHandle),
    StreamDestroyed(StreamHandle, ContextHandle, bool),
    ContextDestroyed(ContextHandle),
    StreamsSnapshot(Vec<StreamHandle>, DestroyedStreams),
    EventSnapshot(EventHandle),
    OperationSnapshot(OpId, bool),
    /// The host has seen the work of an earlier snapshot complete.
    Observed(usize),
    /// From here on the program relies on all that the host has seen.
    Relied,
    Did(OpId, Vec<Effect>, bool),
    HostDid(Vec<Effect>),
}

/// The recorded run.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) entries: RefCell<Vec<Entry>>,
    /// The waits of the program, by their entries.
    pub(super) waits: BTreeMap<usize, RedundantSync>,
    /// The waits of streams that have not run: the entry, and the time of the call.
    pending: BTreeMap<OpId, (usize, u64)>,
}

/// The waits at one place of the program that order nothing which a conflict needs; see
/// [`Gpu::redundant_syncs`](crate::Gpu::redundant_syncs).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct RedundantSync {
    /// The driver function.
    pub call: &'static str,
    /// The caller's [`Label`](crate::race::Label) with its source line, if recorded.
    pub site: Option<String>,
    /// The number of waits.
    pub count: u64,
    /// The virtual time that the host or the streams have waited there, in nanoseconds.
    pub ns: u64,
}

impl fmt::Display for RedundantSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call, count, ns, ..
        } = self;
        let site = self.site.iter().map(|site| format!(", {site}"));
        let site: String = site.collect();
        let noun = ["waits", "wait"][usize::from(*count == 1)];
        write!(f, "{call}{site}: {count} {noun} of {ns} ns in all")
    }
}

impl Trace {
    /// Adds an entry, and returns its number from 1.
    pub(super) fn add(&self, entry: Entry) -> usize {
        let mut entries = self.entries.borrow_mut();
        entries.push(entry);
        entries.len()
    }

    /// Notes that the last entry is a wait by a call of the program, of the host for that long or
    /// of a stream by the operation that was enqueued at that time.
    pub(super) fn note_wait(&mut self, call: &'static str, ns: u64, by: Option<OpId>) {
        let number = self.entries.borrow().len();
        let wait = RedundantSync {
            call,
            site: Site::current().map(|site| site.to_string()),
            count: 1,
            ns: if by.is_some() { 0 } else { ns },
        };
        self.waits.insert(number, wait);
        self.pending.extend(by.map(|op| (op, (number, ns))));
    }

    /// Notes that a wait of a stream ended, which could have run at `ready_ns` without it.
    pub(super) fn waited(&mut self, op: OpId, ready_ns: u64, finish_ns: u64) {
        if let Some((number, enqueued_ns)) = self.pending.remove(&op)
            && let Some(wait) = self.waits.get_mut(&number)
        {
            wait.ns = finish_ns.saturating_sub(ready_ns.max(enqueued_ns));
        }
    }
}
