//! Shadow memory: the histories of an allocation's bytes, one for a run of pages with the same
//! history, or one for each word or byte of a page.

use std::{collections::BTreeMap, ops::Range};

use super::history::{HistoryId, MemoryAccess};
use crate::memory::AccessFlags;

const PAGE: u64 = 4096;
const WORD: u64 = 4;

/// The histories of one page, or of several with the same history.
#[derive(Clone, Debug)]
enum PageHistories {
    /// A run of pages with one history.
    Same(HistoryId, u64),
    /// One page, with a history for each word.
    Words(Box<[HistoryId]>),
    /// One page, with a history for each byte.
    Bytes(Box<[HistoryId]>),
}

impl PageHistories {
    fn pages(&self) -> u64 {
        match self {
            Self::Same(_, pages) => *pages,
            Self::Words(_) | Self::Bytes(_) => 1,
        }
    }

    /// Returns the common history of the first `bytes` bytes, if there is one.
    fn uniform(&self, bytes: u64) -> Option<HistoryId> {
        let same = |histories: &[HistoryId], size: u64| {
            let histories = &histories[..bytes.div_ceil(size) as usize];
            histories
                .iter()
                .all(|history| *history == histories[0])
                .then(|| histories[0])
        };
        match self {
            Self::Same(history, _) => Some(*history),
            Self::Words(histories) => same(histories, WORD),
            Self::Bytes(histories) => same(histories, 1),
        }
    }
}

/// The histories of all bytes of an allocation. Pages without accesses are not stored.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    fresh: HistoryId,
    bytes: u64,
    /// The stored runs, by the number of the first page.
    page_histories: BTreeMap<u64, PageHistories>,
}

/// A visitor of bytes with one history, which returns their new history.
type Visit<'v, T> = dyn FnMut(HistoryId, Range<u64>, &T) -> HistoryId + 'v;

impl Pages {
    /// Creates the shadow memory of an allocation of `bytes` bytes with history `fresh`.
    pub(super) fn new(fresh: HistoryId, bytes: u64) -> Self {
        Self {
            fresh,
            bytes,
            page_histories: BTreeMap::new(),
        }
    }

    /// Visits the bytes of ascending, disjoint runs in parts, each with one history.
    pub(super) fn visit<T>(&mut self, runs: &[(Range<u64>, T)], visit: &mut Visit<'_, T>) {
        let mut open: Option<(u64, PageHistories)> = None;
        for (range, tag) in runs {
            let range = range.start..range.end.min(self.bytes);
            let mut at = range.start;
            while at < range.end {
                let page = at / PAGE;
                let page_end = ((page + 1) * PAGE).min(self.bytes);
                let whole = at == page * PAGE && range.end >= page_end;
                if whole && open.as_ref().is_none_or(|(opened, _)| *opened != page) {
                    self.close(open.take());
                    let end = if range.end == self.bytes {
                        self.bytes.div_ceil(PAGE)
                    } else {
                        range.end / PAGE
                    };
                    self.visit_pages(page..end, tag, visit);
                    at = (end * PAGE).min(range.end);
                    continue;
                }
                let end = range.end.min(page_end);
                let mut page_histories = match open.take() {
                    Some((opened, page_histories)) if opened == page => page_histories,
                    other => {
                        self.close(other);
                        self.open(page)
                    }
                };
                visit_part(
                    &mut page_histories,
                    page * PAGE,
                    at..end,
                    self.bytes,
                    tag,
                    visit,
                );
                open = Some((page, page_histories));
                at = end;
            }
        }
        self.close(open);
    }

    /// Visits all histories with their bytes, except bytes without accesses.
    pub(super) fn each(&self, mut each: impl FnMut(HistoryId)) {
        for page_histories in self.page_histories.values() {
            match page_histories {
                PageHistories::Same(history, _) => each(*history),
                PageHistories::Words(histories) | PageHistories::Bytes(histories) => {
                    let mut last = None;
                    for history in histories {
                        if last != Some(*history) {
                            each(*history);
                        }
                        last = Some(*history);
                    }
                }
            }
        }
    }

    pub(super) fn renumber(&mut self, renumber: &mut dyn FnMut(&mut HistoryId)) {
        for page_histories in self.page_histories.values_mut() {
            match page_histories {
                PageHistories::Same(history, _) => renumber(history),
                PageHistories::Words(histories) | PageHistories::Bytes(histories) => {
                    histories.iter_mut().for_each(&mut *renumber)
                }
            }
        }
    }

    /// Removes one page.
    fn open(&mut self, page: u64) -> PageHistories {
        self.split(page);
        self.split(page + 1);
        self.page_histories
            .remove(&page)
            .unwrap_or(PageHistories::Same(self.fresh, 1))
    }

    /// Inserts a removed page again.
    fn close(&mut self, page: Option<(u64, PageHistories)>) {
        let Some((page, page_histories)) = page else {
            return;
        };
        match page_histories.uniform(PAGE.min(self.bytes - page * PAGE)) {
            Some(history) if history == self.fresh => {}
            Some(history) => {
                self.page_histories
                    .insert(page, PageHistories::Same(history, 1));
                self.join(page..page + 1);
            }
            None => {
                self.page_histories.insert(page, page_histories);
            }
        }
    }

    /// Splits a run of pages so that this page begins one.
    fn split(&mut self, page: u64) {
        if let Some((&first, page_histories)) = self.page_histories.range_mut(..page).next_back()
            && let PageHistories::Same(history, pages) = page_histories
            && first + *pages > page
        {
            let rest = PageHistories::Same(*history, first + *pages - page);
            *pages = page - first;
            self.page_histories.insert(page, rest);
        }
    }

    fn visit_pages<T>(&mut self, range: Range<u64>, tag: &T, visit: &mut Visit<'_, T>) {
        self.split(range.start);
        self.split(range.end);
        self.store_fresh(range.clone());
        for (&page, page_histories) in self.page_histories.range_mut(range.clone()) {
            let from = page * PAGE;
            let to = ((page + page_histories.pages()) * PAGE).min(self.bytes);
            match page_histories {
                PageHistories::Same(history, _) => *history = visit(*history, from..to, tag),
                PageHistories::Words(_) | PageHistories::Bytes(_) => {
                    visit_part(page_histories, from, from..to, self.bytes, tag, visit);
                    if let Some(history) = page_histories.uniform(to - from) {
                        *page_histories = PageHistories::Same(history, 1);
                    }
                }
            }
        }
        self.join(range);
    }

    fn store_fresh(&mut self, range: Range<u64>) {
        let mut at = range.start;
        let mut gaps = Vec::new();
        for (&page, page_histories) in self.page_histories.range(range.clone()) {
            if page > at {
                gaps.push((at, page - at));
            }
            at = page + page_histories.pages();
        }
        if at < range.end {
            gaps.push((at, range.end - at));
        }
        for (page, pages) in gaps {
            self.page_histories
                .insert(page, PageHistories::Same(self.fresh, pages));
        }
    }

    /// Merges adjacent runs with the same history, in the range and at its edges.
    fn join(&mut self, range: Range<u64>) {
        let before = self
            .page_histories
            .range(..range.start)
            .next_back()
            .map(|(page, _)| *page);
        let mut last: Option<(u64, HistoryId, u64)> = None;
        let mut absorbed = Vec::new();
        let mut grown = Vec::new();
        for (&page, page_histories) in self
            .page_histories
            .range(before.unwrap_or(range.start)..=range.end)
        {
            let PageHistories::Same(history, pages) = page_histories else {
                grown.extend(last.take());
                continue;
            };
            match &mut last {
                Some((first, same, count)) if *same == *history && *first + *count == page => {
                    *count += pages;
                    absorbed.push(page);
                }
                _ => {
                    grown.extend(last.take());
                    last = Some((page, *history, *pages));
                }
            }
        }
        if absorbed.is_empty() {
            return;
        }
        grown.extend(last);
        for page in absorbed {
            self.page_histories.remove(&page);
        }
        for (page, history, pages) in grown {
            self.page_histories
                .insert(page, PageHistories::Same(history, pages));
        }
    }
}

/// Visits a part of one page that begins at `base`.
fn visit_part<T>(
    page_histories: &mut PageHistories,
    base: u64,
    range: Range<u64>,
    end_of_all: u64,
    tag: &T,
    visit: &mut Visit<'_, T>,
) {
    // Bytes beyond the end of the allocation may be visited along with its last bytes.
    let by_words = range.start.is_multiple_of(WORD)
        && (range.end.is_multiple_of(WORD) || range.end == end_of_all);
    refine(page_histories, by_words);
    let (histories, size) = match page_histories {
        PageHistories::Same(..) => return,
        PageHistories::Words(histories) => (histories, WORD),
        PageHistories::Bytes(histories) => (histories, 1),
    };
    let (first, last) = (
        (range.start - base) / size,
        (range.end - base).div_ceil(size),
    );
    let histories = &mut histories[first as usize..last as usize];
    let mut at = 0;
    while at < histories.len() {
        let old = histories[at];
        let count = histories[at..]
            .iter()
            .take_while(|history| **history == old)
            .count();
        let from = range.start + at as u64 * size;
        let to = (from + count as u64 * size).min(range.end);
        let new = visit(old, from..to, tag);
        histories[at..at + count].fill(new);
        at += count;
    }
}

/// Splits a page into a history for each word, or for each byte.
fn refine(page_histories: &mut PageHistories, by_words: bool) {
    match page_histories {
        PageHistories::Same(history, _) => {
            *page_histories = if by_words {
                PageHistories::Words(vec![*history; (PAGE / WORD) as usize].into())
            } else {
                PageHistories::Bytes(vec![*history; PAGE as usize].into())
            };
        }
        PageHistories::Words(histories) if !by_words => {
            let bytes = histories
                .iter()
                .flat_map(|history| [*history; WORD as usize])
                .collect();
            *page_histories = PageHistories::Bytes(bytes);
        }
        PageHistories::Words(_) | PageHistories::Bytes(_) => {}
    }
}

/// Adds a range, merged with the last one if they are adjacent.
pub(super) fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// Splits the runs of a copy's target at the boundaries of uninitialised bytes. `uninitialised`
/// counts from the start of the copy.
pub(super) fn split_uninitialised(
    runs: &[Range<u64>],
    uninitialised: &[Range<u64>],
) -> Vec<(Range<u64>, MemoryAccess)> {
    let write = |range, uninitialised| {
        let access = MemoryAccess {
            uninitialised,
            ..MemoryAccess::from(AccessFlags::WRITE)
        };
        (range, access)
    };
    let mut split = Vec::new();
    let mut copied = 0;
    for run in runs {
        let bytes = run.end - run.start;
        let mut at = 0;
        for hole in uninitialised {
            let from = hole.start.clamp(copied, copied + bytes) - copied;
            let to = hole.end.clamp(copied, copied + bytes) - copied;
            if from < to {
                if at < from {
                    split.push(write(run.start + at..run.start + from, false));
                }
                split.push(write(run.start + from..run.start + to, true));
                at = to;
            }
        }
        if at < bytes {
            split.push(write(run.start + at..run.end, false));
        }
        copied += bytes;
    }
    split
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_agree_with_one_history_for_each_byte(
            bytes in 1u64..20_000,
            steps in proptest::collection::vec(
                proptest::collection::vec(
                    (0u64..20_000, 1u64..9_000, proptest::bool::ANY, 0u32..4),
                    1..6,
                ),
                1..8,
            ),
        ) {
            let mut pages = Pages::new(7, bytes);
            let mut plain = vec![7u32; bytes as usize];
            for step in steps {
                let mut runs = Vec::new();
                let mut at = 0;
                for (start, count, even, history) in step {
                    let mut range = at + start % 6_000..at + start % 6_000 + count;
                    if even {
                        range = range.start / 4096 * 4096..range.end.next_multiple_of(4096);
                        range.start = range.start.max(at);
                    }
                    at = range.end;
                    if range.start < bytes {
                        runs.push((range.start..range.end.min(bytes), history));
                    }
                }
                let mut seen = Vec::new();
                pages.visit(&runs, &mut |old, range, history| {
                    seen.push((old, range));
                    if *history == 3 { old } else { *history * 2 + u32::from(old == 2) }
                });
                let bytes_of = |(old, range): &(u32, Range<u64>)| {
                    let old = *old;
                    range.clone().map(move |at| (at, old))
                };
                let mut expected = seen.iter().flat_map(bytes_of);
                for (range, history) in &runs {
                    for at in range.clone() {
                        let old = plain[at as usize];
                        prop_assert_eq!(expected.next(), Some((at, old)));
                        if *history != 3 {
                            plain[at as usize] = *history * 2 + u32::from(old == 2);
                        }
                    }
                }
                prop_assert_eq!(expected.next(), None);
                let mut all = vec![0; bytes as usize];
                pages.clone().visit(&[(0..bytes, ())], &mut |old, range, ()| {
                    all[range.start as usize..range.end as usize].fill(old);
                    old
                });
                prop_assert_eq!(&all, &plain);
            }
        }
    }

    #[test]
    fn whole_uses_of_large_arrays_are_one_piece() {
        let mut pages = Pages::new(0, 1 << 32);
        let mut pieces = 0;
        for (range, history) in [
            (0..1 << 32, 1),
            (10..20, 2),
            (0..1 << 32, 3),
            (0..1 << 32, 4),
        ] {
            pages.visit(&[(range, history)], &mut |_, _, history| {
                pieces += 1;
                *history
            });
        }
        assert_eq!(pieces, 1 + 1 + 4 + 1);
        assert_eq!(pages.page_histories.len(), 1);
    }
}
