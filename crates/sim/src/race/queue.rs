//! What is still to be judged, in the order in which it was enqueued, whenever it runs.

use std::{collections::VecDeque, mem};

use super::{effect::Effect, state::Actor};
use crate::ids::OpId;

/// How much may wait behind an operation that has not run. Then what has run is judged ahead of it:
/// still by clocks, but what is known to be over by then is no longer compared with that operation.
const WAITING_MAX: usize = 1 << 14;

/// One operation that touches memory, or one access of the host.
#[derive(Debug)]
struct Entry {
    op: Option<OpId>,
    /// The operation's number; for the host, that of the entry before.
    key: u64,
    actor: Actor,
    effects: Vec<Effect>,
    ran: bool,
}

/// The entries, oldest first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: VecDeque<Entry>,
    /// How many of the entries have run.
    ran: usize,
    last_key: u64,
}

impl Queue {
    /// An operation that will run.
    pub(super) fn push_operation(&mut self, op: OpId, actor: Actor) {
        self.last_key = op.0;
        self.entries.push_back(Entry {
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
        self.entries.push_back(Entry {
            op: None,
            key: self.last_key,
            actor,
            effects,
            ran: true,
        });
    }

    fn entry(&mut self, op: OpId) -> Option<&mut Entry> {
        // Operations are enqueued in the order of their numbers.
        let at = self.entries.partition_point(|entry| entry.key < op.0);
        let same = self
            .entries
            .range_mut(at..)
            .take_while(|entry| entry.key == op.0);
        same.into_iter().find(|entry| entry.op == Some(op))
    }

    /// The operation as one that touches memory, if it has not been judged.
    pub(super) fn actor(&mut self, op: OpId) -> Option<&Actor> {
        self.entry(op).map(|entry| &entry.actor)
    }

    /// Adds to what the operation did; with `over` it does no more.
    pub(super) fn note(&mut self, op: OpId, effects: Vec<Effect>, over: bool) {
        if let Some(entry) = self.entry(op) {
            entry.effects.extend(effects);
            if over && !mem::replace(&mut entry.ran, true) {
                self.ran += 1;
            }
        }
    }

    /// Takes the next thing to judge.
    pub(super) fn next(&mut self) -> Option<(Actor, Vec<Effect>)> {
        let at = if self.entries.front()?.ran {
            0
        } else if self.ran > WAITING_MAX {
            self.entries.iter().position(|entry| entry.ran)?
        } else {
            return None;
        };
        self.ran -= 1;
        let entry = self.entries.remove(at)?;
        Some((entry.actor, entry.effects))
    }
}
