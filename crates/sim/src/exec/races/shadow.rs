//! Shadow memory: for each four-byte word, a record of the accesses that a later one could race
//! with.
//!
//! # Severities
//!
//! Two racing writes of the same bytes are a note, races of volatile accesses with each other and
//! with atomics are a warning, and every other race is an error. A record may
//! replace an earlier access that it hides only if a later access gets the same severity with
//! either. Therefore a write keeps, for each byte, the epoch of its thread's last access that was
//! not a write of the same value ([`AccessRecord::strict`]). The hidden access of another thread is
//! kept, unless it wrote the same value or no thread can race with it any more. After the first
//! error at a byte, values are no longer compared there.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::block_threads::BlockThreads;
use super::lane_order::{LaneOrder, LaterLanes};
use crate::exec::registers::lanes;

/// The number of words of a shadow page.
const PAGE_WORDS: u64 = 64;

/// The number of records of a word that need no allocation.
const RECORDS_INLINE: usize = 2;

/// The maximum number of access records of a word.
const RECORDS_MAX: usize = 64;

/// The number of records of a word above which records of other blocks are thinned out.
const RECORDS_FEW: usize = 8;

/// The kind of an access: read or write, plain or strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessKind {
    pub(super) write: bool,
    pub(super) read: bool,
    /// True for an atomic, volatile, relaxed, acquire or release access.
    pub(super) strong: bool,
    /// True for a volatile access, unless the model takes volatile accesses for relaxed ones.
    pub(super) volatile: bool,
    /// True if the access is strong only among threads of its block.
    pub(super) block_only: bool,
}

impl AccessKind {
    /// Returns whether two accesses race unless one happens before the other.
    fn conflicts(self, other: Self, same_block: bool) -> bool {
        (self.write || other.write)
            && (self.volatile || other.volatile || !self.is_morally_strong(other, same_block))
    }

    /// Returns whether two accesses are strong, and the scope of each includes the thread of the
    /// other.
    fn is_morally_strong(self, other: Self, same_block: bool) -> bool {
        self.strong && other.strong && (same_block || !(self.block_only || other.block_only))
    }

    /// Returns whether every later access that races with `earlier`, which happens before this
    /// access, also races with this access, and not less severely.
    ///
    /// An exception: a `.cta` access of this access's block may race with a strong access of
    /// another block, but not with this one.
    fn hides(self, earlier: Self, same_block: bool) -> bool {
        let reaches_less = same_block && (self.block_only || !earlier.block_only);
        let weaker = self.weakness() >= earlier.weakness();
        (self.write || !earlier.write) && weaker && (!self.strong || reaches_less)
    }

    /// Returns the rank of the access among those that race with more accesses, or more severely.
    fn weakness(self) -> u8 {
        match (self.strong, self.volatile) {
            (true, false) => 0,
            (true, true) => 1,
            (false, _) => 2,
        }
    }

    /// Returns whether the same writes race with either access.
    fn races_like(self, other: Self) -> bool {
        (self.weakness(), self.strong && self.block_only)
            == (other.weakness(), other.strong && other.block_only)
    }

    /// Returns whether the access writes without reading.
    fn only_writes(self) -> bool {
        self.write && !self.read
    }
}

/// The sharing of a memory among the blocks of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Each block has its own memory.
    Block,
    /// The blocks share the memory, and the kernel has no means of ordering them.
    Unordered,
    /// The blocks share the memory, and the kernel may order them.
    Ordered,
}

/// A recorded access of lanes of a warp to bytes of one word.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessRecord {
    pub(super) block: u64,
    pub(super) warp: u32,
    pub(super) lanes: u32,
    pub(super) epoch: u32,
    pub(super) pc: u32,
    pub(super) kind: AccessKind,
    /// The accessed bytes of the word, one bit for each.
    pub(super) bytes: u8,
    /// The values written to the bytes; 0 for bytes not accessed, and for reads.
    pub(super) value: [u8; 4],
    /// For each byte, the epoch of the same thread's last earlier access other than a write of the
    /// same value; 0 for none.
    pub(super) strict: [u32; 4],
    /// The bytes with such an earlier access that only threads of other blocks can still race with.
    pub(super) strict_for_others: u8,
}

impl AccessRecord {
    /// Returns whether this record includes `other`: the same access of the same lanes, with no
    /// release between the two. Values are compared at the bytes of `care`.
    fn covers(&self, other: &Self, care: u8) -> bool {
        let lanes = self.lanes & other.lanes == other.lanes;
        let bytes = self.bytes & other.bytes == other.bytes;
        lanes && bytes && self.is_like(other) && self.differing(other) & care == 0
    }

    /// Returns whether both are accesses of one lane to the same bytes.
    fn is_of_same_lane(&self, other: &Self) -> bool {
        (self.block, self.warp, self.lanes, self.bytes)
            == (other.block, other.warp, other.lanes, other.bytes)
            && self.lanes.is_power_of_two()
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.warp, self.epoch, self.block, self.kind)
            == (other.warp, other.epoch, other.block, other.kind)
    }

    /// Returns whether the records differ only in their lanes. Values are compared at the bytes of
    /// `care`.
    fn is_same(&self, other: &Self, care: u8) -> bool {
        let alike = self.is_like(other) && (self.pc, self.bytes) == (other.pc, other.bytes);
        let strict = |record: &Self| {
            (
                record.strict_bytes() & care,
                record.strict_for_others & care,
            )
        };
        alike
            && self.differing(other) & care == 0
            && strict(self) == strict(other)
            && each(care).all(|byte| self.strict[byte] == other.strict[byte])
    }

    /// Returns the bytes common to both records whose values differ.
    fn differing(&self, other: &Self) -> u8 {
        let differ = |byte: &usize| self.value[*byte] != other.value[*byte];
        let common = each(self.bytes & other.bytes);
        common
            .filter(differ)
            .fold(0, |bytes, byte| bytes | 1 << byte)
    }

    /// Returns the bytes at which the record replaces an access other than a write of its value.
    fn strict_bytes(&self) -> u8 {
        let strict = each(self.bytes).filter(|byte| self.strict[*byte] > 0);
        strict.fold(self.strict_for_others, |bytes, byte| bytes | 1 << byte)
    }

    /// Clears the values of bytes that already have an error.
    fn forget(&mut self, errors: u8) {
        for byte in each(errors) {
            (self.value[byte], self.strict[byte]) = (0, 0);
        }
        self.strict_for_others &= !errors;
    }

    /// Returns the bytes of `common` at which a race between the two accesses is an error.
    fn errors_with(&self, other: &Self, common: u8) -> u8 {
        if self.kind.only_writes() && other.kind.only_writes() {
            self.differing(other) & common
        } else {
            common
        }
    }

    /// Returns whether this record may replace `lane` of `hidden`, an access that happens before
    /// it.
    ///
    /// If so, this record inherits the epochs that decide the severity of a later race.
    fn takes_over(
        &mut self,
        hidden: &Self,
        lane: usize,
        care: u8,
        (threads, sharing): (&BlockThreads, Sharing),
    ) -> bool {
        let care = care & hidden.bytes & self.bytes;
        // Each race with this access is an error.
        if !self.kind.only_writes() {
            return true;
        }
        let other = hidden.errors_with(self, care);
        let worse = (other | hidden.strict_bytes()) & care;
        if worse == 0 {
            return true;
        }
        // A later access may race with this access and not with the hidden one.
        if !self.kind.races_like(hidden.kind) {
            return false;
        }
        let same_warp = (hidden.block, hidden.warp) == (self.block, self.warp);
        if same_warp && self.lanes == 1 << lane {
            for byte in each(worse) {
                let epoch = if other >> byte & 1 == 1 {
                    hidden.epoch
                } else {
                    hidden.strict[byte]
                };
                self.strict[byte] = self.strict[byte].max(epoch);
            }
            self.strict_for_others |= hidden.strict_for_others & care;
            return true;
        }
        let own_block = hidden.block == self.block && threads.is_known_to_all(hidden, lane);
        match sharing {
            Sharing::Block => own_block,
            Sharing::Unordered if own_block => {
                self.strict_for_others |= worse;
                true
            }
            Sharing::Unordered | Sharing::Ordered => false,
        }
    }
}

/// Iterates over the byte indices of a mask.
fn each(bytes: u8) -> impl Iterator<Item = usize> {
    (0..4).filter(move |byte| bytes >> byte & 1 == 1)
}

/// A pair of racing accesses: a record and one of its lanes, and a lane of the later access.
pub(super) struct RacingPair<'a> {
    pub(super) earlier: &'a AccessRecord,
    pub(super) earlier_lane: usize,
    pub(super) later_lane: usize,
    pub(super) bytes: u8,
    /// The bytes at which the race is an error, because one access reads or the values differ.
    pub(super) errors: u8,
    /// The bytes at which the race is an error because of an earlier access that the record
    /// replaced.
    pub(super) errors_before: u8,
    /// True if the accesses race only because one of them is volatile, which makes errors warnings.
    pub(super) volatile: bool,
}

/// The recorded accesses to one word.
#[derive(Debug, Default)]
pub(super) struct ShadowWord {
    records: SmallVec<[AccessRecord; RECORDS_INLINE]>,
    /// The bytes at which an error has been found.
    errors: u8,
}

impl ShadowWord {
    /// Records an access of the running block, and calls `pair` for each record that it races with.
    pub(super) fn record_access(
        &mut self,
        by: &AccessRecord,
        threads: &BlockThreads,
        sharing: Sharing,
        mut pair: impl FnMut(&RacingPair<'_>),
    ) {
        let Self { records, errors } = self;
        let mut entered = *by;
        match &mut records[..] {
            [] => {
                entered.forget(*errors);
                records.push(entered);
                return;
            }
            // Most words are used by one thread only.
            [only] if only.is_of_same_lane(by) => {
                let hides = by.kind.hides(only.kind, true);
                let lane = by.lanes.trailing_zeros() as usize;
                if only.covers(by, !*errors) {
                    return;
                }
                if hides && entered.takes_over(only, lane, !*errors, (threads, sharing)) {
                    entered.forget(*errors);
                    *only = entered;
                    return;
                }
                entered = *by;
            }
            _ => {}
        }
        if records.iter().any(|record| record.covers(by, !*errors)) {
            return;
        }
        let later = LaterLanes::new(by, threads);
        records.retain(|earlier| {
            let common = earlier.bytes & by.bytes;
            let same_block = earlier.block == by.block;
            let conflicts = by.kind.conflicts(earlier.kind, same_block);
            let hides = by
                .kind
                .hides(earlier.kind, same_block || !threads.summary.scoped);
            if common == 0 || !(conflicts || hides) {
                return true;
            }
            if !conflicts && later.are_unordered_after(earlier) {
                return true;
            }
            let order = later.order_after(earlier);
            if conflicts && let Some(found) = race(earlier, &order, &later) {
                pair(&found);
                if !found.volatile {
                    *errors |= found.errors | found.errors_before;
                }
            }
            if !hides || order.before_any() == 0 {
                return true;
            }
            let mut stay = earlier.lanes;
            for lane in lanes(order.before_any()) {
                let hidden = entered.takes_over(earlier, lane, !*errors, (threads, sharing));
                stay &= !(u32::from(hidden) << lane);
            }
            if stay == 0 {
                earlier.bytes &= !by.bytes;
            } else if earlier.bytes & !by.bytes == 0 {
                earlier.lanes = stay;
            }
            earlier.bytes != 0
        });
        let care = !*errors;
        entered.forget(*errors);
        if let Some(record) = records
            .iter_mut()
            .find(|record| record.is_same(&entered, care))
        {
            record.lanes |= by.lanes;
            return;
        }
        if records.len() >= RECORDS_FEW && sharing == Sharing::Unordered {
            self.thin_out(by.block);
        }
        if self.records.len() >= RECORDS_MAX {
            self.records.remove(0);
        }
        self.records.push(entered);
    }

    /// Drops records of other blocks, except two of each kind of access.
    ///
    /// A later access belongs to another block than one of the two, and races with it, because
    /// nothing orders the blocks. Two blocks that wrote different bytes have raced already.
    fn thin_out(&mut self, block: u64) {
        let mut kept: SmallVec<[AccessRecord; RECORDS_INLINE]> = SmallVec::new();
        for record in self.records.drain(..) {
            if record.block == block {
                kept.push(record);
                continue;
            }
            let alike = |other: &&mut AccessRecord| {
                let covers = other.bytes & record.bytes == record.bytes;
                other.block != block && other.kind == record.kind && covers
            };
            let (mut count, mut same_block) = (0, None);
            for other in kept.iter_mut().filter(alike) {
                count += 1;
                if other.block == record.block {
                    same_block = Some(other);
                }
            }
            match same_block {
                Some(_) if !record.kind.only_writes() => {}
                Some(other) => {
                    let worse = other.errors_with(&record, record.bytes) | record.strict_bytes();
                    other.strict_for_others |= worse;
                }
                None if count < 2 => kept.push(record),
                None => {}
            }
        }
        self.records = kept;
    }
}

/// Returns the first pair of racing lanes of `earlier` and the later access, with the bytes at
/// which any of their lanes' races is an error; `None` if no lanes race.
fn race<'a>(
    earlier: &'a AccessRecord,
    order: &LaneOrder,
    later: &LaterLanes<'_>,
) -> Option<RacingPair<'a>> {
    let (by, threads) = (later.by, later.threads);
    let common = earlier.bytes & by.bytes;
    let mut found: Option<RacingPair<'a>> = None;
    for earlier_lane in lanes(order.candidates(earlier)) {
        let racing = order.racing_with(earlier_lane);
        if racing == 0 {
            continue;
        }
        let errors = earlier.errors_with(by, common);
        let strict = earlier.strict_bytes() & common & !errors;
        let pair = found.get_or_insert(RacingPair {
            earlier,
            earlier_lane,
            later_lane: racing.trailing_zeros() as usize,
            bytes: common,
            errors,
            errors_before: 0,
            volatile: by
                .kind
                .is_morally_strong(earlier.kind, earlier.block == by.block),
        });
        if strict == 0 {
            break;
        }
        if earlier.block != by.block {
            pair.errors_before |= earlier.strict_for_others & strict;
        }
        let first = by.warp as usize * 32;
        for byte in each(strict).filter(|byte| earlier.strict[*byte] > 0) {
            let before = AccessRecord {
                epoch: earlier.strict[byte],
                ..*earlier
            };
            let races = |lane| !threads.happens_before(&before, earlier_lane, first + lane);
            pair.errors_before |= u8::from(lanes(by.lanes).any(races)) << byte;
        }
    }
    found
}

/// The shadow words of a memory, in pages allocated on first use.
#[derive(Debug, Default)]
pub(super) struct ShadowMemory {
    pages: BTreeMap<u64, usize>,
    words: Vec<Box<[ShadowWord]>>,
    /// The number and index of the page used last.
    last: Option<(u64, usize)>,
}

impl ShadowMemory {
    /// Returns the shadow word with the given number, allocating its page if necessary.
    pub(super) fn word(&mut self, number: u64) -> &mut ShadowWord {
        let (page, at) = (number / PAGE_WORDS, (number % PAGE_WORDS) as usize);
        let index = match self.last {
            Some((last, index)) if last == page => index,
            _ => {
                let words = &mut self.words;
                let index = *self.pages.entry(page).or_insert_with(|| {
                    words.push((0..PAGE_WORDS).map(|_| ShadowWord::default()).collect());
                    words.len() - 1
                });
                self.last = Some((page, index));
                index
            }
        };
        &mut self.words[index][at]
    }
}
