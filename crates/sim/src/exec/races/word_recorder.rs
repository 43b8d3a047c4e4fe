//! The recording of accesses word by word.

use super::access_record::{AccessRecord, Sharing};
use super::block_threads::BlockThreads;
use super::collector::RaceCollector;
use super::shadow::ShadowMemory;

/// Records accesses in one memory window.
pub(super) struct WordRecorder<'d, 'a> {
    pub(super) is_global: bool,
    pub(super) sharing: Sharing,
    pub(super) shadow: &'d mut ShadowMemory,
    pub(super) block: &'d BlockThreads,
    pub(super) collector: &'d mut RaceCollector<'a>,
}

impl WordRecorder<'_, '_> {
    /// Records an access to consecutive bytes, with the bytes that it stores, if any.
    pub(super) fn record(
        &mut self,
        by: &mut AccessRecord,
        (address, bytes): (u64, u64),
        stored: &[u8],
    ) {
        let Self {
            is_global,
            sharing,
            shadow,
            block,
            collector,
        } = self;
        // Most accesses are of one whole word.
        if bytes == 4 && address.is_multiple_of(4) {
            by.bytes = 0b1111;
            by.value = stored.try_into().unwrap_or_default();
            shadow.record_access(address / 4, by, block, *sharing, |pair| {
                collector.add(*is_global, address, by, pair, block);
            });
            return;
        }
        let end = address.saturating_add(bytes);
        let mut from = address;
        while from < end {
            let word = from / 4;
            let to = end.min(word * 4 + 4);
            by.bytes = ((1u8 << (to - word * 4)) - 1) & !((1u8 << (from - word * 4)) - 1);
            by.value = [0; 4];
            if let Some(stored) = stored.get((from - address) as usize..(to - address) as usize) {
                by.value[(from - word * 4) as usize..][..stored.len()].copy_from_slice(stored);
            }
            shadow.record_access(word, by, block, *sharing, |pair| {
                collector.add(*is_global, word * 4, by, pair, block);
            });
            from = to;
        }
    }
}
