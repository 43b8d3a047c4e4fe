//! What is still to be judged, in the order in which it was enqueued, whenever it runs.

use std::{collections::VecDeque, mem};

use super::{effect::Effect, history::Actor};
use crate::ids::OpId;

/// How much may wait behind an operation that has not run. Then what has run is judged ahead of it:
/// still by clocks, but what is known to be over by then is no longer compared with that operation.
const WAITING_MAX: usize = 1 << 14;

/// One operation that touches memory, or one access of the host.
#[derive(Debug)]
struct PendingCheck {
    op: Option<OpId>,
    /// The operation's number; for the host, that of the entry before.
    key: u64,
    actor: Actor,
    effects: Vec<Effect>,
    ran: bool,
}

/// The entries, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingChecks {
    checks: VecDeque<PendingCheck>,
    /// How many of the entries have run.
    ran: usize,
    last_key: u64,
}

impl PendingChecks {
    /// An operation that will run.
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

    /// Something that the host did now.
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

    /// The operation as one that touches memory, if it has not been judged.
    pub(super) fn actor(&mut self, op: OpId) -> Option<&Actor> {
        self.check(op).map(|check| &check.actor)
    }

    /// Adds to what the operation did; with `over` it does no more.
    pub(super) fn note(&mut self, op: OpId, effects: Vec<Effect>, over: bool) {
        if let Some(check) = self.check(op) {
            check.effects.extend(effects);
            if over && !mem::replace(&mut check.ran, true) {
                self.ran += 1;
            }
        }
    }

    /// Takes the next thing to judge.
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
