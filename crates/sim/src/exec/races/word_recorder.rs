//! The recording of accesses word by word.

use std::ops::Range;

use super::access_record::{AccessRecord, Sharing};
use super::block_threads::BlockThreads;
use super::collector::RaceCollector;
use super::shadow_pages::{PAGE_BYTES, ShadowMemory};
use crate::exec::warp_access::WarpAccess;

/// Records accesses in one memory window.
pub(super) struct WordRecorder<'d, 'a> {
    pub(super) is_global: bool,
    pub(super) sharing: Sharing,
    pub(super) shadow: &'d mut ShadowMemory,
    pub(super) block: &'d BlockThreads,
    pub(super) collector: &'d mut RaceCollector<'a>,
}

/// The number of consecutive words from which an access of adjacent lanes is recorded as one.
const ROW_WORDS: usize = 4;

impl WordRecorder<'_, '_> {
    /// Records an access to consecutive bytes, with the bytes that it stores, if any.
    pub(super) fn record(&mut self, by: &mut AccessRecord, range: (u64, u64), stored: &[u8]) {
        let Self {
            is_global,
            sharing,
            shadow,
            block,
            collector,
        } = self;
        each_word(range, stored, |word, bytes, value| {
            (by.bytes, by.value) = (bytes, value);
            shadow.record_access(word, by, block, *sharing, |pair| {
                collector.add(*is_global, word * 4, by, pair, block);
            });
        });
    }

    /// Records the lanes of a weak access that access consecutive words, without a record for each
    /// word if there need not be one. Returns the access of the other lanes.
    ///
    /// `stored` holds the bytes that a store writes, lane after lane.
    pub(super) fn record_rows(
        &mut self,
        by: &mut AccessRecord,
        warp_access: &WarpAccess,
        stored: Option<&[u8]>,
    ) -> WarpAccess {
        if by.kind.strong || by.kind.write && stored.is_none() {
            return *warp_access;
        }
        let WarpAccess {
            addresses,
            mask,
            bytes,
            ..
        } = *warp_access;
        let lane_bytes = bytes as u64;
        let continuing = warp_access.continuing();
        // No two lanes access the same bytes.
        let mut end = 0;
        let mut runs = warp_access.runs(continuing);
        let ascend = runs.all(|run| {
            let before =
                std::mem::replace(&mut end, addresses[run.end - 1].saturating_add(lane_bytes));
            addresses[run.start] >= before
        });
        if !ascend {
            return *warp_access;
        }
        let mut rest = mask;
        let long = |run: &Range<usize>| run.len() * bytes >= ROW_WORDS * 4;
        for run in warp_access.runs(continuing).filter(long) {
            let mut first = run.start;
            while first < run.end {
                let address = addresses[first];
                let in_page = (PAGE_BYTES - address % PAGE_BYTES) / lane_bytes;
                let count = in_page.clamp(1, (run.end - first) as u64);
                let total = count * lane_bytes;
                let whole = address.is_multiple_of(lane_bytes.max(4)) && total.is_multiple_of(4);
                if whole {
                    by.lanes = u32::MAX >> (32 - count) << first;
                    let stored = stored.map(|stored| &stored[first * bytes..][..total as usize]);
                    let place = (address, lane_bytes);
                    let block = (self.block, self.sharing);
                    if self
                        .shadow
                        .record_row(place, by, stored.unwrap_or_default(), block)
                    {
                        rest &= !by.lanes;
                    }
                }
                first += count as usize;
            }
        }
        WarpAccess {
            mask: rest,
            ..*warp_access
        }
    }
}

/// Calls `part` for each word of a range of bytes: with its number, which of its bytes are in the
/// range, and the values that are stored there, if any.
#[inline(always)]
pub(super) fn each_word(
    (address, bytes): (u64, u64),
    stored: &[u8],
    mut part: impl FnMut(u64, u8, [u8; 4]),
) {
    // Most accesses are of one whole word.
    if bytes == 4 && address.is_multiple_of(4) {
        return part(address / 4, 0b1111, stored.try_into().unwrap_or_default());
    }
    let end = address.saturating_add(bytes);
    let mut from = address;
    while from < end {
        let word = from / 4;
        let to = end.min(word * 4 + 4);
        let accessed = ((1u8 << (to - word * 4)) - 1) & !((1u8 << (from - word * 4)) - 1);
        let mut value = [0; 4];
        if let Some(stored) = stored.get((from - address) as usize..(to - address) as usize) {
            value[(from - word * 4) as usize..][..stored.len()].copy_from_slice(stored);
        }
        part(word, accessed, value);
        from = to;
    }
}
