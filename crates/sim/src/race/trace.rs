//! The trace of a run: the inputs of the checks, and the waits among them.

use std::{cell::RefCell, collections::BTreeMap, fmt};

use millstream_driver::{ContextHandle, EventHandle, StreamHandle};
use millstream_ptx::Site;

use super::{
    effect::Effect,
    enqueued::EnqueuedOp,
    happens_before::{ClockSnapshot, DestroyedStreams},
};
use crate::ids::OpId;

/// An input of the checks.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// An operation is enqueued, ordered after these, too.
    Enqueued(Box<EnqueuedOp>, Vec<u64>),
    /// A snapshot is taken.
    Snapshot(SnapshotOf),
    /// An event is recorded: it has the work of the stream so far.
    Recorded(EventHandle, StreamHandle),
    /// Later operations of the stream wait for the event.
    Waits(StreamHandle, EventHandle),
    EventDestroyed(EventHandle),
    /// A stream is destroyed, and its work is complete. `true` for a blocking stream.
    StreamDestroyed(StreamHandle, ContextHandle, bool),
    ContextDestroyed(ContextHandle),
    /// The host has seen all of this work complete.
    Observed(ClockSnapshot),
    /// A host function starts, which happens after all that it waits for. Whether the program's
    /// threads wait for it otherwise than by the driver is not known.
    Called(ClockSnapshot),
    /// The program relies on it that the host has seen this operation complete, or all that it has
    /// seen.
    Relied(Option<OpId>),
    /// An operation has further effects. With `true`, these are the last.
    Did(OpId, Vec<Effect>, bool),
    /// The host accesses memory in a call.
    HostDid(Vec<Effect>, &'static str, Option<Site>),
}

/// The work of a snapshot.
#[derive(Clone, Debug)]
pub(crate) enum SnapshotOf {
    /// All work of these streams so far, and of destroyed ones.
    Streams(Vec<StreamHandle>, DestroyedStreams),
    /// The work that the event captured.
    Event(EventHandle),
    /// The operation, which has not run, and all before it; or with `false` only the latter.
    Operation(OpId, bool),
}

/// The recorded run.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) inputs: RefCell<Vec<Input>>,
    /// The waits of the program, by the numbers of inputs.
    pub(super) waits: BTreeMap<usize, RedundantSync>,
    /// The waits of streams that have not run: the input, and the time of the call.
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
    /// Adds an input, and returns its number from 1.
    pub(super) fn add(&self, input: Input) -> usize {
        let mut inputs = self.inputs.borrow_mut();
        inputs.push(input);
        inputs.len()
    }

    /// Notes that the last input is a wait by a call of the program, of the host for that long or
    /// of a stream by the operation that was enqueued at that time.
    pub(super) fn note_wait(&mut self, call: &'static str, ns: u64, by: Option<OpId>) {
        let number = self.inputs.borrow().len();
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
