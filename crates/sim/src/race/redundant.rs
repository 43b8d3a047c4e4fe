//! Redundant synchronisation: the waits of a run that order nothing which a conflict needs.
//!
//! The run is recorded as the calls of the race checker, and repeated by another checker without
//! the waits of one place of the program. They are redundant if that one finds no other race, and
//! the host has waited as early as before for each operation that accesses memory that the host can
//! access without the simulator's knowledge.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    checker::RaceChecker,
    effect::Effect,
    enqueued::{EnqueuedOp, OpClock},
    happens_before::ClockSnapshot,
    trace::{Entry, RedundantSync, Trace},
};
use crate::{SimConfig, ids::OpId};

impl RaceChecker {
    /// Returns the places whose waits are redundant, all of them together, the costly ones first.
    pub(crate) fn redundant(&self) -> Vec<RedundantSync> {
        let Some(trace) = &self.trace else {
            return Vec::new();
        };
        let mut places: BTreeMap<_, (RedundantSync, BTreeSet<usize>)> = BTreeMap::new();
        for (number, wait) in &trace.waits {
            let place = places.entry((wait.call, &wait.site));
            let (all, numbers) = place.or_insert_with(|| {
                let (count, ns) = (0, 0);
                (
                    RedundantSync {
                        count,
                        ns,
                        ..wait.clone()
                    },
                    BTreeSet::new(),
                )
            });
            all.count += 1;
            all.ns += wait.ns;
            numbers.insert(*number);
        }
        let mut places: Vec<_> = places.into_values().collect();
        places.sort_by_key(|(all, _)| Reverse(all.ns));
        let mut skipped = BTreeSet::new();
        places.retain(|(_, numbers)| {
            let with: BTreeSet<usize> = skipped.union(numbers).copied().collect();
            let is_redundant = holds_without(trace, &with);
            if is_redundant {
                skipped = with;
            }
            is_redundant
        });
        places.into_iter().map(|(all, _)| all).collect()
    }
}

/// Returns whether the run without these waits has no other race, and the host has waited for
/// what it may access.
fn holds_without(trace: &Trace, skipped: &BTreeSet<usize>) -> bool {
    let entries = trace.entries.borrow();
    let is_seen = |effect: &Effect| effect.is_seen_by_host();
    let seen = entries.iter().filter_map(|entry| match entry {
        Entry::Did(op, effects, _) if effects.iter().any(is_seen) => Some(*op),
        _ => None,
    });
    let mut open: BTreeSet<OpId> = seen.collect();
    let (mut whole, mut part) = (Replay::new(), Replay::new());
    for (number, entry) in (1..).zip(entries.iter()) {
        whole.play(number, entry);
        if !skipped.contains(&number) {
            part.play(number, entry);
        }
        let holds = match entry {
            Entry::Observed(_) => {
                let done: Vec<_> = open.iter().copied().filter(|op| whole.saw(*op)).collect();
                done.iter().all(|op| open.remove(op) && part.saw(*op))
            }
            Entry::Relied => {
                let mut all = whole.clocks.keys();
                all.all(|op| !whole.saw(OpId(*op)) || part.saw(OpId(*op)))
            }
            _ => true,
        };
        if !holds {
            return false;
        }
    }
    let known = whole.checker.findings();
    let mut found = part.checker.findings().iter();
    !part.checker.omits_findings()
        && found.all(|finding| known.iter().any(|known| known.is_the_race_of(finding)))
}

/// A race checker that repeats a run.
struct Replay {
    checker: RaceChecker,
    clocks: BTreeMap<u64, OpClock>,
    snapshots: BTreeMap<usize, ClockSnapshot>,
}

impl Replay {
    fn new() -> Self {
        Self {
            checker: RaceChecker::new(&SimConfig::new()),
            clocks: BTreeMap::new(),
            snapshots: BTreeMap::new(),
        }
    }

    /// Returns whether the host has seen the operation complete.
    fn saw(&self, op: OpId) -> bool {
        let clock = self.clocks.get(&op.0);
        clock.is_some_and(|clock| self.checker.host_saw(clock))
    }

    fn play(&mut self, number: usize, entry: &Entry) {
        let checker = &mut self.checker;
        let snapshot = match entry {
            Entry::Enqueued {
                id,
                stream,
                branch,
                queues,
                gone,
                after,
                summary,
                launch,
            } => {
                let clocks = after.iter().filter_map(|op| self.clocks.get(op).cloned());
                let clock = checker.enqueued(EnqueuedOp {
                    id: *id,
                    stream: *stream,
                    branch: *branch,
                    queues,
                    gone: *gone,
                    after: &[],
                    clocks: &clocks.collect::<Vec<_>>(),
                    summary: summary.clone(),
                    call: "",
                    site: None,
                    launch: *launch,
                });
                self.clocks.insert(id.0, clock);
                return;
            }
            Entry::Recorded(event, stream) => return checker.recorded(*event, *stream),
            Entry::Waits(stream, event) => return checker.waits(*stream, *event),
            Entry::EventDestroyed(event) => return checker.event_destroyed(*event),
            Entry::StreamDestroyed(stream, context, blocking) => {
                return checker.stream_destroyed(*stream, *context, *blocking);
            }
            Entry::ContextDestroyed(context) => return checker.context_destroyed(*context),
            Entry::Did(op, effects, over) => return checker.did(*op, effects.clone(), *over),
            Entry::HostDid(effects) => return checker.host_did(effects.clone(), "", None),
            Entry::Observed(snapshot) => {
                if let Some(snapshot) = self.snapshots.get(snapshot) {
                    checker.host_observed(snapshot);
                }
                return;
            }
            Entry::Relied => return,
            Entry::StreamsSnapshot(streams, gone) => {
                checker.snapshot_of(streams.iter().copied(), *gone)
            }
            Entry::EventSnapshot(event) => checker.event(*event),
            Entry::OperationSnapshot(op, itself) => checker.operation(*op, *itself),
        };
        self.snapshots.insert(number, snapshot);
    }
}
