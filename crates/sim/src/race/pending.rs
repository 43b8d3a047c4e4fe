//! Pending checks, in the order of enqueueing, independent of the order of execution.

use std::{collections::VecDeque, mem};

use super::{effect::Effect, history::Actor};
use crate::ids::OpId;

/// The number of entries that may wait behind an operation that has not run. Beyond it, entries
/// that have run are checked ahead of it: still by clocks, but accesses that are complete by then
/// are no longer compared with that operation.
const WAITING_MAX: usize = 1 << 14;

/// An operation that accesses memory, or an access of the host.
#[derive(Debug)]
struct PendingCheck {
    op: Option<OpId>,
    /// The operation's number; for the host, the number of the entry before.
    key: u64,
    actor: Actor,
    effects: Vec<Effect>,
    ran: bool,
}

/// The entries, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingChecks {
    checks: VecDeque<PendingCheck>,
    /// The number of entries that have run.
    ran: usize,
    last_key: u64,
}

impl PendingChecks {
    /// Adds an operation that will run.
    pub(super) fn push_operation(&mut self, op: OpId, actor: Actor) {
        self.last_key = op.0;
        self.checks.push_back(PendingCheck {
            op: Some(op),
            key: op.0,
            actor,
            effects: Vec::new(),
            ran: false,
        });
    }

    /// Adds an access of the host, made now.
    pub(super) fn push_host(&mut self, actor: Actor, effects: Vec<Effect>) {
        self.ran += 1;
        self.checks.push_back(PendingCheck {
            op: None,
            key: self.last_key,
            actor,
            effects,
            ran: true,
        });
    }

    fn check(&mut self, op: OpId) -> Option<&mut PendingCheck> {
        // Operations are enqueued in the order of their numbers.
        let at = self.checks.partition_point(|check| check.key < op.0);
        let same = self
            .checks
            .range_mut(at..)
            .take_while(|check| check.key == op.0);
        same.into_iter().find(|check| check.op == Some(op))
    }

    /// Returns the entry of an operation that accesses memory and is not checked yet.
    pub(super) fn actor(&mut self, op: OpId) -> Option<&Actor> {
        self.check(op).map(|check| &check.actor)
    }

    /// Adds effects of the operation. With `over`, these are the last.
    pub(super) fn note(&mut self, op: OpId, effects: Vec<Effect>, over: bool) {
        if let Some(check) = self.check(op) {
            check.effects.extend(effects);
            if over && !mem::replace(&mut check.ran, true) {
                self.ran += 1;
            }
        }
    }

    /// Takes the next entry to check.
    pub(super) fn next(&mut self) -> Option<(Actor, Vec<Effect>)> {
        let at = if self.checks.front()?.ran {
            0
        } else if self.ran > WAITING_MAX {
            self.checks.iter().position(|check| check.ran)?
        } else {
            return None;
        };
        self.ran -= 1;
        let check = self.checks.remove(at)?;
        Some((check.actor, check.effects))
    }
}
