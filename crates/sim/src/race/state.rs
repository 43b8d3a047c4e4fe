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
    Word,
    clock::{Clock, Point},
};
use crate::memory::Touch;

/// A history's number.
pub(super) type StateId = u32;

/// Bytes that nobody has used yet, and that hold nothing.
pub(super) const BLANK: StateId = 0;
/// Bytes that nobody has used yet, and that hold something.
pub(super) const FILLED: StateId = 1;

/// An operation, for findings.
#[derive(Debug)]
pub(super) struct Deed {
    pub(super) op: u64,
    pub(super) slot: usize,
    pub(super) stream: StreamHandle,
    pub(super) word: Word,
    pub(super) call: &'static str,
    pub(super) site: Option<Site>,
}

/// Who touches bytes.
#[derive(Clone, Debug)]
pub(super) enum Who {
    /// An operation, with its place in the order.
    Operation(Point, Arc<Deed>),
    /// The host, by this function and, if it is known, this line.
    Host(&'static str, Option<Site>),
}

/// Who touches bytes, and what the host knew.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) who: Who,
    /// What the host had seen complete by then. All that is enqueued later is ordered after that.
    pub(super) known: Arc<Clock>,
}

impl Actor {
    /// Whether this comes after that operation.
    pub(super) fn is_after(&self, deed: &Deed) -> bool {
        self.last_of(deed.slot) >= deed.op
    }

    /// The last operation of that stream which this comes after.
    pub(super) fn last_of(&self, slot: usize) -> u64 {
        match &self.who {
            Who::Operation(point, _) => point.last_of(slot),
            Who::Host(..) => self.known.last_of(slot),
        }
    }

    /// The operation; `None` for the host.
    pub(super) fn deed(&self) -> Option<&Arc<Deed>> {
        match &self.who {
            Who::Operation(_, deed) => Some(deed),
            Who::Host(..) => None,
        }
    }
}

/// How one operation used bytes.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) touch: Touch,
    pub(super) by: Arc<Deed>,
}

#[derive(Clone, Debug, Default)]
struct State {
    filled: bool,
    /// By rising operation number.
    uses: SmallVec<[Use; 2]>,
}

/// What an access comes to for bytes of one history.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) next: StateId,
    /// The uses that the access is not ordered with, though one of the two writes.
    pub(super) conflicts: SmallVec<[Use; 1]>,
    /// The access reads bytes that nobody ever wrote.
    pub(super) blank: bool,
}

/// How bytes are accessed, and what they hold afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Access {
    pub(super) touch: Touch,
    /// What is written holds nothing: a copy of bytes that nobody wrote.
    pub(super) blank: bool,
    /// A read that only passes the bytes on, whatever they hold.
    pub(super) passes: bool,
}

impl Access {
    pub(super) fn of(touch: Touch) -> Self {
        Self {
            touch,
            blank: false,
            passes: false,
        }
    }
}

/// What a combination of ways amounts to for others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Read,
    Update,
    Write,
}

fn class(touch: Touch) -> Class {
    match touch {
        Touch::READ => Class::Read,
        Touch::UPDATE => Class::Update,
        // Reading plainly what one updates atomically is in conflict with everything that a write
        // is.
        _ => Class::Write,
    }
}

/// Reads run together, and so do atomic updates.
fn conflict(one: Touch, other: Touch) -> bool {
    let (one, other) = (class(one), class(other));
    one == Class::Write || one != other
}

/// Whether whatever conflicts with `earlier` conflicts with `later` too.
fn hides(later: Touch, earlier: Touch) -> bool {
    class(later) == Class::Write || class(later) == class(earlier)
}

/// All histories.
#[derive(Debug)]
pub(super) struct States {
    all: Vec<State>,
    /// How many there may be before those that no byte has are forgotten.
    full: usize,
}

/// Histories before the first clearing out.
const FULL_MIN: usize = 1 << 12;

impl Default for States {
    fn default() -> Self {
        let filled = State {
            filled: true,
            ..State::default()
        };
        Self {
            all: vec![State::default(), filled],
            full: FULL_MIN,
        }
    }
}

/// Histories that one actor has made, by what is in them.
type New = BTreeMap<(bool, Vec<(u64, Touch)>), StateId>;

/// The histories that one actor's accesses have made so far.
#[derive(Debug, Default)]
pub(super) struct Made {
    outcomes: BTreeMap<(StateId, Access), Outcome>,
    states: New,
}

impl States {
    /// What the actor's access comes to for bytes of history `old`.
    pub(super) fn access<'m>(
        &mut self,
        made: &'m mut Made,
        actor: &Actor,
        old: StateId,
        access: Access,
    ) -> &'m Outcome {
        made.outcomes
            .entry((old, access))
            .or_insert_with(|| self.judge(&mut made.states, actor, old, access))
    }

    fn judge(&mut self, made: &mut New, actor: &Actor, old: StateId, access: Access) -> Outcome {
        let Access { touch, .. } = access;
        let own = actor.deed();
        let state = &self.all[old as usize];
        let reads = touch != Touch::WRITE && !access.passes;
        let blank = reads && !state.filled;
        let mut conflicts = SmallVec::new();
        let mut next = State {
            // What was read is told once.
            filled: match class(touch) {
                Class::Read => state.filled || blank,
                _ => !access.blank,
            },
            uses: SmallVec::new(),
        };
        let mut touch = touch;
        for earlier in &state.uses {
            if own.is_some_and(|own| own.op == earlier.by.op) {
                touch = touch | earlier.touch;
                continue;
            }
            let ordered = actor.is_after(&earlier.by);
            if !ordered && conflict(touch, earlier.touch) {
                conflicts.push(earlier.clone());
            }
            let settled = actor.known.last_of(earlier.by.slot) >= earlier.by.op;
            let hidden = ordered && own.is_some() && hides(touch, earlier.touch);
            if !settled && !hidden {
                next.uses.push(earlier.clone());
            }
        }
        if let Some(own) = own {
            next.uses.push(Use {
                touch,
                by: Arc::clone(own),
            });
        }
        next.uses.sort_by_key(|used| used.by.op);
        if own.is_none() && next.filled == state.filled && next.uses.len() == state.uses.len() {
            return Outcome {
                next: old,
                conflicts,
                blank,
            };
        }
        Outcome {
            next: self.number(made, next),
            conflicts,
            blank,
        }
    }

    /// What becomes of history `old` if the bytes hold nothing any more.
    pub(super) fn emptied(&mut self, made: &mut Made, old: StateId) -> StateId {
        let mut state = self.all[old as usize].clone();
        state.filled = false;
        self.number(&mut made.states, state)
    }

    /// The number of a history that the actor makes.
    fn number(&mut self, made: &mut New, state: State) -> StateId {
        if state.uses.is_empty() {
            return if state.filled { FILLED } else { BLANK };
        }
        let uses = state.uses.iter().map(|used| (used.by.op, used.touch));
        let key = (state.filled, uses.collect());
        *made.entry(key).or_insert_with(|| {
            self.all.push(state);
            StateId::try_from(self.all.len() - 1).expect("histories are cleared out long before")
        })
    }

    /// Whether bytes of this history hold something.
    pub(super) fn is_filled(&self, state: StateId) -> bool {
        self.all[state as usize].filled
    }

    /// Who used bytes of this history.
    pub(super) fn uses(&self, state: StateId) -> &[Use] {
        &self.all[state as usize].uses
    }

    /// Whether it is time to forget the histories that no byte has.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= self.full
    }

    /// Forgets all histories but those that `visit` shows to the function it is given, and
    /// renumbers them.
    pub(super) fn clear_out(&mut self, mut visit: impl FnMut(&mut dyn FnMut(&mut StateId))) {
        let mut kept = self.all[..2].to_vec();
        let mut renumbered: Vec<Option<StateId>> = vec![None; self.all.len()];
        renumbered[BLANK as usize] = Some(BLANK);
        renumbered[FILLED as usize] = Some(FILLED);
        visit(&mut |id| {
            let new = &mut renumbered[*id as usize];
            *id = *new.get_or_insert_with(|| {
                kept.push(std::mem::take(&mut self.all[*id as usize]));
                kept.len() as StateId - 1
            });
        });
        self.all = kept;
        self.full = (self.all.len() * 2).max(FULL_MIN);
    }
}
