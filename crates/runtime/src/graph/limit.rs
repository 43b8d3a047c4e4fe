//! Loops that ended at their limit: noted by the device in a word of host memory, and reported by
//! the next host read of what the replay has written.
//!
//! The device cannot return an error. Each replay of a graph with loops therefore has a note of its
//! own ([`ReplayNote`]). The arrays that the replay writes remember the note ([`Import`]), and so
//! does everything computed from them, until it is known that no loop of that replay ended at its
//! limit. A host read looks at the note after the data has arrived.
//!
//! The nodes of a graph contain the address of an array of words, and not that of one word, because
//! several replays may be in flight. A fill in front of each replay sets which word is its own.

#![allow(unsafe_code, reason = "reads words that kernels write")]

use std::{
    fmt,
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
    tracker::{DeviceNumber, GroupNumber, Import, Note, Sequence, Ticket},
};

/// The number of replays of one graph in flight that have a note of their own. Further replays
/// share the last note.
const NOTES_MAX: u32 = 1023;

#[derive(Clone, Copy, Debug)]
pub(super) struct LoopSite {
    pub(super) iterations_max: u32,
    pub(super) location: &'static Location<'static>,
}

/// The notes of a graph's replays.
pub(super) struct LoopNotes {
    device: Arc<DeviceState>,
    number: [DeviceNumber; 1],
    graph: &'static str,
    loops: Vec<LoopSite>,
    /// One word for the host's looks at flags, then one for each replay. They are no operands of a
    /// replay: their access history would remember a note, and so itself.
    words: Pinned<u32>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    replays: u64,
    /// The words that no replay uses.
    free: Vec<u32>,
    /// The notes of replays that are not known to be complete.
    running: Vec<Arc<ReplayNote>>,
    last: Option<(Arc<StreamState>, Sequence)>,
    /// True while the reactor watches a replay.
    is_watched: bool,
}

/// The note of one replay: whether one of its loops ended at its limit.
pub(super) struct ReplayNote {
    notes: Arc<LoopNotes>,
    /// The index of the word that holds the number of a loop that ended at its limit, or 0.
    word: u32,
    /// Different from that of every other import, so that none replaces this one.
    group: GroupNumber,
    state: Mutex<NoteState>,
}

struct NoteState {
    /// The number of the replay, from 1.
    replay: u64,
    stream: Arc<StreamState>,
    /// `None` while the replay is being submitted.
    sequence: Option<Sequence>,
    verdict: Verdict,
    /// Ended once no operation has to pass the note on.
    examined: Vec<ExaminedOperands>,
}

/// The outcome of a replay, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Unknown,
    /// A loop, by its number, ended at its limit.
    Reached(u32),
    /// One did, and a host read has returned it.
    Reported,
    /// No loop did.
    Settled,
}

impl LoopNotes {
    pub(super) fn new(
        device: &Arc<DeviceState>,
        graph: &'static str,
        loops: Vec<LoopSite>,
    ) -> Result<Arc<Self>> {
        let count = if loops.is_empty() { 0 } else { NOTES_MAX };
        let words = Pinned::zeroed(device, 1 + count as usize, Location::caller())?;
        Ok(Arc::new(Self {
            device: Arc::clone(device),
            number: [device.number()],
            graph,
            loops,
            words,
            state: Mutex::new(State {
                free: (1..=count).rev().collect(),
                ..State::default()
            }),
        }))
    }

    pub(super) fn loops(&self) -> &[LoopSite] {
        &self.loops
    }

    /// Returns the address of the words for kernels.
    pub(super) fn pointer(&self) -> DevicePtr {
        DevicePtr::from_raw(self.words.span().pointer().addr() as u64)
    }

    /// Returns the word for the host's looks at flags.
    pub(super) fn look(&self) -> &AtomicU32 {
        self.word(0)
    }

    fn word(&self, index: u32) -> &AtomicU32 {
        assert!((index as usize) < self.words.len(), "a word that exists");
        // SAFETY: it was asserted that the word lies within the memory.
        let word = unsafe {
            self.words
                .span()
                .pointer()
                .cast::<u32>()
                .add(index as usize)
        };
        // SAFETY: the memory is a word, and lives as long as `self.words`. Only the device's
        // operations and references of this kind access it.
        unsafe { AtomicU32::from_ptr(word) }
    }

    pub(super) fn begin(self: &Arc<Self>, stream: &Arc<StreamState>) -> BegunReplay {
        let examined = vec![ExaminedOperands::on(self.device.number())];
        let mut state = self.state.lock();
        state.replays += 1;
        let replay = state.replays;
        let note = NoteState {
            replay,
            stream: Arc::clone(stream),
            sequence: None,
            verdict: Verdict::Unknown,
            examined,
        };
        if let Some(word) = state.free.pop() {
            let note = Arc::new(ReplayNote {
                notes: Arc::clone(self),
                word,
                group: GroupNumber::new(),
                state: Mutex::new(note),
            });
            state.running.push(Arc::clone(&note));
            return BegunReplay { note, replay };
        }
        // Replays of a graph run one after the other, so the last is complete after the others.
        let last = Arc::clone(state.running.last().expect("all words are in use"));
        let earlier = std::mem::replace(&mut *last.state.lock(), note);
        // Dropped without the lock, because the drop takes others.
        drop(state);
        drop(earlier);
        BegunReplay { note: last, replay }
    }

    /// Keeps the words until everything that is submitted to the stream by now is complete.
    pub(super) fn keep_behind(&self, stream: &Arc<StreamState>) -> Sequence {
        let sequence = stream.shared.lock().points.submitted();
        self.state.lock().last = Some((Arc::clone(stream), sequence));
        sequence
    }

    /// Examines the replay once it is complete.
    fn watch(self: &Arc<Self>, stream: &Arc<StreamState>, sequence: Sequence) {
        let settle = SettleOnDrop(Arc::downgrade(self));
        retain_patiently(&self.device, stream, sequence, settle);
    }

    /// Returns whether this is the note of the earliest running replay. It settles the notes of all
    /// completed replays.
    fn is_first(&self, note: &ReplayNote) -> bool {
        let state = self.state.lock();
        let first = state.running.first();
        first.is_some_and(|first| std::ptr::eq(&**first, note))
    }

    fn settle(&self) {
        let mut state = self.state.lock();
        let over: Vec<_> = state
            .running
            .extract_if(.., |note| note.is_complete())
            .collect();
        let ended: Vec<_> = over.iter().map(|note| note.conclude()).collect();
        state.free.extend(over.iter().map(|note| note.word));
        // Dropped without the lock, as above.
        drop(state);
        drop((ended, over));
    }
}

impl Drop for LoopNotes {
    fn drop(&mut self) {
        // Replays of a graph run one after the other, so the last is the last to use the words.
        if let Some((stream, sequence)) = &self.state.get_mut().last {
            self.words.inherit(stream.ticket(*sequence));
        }
    }
}

impl fmt::Debug for LoopNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoopNotes({}, {} loops)", self.graph, self.loops.len())
    }
}

impl ReplayNote {
    pub(super) fn word(&self) -> u32 {
        self.word
    }

    /// Notes a limit that the host has found reached.
    pub(super) fn set(&self, number: u32) {
        self.notes.word(self.word).store(number, Ordering::Release);
    }

    fn is_complete(&self) -> bool {
        let state = self.state.lock();
        let is_done = |sequence| state.stream.is_done(sequence);
        state.sequence.is_some_and(is_done)
    }

    /// Takes over what the completed replay has noted in its word. Returns what is to be dropped
    /// without locks.
    fn conclude(&self) -> Vec<ExaminedOperands> {
        let mut state = self.state.lock();
        // Only with the lock held: a host read in between would find neither the word nor the
        // verdict.
        let number = self.notes.word(self.word).swap(0, Ordering::AcqRel);
        if number != 0 {
            state.verdict = Verdict::Reached(number);
        } else if state.verdict == Verdict::Unknown {
            state.verdict = Verdict::Settled;
        }
        match state.verdict {
            Verdict::Settled => std::mem::take(&mut state.examined),
            _ => Vec::new(),
        }
    }

    /// Takes the number of a loop that ended at its limit and was not reported.
    fn take_reached(&self) -> Option<(u32, u64)> {
        let mut state = self.state.lock();
        let number = match state.verdict {
            Verdict::Reported | Verdict::Settled => 0,
            Verdict::Reached(number) => number,
            // The data has arrived, so the replay is over, although that may not be noted yet.
            Verdict::Unknown => self.notes.word(self.word).swap(0, Ordering::AcqRel),
        };
        if number == 0 {
            return None;
        }
        state.verdict = Verdict::Reported;
        let (replay, ended) = (state.replay, std::mem::take(&mut state.examined));
        // Dropped without the lock, as above.
        drop(state);
        drop(ended);
        Some((number, replay))
    }
}

impl fmt::Debug for ReplayNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplayNote({}, word {})", self.notes.graph, self.word)
    }
}

impl Import for ReplayNote {
    fn ticket(&self) -> Ticket {
        let state = self.state.lock();
        let sequence = state.sequence.unwrap_or(Sequence::START);
        state.stream.ticket(sequence)
    }

    fn devices(&self) -> &[DeviceNumber] {
        &self.notes.number
    }

    fn group(&self) -> Option<GroupNumber> {
        Some(self.group)
    }

    fn is_valid(&self) -> bool {
        let verdict = self.state.lock().verdict;
        matches!(verdict, Verdict::Reported | Verdict::Settled)
    }

    /// Never fails: an operation on the device may use the results, and passes the note on to its
    /// own.
    fn check(&self) -> Result<bool> {
        let (stream, sequence) = {
            let state = self.state.lock();
            (Arc::clone(&state.stream), state.sequence)
        };
        if let Some(sequence) = sequence
            && self.notes.is_first(self)
            && poll_ticket(&self.notes.device, &stream, sequence).unwrap_or(false)
        {
            self.notes.settle();
        }
        Ok(self.is_valid())
    }

    fn read(&self) -> Result<bool> {
        let Some((number, replay)) = self.take_reached() else {
            return self.check();
        };
        // Earlier replays are complete, too, and their notes are replaced by this one.
        self.notes.settle();
        let LoopNotes { graph, loops, .. } = &*self.notes;
        let ended = loops[number as usize - 1];
        Err(Error::LoopLimit {
            graph,
            replay,
            location: ended.location,
            iterations_max: ended.iterations_max,
        })
    }

    fn note(&self) -> Option<Note> {
        let verdict = self.state.lock().verdict;
        Some(Note {
            graph: self.notes.graph,
            number: self.group,
            is_reached: matches!(verdict, Verdict::Reached(_) | Verdict::Reported),
        })
    }

    fn reaches(&self, device: DeviceNumber) {
        let examined = ExaminedOperands::on(device);
        let mut state = self.state.lock();
        let is_new = matches!(state.verdict, Verdict::Unknown | Verdict::Reached(_))
            && !state.examined.iter().any(|known| known.is_on(device));
        if is_new {
            state.examined.push(examined);
        }
    }
}

/// A replay that is being submitted. Its drop notes that it is, also after an error or a panic,
/// because it may run all the same.
pub(super) struct BegunReplay {
    note: Arc<ReplayNote>,
    replay: u64,
}

impl BegunReplay {
    pub(super) fn note(&self) -> &Arc<ReplayNote> {
        &self.note
    }
}

impl Drop for BegunReplay {
    fn drop(&mut self) {
        let Self { note, replay } = self;
        let stream = Arc::clone(&note.state.lock().stream);
        let sequence = note.notes.keep_behind(&stream);
        let mut state = note.state.lock();
        if state.replay != *replay {
            // A later replay shares the note.
            return;
        }
        state.sequence = Some(sequence);
        drop(state);
        let is_watched = std::mem::replace(&mut note.notes.state.lock().is_watched, true);
        if !is_watched {
            note.notes.watch(&stream, sequence);
        }
    }
}

/// Settles the notes of completed replays when it is dropped, and watches the next one.
struct SettleOnDrop(Weak<LoopNotes>);

impl Drop for SettleOnDrop {
    fn drop(&mut self) {
        let Some(notes) = self.0.upgrade() else {
            return;
        };
        notes.settle();
        let mut state = notes.state.lock();
        let mut given_up = Vec::new();
        if notes.device.lost().is_some() {
            // They never complete, and their values cannot be read.
            given_up = std::mem::take(&mut state.running);
        }
        let submitted = |note: &Arc<ReplayNote>| {
            let note = note.state.lock();
            Some((Arc::clone(&note.stream), note.sequence?))
        };
        let next = state.running.iter().find_map(submitted);
        state.is_watched = next.is_some();
        drop(state);
        drop(given_up);
        if let Some((stream, sequence)) = next {
            notes.watch(&stream, sequence);
        }
    }
}
