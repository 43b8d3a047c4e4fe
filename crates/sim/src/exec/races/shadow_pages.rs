//! The shadow words of a memory, in pages allocated on first use.
//!
//! Most accesses of a warp are to consecutive words that no other warp writes. Such an access is
//! one record, a [`Row`], and a page needs no words as long as all its accesses are rows. Before
//! another access of the page, each lane of the rows is recorded in the words, in the order of the
//! rows ([`Page::make_words`]). That gives the records that it would have given before: clocks
//! are not consulted, because rows overlap only if they all read, and then not too many of them.
//!
//! Loads of single words of global memory, at random places, need no words either. A page has a
//! list of them, five in one line of the processor's cache, while a word takes two or three lines.
//! They are recorded in the words behind the rows, and not too many of one word.

use smallvec::SmallVec;

use super::access_record::{AccessKind, AccessRecord, Sharing};
use super::block_threads::BlockThreads;
use super::by_address::ByAddress;
use super::observation::ObservationLog;
use super::shadow::{RECORDS_FEW, RacingPair, ShadowWord};
use super::word_recorder::each_word;
use crate::exec::registers::lanes;

const PAGE_WORDS: u64 = 64;

/// The size of a page in bytes, at least that of the widest access of a lane.
pub(super) const PAGE_BYTES: u64 = PAGE_WORDS * 4;

/// The maximum number of rows of a page.
const ROWS_MAX: usize = 40;

/// An access of adjacent lanes to consecutive words of a page.
#[derive(Debug)]
struct Row {
    /// The access of all lanes, with the bytes of one of a lane's words.
    access: AccessRecord,
    /// The address of the first byte in the page.
    start: u64,
    /// The size of one lane's access in bytes.
    lane_bytes: u64,
}

impl Row {
    fn end(&self) -> u64 {
        self.start + u64::from(self.access.lanes.count_ones()) * self.lane_bytes
    }

    /// Returns whether each word has a record of one lane that reads it.
    fn reads_words(&self) -> bool {
        !self.access.kind.write && self.lane_bytes >= 4
    }

    /// Replaces a read by a later access of the same lanes to the same words. Returns `false` if
    /// the words would have several records each, or different ones.
    fn follow(&mut self, later: &Self, threads: &BlockThreads, sharing: Sharing) -> bool {
        let (by, earlier) = (&later.access, self.access);
        let same_lanes = by.follows(&earlier) && by.lanes == earlier.lanes;
        let same_bytes = (self.start, self.lane_bytes) == (later.start, later.lane_bytes);
        // Several lanes access a word if they access less than 4 bytes.
        if earlier.kind.write || self.lane_bytes < 4 || !(same_lanes && same_bytes) {
            return false;
        }
        if earlier.covers(by, 0) {
            return true;
        }
        let lane = by.lanes.trailing_zeros() as usize;
        let of_lane = |access: &AccessRecord| AccessRecord {
            lanes: 1 << lane,
            ..*access
        };
        let (mut entered, hidden) = (of_lane(by), of_lane(&earlier));
        let order = (&threads.before_all, sharing);
        let hides = by.kind.hides(earlier.kind, true)
            && (!by.kind.write || entered.takes_over(&hidden, lane, !0, order));
        if hides {
            self.access = AccessRecord {
                lanes: by.lanes,
                ..entered
            };
        }
        hides
    }
}

/// A plain read of bytes of one word by lanes of a warp.
#[derive(Debug)]
struct Read {
    /// The index of the warp's access.
    access: u32,
    lanes: u32,
    /// The word's number in the page.
    word: u8,
    bytes: u8,
}

/// The reads of single words of a page, which are behind the rows of these words.
#[derive(Debug, Default)]
struct Reads {
    all: Vec<Read>,
    /// The number of reads of each word.
    counts: [[u8; 8]; PAGE_WORDS as usize / 8],
}

#[derive(Debug, Default)]
struct Page {
    /// The accesses of the page, as long as it has no words.
    rows: SmallVec<[Row; 2]>,
    reads: Option<Box<Reads>>,
    /// The bytes that the rows write.
    written: Option<Box<[u8; PAGE_BYTES as usize]>>,
    /// The block's phase at the last access by a row.
    phase: u32,
    words: Option<Box<[ShadowWord]>>,
    /// The logs of the words, if there has been a strong access.
    logs: Option<Box<[ObservationLog]>>,
}

impl Page {
    /// Drops the rows that happen before every later access of the block.
    fn begin_phase(&mut self, threads: &BlockThreads, sharing: Sharing) {
        let before_all = &threads.before_all;
        if sharing != Sharing::Block || self.phase == before_all.phase() {
            return;
        }
        self.phase = before_all.phase();
        self.rows.retain(|row| !before_all.includes(&row.access));
        // Some lanes of a row may have to be dropped.
        if !self.rows.is_empty() {
            self.make_words(&[], threads, sharing);
        }
    }

    /// Records a row, unless it needs words. Returns whether it is recorded.
    fn record_row(
        &mut self,
        row: Row,
        stored: &[u8],
        threads: &BlockThreads,
        sharing: Sharing,
    ) -> bool {
        self.begin_phase(threads, sharing);
        let (start, end, writes) = (row.start, row.end(), row.access.kind.write);
        let words = start as usize / 4..end.div_ceil(4) as usize;
        let has_reads = |reads: &Reads| reads.counts.as_flattened()[words].iter().any(|of| *of > 0);
        if self.words.is_some() || self.reads.as_deref().is_some_and(has_reads) {
            return false;
        }
        let rows = &mut self.rows;
        let overlaps = |at: &usize| rows[*at].start < end && start < rows[*at].end();
        let near: SmallVec<[usize; 8]> = (0..rows.len()).filter(overlaps).collect();
        if !matches!(near[..], [only] if rows[only].follow(&row, threads, sharing)) {
            // Each word has a record of each row.
            let all_read = row.reads_words() && near.iter().all(|at| rows[*at].reads_words());
            let apart = near.is_empty() || all_read && near.len() < RECORDS_FEW;
            if !apart || rows.len() >= ROWS_MAX {
                return false;
            }
            rows.push(row);
        }
        if writes {
            let written = self
                .written
                .get_or_insert_with(|| Box::new([0; PAGE_BYTES as usize]));
            written[start as usize..end as usize].copy_from_slice(stored);
        }
        true
    }

    /// Lists a plain read of a word of global memory, unless it needs words. Returns whether it is
    /// listed. `access` is the index that the warp's access has or would get.
    #[inline]
    fn record_read(&mut self, word: usize, by: &AccessRecord, access: usize) -> bool {
        let start = word as u64 * 4;
        let rows = self.rows.iter();
        let mut near = rows.filter(|row| row.start < start + 4 && start < row.end());
        let Reads { all, counts } = &mut **self.reads.get_or_insert_default();
        let count = &mut counts.as_flattened_mut()[word];
        let known = near.try_fold(*count, |known, row| row.reads_words().then_some(known + 1));
        let listed = known.is_some_and(|known| usize::from(known) < RECORDS_FEW);
        if listed {
            *count += 1;
            all.push(Read {
                access: access as u32,
                lanes: by.lanes,
                word: word as u8,
                bytes: by.bytes,
            });
        }
        listed
    }

    /// Records the rows and the reads in words.
    #[cold]
    fn make_words(&mut self, accesses: &[AccessRecord], threads: &BlockThreads, sharing: Sharing) {
        let mut words: Box<[ShadowWord]> = (0..PAGE_WORDS).map(|_| Default::default()).collect();
        let written = self.written.take();
        for row in self.rows.drain(..) {
            let mut by = row.access;
            let starts = (row.start..row.end()).step_by(row.lane_bytes as usize);
            for (lane, start) in lanes(row.access.lanes).zip(starts) {
                by.lanes = 1 << lane;
                if sharing == Sharing::Block && threads.before_all.includes_lane(&by, lane) {
                    continue;
                }
                let stored = written.as_ref().filter(|_| by.kind.write);
                let stored =
                    stored.map(|bytes| &bytes[start as usize..][..row.lane_bytes as usize]);
                each_word(
                    (start, row.lane_bytes),
                    stored.unwrap_or_default(),
                    |word, bytes, value| {
                        (by.bytes, by.value) = (bytes, value);
                        words[word as usize].record_access(&by, threads, sharing, None, |_| ());
                    },
                );
            }
        }
        for read in self.reads.take().unwrap_or_default().all {
            let by = AccessRecord {
                lanes: read.lanes,
                bytes: read.bytes,
                ..accesses[read.access as usize]
            };
            let word = &mut words[usize::from(read.word)];
            word.record_access(&by, threads, sharing, None, |_| ());
        }
        self.words = Some(words);
    }
}

/// The shadow words of a memory.
#[derive(Debug, Default)]
pub(super) struct ShadowMemory {
    /// The pages by the number of each.
    pages: ByAddress<Page>,
    /// The accesses of warps that the pages' reads belong to.
    reads: Vec<AccessRecord>,
}

impl ShadowMemory {
    /// Records an access to the word with the given number, and calls `pair` for each record with
    /// which it races.
    pub(super) fn record_access(
        &mut self,
        number: u64,
        by: &AccessRecord,
        threads: &BlockThreads,
        sharing: Sharing,
        pair: impl FnMut(&RacingPair<'_>),
    ) {
        let at = (number % PAGE_WORDS) as usize;
        let page = self.pages.get_or_default(number / PAGE_WORDS);
        if page.words.is_none() {
            let is_plain = sharing != Sharing::Block && by.kind == AccessKind::plain(false);
            let is_same = |last: &AccessRecord| last.is_like(by) && last.pc == by.pc;
            let is_known = self.reads.last().is_some_and(is_same);
            let access = self.reads.len() - usize::from(is_known);
            if is_plain && page.record_read(at, by, access) {
                self.reads.extend((!is_known).then_some(*by));
                return;
            }
            page.make_words(&self.reads, threads, sharing);
        }
        let (words, logs) = (page.words.get_or_insert_default(), &mut page.logs);
        if by.kind.strong {
            logs.get_or_insert_with(|| (0..PAGE_WORDS).map(|_| Default::default()).collect());
        }
        let mut log = logs.as_mut().map(|logs| &mut logs[at]);
        words[at].record_access(by, threads, sharing, log.as_deref(), pair);
        match &mut log {
            Some(log) if by.kind.strong => log.add(by),
            Some(log) if by.kind.write => log.overwrite(),
            _ => {}
        }
    }

    /// Records a weak access of adjacent lanes to consecutive bytes, whole words of one page,
    /// unless some of these have another record. Returns whether it is recorded.
    pub(super) fn record_row(
        &mut self,
        (address, lane_bytes): (u64, u64),
        by: &AccessRecord,
        stored: &[u8],
        (threads, sharing): (&BlockThreads, Sharing),
    ) -> bool {
        let row = Row {
            access: AccessRecord {
                bytes: 0b1111,
                value: [0; 4],
                ..*by
            },
            start: address % PAGE_BYTES,
            lane_bytes,
        };
        let page = self.pages.get_or_default(address / PAGE_BYTES);
        page.record_row(row, stored, threads, sharing)
    }
}
