//! The provenance of an allocation's contents: the operations on several devices through which they
//! came, as long as the loss of a device may have spoiled them.
//!
//! A device that is lost stops in the middle of its work, and the waits for it on other devices
//! end. An operation that reads or runs on a lost device therefore writes unknown values to memory
//! of devices that still work. Such an operation is an [`Import`]. It is recorded with the memory
//! that it writes, and copied to everything that is computed from that memory, until it is known
//! that all its devices outlived it. If one did not, every use of the memory is an error until the
//! memory is overwritten as a whole.

use std::{
    cmp::Reverse,
    fmt,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{DeviceNumber, StreamId, Ticket};
use crate::Result;

/// An operation on several devices.
pub(crate) trait Import: fmt::Debug + Send + Sync {
    fn ticket(&self) -> Ticket;

    /// Returns the devices whose loss spoils the results.
    fn devices(&self) -> &[DeviceNumber];

    /// Returns the group with whose loss the operation may end without its results, although no
    /// device is lost.
    fn group(&self) -> Option<GroupNumber>;

    /// Makes this import stand for a later operation of the same place instead: it has the same
    /// stream, devices, label and source line. Returns `false` and does nothing if it has not, or
    /// if it is already known whether the results are valid. Only the memory that the operation has
    /// written may hold this import.
    fn repeat(&self, _later: &LaterOperation<'_>) -> bool {
        false
    }

    /// Returns whether the results are known to be valid, without a driver call.
    fn is_valid(&self) -> bool;

    /// Returns whether the results are valid, or `false` if that is not known yet. May query the
    /// driver; the caller holds no lock.
    ///
    /// # Errors
    ///
    /// If the results are invalid.
    fn check(&self) -> Result<bool>;

    /// Does the same as [`check`](Self::check) for a host read of the results, which have arrived.
    ///
    /// # Errors
    ///
    /// If the results are invalid, or the import has a note for the reader.
    fn read(&self) -> Result<bool> {
        self.check()
    }

    /// Returns whether nothing is known of the results' validity yet, without a driver call.
    fn is_undecided(&self) -> bool {
        false
    }

    /// Notes that an operation which passes the import on writes memory of this device. Called
    /// before the operation is submitted.
    fn reaches(&self, _device: DeviceNumber) {}

    /// Returns the note for host reads that this import is, if it is one: its results are always
    /// valid.
    fn note(&self) -> Option<Note> {
        None
    }
}

/// A note for host reads: a replay of a graph, of which a loop may end at its limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) graph: &'static str,
    /// Larger than those of earlier replays.
    pub(crate) number: GroupNumber,
    /// True if a loop of the replay is known to have ended at its limit, also after a host read has
    /// returned that.
    pub(crate) is_reached: bool,
}

/// An operation on several devices that may [repeat](Import::repeat) an earlier one.
pub(crate) struct LaterOperation<'a> {
    pub(crate) ticket: Ticket,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    /// Returns whether these are the operation's devices, in the same order.
    pub(crate) is_on: &'a dyn Fn(&[DeviceNumber]) -> bool,
}

/// A group of operations that is about to be submitted: one collective of several devices.
pub(crate) struct LaterCollective {
    pub(crate) group: GroupNumber,
    pub(crate) streams: SmallVec<[StreamId; 4]>,
    pub(crate) devices: SmallVec<[DeviceNumber; 4]>,
}

impl LaterCollective {
    /// Returns whether the imports of this collective will include that of an earlier operation.
    /// The earlier one then need not be checked: it is complete once the collective is.
    pub(crate) fn includes(&self, earlier: &dyn Import) -> bool {
        let devices = earlier.devices();
        earlier.group() == Some(self.group)
            && self.streams.contains(&earlier.ticket().stream)
            && devices.iter().all(|device| self.devices.contains(device))
            && earlier.is_undecided()
    }
}

/// The number of a group of collectives, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupNumber(u64);

impl GroupNumber {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Operations on several devices of which it is not known that their results are valid.
pub(crate) type Imports = SmallVec<[Arc<dyn Import>; 2]>;

/// The addresses of listed imports, which tell them apart.
struct Listed(SmallVec<[*const (); 8]>);

impl Listed {
    fn of(imports: &[Arc<dyn Import>]) -> Self {
        let mut listed: SmallVec<_> = imports.iter().map(Self::address).collect();
        listed.sort_unstable();
        Self(listed)
    }

    fn contains(&self, import: &Arc<dyn Import>) -> bool {
        self.0.binary_search(&Self::address(import)).is_ok()
    }

    fn address(import: &Arc<dyn Import>) -> *const () {
        Arc::as_ptr(import).cast()
    }
}

pub(crate) fn merge(imports: &mut Imports, others: Imports) {
    let listed = Listed::of(imports);
    imports.extend(others.into_iter().filter(|other| !listed.contains(other)));
}

/// Checks imports for a host read of the results of all of them. The last note comes first.
///
/// # Errors
///
/// If the results are invalid, or an import has a note for the reader.
pub(crate) fn read_imports(imports: &[Arc<dyn Import>]) -> Result<()> {
    let mut left = imports.to_vec();
    take_settled(&mut left);
    left.sort_by_key(|import| Reverse(import.note().map(|note| note.number)));
    left.iter().try_for_each(|import| import.read().map(drop))
}

/// Removes and returns the imports that are valid, and the replaced notes: a host read returns the
/// last of a graph's replays that ended at a limit.
fn take_settled(imports: &mut Vec<Arc<dyn Import>>) -> Imports {
    let reached = |import: &Arc<dyn Import>| import.note().filter(|note| note.is_reached);
    let mut last: SmallVec<[Note; 2]> = SmallVec::new();
    for note in imports.iter().filter_map(reached) {
        match last.iter_mut().find(|last| last.graph == note.graph) {
            Some(last) => last.number = last.number.max(note.number),
            None => last.push(note),
        }
    }
    let replaces = |last: &Note, note: &Note| last.graph == note.graph && last.number > note.number;
    let is_replaced = |note: Note| last.iter().any(|last| replaces(last, &note));
    let is_settled = |import: &mut Arc<dyn Import>| {
        import.is_valid() || reached(import).is_some_and(is_replaced)
    };
    imports.extract_if(.., is_settled).collect()
}

#[derive(Default)]
pub(crate) struct Provenance {
    imports: Mutex<Vec<Arc<dyn Import>>>,
    /// True if the list may have an entry, so that memory that never had one needs no lock. It is
    /// set for good, with the list locked.
    is_used: AtomicBool,
}

impl Provenance {
    /// Returns the imports whose validity is unknown, and forgets the valid ones.
    ///
    /// # Errors
    ///
    /// If the contents are invalid.
    #[inline]
    pub(crate) fn unsettled(&self) -> Result<Imports> {
        self.unsettled_by(|_| true)
    }

    /// Returns the imports whose validity is unknown, and on which the results of a collective
    /// depend besides its own.
    ///
    /// # Errors
    ///
    /// If the contents are invalid.
    pub(crate) fn unsettled_before(&self, collective: &LaterCollective) -> Result<Imports> {
        self.unsettled_by(|import| !collective.includes(import))
    }

    /// Checks the contents for a host read, which sees the results of all imports.
    ///
    /// # Errors
    ///
    /// If the contents are invalid, or an import has a note for the reader.
    pub(crate) fn read(&self) -> Result<()> {
        if !self.is_used() {
            return Ok(());
        }
        let imports = self.imports.lock().clone();
        read_imports(&imports)
    }

    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    #[inline]
    fn unsettled_by(&self, counts: impl Fn(&dyn Import) -> bool) -> Result<Imports> {
        if !self.is_used() {
            return Ok(Imports::new());
        }
        self.find_unsettled(counts)
    }

    /// Checks the imports of which `counts` is true, which is called with the list locked.
    #[inline(never)]
    fn find_unsettled(&self, counts: impl Fn(&dyn Import) -> bool) -> Result<Imports> {
        let imports = self.imports.lock();
        let counted = imports.iter().filter(|import| counts(&***import));
        let mut unsettled: Imports = counted.map(Arc::clone).collect();
        drop(imports);
        let mut may_shrink = unsettled.len() > 1;
        for import in &unsettled {
            may_shrink |= import.check()?;
        }
        if !may_shrink {
            return Ok(unsettled);
        }
        let settled = take_settled(&mut self.imports.lock());
        // Dropped without the lock, because the last reference to an import takes other locks.
        unsettled.retain(|import| {
            !import.is_valid() && !settled.iter().any(|other| Arc::ptr_eq(other, import))
        });
        Ok(unsettled)
    }

    /// Adds imports. One replaces an earlier one of the same stream whose devices it includes: once
    /// the later is complete, so is the earlier. An operation may carry older imports than those of
    /// the memory that it writes, and these are kept. Collectives are only replaced by those of the
    /// same group, because several groups may share a stream and are lost one by one.
    pub(crate) fn add(&self, imports: &[Arc<dyn Import>]) {
        if imports.is_empty() {
            return;
        }
        let mut known = self.imports.lock();
        self.is_used.store(true, Ordering::Release);
        let mut replaced = take_settled(&mut known);
        let listed = Listed::of(&known);
        for import in imports {
            if listed.contains(import) {
                continue;
            }
            let includes = |earlier: &Arc<dyn Import>| {
                let (earlier_ticket, ticket) = (earlier.ticket(), import.ticket());
                earlier_ticket.stream == ticket.stream
                    && (earlier.group().is_none() || earlier.group() == import.group())
                    && earlier_ticket.sequence <= ticket.sequence
                    && earlier
                        .devices()
                        .iter()
                        .all(|device| import.devices().contains(device))
            };
            replaced.extend(known.extract_if(.., |earlier| includes(earlier)));
            known.push(Arc::clone(import));
        }
        // Dropped without the lock, as above.
        drop(known);
        drop(replaced);
    }

    /// Removes the notes for host reads.
    pub(crate) fn forget_notes(&self) {
        let notes: Imports = self
            .imports
            .lock()
            .extract_if(.., |import| import.note().is_some())
            .collect();
        // Dropped without the lock, as above.
        drop(notes);
    }

    /// Removes and returns all imports, before the contents are overwritten as a whole.
    pub(crate) fn take(&self) -> Imports {
        std::mem::take(&mut *self.imports.lock()).into()
    }

    /// Replaces all imports, after the contents were overwritten as a whole.
    pub(crate) fn replace(&self, imports: &[Arc<dyn Import>]) {
        if imports.is_empty() && !self.is_used() {
            return;
        }
        let mut known = self.imports.lock();
        self.is_used.store(true, Ordering::Release);
        // Dropped without the lock, as above.
        let (replaced, others): (_, Imports);
        if let ([earlier], [import]) = (&mut known[..], imports) {
            (replaced, others) = (
                Some(std::mem::replace(earlier, Arc::clone(import))),
                Imports::new(),
            );
        } else {
            (replaced, others) = (None, known.drain(..).collect());
            known.extend_from_slice(imports);
        }
        drop(known);
        drop((replaced, others));
    }

    /// Makes the only import stand for a later operation that has written this memory and depends
    /// on no other import, if possible: an array that the same copy writes again and again.
    /// `owners` is the number of other references to the import, none of which belongs to other
    /// memory.
    pub(crate) fn repeat(&self, later: &LaterOperation<'_>, owners: usize) -> bool {
        let known = self.imports.lock();
        match &known[..] {
            [only] => Arc::strong_count(only) == 1 + owners && only.repeat(later),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
