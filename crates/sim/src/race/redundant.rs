//! Redundant synchronisation: the waits of a run that order nothing which a conflict needs.
//!
//! The run is recorded as the inputs of the checks, which are repeated without the waits of one
//! place of the program. They are redundant if that finds no other race, and the host has waited as
//! early as before for each operation whose effect it can see without the simulator's knowledge: an
//! access to memory of the host, a call of a host function, and output.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    checker::{Checks, RaceChecker},
    effect::Effect,
    enqueued::OpClock,
    happens_before::ClockSnapshot,
    trace::{Input, RedundantSync, Trace},
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
    let inputs = trace.inputs.borrow();
    let with = |has: fn(&Effect) -> bool| -> BTreeSet<OpId> {
        let ops = inputs.iter().filter_map(|input| match input {
            Input::Did(op, effects, _) if effects.iter().any(has) => Some(*op),
            _ => None,
        });
        ops.collect()
    };
    let seen = with(Effect::is_seen_by_host);
    let mut open = seen.clone();
    let (mut whole, mut part) = (Replay::new(), Replay::new());
    for (number, input) in (1..).zip(inputs.iter()) {
        whole.play(number, input);
        if !skipped.contains(&number) {
            part.play(number, input);
        }
        let holds = match input {
            Input::Observed(_) => {
                let done: Vec<_> = open.iter().copied().filter(|op| whole.saw(*op)).collect();
                done.iter().all(|op| open.remove(op) && part.saw(*op))
            }
            Input::Relied(Some(op)) => !whole.saw(*op) || part.saw(*op),
            Input::Relied(None) => {
                let mut all = whole.clocks.keys();
                all.all(|op| !whole.saw(OpId(*op)) || part.saw(OpId(*op)))
            }
            _ => true,
        };
        if !holds {
            return false;
        }
    }
    // What a host function accesses is not known.
    let calls = with(|effect| matches!(effect, Effect::Output));
    let mut pairs = calls
        .iter()
        .flat_map(|call| seen.iter().flat_map(move |op| [(*call, *op), (*op, *call)]));
    if pairs.any(|(one, other)| whole.orders(one, other) && !part.orders(one, other)) {
        return false;
    }
    let known = whole.checks.findings().listed();
    let mut found = part.checks.findings().listed().iter();
    !part.checks.findings().omits_some()
        && found.all(|finding| known.iter().any(|known| known.is_the_race_of(finding)))
}

/// The checks of a run that is repeated.
struct Replay {
    checks: Checks,
    clocks: BTreeMap<u64, OpClock>,
    snapshots: BTreeMap<usize, ClockSnapshot>,
}

impl Replay {
    fn new() -> Self {
        Self {
            checks: Checks::new(&SimConfig::new()),
            clocks: BTreeMap::new(),
            snapshots: BTreeMap::new(),
        }
    }

    /// Returns whether the host has seen the operation complete.
    fn saw(&self, op: OpId) -> bool {
        let clock = self.clocks.get(&op.0);
        clock.is_some_and(|clock| self.checks.host_saw(clock))
    }

    /// Returns whether an operation comes before another.
    fn orders(&self, one: OpId, other: OpId) -> bool {
        let [one, other] = [one, other].map(|op| self.clocks.get(&op.0)?.0.as_ref());
        one.zip(other)
            .is_some_and(|(one, other)| other.last_of(one.slot) >= one.op)
    }

    fn play(&mut self, number: usize, input: &Input) {
        match input {
            Input::Enqueued(op, after) => {
                let clocks = after.iter().filter_map(|op| self.clocks.get(op)?.0.clone());
                let clock = self.checks.enqueued((**op).clone(), clocks.collect());
                self.clocks.insert(op.id.0, clock);
            }
            Input::Snapshot(of) => {
                self.snapshots.insert(number, self.checks.snapshot(of));
            }
            Input::Observed(seen) => {
                if let Some(seen) = self.snapshots.get(&seen.1) {
                    self.checks.take(Input::Observed(seen.clone()));
                }
            }
            // The threads of the program may wait for the call, or not.
            Input::Called(_) => {}
            input => self.checks.take(input.clone()),
        }
    }
}
