//! Shadow memory: for each four-byte word, records of the accesses that a later one could race
//! with.
//!
//! # Words that are only read
//!
//! Many threads may read a word between two barriers, at many lines, and reads do not race with
//! each other. Therefore the first reads of a word are appended without a comparison with the
//! records of the others ([`ShadowWord::append_read`]); only a write is compared with each of them.
//!
//! Every record of shared memory that happens before all later accesses of the block is dropped at
//! the first access of the word after a barrier for all threads of the block (`BeforeAll`). A word
//! that is written in one phase and read in the next has no record of the write any more.

use smallvec::SmallVec;

use super::access_record::{AccessRecord, Sharing, each};
use super::block_threads::BlockThreads;
use super::lane_order::{LaneOrder, LaterLanes};
use super::observation::ObservationLog;
use crate::exec::registers::lanes;

/// The number of records of a word that need no allocation.
const RECORDS_INLINE: usize = 2;

/// The number of records of a word of shared memory up to which a read is appended without being
/// compared with them.
const APPENDED_MAX: usize = 48;

/// The maximum number of access records of a word: 64, and the appended ones.
const RECORDS_MAX: usize = 64 + APPENDED_MAX;

/// The number of records of a word of global memory above which reads are compared with them, and
/// records of other blocks are thinned out.
pub(super) const RECORDS_FEW: usize = 8;

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

#[derive(Debug, Default)]
pub(super) struct ShadowWord {
    records: SmallVec<[AccessRecord; RECORDS_INLINE]>,
    /// The block's phase at the last access; always 0 in global memory.
    phase: u32,
    /// False if no record writes.
    writes: bool,
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
        log: Option<&ObservationLog>,
        mut pair: impl FnMut(&RacingPair<'_>),
    ) {
        if sharing == Sharing::Block && self.phase != threads.before_all.phase() {
            self.begin_phase(threads);
        }
        if !by.kind.write && !self.writes && self.append_read(by, sharing) {
            return;
        }
        let Self {
            records,
            writes,
            errors,
            ..
        } = self;
        let mut entered = *by;
        match &mut records[..] {
            [] => {
                entered.forget(*errors);
                records.push(entered);
                *writes = by.kind.write;
                return;
            }
            // Most words are used by one thread only.
            [only] if only.is_of_same_lane(by) => {
                let hides = by.kind.hides(only.kind, true);
                let lane = by.lanes.trailing_zeros() as usize;
                if only.covers(by, !*errors) {
                    return;
                }
                if hides && entered.takes_over(only, lane, !*errors, (&threads.before_all, sharing))
                {
                    entered.forget(*errors);
                    *only = entered;
                    *writes = by.kind.write;
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
        // Most records are of one kind.
        let mut last = None;
        records.retain(|earlier| {
            let common = earlier.bytes & by.bytes;
            let same_block = earlier.block == by.block;
            let (conflicts, hides) = match last {
                Some((kind, same, relation)) if (kind, same) == (earlier.kind, same_block) => {
                    relation
                }
                _ => {
                    let conflicts = by.kind.conflicts(earlier.kind, same_block);
                    let same = same_block || !threads.summary.scoped;
                    let relation = (conflicts, by.kind.hides(earlier.kind, same));
                    last = Some((earlier.kind, same_block, relation));
                    relation
                }
            };
            if common == 0 || !(conflicts || hides) {
                return true;
            }
            if !conflicts && later.are_unordered_after(earlier) {
                return true;
            }
            let mut order = later.order_after(earlier);
            if let Some(log) = log.filter(|_| conflicts && earlier.is_strong_write()) {
                order.observe(earlier, log, &later);
            }
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
                let hidden =
                    entered.takes_over(earlier, lane, !*errors, (&threads.before_all, sharing));
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
        *writes = by.kind.write || records.iter().any(|record| record.kind.write);
        if records.len() >= RECORDS_FEW && sharing == Sharing::Unordered {
            self.thin_out(by.block);
        }
        if self.records.len() >= RECORDS_MAX {
            self.records.remove(0);
        }
        self.records.push(entered);
    }

    /// Drops the records that happen before every later access of the block.
    #[inline]
    fn begin_phase(&mut self, threads: &BlockThreads) {
        self.phase = threads.before_all.phase();
        if self.records.is_empty() {
            return;
        }
        let mut writes = false;
        self.records.retain(|record| {
            let stays = !threads.before_all.includes(record);
            writes |= stays && record.kind.write;
            stays
        });
        self.writes = writes;
    }

    /// Records a read of a word that no record writes, or returns `false` if the word has too many
    /// records to append one.
    ///
    /// The last record is compared, because a warp often reads a word repeatedly before another
    /// one does.
    #[inline]
    fn append_read(&mut self, by: &AccessRecord, sharing: Sharing) -> bool {
        let of_warp = |last: &&mut AccessRecord| (last.block, last.warp) == (by.block, by.warp);
        if let Some(last) = self.records.last_mut().filter(of_warp) {
            if last.covers(by, 0) {
                return true;
            }
            if last.is_same(by, 0) {
                last.lanes |= by.lanes;
                return true;
            }
            if by.follows(last) && by.kind.hides(last.kind, true) {
                *last = *by;
                return true;
            }
        }
        let max = match sharing {
            Sharing::Block => APPENDED_MAX,
            Sharing::Unordered | Sharing::Ordered => RECORDS_FEW,
        };
        if self.records.len() >= max {
            return false;
        }
        self.records.push(*by);
        true
    }

    /// Drops records of other blocks, except two of each kind of access.
    ///
    /// A later access belongs to another block than one of the two, and races with it, because
    /// nothing orders the blocks. Two blocks that wrote different bytes have raced already.
    fn thin_out(&mut self, block: u64) {
        let mut records: SmallVec<[AccessRecord; RECORDS_INLINE]> = SmallVec::new();
        for record in self.records.drain(..) {
            if record.block == block {
                records.push(record);
                continue;
            }
            let alike = |other: &&mut AccessRecord| {
                let covers = other.bytes & record.bytes == record.bytes;
                other.block != block && other.kind == record.kind && covers
            };
            let (mut count, mut same_block) = (0, None);
            for other in records.iter_mut().filter(alike) {
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
                None if count < 2 => records.push(record),
                None => {}
            }
        }
        self.records = records;
    }
}

/// Returns the first pair of racing lanes, with the bytes at which any lanes' race is an error.
/// `None` if no lanes race.
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::access_record::AccessKind;
    use super::super::code_summary::CodeSummary;
    use super::super::race_model::RaceModel;
    use super::super::shadow_pages::ShadowMemory;
    use super::super::word_recorder::each_word;
    use super::*;

    const THREADS: u32 = 96;

    fn block(releases: bool) -> BlockThreads {
        let summary = CodeSummary {
            releases,
            scoped: false,
            patterns: false,
            sequential: false,
            barriers: true,
        };
        BlockThreads::new(0, THREADS, summary, RaceModel::new())
    }

    /// An access of one thread to the whole word at the line of its number.
    fn access(thread: u32, write: bool) -> AccessRecord {
        AccessRecord {
            bytes: 0b1111,
            ..AccessRecord::new(
                &block(false),
                thread / 32,
                1 << (thread % 32),
                thread,
                AccessKind::plain(write),
            )
        }
    }

    /// Records an access, and returns the lines of the accesses that it races with.
    fn racing(
        word: &mut ShadowWord,
        by: &AccessRecord,
        threads: &BlockThreads,
        sharing: Sharing,
    ) -> Vec<u32> {
        let mut lines = Vec::new();
        word.record_access(by, threads, sharing, None, |pair| {
            lines.push(pair.earlier.pc)
        });
        lines
    }

    #[test]
    fn a_write_is_compared_with_each_of_many_readers() {
        for (sharing, releases) in [
            (Sharing::Block, false),
            (Sharing::Unordered, false),
            (Sharing::Ordered, true),
        ] {
            let threads = block(releases);
            let mut word = ShadowWord::default();
            for reader in 0..64 {
                let lines = racing(&mut word, &access(reader, false), &threads, sharing);
                assert!(lines.is_empty());
            }
            let lines = racing(&mut word, &access(95, true), &threads, sharing);
            assert!(lines.into_iter().eq(0..64), "{sharing:?}");
        }
    }

    #[test]
    fn a_barrier_drops_the_records_of_the_threads_that_it_orders() {
        let mut threads = block(false);
        let mut word = ShadowWord::default();
        for reader in 0..64 {
            racing(&mut word, &access(reader, false), &threads, Sharing::Block);
        }
        // A thread that does not take part.
        let mut epochs = vec![1; THREADS as usize];
        epochs[40] = 0;
        threads.before_all.advance(&Rc::new(epochs));
        racing(&mut word, &access(95, false), &threads, Sharing::Block);
        assert_eq!(word.records.len(), 2);
        let lines = racing(&mut word, &access(94, true), &threads, Sharing::Block);
        assert_eq!(lines, [40, 95]);
        threads
            .before_all
            .advance(&Rc::new(vec![1; THREADS as usize]));
        racing(&mut word, &access(0, false), &threads, Sharing::Block);
        assert_eq!(word.records.len(), 1);
    }

    proptest! {
        #[test]
        fn rows_and_lists_of_reads_have_the_races_of_their_words(
            sharing in prop_oneof![Just(Sharing::Block), Just(Sharing::Unordered)],
            accesses in vec(
                (0..6u32, 0..3u32, 0..8u64, 1..5u32, 0..3usize, any::<[bool; 2]>()),
                1..60,
            ),
        ) {
            let mut threads = block(false);
            let mut memory = ShadowMemory::default();
            let mut words: [_; 64] = std::array::from_fn(|_| ShadowWord::default());
            for (pc, (what, warp, slot, count, size, [other, part])) in (0..).zip(accesses) {
                // A barrier, perhaps without one thread.
                if what == 0 {
                    let mut epochs = vec![threads.epoch(0); THREADS as usize];
                    epochs[3] -= u32::from(part);
                    threads.before_all.advance(&Rc::new(epochs));
                    (0..3).for_each(|warp| threads.begin_epoch(warp));
                }
                // Mostly reads, at few places.
                let (write, bytes) = (what == 1, [4, 8, 1][size]);
                let (start, shift) = (slot / 3 * 64 + slot % 3 / 2 * 4, u32::from(part) * 3);
                let all = ((1 << (count * 4)) - 1) << shift;
                let total = if write { count as usize * 4 * bytes } else { 0 };
                let stored = &[u8::from(other); 256][..total];
                let mut by = AccessRecord::new(&threads, warp, all, pc, AccessKind::plain(write));
                by.block = u64::from(other && sharing == Sharing::Unordered);
                let place = (start, bytes as u64);
                // Some accesses are of one lane each.
                let whole = what != 2
                    && memory.record_row(place, &by, stored, (&threads, sharing));
                let (mut found, mut expected) = (vec![], vec![]);
                for (lane, at) in lanes(all).zip((0..).step_by(bytes)) {
                    by.lanes = 1 << lane;
                    let stored = stored.get(at..at + bytes).unwrap_or_default();
                    let place = (start + at as u64, bytes as u64);
                    each_word(place, stored, |word, bytes, value| {
                        (by.bytes, by.value) = (bytes, value);
                        let told = |pair: &RacingPair<'_>| {
                            let lanes = (pair.earlier_lane, pair.later_lane);
                            let errors = (pair.bytes, pair.errors, pair.errors_before);
                            (word, pair.earlier.pc, lanes, errors)
                        };
                        if !whole {
                            memory.record_access(word, &by, &threads, sharing, |pair| {
                                found.push(told(pair));
                            });
                        }
                        let word = &mut words[word as usize];
                        word.record_access(&by, &threads, sharing, None, |pair| {
                            expected.push(told(pair));
                        });
                    });
                }
                prop_assert_eq!(found, expected);
            }
        }
    }
}
