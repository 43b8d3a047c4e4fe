//! The race checker, as the simulator calls it.

use std::sync::Arc;

use super::{
    check::AccessChecker,
    effect::Effect,
    enqueued::{EnqueuedOp, OpClock, TriedEdges},
    finding::Finding,
    findings::{Findings, UnlistedFindings},
    happens_before::{ClockSnapshot, HappensBefore},
    history::{Actor, ActorKind, OperationInfo},
    pending::PendingChecks,
    trace::{Input, SnapshotOf, Trace},
    vector_clock::Timestamp,
};
use crate::{SimConfig, ids::OpId};

/// The race checker of one simulated GPU; does nothing when it is off.
#[derive(Debug)]
pub(crate) struct RaceChecker {
    on: Option<Box<Checks>>,
    /// The inputs so far, if redundant waits are looked for.
    pub(super) trace: Option<Box<Trace>>,
}

/// The checks of a run, which its inputs determine.
#[derive(Debug)]
pub(super) struct Checks {
    happens_before: HappensBefore,
    pending: PendingChecks,
    checker: AccessChecker,
    edges: TriedEdges,
}

impl RaceChecker {
    pub(crate) fn new(config: &SimConfig) -> Self {
        Self {
            on: config.race_check.then(|| Box::new(Checks::new(config))),
            trace: (config.race_check && config.redundant).then(Box::default),
        }
    }

    /// Adds an input to the trace, if there is one, and returns its number.
    fn note(&self, input: impl FnOnce() -> Input) -> usize {
        self.trace.as_ref().map_or(0, |trace| trace.add(input()))
    }

    /// Gives an input other than an operation or a snapshot to the checks.
    pub(crate) fn take(&mut self, input: Input) {
        self.note(|| input.clone());
        if let Some(checks) = self.on.as_deref_mut() {
            checks.take(input);
        }
    }

    /// Notes that the last input is a wait of the program: see [`Trace::note_wait`].
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

    pub(crate) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Adds an operation that is ordered after these pending operations and those of these clocks.
    pub(crate) fn enqueued(
        &mut self,
        op: EnqueuedOp,
        after: &[OpId],
        clocks: &[OpClock],
    ) -> OpClock {
        let Some(checks) = self.on.as_deref_mut() else {
            return OpClock::default();
        };
        let after = after
            .iter()
            .filter_map(|op| match &checks.pending.actor(*op)?.kind {
                ActorKind::Operation(timestamp, _) => Some(timestamp.clone()),
                ActorKind::Host { .. } => None,
            })
            .chain(clocks.iter().filter_map(|clock| clock.0.clone()))
            .chain(checks.edges.before(op.id));
        let after: Vec<_> = after.collect();
        if let Some(trace) = &self.trace {
            let after = after.iter().map(|timestamp| timestamp.op).collect();
            trace.add(Input::Enqueued(Box::new(op.clone()), after));
        }
        checks.enqueued(op, after)
    }

    /// Returns a snapshot of work, of which the host may see the end.
    pub(crate) fn snapshot(&self, of: SnapshotOf) -> ClockSnapshot {
        let Some(checks) = self.on.as_deref() else {
            return ClockSnapshot::default();
        };
        let mut snapshot = checks.snapshot(&of);
        snapshot.1 = self.note(|| Input::Snapshot(of));
        snapshot
    }

    pub(crate) fn findings(&self) -> &[Finding] {
        let checks = self.on.as_deref();
        checks.map_or(&[], |checks| checks.findings().listed())
    }

    pub(crate) fn omits_findings(&self) -> bool {
        let checks = self.on.as_deref();
        checks.is_some_and(|checks| checks.findings().omits_some())
    }

    pub(crate) fn unlisted_findings(&self) -> UnlistedFindings {
        let checks = self.on.as_deref();
        checks.map_or_else(UnlistedFindings::default, |checks| {
            checks.findings().unlisted()
        })
    }
}

impl Checks {
    pub(super) fn new(config: &SimConfig) -> Self {
        Self {
            happens_before: HappensBefore::default(),
            pending: PendingChecks::default(),
            checker: AccessChecker::new(config),
            edges: TriedEdges::new(&config.edges),
        }
    }

    /// Returns whether the host has seen that operation complete.
    pub(super) fn host_saw(&self, clock: &OpClock) -> bool {
        let host_clock = self.happens_before.host_clock();
        let timestamp = clock.0.as_ref();
        timestamp.is_some_and(|own| host_clock.last_of(own.slot) >= own.op)
    }

    pub(super) fn findings(&self) -> &Findings {
        &self.checker.findings
    }

    pub(super) fn enqueued(&mut self, op: EnqueuedOp, after: Vec<Timestamp>) -> OpClock {
        let queues = (&*op.queues, op.gone);
        let order = &mut self.happens_before;
        let timestamp = order.enqueue(op.branch, op.id.0, queues, after.into_iter());
        self.edges.enqueued(op.id, &timestamp);
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
            host_clock: Arc::clone(order.host_clock()),
        };
        self.pending.push_operation(op.id, actor);
        clock
    }

    pub(super) fn snapshot(&self, of: &SnapshotOf) -> ClockSnapshot {
        match of {
            SnapshotOf::Streams(streams, gone) => self
                .happens_before
                .snapshot_of(streams.iter().copied(), *gone),
            SnapshotOf::Event(event) => self.happens_before.event(*event),
            SnapshotOf::Operation(op, itself) => {
                match self.pending.actor(*op).map(|actor| &actor.kind) {
                    Some(ActorKind::Operation(own, _)) if *itself => ClockSnapshot::timestamp(own),
                    Some(ActorKind::Operation(own, _)) => ClockSnapshot::before(own),
                    _ => ClockSnapshot::default(),
                }
            }
        }
    }

    pub(super) fn take(&mut self, input: Input) {
        let order = &mut self.happens_before;
        match input {
            Input::Recorded(event, stream) => order.record(event, stream),
            Input::Waits(stream, event) => order.wait(stream, event),
            Input::EventDestroyed(event) => order.forget_event(event),
            Input::StreamDestroyed(stream, of, blocking) => {
                order.forget_stream(stream, of, blocking);
            }
            Input::ContextDestroyed(context) => order.forget_context(context),
            Input::Observed(seen) | Input::Called(seen) => order.host_observed(&seen),
            Input::Did(op, effects, over) => {
                if let Some(actor) = self.pending.actor(op) {
                    for effect in &effects {
                        if let Effect::Synchronise(own) = effect {
                            self.checker.memory_orders.ran(actor, own);
                        }
                    }
                }
                self.pending.note(op, effects, over);
                self.judge();
            }
            Input::HostDid(effects, call, site) => {
                let last = self.pending.last_operation();
                let actor = Actor {
                    kind: ActorKind::Host { call, site, last },
                    host_clock: Arc::clone(order.host_clock()),
                };
                self.pending.push_host(actor, effects);
                self.judge();
            }
            Input::Enqueued(..) | Input::Snapshot(_) | Input::Relied(_) => {}
        }
    }

    /// Checks all entries that can be checked.
    fn judge(&mut self) {
        while let Some((actor, effects)) = self.pending.next(&self.checker.memory_orders) {
            self.checker.judge(&actor, &effects);
        }
    }
}
