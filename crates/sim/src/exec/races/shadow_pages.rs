//! The shadow words of a memory, in pages allocated on first use.
//!
//! Most accesses of a warp are to consecutive words that no other warp writes. Such an access is
//! one record, a [`Row`], and a page needs no words as long as all its accesses are rows. Before
//! another access of the page, each lane of the rows is recorded in the words, in the order of the
//! rows ([`Page::make_words`]). That gives the records that it would have given before: clocks
//! are not consulted, because rows overlap only if they all read, and then not too many of them.

use smallvec::SmallVec;

use super::access_record::{AccessRecord, Sharing};
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

#[derive(Debug, Default)]
struct Page {
    /// The accesses of the page, as long as it has no words.
    rows: SmallVec<[Row; 2]>,
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
            self.make_words(threads, sharing);
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
        if self.words.is_some() {
            return false;
        }
        let (start, end, writes) = (row.start, row.end(), row.access.kind.write);
        let rows = &mut self.rows;
        let overlaps = |at: &usize| rows[*at].start < end && start < rows[*at].end();
        let near: SmallVec<[usize; 8]> = (0..rows.len()).filter(overlaps).collect();
        if !matches!(near[..], [only] if rows[only].follow(&row, threads, sharing)) {
            // Each word has a record of each row.
            let read = |row: &Row| !row.access.kind.write && row.lane_bytes >= 4;
            let all_read = read(&row) && near.iter().all(|at| read(&rows[*at]));
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

    /// Records the rows in words.
    #[cold]
    fn make_words(&mut self, threads: &BlockThreads, sharing: Sharing) {
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
        self.words = Some(words);
    }
}

/// The shadow words of a memory.
#[derive(Debug, Default)]
pub(super) struct ShadowMemory {
    /// The pages by the number of each.
    pages: ByAddress<Page>,
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
            page.make_words(threads, sharing);
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
