//! The history of a byte: its accesses that later ones may race with, and whether it was ever
//! written.
//!
//! Many bytes have the same history, so histories are numbered and shadow memory holds numbers. An
//! operation maps old numbers to new ones, so clocks are compared once for each history instead of
//! each byte.

use std::{collections::BTreeMap, sync::Arc};

use millstream_driver::StreamHandle;
use millstream_ptx::Site;
use smallvec::SmallVec;

use super::{
    OperationSummary,
    vector_clock::{Timestamp, VectorClock},
};
use crate::{ids::OpId, memory::AccessFlags};

pub(super) type HistoryId = u32;

/// The history of uninitialised bytes without accesses.
pub(super) const UNINITIALISED: HistoryId = 0;
/// The history of initialised bytes without accesses.
pub(super) const INITIALISED: HistoryId = 1;

#[derive(Debug)]
pub(super) struct OperationInfo {
    pub(super) op: u64,
    pub(super) slot: usize,
    /// What it is ordered after on other streams.
    pub(super) before: Arc<VectorClock>,
    pub(super) stream: StreamHandle,
    pub(super) summary: OperationSummary,
    pub(super) call: &'static str,
    pub(super) site: Option<Site>,
    /// The start of the launch, for a node of a graph.
    pub(super) launch: Option<OpId>,
}

impl OperationInfo {
    /// Returns the last operation of that stream that is this one or happens before it.
    pub(super) fn last_of(&self, slot: usize) -> u64 {
        if slot == self.slot {
            self.op
        } else {
            self.before.last_of(slot)
        }
    }

    /// Returns whether the other is this operation or happens before it.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.last_of(other.slot) >= other.op
    }
}

#[derive(Clone, Debug)]
pub(super) enum ActorKind {
    /// An operation, with its timestamp.
    Operation(Timestamp, Arc<OperationInfo>),
    /// The host, with the function and, if known, the source line.
    Host {
        call: &'static str,
        site: Option<Site>,
        /// The last operation that was enqueued before.
        last: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) kind: ActorKind,
    /// The host's clock at that time. Everything enqueued later is ordered after it.
    pub(super) host_clock: Arc<VectorClock>,
}

impl Actor {
    /// Returns whether that operation happens before this actor.
    pub(super) fn is_after(&self, operation: &OperationInfo) -> bool {
        self.last_of(operation.slot) >= operation.op
    }

    /// Returns the last operation of that stream that happens before this actor.
    pub(super) fn last_of(&self, slot: usize) -> u64 {
        match &self.kind {
            ActorKind::Operation(timestamp, _) => timestamp.last_of(slot),
            ActorKind::Host { .. } => self.host_clock.last_of(slot),
        }
    }

    /// Returns the operation's number, or for the host that of the last operation before.
    pub(super) fn number(&self) -> u64 {
        match &self.kind {
            ActorKind::Operation(_, operation) => operation.op,
            ActorKind::Host { last, .. } => *last,
        }
    }

    /// Returns the operation; `None` for the host.
    pub(super) fn operation(&self) -> Option<&Arc<OperationInfo>> {
        match &self.kind {
            ActorKind::Operation(_, operation) => Some(operation),
            ActorKind::Host { .. } => None,
        }
    }
}

/// An earlier access of one operation.
#[derive(Clone, Debug)]
pub(super) struct PriorAccess {
    pub(super) flags: AccessFlags,
    pub(super) by: Arc<OperationInfo>,
}

#[derive(Clone, Debug, Default)]
struct History {
    initialised: bool,
    /// The accesses, in the order of operation numbers.
    accesses: SmallVec<[PriorAccess; 2]>,
}

#[derive(Clone, Debug)]
pub(super) struct AccessOutcome {
    pub(super) next: HistoryId,
    /// The conflicting accesses that do not happen before this one.
    pub(super) conflicts: SmallVec<[PriorAccess; 1]>,
    /// Set if the access reads uninitialised bytes.
    pub(super) uninitialised: bool,
}

/// An access, with its effect on the initialisation of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemoryAccess {
    pub(super) flags: AccessFlags,
    /// Set for writes of uninitialised bytes, by a copy.
    pub(super) uninitialised: bool,
    /// Set for reads that only copy the bytes, initialised or not.
    pub(super) passes: bool,
}

impl From<AccessFlags> for MemoryAccess {
    fn from(flags: AccessFlags) -> Self {
        Self {
            flags,
            uninitialised: false,
            passes: false,
        }
    }
}

/// The class of a combination of access flags with respect to conflicts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConflictClass {
    Read,
    Update,
    Write,
}

fn class(flags: AccessFlags) -> ConflictClass {
    match flags {
        AccessFlags::READ => ConflictClass::Read,
        AccessFlags::UPDATE => ConflictClass::Update,
        // A plain read together with an atomic update conflicts with everything that a write does.
        _ => ConflictClass::Write,
    }
}

/// Returns whether two classes conflict: all but two reads and two atomic updates.
fn conflict(one: AccessFlags, other: AccessFlags) -> bool {
    let (one, other) = (class(one), class(other));
    one == ConflictClass::Write || one != other
}

/// Returns whether everything that conflicts with `earlier` conflicts with `later` too.
fn hides(later: AccessFlags, earlier: AccessFlags) -> bool {
    class(later) == ConflictClass::Write || class(later) == class(earlier)
}

#[derive(Debug)]
pub(super) struct Histories {
    all: Vec<History>,
    /// The number of histories above which unused ones are removed.
    full: usize,
}

/// The number of histories before unused ones are removed for the first time.
const FULL_MIN: usize = 1 << 12;

impl Default for Histories {
    fn default() -> Self {
        let initialised = History {
            initialised: true,
            ..History::default()
        };
        Self {
            all: vec![History::default(), initialised],
            full: FULL_MIN,
        }
    }
}

/// The histories that one actor has created, by contents.
type HistoryIndex = BTreeMap<(bool, Vec<(u64, AccessFlags)>), HistoryId>;

/// The transitions between histories that one actor's accesses have made so far.
#[derive(Debug, Default)]
pub(super) struct TransitionCache {
    outcomes: BTreeMap<(HistoryId, MemoryAccess), AccessOutcome>,
    histories: HistoryIndex,
}

impl Histories {
    /// Returns the outcome of the actor's access to bytes of history `old`.
    pub(super) fn access<'m>(
        &mut self,
        cache: &'m mut TransitionCache,
        actor: &Actor,
        old: HistoryId,
        access: MemoryAccess,
    ) -> &'m AccessOutcome {
        cache
            .outcomes
            .entry((old, access))
            .or_insert_with(|| self.judge(&mut cache.histories, actor, old, access))
    }

    fn judge(
        &mut self,
        cache: &mut HistoryIndex,
        actor: &Actor,
        old: HistoryId,
        access: MemoryAccess,
    ) -> AccessOutcome {
        let flags = access.flags.accesses();
        let own = actor.operation();
        let history = &self.all[old as usize];
        // What an operation updates after it has written it, or reads after a strong store, holds
        // its own value.
        let reads = flags.has(AccessFlags::READ) || !flags.has(AccessFlags::WRITE);
        let reads = reads && !access.passes && flags == access.flags;
        let uninitialised = reads && !history.initialised;
        let mut conflicts = SmallVec::new();
        let mut next = History {
            // A read of uninitialised bytes is reported once.
            initialised: match class(flags) {
                ConflictClass::Read => history.initialised || uninitialised,
                _ => !access.uninitialised,
            },
            accesses: SmallVec::new(),
        };
        let mut flags = flags;
        for earlier in &history.accesses {
            if own.is_some_and(|own| own.op == earlier.by.op) {
                flags = flags | earlier.flags;
                continue;
            }
            let ordered = actor.is_after(&earlier.by);
            if !ordered && conflict(flags, earlier.flags) {
                conflicts.push(earlier.clone());
            }
            let settled = actor.host_clock.last_of(earlier.by.slot) >= earlier.by.op;
            let hidden = ordered && own.is_some() && hides(flags, earlier.flags);
            if !settled && !hidden {
                next.accesses.push(earlier.clone());
            }
        }
        if let Some(own) = own {
            next.accesses.push(PriorAccess {
                flags,
                by: Arc::clone(own),
            });
        }
        next.accesses.sort_by_key(|used| used.by.op);
        if own.is_none()
            && next.initialised == history.initialised
            && next.accesses.len() == history.accesses.len()
        {
            return AccessOutcome {
                next: old,
                conflicts,
                uninitialised,
            };
        }
        AccessOutcome {
            next: self.number(cache, next),
            conflicts,
            uninitialised,
        }
    }

    /// Returns history `old` with the bytes uninitialised.
    pub(super) fn emptied(&mut self, cache: &mut TransitionCache, old: HistoryId) -> HistoryId {
        let mut history = self.all[old as usize].clone();
        history.initialised = false;
        self.number(&mut cache.histories, history)
    }

    /// Returns the number of a history that the actor creates.
    fn number(&mut self, cache: &mut HistoryIndex, history: History) -> HistoryId {
        if history.accesses.is_empty() {
            return if history.initialised {
                INITIALISED
            } else {
                UNINITIALISED
            };
        }
        let accesses = history.accesses.iter().map(|used| (used.by.op, used.flags));
        let key = (history.initialised, accesses.collect());
        *cache.entry(key).or_insert_with(|| {
            self.all.push(history);
            HistoryId::try_from(self.all.len() - 1).expect("histories are cleared out long before")
        })
    }

    pub(super) fn is_initialised(&self, history: HistoryId) -> bool {
        self.all[history as usize].initialised
    }

    pub(super) fn accesses(&self, history: HistoryId) -> &[PriorAccess] {
        &self.all[history as usize].accesses
    }

    /// Returns whether unused histories should be removed.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= self.full
    }

    /// Removes all histories except those that `visit` passes to its argument, and renumbers the
    /// rest.
    pub(super) fn clear_out(&mut self, mut visit: impl FnMut(&mut dyn FnMut(&mut HistoryId))) {
        let mut histories = self.all[..2].to_vec();
        let mut renumbered: Vec<Option<HistoryId>> = vec![None; self.all.len()];
        renumbered[UNINITIALISED as usize] = Some(UNINITIALISED);
        renumbered[INITIALISED as usize] = Some(INITIALISED);
        visit(&mut |id| {
            let new = &mut renumbered[*id as usize];
            *id = *new.get_or_insert_with(|| {
                histories.push(std::mem::take(&mut self.all[*id as usize]));
                histories.len() as HistoryId - 1
            });
        });
        self.all = histories;
        self.full = (self.all.len() * 2).max(FULL_MIN);
    }
}
