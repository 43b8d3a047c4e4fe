//! Observation order (PTX ISA, 8.9.2): the strong accesses of a word, each with the writes whose
//! values it has read through a chain of atomics.
//!
//! A write that precedes an access in observation order precedes everything behind that access in
//! causality order (8.9.5), although nothing before the write does: a thread that has taken the
//! last ticket may reset the counter by a plain store. Only accesses to the same word can race with
//! the write, so that each word has a log of its strong accesses, which is consulted before a race
//! with one of them is reported.
//!
//! Two deviations. Causality order is not transitive behind an observation, but the check forgets a
//! strong access when a strong write of the same word follows it: an access behind an observation
//! of that write does not race with either. And a log is finite: of the accesses to a word that are
//! in no other order, the oldest count as observed if all of them were a single chain.

use std::collections::VecDeque;

use super::access_record::{AccessKind, AccessRecord};
use super::block_threads::BlockThreads;
use crate::exec::registers::lanes;

/// The maximum number of accesses in a log.
const ACCESSES_MAX: usize = 64;

/// A strong access of some lanes, executed in the order of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StrongEvent {
    block: u64,
    warp: u32,
    lanes: u32,
    epoch: u32,
    read: bool,
    write: bool,
    block_only: bool,
    /// True if the access reads the value of the write before it, which is morally strong with it.
    observes: bool,
}

impl StrongEvent {
    /// Returns whether the write begins a chain.
    fn begins(&self) -> bool {
        self.write && !(self.read && self.observes)
    }
}

/// The last strong accesses of a word.
#[derive(Debug, Default)]
pub(super) struct ObservationLog {
    events: VecDeque<StrongEvent>,
    /// The last write, unless a weak one followed it.
    last: Option<StrongEvent>,
    /// True if the log has dropped accesses of more than one chain.
    broken: bool,
    /// True if the log has dropped accesses.
    dropped: bool,
}

impl ObservationLog {
    /// Adds a strong access.
    pub(super) fn add(&mut self, by: &AccessRecord) {
        let AccessKind {
            read,
            write,
            block_only,
            ..
        } = by.kind;
        let morally_strong =
            |last: StrongEvent| last.block == by.block || !(last.block_only || block_only);
        let event = StrongEvent {
            block: by.block,
            warp: by.warp,
            lanes: by.lanes,
            epoch: by.epoch,
            read,
            write,
            block_only,
            observes: read && self.last.is_some_and(morally_strong),
        };
        if write {
            self.last = Some(event);
        } else if self.events.back() == Some(&event) {
            return;
        }
        if self.events.len() >= ACCESSES_MAX {
            let first = self.events.pop_front();
            self.broken |= self.dropped && first.is_some_and(|first| first.begins());
            self.dropped = true;
        }
        self.events.push_back(event);
    }

    /// Records a weak write: later reads observe no strong one.
    pub(super) fn overwrite(&mut self) {
        self.last = None;
    }

    /// Returns the lanes of a write that precede, in observation order, an access that happens
    /// before the next one of a thread of the block.
    pub(super) fn observed(
        &self,
        write: &AccessRecord,
        threads: &BlockThreads,
        thread: usize,
    ) -> u32 {
        lanes(write.lanes)
            .filter(|lane| self.is_observed(write, *lane, threads, thread))
            .fold(0, |observed, lane| observed | 1 << lane)
    }

    fn is_observed(
        &self,
        write: &AccessRecord,
        lane: usize,
        threads: &BlockThreads,
        thread: usize,
    ) -> bool {
        let is_write = |event: &StrongEvent| {
            (event.block, event.warp, event.epoch) == (write.block, write.warp, write.epoch)
                && event.write
                && event.lanes >> lane & 1 == 1
        };
        let precedes = |event: &StrongEvent, of: u32| {
            let StrongEvent {
                block, warp, epoch, ..
            } = *event;
            let by = AccessRecord {
                block,
                warp,
                epoch,
                ..*write
            };
            lanes(event.lanes & of).any(|lane| threads.happens_before(&by, lane, thread))
        };
        let mut rest = 0;
        match self.events.iter().rposition(is_write) {
            Some(at) => {
                // Each lane of an instruction overwrites or, if it reads, observes those before it.
                let event = &self.events[at];
                let behind = event.lanes & !0 << lane << 1;
                if behind != 0 && (!event.read || precedes(event, behind)) {
                    return event.read;
                }
                rest = at + 1;
            }
            None if self.dropped && !self.broken => {}
            None => return false,
        }
        let behind = self.events.iter().skip(rest);
        let mut chain = behind.take_while(|event| !event.begins());
        chain.any(|event| event.observes && precedes(event, !0))
    }
}
