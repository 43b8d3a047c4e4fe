//! Judging what an operation did, in the order of enqueueing: against clocks for order, against
//! histories for conflicts.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
};

use super::{
    effect::{Effect, Spot},
    finding::{Finding, FoundMemory, Party},
    pages::Pages,
    state::{Access, Actor, BLANK, Deed, FILLED, Made, States, Use, Who},
    words::{missing_edge, noun, verb},
};
use crate::{
    Grade, ReportKind, SimConfig,
    memory::{Tag, Touch},
};

/// How many ended allocations are remembered.
const ENDED_MAX: usize = 1 << 12;
/// How many findings are kept.
const FINDINGS_MAX: usize = 1 << 10;

/// One allocation.
#[derive(Debug)]
struct Shadow {
    pages: Pages,
    born: Option<Arc<Deed>>,
    ended: Option<Arc<Deed>>,
}

/// What is known of all memory.
#[derive(Debug)]
pub(super) struct Checker {
    shadows: BTreeMap<u64, Shadow>,
    /// Ended allocations by number, oldest first.
    ended: VecDeque<u64>,
    states: States,
    /// Whether reads of bytes that nobody wrote are findings.
    blank_reads: bool,
    /// Whether notes about races within kernels are findings.
    pub(super) notes: bool,
    pub(super) findings: Vec<Finding>,
}

/// The conflicts of one actor with bytes of one allocation, by the operation on the other side.
#[derive(Default)]
struct Conflicts {
    by: BTreeMap<u64, (Use, Touch, Vec<Range<u64>>)>,
    blank: Vec<Range<u64>>,
}

impl Checker {
    pub(super) fn new(config: &SimConfig) -> Self {
        Self {
            shadows: BTreeMap::new(),
            ended: VecDeque::new(),
            states: States::default(),
            blank_reads: config.uninitialised_reads,
            notes: config.kernel_race_notes,
            findings: Vec::new(),
        }
    }

    /// Judges all that one actor did.
    pub(super) fn judge(&mut self, actor: &Actor, effects: &[Effect]) {
        let mut made = Made::default();
        for effect in effects {
            match effect {
                Effect::Touch(tag, runs) => {
                    let runs: Vec<_> = runs
                        .iter()
                        .map(|(range, touch)| (range.clone(), Access::of(*touch)))
                        .collect();
                    self.touch(&mut made, actor, tag, &runs);
                }
                Effect::Copy { from, to } => {
                    self.copy(&mut made, actor, from.as_ref(), to.as_ref())
                }
                Effect::Birth(tag) => {
                    self.shadow(tag).born = actor.deed().cloned();
                }
                Effect::Empty(tag) => self.empty(&mut made, tag),
                Effect::End(tag) => self.end(actor, tag),
                Effect::Forget(tag) => {
                    self.shadows.remove(&tag.number);
                }
                Effect::KernelRace(tag, race) => self.tell_kernel_race(actor, tag.as_ref(), race),
                Effect::Mismatch(found) => self.tell_mismatch(actor, &found.0, &found.1),
                Effect::Stray(stray) => self.tell_stray(actor, stray),
            }
        }
        if self.states.is_full() {
            let shadows = &mut self.shadows;
            self.states.clear_out(|renumber| {
                for shadow in shadows.values_mut() {
                    shadow.pages.renumber(renumber);
                }
            });
        }
    }

    fn shadow(&mut self, tag: &Arc<Tag>) -> &mut Shadow {
        self.shadows.entry(tag.number).or_insert_with(|| Shadow {
            pages: Pages::new(
                if tag.filled { FILLED } else { BLANK },
                // Pageable memory is all that the host can address.
                if tag.number == 0 { u64::MAX } else { tag.bytes },
            ),
            born: None,
            ended: None,
        })
    }

    /// Whether the actor may use the allocation at all.
    fn lives(&mut self, actor: &Actor, tag: &Arc<Tag>, does: &'static str) -> bool {
        let shadow = self.shadow(tag);
        if let Some(end) = shadow.ended.clone() {
            let missing = "it was enqueued after the free".to_owned();
            let problem = "use after free of".to_owned();
            self.find(
                ReportKind::UseAfterFree,
                problem,
                Some((tag, Vec::new())),
                (actor, does),
                Some((Party::of(&end, "ends it"), missing)),
            );
            return false;
        }
        let Some(born) = shadow.born.clone() else {
            return true;
        };
        if actor.known.last_of(born.slot) >= born.op {
            shadow.born = None;
            return true;
        }
        if !actor.is_after(&born) {
            let missing = missing_edge(actor, &born);
            self.find(
                ReportKind::UseBeforeAllocation,
                "use before the allocation of".to_owned(),
                Some((tag, Vec::new())),
                (actor, does),
                Some((Party::of(&born, "begins it"), missing)),
            );
        }
        true
    }

    fn touch(
        &mut self,
        made: &mut Made,
        actor: &Actor,
        tag: &Arc<Tag>,
        runs: &[(Range<u64>, Access)],
    ) {
        let Some(does) = runs
            .iter()
            .map(|(_, access)| access.touch)
            .reduce(|one, other| one | other)
        else {
            return;
        };
        if !self.lives(actor, tag, verb(does)) {
            return;
        }
        let Self {
            shadows, states, ..
        } = self;
        let Some(shadow) = shadows.get_mut(&tag.number) else {
            return;
        };
        let mut conflicts = Conflicts::default();
        shadow
            .pages
            .visit(runs, &mut |old, range, access: &Access| {
                let outcome = states.access(made, actor, old, *access);
                for conflict in &outcome.conflicts {
                    let entry = conflicts.by.entry(conflict.by.op);
                    let (used, touch, ranges) =
                        entry.or_insert_with(|| (conflict.clone(), access.touch, Vec::new()));
                    used.touch = used.touch | conflict.touch;
                    *touch = *touch | access.touch;
                    add(ranges, range.clone());
                }
                if outcome.blank {
                    add(&mut conflicts.blank, range);
                }
                outcome.next
            });
        self.tell(actor, tag, conflicts);
    }

    fn tell(&mut self, actor: &Actor, tag: &Arc<Tag>, conflicts: Conflicts) {
        for (used, touch, ranges) in conflicts.by.into_values() {
            let (kind, with) = match actor.who {
                Who::Operation(..) => (ReportKind::Race, ""),
                Who::Host(..) => (ReportKind::HostRace, " with the host"),
            };
            let problem = format!("{}/{} race{with} on", noun(used.touch), noun(touch));
            let missing = missing_edge(actor, &used.by);
            self.find(
                kind,
                problem,
                Some((tag, ranges)),
                (actor, verb(touch)),
                Some((Party::of(&used.by, verb(used.touch)), missing)),
            );
        }
        if !conflicts.blank.is_empty() && self.blank_reads {
            self.find(
                ReportKind::UninitialisedRead,
                "uninitialised read of".to_owned(),
                Some((tag, conflicts.blank)),
                (actor, "reads what nobody wrote"),
                None,
            );
        }
    }

    /// A copy: what it reads must hold something only if it arrives at the host; else what it
    /// writes holds as little.
    fn copy(&mut self, made: &mut Made, actor: &Actor, from: Option<&Spot>, to: Option<&Spot>) {
        let to_host = to.is_some_and(|to| to.tag.of_host);
        let mut blank: Vec<Range<u64>> = Vec::new();
        if let Some(from) = from {
            let access = Access {
                passes: !to_host,
                ..Access::of(Touch::READ)
            };
            if !to_host {
                blank = self.blank_bytes(from);
            }
            let runs: Vec<_> = from
                .runs
                .iter()
                .map(|range| (range.clone(), access))
                .collect();
            self.touch(made, actor, &from.tag, &runs);
        }
        if let Some(to) = to {
            let runs = split_blank(&to.runs, &blank);
            self.touch(made, actor, &to.tag, &runs);
        }
    }

    /// Which bytes nobody wrote, counted from the beginning of what is copied.
    fn blank_bytes(&mut self, from: &Spot) -> Vec<Range<u64>> {
        self.shadow(&from.tag);
        let Self {
            shadows, states, ..
        } = self;
        let mut blank = Vec::new();
        if let Some(shadow) = shadows.get_mut(&from.tag.number) {
            let mut at = 0;
            let runs: Vec<_> = from.runs.iter().map(|range| (range.clone(), ())).collect();
            shadow.pages.visit(&runs, &mut |state, range, ()| {
                let bytes = range.end - range.start;
                if !states.is_filled(state) {
                    add(&mut blank, at..at + bytes);
                }
                at += bytes;
                state
            });
        }
        blank
    }

    /// The allocation holds nothing any more. Whoever uses it may still do so: what comes next has
    /// to be ordered behind them.
    fn empty(&mut self, made: &mut Made, tag: &Arc<Tag>) {
        self.shadow(tag);
        let Self {
            shadows, states, ..
        } = self;
        if let Some(shadow) = shadows.get_mut(&tag.number)
            && shadow.ended.is_none()
        {
            let whole = [(0..tag.bytes, ())];
            shadow
                .pages
                .visit(&whole, &mut |old, _, ()| states.emptied(made, old));
        }
    }

    /// The allocation's life ends. Whoever uses it has to be done.
    fn end(&mut self, actor: &Actor, tag: &Arc<Tag>) {
        if tag.variable {
            self.shadows.remove(&tag.number);
            return;
        }
        if !self.lives(actor, tag, "frees it") {
            return;
        }
        let Some(shadow) = self.shadows.get_mut(&tag.number) else {
            return;
        };
        let mut users: BTreeMap<u64, Use> = BTreeMap::new();
        let states = &self.states;
        shadow.pages.each(|state| {
            for used in states.uses(state) {
                if !actor.is_after(&used.by) {
                    let known = users.entry(used.by.op).or_insert_with(|| used.clone());
                    known.touch = known.touch | used.touch;
                }
            }
        });
        match actor.deed() {
            Some(deed) => {
                shadow.ended = Some(Arc::clone(deed));
                shadow.pages = Pages::new(FILLED, tag.bytes);
                self.ended.push_back(tag.number);
            }
            // The call has waited, and the address is gone.
            None => {
                self.shadows.remove(&tag.number);
            }
        }
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.shadows.remove(&oldest);
        }
        for used in users.into_values() {
            let missing = missing_edge(actor, &used.by);
            self.find(
                ReportKind::FreeInFlight,
                "free in flight of".to_owned(),
                Some((tag, Vec::new())),
                (actor, "frees it"),
                Some((Party::of(&used.by, verb(used.touch)), missing)),
            );
        }
    }

    fn find(
        &mut self,
        kind: ReportKind,
        problem: String,
        memory: Option<(&Arc<Tag>, Vec<Range<u64>>)>,
        (actor, does): (&Actor, &'static str),
        earlier: Option<(Party, String)>,
    ) {
        let later = match &actor.who {
            Who::Operation(_, deed) => Party::of(deed, does),
            Who::Host(call, site) => Party::host(call, site.as_ref(), does),
        };
        let (earlier, missing) = earlier.unzip();
        let finding = Finding {
            kind,
            grade: Grade::Error,
            problem,
            memory: memory.map(|(tag, ranges)| FoundMemory::of(tag, ranges)),
            later,
            earlier,
            missing,
            verdict: None,
        };
        // An access of the host's may be judged at both its ends.
        let is_told = actor.deed().is_none()
            && self
                .findings
                .iter()
                .any(|told| told.is_the_race_of(&finding));
        if !is_told {
            self.add(finding);
        }
    }

    /// Keeps a finding, unless there are many.
    pub(super) fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

/// Adds a range, to the last one if it goes on where that ends.
fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// The runs of a copy's target, apart where what arrives holds nothing. `blank` counts from the
/// beginning of the copy.
fn split_blank(runs: &[Range<u64>], blank: &[Range<u64>]) -> Vec<(Range<u64>, Access)> {
    let write = |range, blank| {
        let access = Access {
            blank,
            ..Access::of(Touch::WRITE)
        };
        (range, access)
    };
    let mut split = Vec::new();
    let mut copied = 0;
    for run in runs {
        let bytes = run.end - run.start;
        let mut at = 0;
        for hole in blank {
            let from = hole.start.clamp(copied, copied + bytes) - copied;
            let to = hole.end.clamp(copied, copied + bytes) - copied;
            if from < to {
                if at < from {
                    split.push(write(run.start + at..run.start + from, false));
                }
                split.push(write(run.start + from..run.start + to, true));
                at = to;
            }
        }
        if at < bytes {
            split.push(write(run.start + at..run.end, false));
        }
        copied += bytes;
    }
    split
}
