//! Who used each word of memory: for each four bytes, the accesses that a later one could race with.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::threads::Threads;
use crate::exec::registers::lanes;

/// Words of memory of a page.
const PAGE_WORDS: u64 = 64;

/// How many accesses are remembered of one word.
const RECORDS_MAX: usize = 64;

/// How many there are before those of other blocks are thinned out.
const RECORDS_FEW: usize = 8;

/// How an access touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) write: bool,
    /// Atomic, volatile, relaxed, acquire or release.
    pub(super) strong: bool,
    /// Strong among threads of the block only.
    pub(super) block_only: bool,
}

impl Class {
    /// Whether two accesses race unless one comes before the other.
    fn conflicts(self, other: Self, same_block: bool) -> bool {
        let reach = same_block || !(self.block_only || other.block_only);
        (self.write || other.write) && !(self.strong && other.strong && reach)
    }

    /// Whether whatever races with `earlier`, which comes before this, races with this too.
    fn hides(self, earlier: Self) -> bool {
        let reaches_less = self.block_only || !earlier.block_only;
        match (self.write, self.strong) {
            (true, false) => true,
            (false, false) => !earlier.write,
            (true, true) => earlier.strong && reaches_less,
            (false, true) => earlier.strong && !earlier.write && reaches_less,
        }
    }
}

/// An access of some lanes of a warp to bytes of one word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) block: u64,
    pub(super) warp: u32,
    pub(super) lanes: u32,
    pub(super) stamp: u32,
    pub(super) pc: u32,
    pub(super) class: Class,
    /// A bit for each of the four bytes.
    pub(super) bytes: u8,
}

impl Record {
    /// Whether the same threads did the same to the same bytes, and nobody was told of it between.
    fn covers(&self, other: &Self) -> bool {
        let lanes = self.lanes & other.lanes == other.lanes;
        let bytes = self.bytes & other.bytes == other.bytes;
        lanes && bytes && self.is_like(other)
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.block, self.warp, self.stamp, self.class) == (other.block, other.warp, other.stamp, other.class)
    }
}

/// Two threads that race: a record and a lane of it, and the lane of the later access.
pub(super) struct Clash<'a> {
    pub(super) earlier: &'a Record,
    pub(super) earlier_lane: usize,
    pub(super) later_lane: usize,
    pub(super) bytes: u8,
}

/// The accesses to one word that have to be remembered.
#[derive(Debug, Default)]
pub(super) struct Word {
    records: SmallVec<[Record; 1]>,
}

impl Word {
    /// Enters an access of threads of the block at hand, and tells of those that it races with. Without `ordered_blocks`, nothing ever
    /// orders a block with another.
    pub(super) fn touch(
        &mut self,
        by: &Record,
        threads: &Threads,
        ordered_blocks: bool,
        mut clash: impl FnMut(&Clash<'_>),
    ) {
        if self.records.iter().any(|record| record.covers(by)) {
            return;
        }
        self.records.retain(|earlier| {
            let common = earlier.bytes & by.bytes;
            let conflicts = by.class.conflicts(earlier.class, earlier.block == by.block);
            let hides = by.class.hides(earlier.class);
            if common == 0 || !(conflicts || hides) {
                return true;
            }
            let mut stay = 0;
            let mut told = false;
            for earlier_lane in lanes(earlier.lanes) {
                let first = by.warp as usize * 32;
                let before = |lane: &usize| threads.is_before(earlier, earlier_lane, first + lane);
                if !(hides && lanes(by.lanes).any(|lane| before(&lane))) {
                    stay |= 1 << earlier_lane;
                }
                if conflicts
                    && !told
                    && let Some(later_lane) = lanes(by.lanes).find(|lane| !before(lane))
                {
                    told = true;
                    clash(&Clash {
                        earlier,
                        earlier_lane,
                        later_lane,
                        bytes: common,
                    });
                }
            }
            if stay == 0 {
                earlier.bytes &= !by.bytes;
            } else if earlier.bytes & !by.bytes == 0 {
                earlier.lanes = stay;
            }
            earlier.bytes != 0
        });
        let same =
            |record: &&mut Record| record.is_like(by) && (record.pc, record.bytes) == (by.pc, by.bytes);
        if let Some(record) = self.records.iter_mut().find(same) {
            record.lanes |= by.lanes;
            return;
        }
        if self.records.len() >= RECORDS_FEW && !ordered_blocks {
            self.thin_out(by.block);
        }
        if self.records.len() >= RECORDS_MAX {
            self.records.remove(0);
        }
        self.records.push(*by);
    }

    /// Forgets accesses of other blocks but two of each class: whoever comes later is of another block than one of them, and races with
    /// that, as nothing orders blocks.
    fn thin_out(&mut self, block: u64) {
        let mut kept: SmallVec<[Record; RECORDS_FEW]> = SmallVec::new();
        self.records.retain(|record| {
            let alike =
                |other: &&Record| other.class == record.class && other.bytes & record.bytes == record.bytes;
            let (mut count, mut same_block) = (0, false);
            for other in kept.iter().filter(alike) {
                count += 1;
                same_block |= other.block == record.block;
            }
            let keep = record.block == block || (count < 2 && !same_block);
            if keep && record.block != block {
                kept.push(*record);
            }
            keep
        });
    }
}

/// The words of a memory, in pages that are made when they are needed.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    pages: BTreeMap<u64, usize>,
    words: Vec<Box<[Word]>>,
    /// The page used last, and where it is.
    last: Option<(u64, usize)>,
}

impl Shadow {
    /// The word of that number.
    pub(super) fn word(&mut self, number: u64) -> &mut Word {
        let (page, at) = (number / PAGE_WORDS, (number % PAGE_WORDS) as usize);
        let index = match self.last {
            Some((last, index)) if last == page => index,
            _ => {
                let words = &mut self.words;
                let index = *self.pages.entry(page).or_insert_with(|| {
                    words.push((0..PAGE_WORDS).map(|_| Word::default()).collect());
                    words.len() - 1
                });
                self.last = Some((page, index));
                index
            }
        };
        &mut self.words[index][at]
    }
}
