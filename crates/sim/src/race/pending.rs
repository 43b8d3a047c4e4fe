//! Pending checks, in the order of enqueueing, independent of the order of execution.

use std::collections::{BTreeMap, BTreeSet};

use super::{effect::Effect, history::Actor, through_memory::MemoryOrders};
use crate::ids::OpId;

/// The number of entries that may wait behind an operation that has not run. Beyond it, entries
/// that have run are checked ahead of it: still by clocks, but accesses that are complete by then
/// are no longer compared with that operation.
const WAITING_MAX: usize = 1 << 14;

/// An operation that accesses memory, or an access of the host.
#[derive(Debug)]
struct PendingCheck {
    actor: Actor,
    effects: Vec<Effect>,
}

/// The place of an entry: the number of an operation and 0, or for an access of the host the last
/// operation's number and a counter.
type Place = (u64, u64);

/// The entries, in the order of their places.
#[derive(Debug, Default)]
pub(super) struct PendingChecks {
    checks: BTreeMap<Place, PendingCheck>,
    /// The places of the entries that have run.
    ran: BTreeSet<Place>,
    last: Place,
}

impl PendingChecks {
    /// Adds an operation that will run.
    pub(super) fn push_operation(&mut self, op: OpId, actor: Actor) {
        self.last = (op.0, 0);
        let effects = Vec::new();
        self.checks
            .insert(self.last, PendingCheck { actor, effects });
    }

    /// Adds an access of the host, made now.
    pub(super) fn push_host(&mut self, actor: Actor, effects: Vec<Effect>) {
        self.last.1 += 1;
        self.ran.insert(self.last);
        self.checks
            .insert(self.last, PendingCheck { actor, effects });
    }

    /// Returns the number of the last operation.
    pub(super) fn last_operation(&self) -> u64 {
        self.last.0
    }

    /// Returns the entry of an operation that accesses memory and is not checked yet.
    pub(super) fn actor(&self, op: OpId) -> Option<&Actor> {
        self.checks.get(&(op.0, 0)).map(|check| &check.actor)
    }

    /// Adds effects of the operation. With `over`, these are the last.
    pub(super) fn note(&mut self, op: OpId, effects: Vec<Effect>, over: bool) {
        let place = (op.0, 0);
        if let Some(check) = self.checks.get_mut(&place) {
            check.effects.extend(effects);
            if over {
                self.ran.insert(place);
            }
        }
    }

    pub(super) fn next(&mut self, orders: &MemoryOrders) -> Option<(Actor, Vec<Effect>)> {
        let is_pending = |op| self.checks.contains_key(&(op, 0));
        let mut first = self.checks.iter();
        let first = first.find(|(_, check)| !orders.comes_later(&check.actor, is_pending));
        let first = first.or_else(|| self.checks.first_key_value())?.0;
        let place = match self.ran.contains(first) {
            true => *first,
            false if self.ran.len() <= WAITING_MAX => return None,
            false => *self.ran.first()?,
        };
        self.ran.remove(&place);
        let check = self.checks.remove(&place)?;
        Some((check.actor, check.effects))
    }
}
