//! What is remembered of a byte: who used it and is not known to be done with it, and whether it
//! was ever written.
//!
//! Many bytes have the same history, so histories are numbered, and bytes hold numbers. An
//! operation maps old numbers to new ones: the comparison of clocks is made once for each history,
//! not for each byte.

use std::{collections::BTreeMap, sync::Arc};

use millstream_driver::StreamHandle;
use millstream_ptx::Site;
use smallvec::SmallVec;

use super::{
    OperationSummary,
    vector_clock::{Timestamp, VectorClock},
};
use crate::memory::AccessFlags;

/// A history's number.
pub(super) type HistoryId = u32;

/// Bytes that nobody has used yet, and that hold nothing.
pub(super) const UNINITIALISED: HistoryId = 0;
/// Bytes that nobody has used yet, and that hold something.
pub(super) const INITIALISED: HistoryId = 1;

/// An operation, for findings.
#[derive(Debug)]
pub(super) struct OperationInfo {
    pub(super) op: u64,
    pub(super) slot: usize,
    pub(super) stream: StreamHandle,
    pub(super) summary: OperationSummary,
    pub(super) call: &'static str,
    pub(super) site: Option<Site>,
}

/// Who touches bytes.
#[derive(Clone, Debug)]
pub(super) enum ActorKind {
    /// An operation, with its place in the order.
    Operation(Timestamp, Arc<OperationInfo>),
    /// The host, by this function and, if it is known, this line.
    Host(&'static str, Option<Site>),
}

/// Who touches bytes, and what the host knew.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) kind: ActorKind,
    /// What the host had seen complete by then. All that is enqueued later is ordered after that.
    pub(super) host_clock: Arc<VectorClock>,
}

impl Actor {
    /// Whether this comes after that operation.
    pub(super) fn is_after(&self, operation: &OperationInfo) -> bool {
        self.last_of(operation.slot) >= operation.op
    }

    /// The last operation of that stream which this comes after.
    pub(super) fn last_of(&self, slot: usize) -> u64 {
        match &self.kind {
            ActorKind::Operation(timestamp, _) => timestamp.last_of(slot),
            ActorKind::Host(..) => self.host_clock.last_of(slot),
        }
    }

    /// The operation; `None` for the host.
    pub(super) fn operation(&self) -> Option<&Arc<OperationInfo>> {
        match &self.kind {
            ActorKind::Operation(_, operation) => Some(operation),
            ActorKind::Host(..) => None,
        }
    }
}

/// How one operation used bytes.
#[derive(Clone, Debug)]
pub(super) struct PriorAccess {
    pub(super) flags: AccessFlags,
    pub(super) by: Arc<OperationInfo>,
}

#[derive(Clone, Debug, Default)]
struct History {
    initialised: bool,
    /// By rising operation number.
    accesses: SmallVec<[PriorAccess; 2]>,
}

/// What an access comes to for bytes of one history.
#[derive(Clone, Debug)]
pub(super) struct AccessOutcome {
    pub(super) next: HistoryId,
    /// The uses that the access is not ordered with, though one of the two writes.
    pub(super) conflicts: SmallVec<[PriorAccess; 1]>,
    /// The access reads bytes that nobody ever wrote.
    pub(super) uninitialised: bool,
}

/// How bytes are accessed, and what they hold afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemoryAccess {
    pub(super) flags: AccessFlags,
    /// What is written holds nothing: a copy of bytes that nobody wrote.
    pub(super) uninitialised: bool,
    /// A read that only passes the bytes on, whatever they hold.
    pub(super) passes: bool,
}

impl MemoryAccess {
    pub(super) fn of(flags: AccessFlags) -> Self {
        Self {
            flags,
            uninitialised: false,
            passes: false,
        }
    }
}

/// What a combination of ways amounts to for others.
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
        // Reading plainly what one updates atomically is in conflict with everything that a write
        // is.
        _ => ConflictClass::Write,
    }
}

/// Reads run together, and so do atomic updates.
fn conflict(one: AccessFlags, other: AccessFlags) -> bool {
    let (one, other) = (class(one), class(other));
    one == ConflictClass::Write || one != other
}

/// Whether whatever conflicts with `earlier` conflicts with `later` too.
fn hides(later: AccessFlags, earlier: AccessFlags) -> bool {
    class(later) == ConflictClass::Write || class(later) == class(earlier)
}

/// All histories.
#[derive(Debug)]
pub(super) struct Histories {
    all: Vec<History>,
    /// How many there may be before those that no byte has are forgotten.
    full: usize,
}

/// Histories before the first clearing out.
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

/// Histories that one actor has made, by what is in them.
type HistoryIndex = BTreeMap<(bool, Vec<(u64, AccessFlags)>), HistoryId>;

/// The histories that one actor's accesses have made so far.
#[derive(Debug, Default)]
pub(super) struct TransitionCache {
    outcomes: BTreeMap<(HistoryId, MemoryAccess), AccessOutcome>,
    histories: HistoryIndex,
}

impl Histories {
    /// What the actor's access comes to for bytes of history `old`.
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
        let MemoryAccess { flags, .. } = access;
        let own = actor.operation();
        let history = &self.all[old as usize];
        let reads = flags != AccessFlags::WRITE && !access.passes;
        let uninitialised = reads && !history.initialised;
        let mut conflicts = SmallVec::new();
        let mut next = History {
            // What was read is told once.
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

    /// What becomes of history `old` if the bytes hold nothing any more.
    pub(super) fn emptied(&mut self, cache: &mut TransitionCache, old: HistoryId) -> HistoryId {
        let mut history = self.all[old as usize].clone();
        history.initialised = false;
        self.number(&mut cache.histories, history)
    }

    /// The number of a history that the actor makes.
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

    /// Whether bytes of this history hold something.
    pub(super) fn is_initialised(&self, history: HistoryId) -> bool {
        self.all[history as usize].initialised
    }

    /// Who used bytes of this history.
    pub(super) fn accesses(&self, history: HistoryId) -> &[PriorAccess] {
        &self.all[history as usize].accesses
    }

    /// Whether it is time to forget the histories that no byte has.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= self.full
    }

    /// Forgets all histories but those that `visit` shows to the function it is given, and
    /// renumbers them.
    pub(super) fn clear_out(&mut self, mut visit: impl FnMut(&mut dyn FnMut(&mut HistoryId))) {
        let mut kept = self.all[..2].to_vec();
        let mut renumbered: Vec<Option<HistoryId>> = vec![None; self.all.len()];
        renumbered[UNINITIALISED as usize] = Some(UNINITIALISED);
        renumbered[INITIALISED as usize] = Some(INITIALISED);
        visit(&mut |id| {
            let new = &mut renumbered[*id as usize];
            *id = *new.get_or_insert_with(|| {
                kept.push(std::mem::take(&mut self.all[*id as usize]));
                kept.len() as HistoryId - 1
            });
        });
        self.all = kept;
        self.full = (self.all.len() * 2).max(FULL_MIN);
    }
}
