//! The race checker, as the simulator calls it.

use std::sync::Arc;

use millstream_driver::{ContextHandle, EventHandle, StreamHandle};

use super::{
    Site,
    check::AccessChecker,
    effect::Effect,
    enqueued::{EnqueuedOp, OpClock, TriedEdges},
    finding::Finding,
    findings::UnlistedFindings,
    happens_before::{ClockSnapshot, DestroyedStreams, HappensBefore},
    history::{Actor, ActorKind, OperationInfo},
    pending::PendingChecks,
    trace::{Entry, Trace},
};
use crate::{SimConfig, ids::OpId};

/// The race checker of one simulated GPU; does nothing when it is off.
#[derive(Debug)]
pub(crate) struct RaceChecker {
    on: Option<Box<CheckerParts>>,
    /// The calls so far, if redundant waits are looked for.
    pub(super) trace: Option<Box<Trace>>,
}

#[derive(Debug)]
struct CheckerParts {
    happens_before: HappensBefore,
    pending: PendingChecks,
    checker: AccessChecker,
    edges: TriedEdges,
}

impl RaceChecker {
    pub(crate) fn new(config: &SimConfig) -> Self {
        let parts = || CheckerParts {
            happens_before: HappensBefore::default(),
            pending: PendingChecks::default(),
            checker: AccessChecker::new(config),
            edges: TriedEdges::new(&config.edges),
        };
        Self {
            on: config.race_check.then(|| Box::new(parts())),
            trace: (config.race_check && config.redundant).then(Box::default),
        }
    }

    /// Adds a call to the trace, if there is one, and returns its number.
    fn note(&self, entry: impl FnOnce() -> Entry) -> usize {
        self.trace.as_ref().map_or(0, |trace| trace.add(entry()))
    }

    /// Notes that the call just noted is a wait of the program: see [`Trace::is_wait`].
    pub(crate) fn note_wait(&mut self, call: &'static str, ns: u64, by: Option<OpId>) {
        if let Some(trace) = &mut self.trace {
            trace.note_wait(call, ns, by);
        }
    }

    /// Notes that a wait of a stream has ended.
    pub(crate) fn waited(&mut self, op: OpId, ready_ns: u64, finish_ns: u64) {
        if let Some(trace) = &mut self.trace {
            trace.waited(op, ready_ns, finish_ns);
        }
    }

    /// Notes that the program relies on all that the host has seen complete.
    pub(crate) fn relied(&self) {
        self.note(|| Entry::Relied);
    }

    /// Returns whether the host has seen that operation complete.
    pub(super) fn host_saw(&self, clock: &OpClock) -> bool {
        let (Some(parts), Some(timestamp)) = (&self.on, &clock.0) else {
            return false;
        };
        parts.happens_before.host_clock().last_of(timestamp.slot) >= timestamp.op
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    pub(crate) fn enqueued(&mut self, op: EnqueuedOp<'_>) -> OpClock {
        let Some(CheckerParts {
            happens_before,
            pending,
            edges,
            ..
        }) = self.on.as_deref_mut()
        else {
            return OpClock::default();
        };
        let after: Vec<_> = op
            .after
            .iter()
            .filter_map(|op| match &pending.actor(*op)?.kind {
                ActorKind::Operation(timestamp, _) => Some(timestamp.clone()),
                ActorKind::Host { .. } => None,
            })
            .chain(op.clocks.iter().filter_map(|clock| clock.0.clone()))
            .chain(edges.before(op.id))
            .collect();
        if let Some(trace) = &self.trace {
            trace.add(Entry::Enqueued {
                id: op.id,
                stream: op.stream,
                branch: op.branch,
                queues: op.queues.to_vec(),
                gone: op.gone,
                after: after.iter().map(|timestamp| timestamp.op).collect(),
                summary: op.summary.clone(),
                launch: op.launch,
            });
        }
        let timestamp =
            happens_before.enqueue(op.branch, op.id.0, (op.queues, op.gone), after.into_iter());
        edges.enqueued(op.id, &timestamp);
        let clock = OpClock(Some(timestamp.clone()));
        let Some(summary) = op.summary else {
            return clock;
        };
        let operation = OperationInfo {
            op: op.id.0,
            slot: timestamp.slot,
            before: Arc::clone(&timestamp.before),
            stream: op.stream,
            summary,
            call: op.call,
            site: op.site,
            launch: op.launch,
        };
        let actor = Actor {
            kind: ActorKind::Operation(timestamp, Arc::new(operation)),
            host_clock: Arc::clone(happens_before.host_clock()),
        };
        pending.push_operation(op.id, actor);
        clock
    }

    /// Notes the record of an event: the operation is the last of its stream.
    pub(crate) fn recorded(&mut self, event: EventHandle, stream: StreamHandle) {
        self.note(|| Entry::Recorded(event, stream));
        if let Some(parts) = self.on.as_deref_mut() {
            parts.happens_before.record(event, stream);
        }
    }

    /// Notes that later operations of the stream wait for the event.
    pub(crate) fn waits(&mut self, stream: StreamHandle, event: EventHandle) {
        self.note(|| Entry::Waits(stream, event));
        if let Some(parts) = self.on.as_deref_mut() {
            parts.happens_before.wait(stream, event);
        }
    }

    pub(crate) fn event_destroyed(&mut self, event: EventHandle) {
        self.note(|| Entry::EventDestroyed(event));
        if let Some(parts) = self.on.as_deref_mut() {
            parts.happens_before.forget_event(event);
        }
    }

    /// Returns a snapshot of all work on these streams so far.
    pub(crate) fn snapshot_of(
        &self,
        streams: impl Iterator<Item = StreamHandle>,
        gone: DestroyedStreams,
    ) -> ClockSnapshot {
        let Some(parts) = self.on.as_deref() else {
            return ClockSnapshot::default();
        };
        let streams: Vec<_> = streams.collect();
        let mut snapshot = parts
            .happens_before
            .snapshot_of(streams.iter().copied(), gone);
        snapshot.1 = self.note(|| Entry::StreamsSnapshot(streams, gone));
        snapshot
    }

    /// Notes that the stream was destroyed and its work is complete.
    pub(crate) fn stream_destroyed(
        &mut self,
        stream: StreamHandle,
        of: ContextHandle,
        blocking: bool,
    ) {
        self.note(|| Entry::StreamDestroyed(stream, of, blocking));
        if let Some(parts) = self.on.as_deref_mut() {
            parts.happens_before.forget_stream(stream, of, blocking);
        }
    }

    pub(crate) fn context_destroyed(&mut self, context: ContextHandle) {
        self.note(|| Entry::ContextDestroyed(context));
        if let Some(parts) = self.on.as_deref_mut() {
            parts.happens_before.forget_context(context);
        }
    }

    /// Returns the work that the event captured.
    pub(crate) fn event(&self, event: EventHandle) -> ClockSnapshot {
        let parts = self.on.as_deref();
        let mut snapshot = parts.map_or_else(ClockSnapshot::default, |parts| {
            parts.happens_before.event(event)
        });
        snapshot.1 = self.note(|| Entry::EventSnapshot(event));
        snapshot
    }

    /// Returns a snapshot of the operation and all before it, or only of the latter. The operation
    /// has not run.
    pub(crate) fn operation(&mut self, op: OpId, itself: bool) -> ClockSnapshot {
        let actor = self.on.as_deref().and_then(|parts| parts.pending.actor(op));
        let mut snapshot = match actor.map(|actor| &actor.kind) {
            Some(ActorKind::Operation(timestamp, _)) if itself => {
                ClockSnapshot::timestamp(timestamp)
            }
            Some(ActorKind::Operation(timestamp, _)) => ClockSnapshot::before(timestamp),
            _ => ClockSnapshot::default(),
        };
        snapshot.1 = self.note(|| Entry::OperationSnapshot(op, itself));
        snapshot
    }

    /// Notes that the host has seen all of this work complete.
    pub(crate) fn host_observed(&mut self, snapshot: &ClockSnapshot) {
        self.note(|| Entry::Observed(snapshot.1));
        if let Some(parts) = self.on.as_deref_mut() {
            parts.happens_before.host_observed(snapshot);
        }
    }

    /// Adds effects of an operation. With `over`, these are the last.
    pub(crate) fn did(&mut self, op: OpId, effects: Vec<Effect>, over: bool) {
        self.note(|| Entry::Did(op, effects.clone(), over));
        if let Some(parts) = self.on.as_deref_mut() {
            if let Some(actor) = parts.pending.actor(op) {
                for effect in &effects {
                    if let Effect::Synchronise(own) = effect {
                        parts.checker.memory_orders.ran(actor, own);
                    }
                }
            }
            parts.pending.note(op, effects, over);
            parts.judge();
        }
    }

    /// Adds an access of the host, made now.
    pub(crate) fn host_did(
        &mut self,
        effects: Vec<Effect>,
        call: &'static str,
        site: Option<Site>,
    ) {
        self.note(|| Entry::HostDid(effects.clone()));
        if let Some(parts) = self.on.as_deref_mut() {
            let actor = Actor {
                kind: ActorKind::Host {
                    call,
                    site,
                    last: parts.pending.last_operation(),
                },
                host_clock: Arc::clone(parts.happens_before.host_clock()),
            };
            parts.pending.push_host(actor, effects);
            parts.judge();
        }
    }

    pub(crate) fn findings(&self) -> &[Finding] {
        self.on
            .as_deref()
            .map_or(&[], |parts| parts.checker.findings.listed())
    }

    pub(crate) fn omits_findings(&self) -> bool {
        let parts = self.on.as_deref();
        parts.is_some_and(|parts| parts.checker.findings.omits_some())
    }

    pub(crate) fn unlisted_findings(&self) -> UnlistedFindings {
        let parts = self.on.as_deref();
        parts.map_or_else(UnlistedFindings::default, |parts| {
            parts.checker.findings.unlisted()
        })
    }
}

impl CheckerParts {
    /// Checks all entries that can be checked.
    fn judge(&mut self) {
        while let Some((actor, effects)) = self.pending.next(&self.checker.memory_orders) {
            self.checker.judge(&actor, &effects);
        }
    }
}
