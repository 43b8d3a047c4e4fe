//! Asynchronous copies that their threads have not waited for.
//!
//! A `cp.async` reads its source and writes its target at any time between its start and the wait
//! of its thread; only that wait, or an mbarrier object that tracks the copy, completes it. An
//! access that runs in between therefore races with the copy, whichever thread makes it, and
//! whatever orders it behind the start. An access that runs before or after may be unordered with
//! the copy all the same: for such accesses, the copy counts as one at its start and as another at
//! the wait.

use std::collections::BTreeMap;
use std::ops::Range;

use super::access_record::AccessKind;
use super::collector::RaceCollector;
use super::{access_record::AccessRecord, block_threads::BlockThreads, shadow::RacingPair};
use crate::exec::observer::AsyncCopy;
use crate::ptx::ir::Window;

/// The copies of a block that are in flight.
#[derive(Debug, Default)]
pub(super) struct CopiesInFlight {
    /// The copies, by warp and number.
    copies: BTreeMap<(u32, u64), AsyncCopy>,
    /// One bit for each word of shared memory that copies write.
    targets: Vec<u64>,
    /// Addresses in global memory that include all sources.
    sources: Range<u64>,
}

/// The bytes common to two ranges.
fn common(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

impl CopiesInFlight {
    pub(super) fn start(&mut self, warp: u32, copy: &AsyncCopy) {
        if self.copies.is_empty() {
            self.sources = copy.source.clone();
        }
        let Range { start, end } = &copy.source;
        self.sources = self.sources.start.min(*start)..self.sources.end.max(*end);
        self.mark(&copy.target, true);
        self.copies.insert((warp, copy.number), copy.clone());
    }

    pub(super) fn complete(&mut self, warp: u32, number: u64) {
        if let Some(copy) = self.copies.remove(&(warp, number)) {
            self.mark(&copy.target, false);
        }
    }

    fn mark(&mut self, target: &Range<u64>, writes: bool) {
        for word in target.start / 4..target.end.div_ceil(4) {
            let (at, bit) = ((word / 64) as usize, 1 << (word % 64));
            if self.targets.len() <= at {
                self.targets.resize(at + 1, 0);
            }
            self.targets[at] = self.targets[at] & !bit | if writes { bit } else { 0 };
        }
    }

    /// Returns the copies that may race with an access: those that write the bytes, and those that
    /// read the bytes if the access writes.
    fn racing(
        &self,
        window: Window,
        bytes: &Range<u64>,
        write: bool,
    ) -> impl Iterator<Item = (u32, &AsyncCopy, bool)> {
        let is_target = |word: u64| {
            let bits = self.targets.get((word / 64) as usize);
            bits.is_some_and(|bits| bits >> (word % 64) & 1 == 1)
        };
        let mut words = bytes.start / 4..bytes.end.div_ceil(4);
        let write = write && window == Window::Global;
        let target = window == Window::Shared && words.any(is_target);
        let source = write && !common(&self.sources, bytes).is_empty();
        let copies = (target || source).then_some(&self.copies);
        let copies = copies.into_iter().flatten();
        copies.filter_map(move |((warp, _), copy)| {
            let range = if target { &copy.target } else { &copy.source };
            (!common(range, bytes).is_empty()).then_some((*warp, copy, target))
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// Adds the races of a lane's access with the copies in flight. `stored` holds the bytes that
    /// it writes.
    pub(super) fn check(
        &self,
        (window, range): (Window, Range<u64>),
        mut by: AccessRecord,
        stored: &[u8],
        threads: &BlockThreads,
        collector: &mut RaceCollector<'_>,
    ) {
        for (warp, copy, is_target) in self.racing(window, &range, by.kind.write) {
            let kind = AccessKind::plain(is_target);
            let mut earlier = AccessRecord::new(threads, warp, 1 << copy.lane, copy.pc, kind);
            let of_copy = if is_target {
                &copy.target
            } else {
                &copy.source
            };
            let bytes = common(of_copy, &range);
            for word in bytes.start / 4..bytes.end.div_ceil(4) {
                (earlier.bytes, earlier.value, by.value) = (0, [0; 4], [0; 4]);
                for byte in common(&(word * 4..word * 4 + 4), &bytes) {
                    let value =
                        |of: &[u8], from: u64| of.get((byte - from) as usize).copied().unwrap_or(0);
                    let at = (byte % 4) as usize;
                    earlier.bytes |= 1 << at;
                    earlier.value[at] = value(&copy.value, of_copy.start);
                    by.value[at] = value(stored, range.start);
                }
                by.bytes = earlier.bytes;
                let pair = RacingPair {
                    earlier: &earlier,
                    earlier_lane: copy.lane,
                    later_lane: by.lanes.trailing_zeros() as usize,
                    bytes: by.bytes,
                    errors: earlier.errors_with(&by, by.bytes),
                    errors_before: 0,
                    volatile: false,
                };
                collector.add_copy(window == Window::Global, word * 4, &by, &pair);
            }
        }
    }
}
