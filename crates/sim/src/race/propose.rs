//! Proposals for races between operations and with the host, judged on the recorded trace.
//!
//! The checks go through the trace in the order of enqueueing, so an edge from an earlier operation
//! to the one that is checked closes no cycle of the recorded order. It can only close one through
//! memory: a kernel that loops until a later operation writes a value. Such an edge is refused.
//! Of the operations that race with one operation, an edge is proposed behind the last ones, which
//! orders the others too, and not where an edge that was proposed before orders both.

use std::{mem, ops::Range, sync::Arc};

use super::{
    check::AccessChecker,
    describe::OperationSummary,
    effect::Effect,
    history::{Actor, OperationInfo},
    proposal::{Proposal, ProposalKind},
};
use crate::{ReportKind, ids::name, memory::AccessFlags};

/// The number of proposed edges that are remembered.
const EDGES_MAX: usize = 64;

const CHECKED: &str = "(checked: the race is gone, no other appears)";

impl AccessChecker {
    /// Proposes an order for each finding of the actor that lacks one.
    pub(super) fn propose(&mut self, actor: &Actor, effects: &[Effect]) {
        let open = mem::take(&mut self.proposals.open);
        let users = mem::take(&mut self.proposals.users);
        for (finding, earlier) in &open {
            let kind = self.findings.listed()[*finding].kind;
            let mut edges = self.proposals.edges.iter();
            let known = edges.find(|(after, before)| {
                let is_behind = match before.operation() {
                    Some(before) => actor.last_of(before.slot) >= before.op,
                    None => actor.number() > before.number(),
                };
                is_behind && after.covers(earlier)
            });
            // An operation that comes after all others that lack an order covers them.
            let others = open.iter().map(|(_, other)| other);
            let last = others.filter(|other| other.covers(earlier));
            let last = last.max_by_key(|other| other.op).unwrap_or(earlier);
            let is_covered = |user: &Arc<OperationInfo>| {
                last.covers(user) || actor.host_clock.last_of(user.slot) >= user.op
            };
            let is_free = kind == ReportKind::FreeInFlight && actor.operation().is_some();
            let proposal = if kind == ReportKind::UseAfterFree {
                let text = match actor.operation() {
                    Some(own) => format!("free the memory only after operation {}", own.op),
                    None => "free the memory only after this access".to_owned(),
                };
                actor.proposal(ProposalKind::FreeLater, earlier, text)
            } else if let Some(looping) = self.loops_until(actor, earlier, effects) {
                let (earlier_op, looping) = (earlier.op, looping.op);
                let text = format!(
                    "no wait for operation {earlier_op} can, because operation {looping} loops \
                     until it sees this write: write the value by an atomic behind a \
                     __threadfence(), and read it by an atomic in front of one"
                );
                actor.proposal(ProposalKind::Release, earlier, text)
            } else if let Some((after, before)) = known {
                let place = before.operation().map(|it| format!("operation {}", it.op));
                let place = place.as_deref().unwrap_or("the host");
                let edge = format!("the edge proposed from operation {} to {place}", after.op);
                before.proposal(
                    before.edge(after),
                    after,
                    format!("{edge} is enough {CHECKED}"),
                )
            } else if is_free && last.launch.is_none() && users.iter().all(is_covered) {
                let (stream, op) = (name(last.stream), last.op);
                let text =
                    format!("free the memory on {stream}, behind operation {op}, its last use");
                actor.proposal(
                    ProposalKind::FreeOnStream,
                    last,
                    format!("{text} {CHECKED}"),
                )
            } else {
                let polls = self.memory_orders.polling(actor, last).next();
                let polls = polls.map(|(kernel, _)| kernel.op);
                let proposal = edge(actor, last, last.op == earlier.op, polls);
                let edges = &mut self.proposals.edges;
                edges.push_back((Arc::clone(last), actor.clone()));
                edges.drain(..edges.len().saturating_sub(EDGES_MAX));
                proposal
            };
            self.findings.propose(*finding, proposal);
        }
    }

    /// Returns a kernel up to `earlier` that loops until it sees a value that the actor writes: it
    /// is not complete before.
    fn loops_until(
        &self,
        actor: &Actor,
        earlier: &OperationInfo,
        effects: &[Effect],
    ) -> Option<&OperationInfo> {
        let mut kernels = self.memory_orders.polling(actor, earlier);
        let found = kernels.find(|(_, polled)| {
            let mut writes = effects.iter().flat_map(written);
            writes.any(|(number, range)| {
                let mut polled = polled.iter().filter(|bytes| bytes.info.number == number);
                let meets = |run: &Range<u64>| run.start < range.end && range.start < run.end;
                polled.any(|bytes| bytes.runs.iter().any(meets))
            })
        });
        found.map(|(kernel, _)| kernel)
    }
}

/// Returns the bytes that an effect writes, by the numbers of allocations.
fn written(effect: &Effect) -> Vec<(u64, Range<u64>)> {
    match effect {
        Effect::Access(info, runs) => {
            let runs = runs.iter().filter(|(_, flags)| *flags != AccessFlags::READ);
            runs.map(|(range, _)| (info.number, range.clone()))
                .collect()
        }
        Effect::Copy { to: Some(to), .. } => {
            let runs = to.runs.iter();
            runs.map(|range| (to.info.number, range.clone())).collect()
        }
        _ => Vec::new(),
    }
}

impl Actor {
    /// Returns the kind of an edge to this actor.
    fn edge(&self, after: &OperationInfo) -> ProposalKind {
        match self.operation() {
            None => ProposalKind::HostWait,
            Some(own) if own.launch.is_some() && own.launch == after.launch => {
                ProposalKind::Dependency
            }
            Some(_) => ProposalKind::Event,
        }
    }

    fn proposal(&self, kind: ProposalKind, after: &OperationInfo, text: String) -> Proposal {
        Proposal {
            kind,
            after: Some(after.op),
            before: self.operation().map(|operation| operation.op),
            repair: None,
            text,
        }
    }
}

/// Returns the place in an operation's stream where an event can be recorded or waited for.
fn place(operation: &OperationInfo) -> String {
    match operation.launch {
        Some(start) => format!(
            "the launch of the graph that begins as operation {}",
            start.0
        ),
        None => format!("operation {}", operation.op),
    }
}

/// Returns the numbers of the nodes of two operations of a launch, and its graph. A node of a
/// nested graph has an edge only to its neighbours, so that those around both are meant where only
/// one is nested.
fn nodes<'a>(from: &'a OperationSummary, to: &'a OperationSummary) -> [&'a str; 3] {
    let [(from, _), (to, graph)] = [from, to].map(|of| match of {
        OperationSummary::Node { number, graph, .. } => (&**number, &**graph),
        _ => ("", ""),
    });
    let parts = from.split('.').zip(to.split('.'));
    let common = parts.take_while(|(from, to)| from == to).count();
    let cut = |number: &'a str| {
        let end = number.match_indices('.').nth(common);
        end.map_or(number, |(end, _)| &number[..end])
    };
    [cut(from), cut(to), graph]
}

/// Returns the proposal of an edge from `last`, which may be another than the finding's operation.
fn edge(actor: &Actor, last: &OperationInfo, is_same: bool, polls: Option<u64>) -> Proposal {
    let (kind, stream, mut after) = (actor.edge(last), name(last.stream), place(last));
    if !is_same && last.launch.is_none() {
        let site = last.site.iter().map(|site| format!(", {site}"));
        after += &format!(", {}{},", last.summary, site.collect::<String>());
    }
    let text = match actor.operation() {
        None => format!(
            "let the host wait for {after} before the access, by cuStreamSynchronize on {stream} \
             or by an event recorded behind it"
        ),
        Some(own) if kind == ProposalKind::Dependency => {
            let [from, to, graph] = nodes(&last.summary, &own.summary);
            format!("make node {to} of {graph} depend on node {from}")
        }
        Some(own) => format!(
            "record an event after {after} on {stream} and make {} wait for it before {}",
            name(own.stream),
            place(own)
        ),
    };
    let unless = polls.map(|kernel| {
        format!(", unless operation {kernel}, which loops on a value, waits for something later")
    });
    actor.proposal(
        kind,
        last,
        format!("{text} {CHECKED}{}", unless.unwrap_or_default()),
    )
}
