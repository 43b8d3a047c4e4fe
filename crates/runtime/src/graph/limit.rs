//! Loops that ended at their limit: noted by the device in a word of host memory, and reported by
//! the next host read of what the graph has written.
//!
//! The device cannot return an error. The arrays that a graph with loops writes therefore remember
//! the graph ([`Import`]), and so does everything computed from them, until the last replay is
//! known to be complete without such a note. A host read looks at the word after the data has
//! arrived.

#![allow(unsafe_code, reason = "reads a word that kernels write")]

use std::{
    panic::Location,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use millstream_driver::DevicePtr;
use parking_lot::Mutex;

use crate::{
    Error, Pinned, Result,
    context::{DeviceState, ExaminedOperands, StreamState, poll_ticket, retain_patiently},
    tracker::{DeviceNumber, GroupNumber, Import, Sequence, Ticket},
};

/// A loop of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopSite {
    pub(super) iterations_max: u32,
    pub(super) location: &'static Location<'static>,
}

/// The note of a graph that one of its loops ended at its limit.
pub(super) struct LoopLimit {
    device: Arc<DeviceState>,
    number: [DeviceNumber; 1],
    graph: &'static str,
    /// The loops; the word holds the number of one of them, from 1, or 0.
    loops: Vec<LoopSite>,
    /// No access of a replay: its access history would remember this, of which it is a part.
    word: Pinned<u32>,
    /// Different from that of every other import, so that none replaces this one.
    group: GroupNumber,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last replay.
    last: Option<(Arc<StreamState>, Sequence)>,
    /// Set while it is not known that all replays are complete and no limit was reached.
    examined: Option<ExaminedOperands>,
    /// True while the reactor watches the last replay.
    is_watched: bool,
}

impl LoopLimit {
    pub(super) fn new(
        device: &Arc<DeviceState>,
        graph: &'static str,
        loops: Vec<LoopSite>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            device: Arc::clone(device),
            number: [device.number()],
            graph,
            loops,
            word: Pinned::zeroed(device, 1, Location::caller())?,
            group: GroupNumber::new(),
            state: Mutex::default(),
        }))
    }

    pub(super) fn loops(&self) -> &[LoopSite] {
        &self.loops
    }

    /// Returns the address of the word for kernels.
    pub(super) fn pointer(&self) -> DevicePtr {
        DevicePtr::from_raw(self.word.span().pointer.addr() as u64)
    }

    /// Notes a limit that the host has found reached.
    pub(super) fn set(&self, number: u32) {
        self.word().store(number, Ordering::Release);
    }

    /// Notes a submitted replay.
    pub(super) fn note_replay(self: &Arc<Self>, stream: &Arc<StreamState>, sequence: Sequence) {
        let examined = ExaminedOperands::begin();
        let mut state = self.state.lock();
        state.last = Some((Arc::clone(stream), sequence));
        // Dropped without the lock, because its drop takes others.
        let surplus = state.examined.replace(examined);
        let is_watched = std::mem::replace(&mut state.is_watched, true);
        drop(state);
        drop(surplus);
        if !is_watched {
            self.watch(stream, sequence);
        }
    }

    /// Examines the replay once it is complete.
    fn watch(self: &Arc<Self>, stream: &Arc<StreamState>, sequence: Sequence) {
        let settle = SettleOnDrop(Arc::downgrade(self));
        retain_patiently(&self.device, stream, sequence, settle);
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the memory is a word, and lives as long as `self.word`. Only kernels and this
        // reference access it.
        unsafe { AtomicU32::from_ptr(self.word.span().pointer.cast()) }
    }

    /// Returns the last replay unless it is complete.
    fn pending(&self) -> Option<(Arc<StreamState>, Sequence)> {
        let last = self.state.lock().last.clone();
        last.filter(|(stream, sequence)| !stream.is_done(*sequence))
    }

    /// Ends the examination of operands if all replays are complete and no limit was reached.
    fn settle(&self) -> bool {
        let mut state = self.state.lock();
        let is_done = |(stream, sequence): &(Arc<StreamState>, Sequence)| stream.is_done(*sequence);
        let is_valid =
            state.last.as_ref().is_none_or(is_done) && self.word().load(Ordering::Acquire) == 0;
        let ended = match is_valid {
            true => state.examined.take(),
            false => None,
        };
        // Dropped without the lock, as above.
        drop(state);
        drop(ended);
        is_valid
    }
}

impl Drop for LoopLimit {
    fn drop(&mut self) {
        // Replays of a graph run one after the other, so the last is the last to use the word.
        if let Some((stream, sequence)) = &self.state.get_mut().last {
            self.word.inherit(stream.ticket(*sequence));
        }
    }
}

impl std::fmt::Debug for LoopLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoopLimit({}, {} loops)", self.graph, self.loops.len())
    }
}

impl Import for LoopLimit {
    fn ticket(&self) -> Ticket {
        let state = self.state.lock();
        let (stream, sequence) = state.last.as_ref().expect("noted once it is replayed");
        stream.ticket(*sequence)
    }

    fn devices(&self) -> &[DeviceNumber] {
        &self.number
    }

    fn group(&self) -> Option<GroupNumber> {
        Some(self.group)
    }

    fn is_valid(&self) -> bool {
        self.pending().is_none() && self.word().load(Ordering::Acquire) == 0
    }

    /// Never fails: an operation on the device may use the results, and passes the note on to its
    /// own.
    fn check(&self) -> Result<bool> {
        if let Some((stream, sequence)) = self.pending()
            && !poll_ticket(&self.device, &stream, sequence).unwrap_or(false)
        {
            return Ok(false);
        }
        Ok(self.settle())
    }

    fn read(&self) -> Result<bool> {
        let number = self.word().swap(0, Ordering::AcqRel) as usize;
        match number.checked_sub(1).and_then(|at| self.loops.get(at)) {
            Some(ended) => Err(Error::LoopLimit {
                graph: self.graph,
                location: ended.location,
                iterations_max: ended.iterations_max,
            }),
            None => self.check(),
        }
    }

    fn is_note(&self) -> bool {
        true
    }
}

/// Examines the completed replay of a graph when it is dropped, and watches the next one.
struct SettleOnDrop(Weak<LoopLimit>);

impl Drop for SettleOnDrop {
    fn drop(&mut self) {
        let Some(limit) = self.0.upgrade() else {
            return;
        };
        limit.settle();
        let mut state = limit.state.lock();
        let is_lost = limit.device.lost().is_some();
        let next = (state.last.clone())
            .filter(|(stream, sequence)| !is_lost && !stream.is_done(*sequence));
        state.is_watched = next.is_some();
        drop(state);
        if let Some((stream, sequence)) = next {
            limit.watch(&stream, sequence);
        }
    }
}
