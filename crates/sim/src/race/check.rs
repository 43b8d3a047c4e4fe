//! Checks of the accesses of operations, in the order of enqueueing: vector clocks give the order,
//! histories the conflicts.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
};

use super::{
    describe::{missing_edge, noun, pageable_rule, verb},
    effect::{ByteRanges, Effect},
    finding::{Finding, FindingMemory, Party},
    findings::Findings,
    history::{
        Actor, ActorKind, Histories, INITIALISED, MemoryAccess, OperationInfo, PriorAccess,
        TransitionCache, UNINITIALISED,
    },
    pages::{Pages, add, split_uninitialised},
    through_memory::MemoryOrders,
};
use crate::{
    ReportKind, Severity, SimConfig,
    memory::{AccessFlags, AllocationInfo},
};

/// The number of freed allocations that are remembered.
const FREED_MAX: usize = 1 << 12;

#[derive(Debug)]
struct AllocationShadow {
    pages: Pages,
    allocated_by: Option<Arc<OperationInfo>>,
    freed_by: Option<Arc<OperationInfo>>,
}

/// The shadow memory of all allocations, and the findings.
#[derive(Debug)]
pub(super) struct AccessChecker {
    shadows: BTreeMap<u64, AllocationShadow>,
    /// Freed allocations by number, oldest first.
    freed: VecDeque<u64>,
    histories: Histories,
    pub(super) memory_orders: MemoryOrders,
    /// Set if reads of uninitialised bytes are findings.
    uninitialised_reads: bool,
    /// Set if notes about races within kernels are findings.
    pub(super) notes: bool,
    pub(super) findings: Findings,
    pub(super) proposals: Proposals,
}

/// The findings of the operation that is checked, and the edges proposed so far.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    /// The indices of findings without a proposal, with the earlier operation.
    pub(super) open: Vec<(usize, Arc<OperationInfo>)>,
    /// All users of the memory that the operation frees too early.
    pub(super) users: Vec<Arc<OperationInfo>>,
    /// The two ends of each edge.
    pub(super) edges: VecDeque<(Arc<OperationInfo>, Actor)>,
}

/// The conflicts of one actor with bytes of one allocation, by the other operation.
#[derive(Default)]
struct Conflicts {
    by: BTreeMap<u64, (PriorAccess, AccessFlags, Vec<Range<u64>>)>,
    uninitialised: Vec<Range<u64>>,
}

impl AccessChecker {
    pub(super) fn new(config: &SimConfig) -> Self {
        Self {
            shadows: BTreeMap::new(),
            freed: VecDeque::new(),
            histories: Histories::default(),
            memory_orders: MemoryOrders::default(),
            uninitialised_reads: config.uninitialised_reads,
            notes: config.kernel_race_notes,
            findings: Findings::default(),
            proposals: Proposals::default(),
        }
    }

    pub(super) fn judge(&mut self, actor: &Actor, effects: &[Effect]) {
        let mut cache = TransitionCache::default();
        for effect in effects {
            match effect {
                Effect::Synchronise(own) => self.memory_orders.add(actor, own.clone()),
                Effect::Access(info, runs) => self.flags(&mut cache, actor, info, runs),
                Effect::Copy { from, to } => {
                    self.copy(&mut cache, actor, from.as_ref(), to.as_ref())
                }
                Effect::Allocate(info) => {
                    self.shadow(info).allocated_by = actor.operation().cloned();
                }
                Effect::AllocateAgain(info) => {
                    if self.shadow(info).freed_by.take().is_some() {
                        self.freed.retain(|number| *number != info.number);
                        self.shadow(info).pages = Pages::new(UNINITIALISED, info.bytes);
                    } else {
                        self.empty(&mut cache, info);
                    }
                    self.shadow(info).allocated_by = actor.operation().cloned();
                }
                Effect::Reuse(info) => self.empty(&mut cache, info),
                Effect::Free(info) => self.end(actor, info),
                Effect::Unmap(info) => self.find_users(actor, info, "unmapping", "unmaps it"),
                Effect::Discard(info) => {
                    self.shadows.remove(&info.number);
                }
                Effect::KernelRace(info, race) => {
                    self.report_kernel_race(actor, info.as_ref(), race)
                }
                Effect::KernelError(error) => self.report_kernel_error(actor, &error.0, error.1),
                Effect::ElementMismatch(found) => {
                    self.report_element_mismatch(actor, &found.0, &found.1)
                }
                Effect::InvalidAccess(invalid_access) => {
                    self.report_invalid_access(actor, invalid_access)
                }
                Effect::Output => {}
            }
        }
        self.propose(actor, effects);
        if self.histories.is_full() {
            let shadows = &mut self.shadows;
            self.histories.clear_out(|renumber| {
                for shadow in shadows.values_mut() {
                    shadow.pages.renumber(renumber);
                }
            });
        }
    }

    fn shadow(&mut self, info: &Arc<AllocationInfo>) -> &mut AllocationShadow {
        self.shadows
            .entry(info.number)
            .or_insert_with(|| AllocationShadow {
                pages: Pages::new(
                    if info.initialised {
                        INITIALISED
                    } else {
                        UNINITIALISED
                    },
                    // Pageable memory spans the host's whole address space.
                    if info.number == 0 {
                        u64::MAX
                    } else {
                        info.bytes
                    },
                ),
                allocated_by: None,
                freed_by: None,
            })
    }

    /// Checks that the actor uses the allocation within its lifetime.
    fn lives(&mut self, actor: &Actor, info: &Arc<AllocationInfo>, does: &'static str) -> bool {
        let shadow = self.shadow(info);
        if let Some(end) = shadow.freed_by.clone() {
            let missing = match end.launch {
                None => "it was enqueued after the free",
                Some(_) if actor.is_after(&end) => "it runs after the free",
                Some(_) => "nothing orders it before the free",
            };
            let missing = missing.to_owned();
            let problem = "use after free of".to_owned();
            self.find(
                ReportKind::UseAfterFree,
                problem,
                Some((info, Vec::new())),
                (actor, does),
                Some((&end, "ends it", missing)),
            );
            return false;
        }
        let Some(allocated_by) = shadow.allocated_by.clone() else {
            return true;
        };
        if actor.host_clock.last_of(allocated_by.slot) >= allocated_by.op {
            shadow.allocated_by = None;
            return true;
        }
        if !actor.is_after(&allocated_by) {
            let missing = missing_edge(actor, &allocated_by);
            self.find(
                ReportKind::UseBeforeAllocation,
                "use before the allocation of".to_owned(),
                Some((info, Vec::new())),
                (actor, does),
                Some((&allocated_by, "begins it", missing)),
            );
        }
        true
    }

    fn flags<A: Copy + Into<MemoryAccess>>(
        &mut self,
        cache: &mut TransitionCache,
        actor: &Actor,
        info: &Arc<AllocationInfo>,
        runs: &[(Range<u64>, A)],
    ) {
        let Some(does) = runs
            .iter()
            .map(|(_, access)| (*access).into().flags)
            .reduce(|one, other| one | other)
        else {
            return;
        };
        if !self.lives(actor, info, verb(does)) {
            return;
        }
        let Self {
            shadows,
            histories,
            memory_orders,
            ..
        } = self;
        let Some(shadow) = shadows.get_mut(&info.number) else {
            return;
        };
        let mut conflicts = Conflicts::default();
        // Most bytes of an access have one history.
        let mut last = None;
        shadow.pages.visit(runs, &mut |old, range, access: &A| {
            let access: MemoryAccess = (*access).into();
            if let Some((known, next)) = last
                && known == (old, access)
            {
                return next;
            }
            let outcome = histories.access(cache, actor, old, access);
            if outcome.conflicts.is_empty() && !outcome.uninitialised {
                last = Some(((old, access), outcome.next));
            }
            for conflict in &outcome.conflicts {
                let entry = conflicts.by.entry(conflict.by.op);
                let (used, flags, ranges) =
                    entry.or_insert_with(|| (conflict.clone(), access.flags, Vec::new()));
                used.flags = used.flags | conflict.flags;
                *flags = *flags | access.flags;
                add(ranges, range.clone());
            }
            if outcome.uninitialised {
                add(&mut conflicts.uninitialised, range);
            }
            outcome.next
        });
        conflicts
            .by
            .retain(|_, (used, ..)| !memory_orders.order(actor, &used.by));
        self.report(actor, info, conflicts);
    }

    fn report(&mut self, actor: &Actor, info: &Arc<AllocationInfo>, conflicts: Conflicts) {
        for (used, flags, ranges) in conflicts.by.into_values() {
            let (kind, with) = match actor.kind {
                ActorKind::Operation(..) => (ReportKind::Race, ""),
                ActorKind::Host { .. } => (ReportKind::HostRace, " with the host"),
            };
            let problem = format!("{}/{} race{with} on", noun(used.flags), noun(flags));
            let mut missing = missing_edge(actor, &used.by);
            let later = || pageable_rule(actor.operation()?);
            if let Some(rule) = pageable_rule(&used.by).or_else(later) {
                missing += &format!("\n  {rule}");
            }
            self.find(
                kind,
                problem,
                Some((info, ranges)),
                (actor, verb(flags)),
                Some((&used.by, verb(used.flags), missing)),
            );
        }
        if !conflicts.uninitialised.is_empty() && self.uninitialised_reads {
            self.find(
                ReportKind::UninitialisedRead,
                "uninitialised read of".to_owned(),
                Some((info, conflicts.uninitialised)),
                (actor, "reads memory that was never written"),
                None,
            );
        }
    }

    /// Checks a copy. Uninitialised source bytes are a finding only in a copy to the host;
    /// otherwise the target bytes become uninitialised too.
    fn copy(
        &mut self,
        cache: &mut TransitionCache,
        actor: &Actor,
        from: Option<&ByteRanges>,
        to: Option<&ByteRanges>,
    ) {
        let to_host = to.is_some_and(|to| to.info.is_host_memory);
        let mut uninitialised: Vec<Range<u64>> = Vec::new();
        if let Some(from) = from {
            let access = MemoryAccess {
                passes: !to_host,
                ..MemoryAccess::from(AccessFlags::READ)
            };
            if !to_host {
                uninitialised = self.uninitialised_bytes(from);
            }
            let runs: Vec<_> = from
                .runs
                .iter()
                .map(|range| (range.clone(), access))
                .collect();
            self.flags(cache, actor, &from.info, &runs);
        }
        if let Some(to) = to {
            let runs = split_uninitialised(&to.runs, &uninitialised);
            self.flags(cache, actor, &to.info, &runs);
        }
    }

    /// Returns the uninitialised bytes, counted from the start of the copy.
    fn uninitialised_bytes(&mut self, from: &ByteRanges) -> Vec<Range<u64>> {
        self.shadow(&from.info);
        let Self {
            shadows, histories, ..
        } = self;
        let mut uninitialised = Vec::new();
        if let Some(shadow) = shadows.get_mut(&from.info.number) {
            let mut at = 0;
            let runs: Vec<_> = from.runs.iter().map(|range| (range.clone(), ())).collect();
            shadow.pages.visit(&runs, &mut |history, range, ()| {
                let bytes = range.end - range.start;
                if !histories.is_initialised(history) {
                    add(&mut uninitialised, at..at + bytes);
                }
                at += bytes;
                history
            });
        }
        uninitialised
    }

    /// Marks the allocation's bytes as uninitialised. Earlier uses may be pending: later ones must
    /// be ordered after them.
    fn empty(&mut self, cache: &mut TransitionCache, info: &Arc<AllocationInfo>) {
        self.shadow(info);
        let Self {
            shadows, histories, ..
        } = self;
        if let Some(shadow) = shadows.get_mut(&info.number)
            && shadow.freed_by.is_none()
        {
            let whole = [(0..info.bytes, ())];
            shadow
                .pages
                .visit(&whole, &mut |old, _, ()| histories.emptied(cache, old));
        }
    }

    /// Ends the allocation's lifetime. All its uses must be ordered before.
    fn end(&mut self, actor: &Actor, info: &Arc<AllocationInfo>) {
        if info.variable {
            self.shadows.remove(&info.number);
            return;
        }
        if !self.lives(actor, info, "frees it") {
            return;
        }
        self.find_users(actor, info, "free", "frees it");
        let Some(shadow) = self.shadows.get_mut(&info.number) else {
            return;
        };
        match actor.operation() {
            Some(operation) => {
                shadow.freed_by = Some(Arc::clone(operation));
                shadow.pages = Pages::new(INITIALISED, info.bytes);
                self.freed.push_back(info.number);
            }
            // The call has waited, and the address is no longer valid.
            None => {
                self.shadows.remove(&info.number);
            }
        }
        if self.freed.len() > FREED_MAX
            && let Some(oldest) = self.freed.pop_front()
        {
            self.shadows.remove(&oldest);
        }
    }

    /// Finds the uses of an allocation that are not ordered before its end.
    fn find_users(
        &mut self,
        actor: &Actor,
        info: &Arc<AllocationInfo>,
        end: &str,
        does: &'static str,
    ) {
        let Some(shadow) = self.shadows.get_mut(&info.number) else {
            return;
        };
        let mut users: BTreeMap<u64, PriorAccess> = BTreeMap::new();
        let histories = &self.histories;
        shadow.pages.each(|history| {
            for used in histories.accesses(history) {
                if !actor.is_after(&used.by) && !self.memory_orders.order(actor, &used.by) {
                    let host_clock = users.entry(used.by.op).or_insert_with(|| used.clone());
                    host_clock.flags = host_clock.flags | used.flags;
                }
            }
        });
        if !users.is_empty() {
            let mut all = Vec::new();
            shadow.pages.each(|history| {
                let accesses = histories.accesses(history).iter();
                all.extend(accesses.map(|used| Arc::clone(&used.by)));
            });
            self.proposals.users = all;
        }
        for used in users.into_values() {
            let missing = missing_edge(actor, &used.by);
            self.find(
                ReportKind::FreeInFlight,
                format!("{end} in flight of"),
                Some((info, Vec::new())),
                (actor, does),
                Some((&used.by, verb(used.flags), missing)),
            );
        }
    }

    fn find(
        &mut self,
        kind: ReportKind,
        problem: String,
        memory: Option<(&Arc<AllocationInfo>, Vec<Range<u64>>)>,
        (actor, does): (&Actor, &'static str),
        earlier: Option<(&Arc<OperationInfo>, &'static str, String)>,
    ) {
        let later = match &actor.kind {
            ActorKind::Operation(_, operation) => Party::of(operation, does),
            ActorKind::Host { call, site, .. } => Party::host(call, site.as_ref(), does),
        };
        let by = earlier.as_ref().map(|(by, ..)| Arc::clone(by));
        let (earlier, missing) = earlier
            .map(|(by, does, missing)| (Party::of(by, does), missing))
            .unzip();
        let finding = Finding {
            kind,
            severity: Severity::Error,
            problem,
            memory: memory.map(|(info, ranges)| FindingMemory::of(info, ranges)),
            later,
            earlier,
            missing,
            proposal: None,
            class: None,
        };
        // An access of the host may be checked at both its ends.
        let is_told = actor.operation().is_none()
            && self
                .findings
                .listed()
                .iter()
                .any(|reported| reported.is_the_race_of(&finding));
        if !is_told
            && let Some(index) = self.findings.add(finding)
            && let Some(by) = by
        {
            self.proposals.open.push((index, by));
        }
    }
}
