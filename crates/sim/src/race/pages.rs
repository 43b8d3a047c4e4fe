//! The histories of an allocation's bytes: one for as many pages as share it, one for each word or
//! byte of a page where need be.

use std::{collections::BTreeMap, ops::Range};

use super::state::StateId;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes of a word.
const WORD: u64 = 4;

/// The bytes of one page, or of several that are all the same.
#[derive(Clone, Debug)]
enum Cells {
    /// So many pages of this history.
    Same(StateId, u64),
    /// One page, by words.
    Words(Box<[StateId]>),
    /// One page, by bytes.
    Bytes(Box<[StateId]>),
}

impl Cells {
    fn pages(&self) -> u64 {
        match self {
            Self::Same(_, pages) => *pages,
            Self::Words(_) | Self::Bytes(_) => 1,
        }
    }

    /// The history that the first `bytes` bytes share, if they do.
    fn uniform(&self, bytes: u64) -> Option<StateId> {
        let same = |states: &[StateId], size: u64| {
            let states = &states[..bytes.div_ceil(size) as usize];
            states
                .iter()
                .all(|state| *state == states[0])
                .then(|| states[0])
        };
        match self {
            Self::Same(state, _) => Some(*state),
            Self::Words(states) => same(states, WORD),
            Self::Bytes(states) => same(states, 1),
        }
    }
}

/// The histories of all bytes of an allocation. Those of pages that nobody used are not stored.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    fresh: StateId,
    bytes: u64,
    /// By the number of the first page.
    cells: BTreeMap<u64, Cells>,
}

/// What a visitor does with bytes of one history: gives the history that they have from now on.
type Visit<'v, T> = dyn FnMut(StateId, Range<u64>, &T) -> StateId + 'v;

impl Pages {
    /// An allocation of that many bytes, all of history `fresh`.
    pub(super) fn new(fresh: StateId, bytes: u64) -> Self {
        Self {
            fresh,
            bytes,
            cells: BTreeMap::new(),
        }
    }

    /// Visits the bytes of ascending, disjoint runs, piece by piece, each piece of one history.
    pub(super) fn visit<T>(&mut self, runs: &[(Range<u64>, T)], visit: &mut Visit<'_, T>) {
        let mut open: Option<(u64, Cells)> = None;
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
                let mut cells = match open.take() {
                    Some((opened, cells)) if opened == page => cells,
                    other => {
                        self.close(other);
                        self.open(page)
                    }
                };
                visit_part(&mut cells, page * PAGE, at..end, self.bytes, tag, visit);
                open = Some((page, cells));
                at = end;
            }
        }
        self.close(open);
    }

    /// All histories that bytes have, with those bytes. Bytes that nobody used are left out.
    pub(super) fn each(&self, mut each: impl FnMut(StateId)) {
        for cells in self.cells.values() {
            match cells {
                Cells::Same(state, _) => each(*state),
                Cells::Words(states) | Cells::Bytes(states) => {
                    let mut last = None;
                    for state in states {
                        if last != Some(*state) {
                            each(*state);
                        }
                        last = Some(*state);
                    }
                }
            }
        }
    }

    /// Renumbers histories.
    pub(super) fn renumber(&mut self, renumber: &mut dyn FnMut(&mut StateId)) {
        for cells in self.cells.values_mut() {
            match cells {
                Cells::Same(state, _) => renumber(state),
                Cells::Words(states) | Cells::Bytes(states) => {
                    states.iter_mut().for_each(&mut *renumber)
                }
            }
        }
    }

    /// Takes one page out.
    fn open(&mut self, page: u64) -> Cells {
        self.split(page);
        self.split(page + 1);
        self.cells
            .remove(&page)
            .unwrap_or(Cells::Same(self.fresh, 1))
    }

    /// Puts a page back that was taken out.
    fn close(&mut self, page: Option<(u64, Cells)>) {
        let Some((page, cells)) = page else {
            return;
        };
        match cells.uniform(PAGE.min(self.bytes - page * PAGE)) {
            Some(state) if state == self.fresh => {}
            Some(state) => {
                self.cells.insert(page, Cells::Same(state, 1));
                self.join(page..page + 1);
            }
            None => {
                self.cells.insert(page, cells);
            }
        }
    }

    /// Makes a page begin a run of pages of its own, if it is inside one.
    fn split(&mut self, page: u64) {
        if let Some((&first, cells)) = self.cells.range_mut(..page).next_back()
            && let Cells::Same(state, pages) = cells
            && first + *pages > page
        {
            let rest = Cells::Same(*state, first + *pages - page);
            *pages = page - first;
            self.cells.insert(page, rest);
        }
    }

    /// Visits whole pages.
    fn visit_pages<T>(&mut self, range: Range<u64>, tag: &T, visit: &mut Visit<'_, T>) {
        self.split(range.start);
        self.split(range.end);
        self.store_fresh(range.clone());
        for (&page, cells) in self.cells.range_mut(range.clone()) {
            let from = page * PAGE;
            let to = ((page + cells.pages()) * PAGE).min(self.bytes);
            match cells {
                Cells::Same(state, _) => *state = visit(*state, from..to, tag),
                Cells::Words(_) | Cells::Bytes(_) => {
                    visit_part(cells, from, from..to, self.bytes, tag, visit);
                    if let Some(state) = cells.uniform(to - from) {
                        *cells = Cells::Same(state, 1);
                    }
                }
            }
        }
        self.join(range);
    }

    /// Stores the pages of the range that nobody used yet.
    fn store_fresh(&mut self, range: Range<u64>) {
        let mut at = range.start;
        let mut gaps = Vec::new();
        for (&page, cells) in self.cells.range(range.clone()) {
            if page > at {
                gaps.push((at, page - at));
            }
            at = page + cells.pages();
        }
        if at < range.end {
            gaps.push((at, range.end - at));
        }
        for (page, pages) in gaps {
            self.cells.insert(page, Cells::Same(self.fresh, pages));
        }
    }

    /// Joins neighbours of one history, in the range and at its edges.
    fn join(&mut self, range: Range<u64>) {
        let before = self
            .cells
            .range(..range.start)
            .next_back()
            .map(|(page, _)| *page);
        let mut last: Option<(u64, StateId, u64)> = None;
        let mut absorbed = Vec::new();
        let mut grown = Vec::new();
        for (&page, cells) in self.cells.range(before.unwrap_or(range.start)..=range.end) {
            let Cells::Same(state, pages) = cells else {
                grown.extend(last.take());
                continue;
            };
            match &mut last {
                Some((first, same, count)) if *same == *state && *first + *count == page => {
                    *count += pages;
                    absorbed.push(page);
                }
                _ => {
                    grown.extend(last.take());
                    last = Some((page, *state, *pages));
                }
            }
        }
        if absorbed.is_empty() {
            return;
        }
        grown.extend(last);
        for page in absorbed {
            self.cells.remove(&page);
        }
        for (page, state, pages) in grown {
            self.cells.insert(page, Cells::Same(state, pages));
        }
    }
}

/// Visits a part of one page that begins at `base`.
fn visit_part<T>(
    cells: &mut Cells,
    base: u64,
    range: Range<u64>,
    end_of_all: u64,
    tag: &T,
    visit: &mut Visit<'_, T>,
) {
    // What is behind the end of the allocation may be visited along with its last bytes.
    let by_words = range.start.is_multiple_of(WORD)
        && (range.end.is_multiple_of(WORD) || range.end == end_of_all);
    refine(cells, by_words);
    let (states, size) = match cells {
        Cells::Same(..) => return,
        Cells::Words(states) => (states, WORD),
        Cells::Bytes(states) => (states, 1),
    };
    let (first, last) = (
        (range.start - base) / size,
        (range.end - base).div_ceil(size),
    );
    let states = &mut states[first as usize..last as usize];
    let mut at = 0;
    while at < states.len() {
        let old = states[at];
        let count = states[at..]
            .iter()
            .take_while(|state| **state == old)
            .count();
        let from = range.start + at as u64 * size;
        let to = (from + count as u64 * size).min(range.end);
        let new = visit(old, from..to, tag);
        states[at..at + count].fill(new);
        at += count;
    }
}

/// Gives each word of the page its own history, or each byte.
fn refine(cells: &mut Cells, by_words: bool) {
    match cells {
        Cells::Same(state, _) => {
            *cells = if by_words {
                Cells::Words(vec![*state; (PAGE / WORD) as usize].into())
            } else {
                Cells::Bytes(vec![*state; PAGE as usize].into())
            };
        }
        Cells::Words(states) if !by_words => {
            let bytes = states
                .iter()
                .flat_map(|state| [*state; WORD as usize])
                .collect();
            *cells = Cells::Bytes(bytes);
        }
        Cells::Words(_) | Cells::Bytes(_) => {}
    }
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
                proptest::collection::vec((0u64..20_000, 1u64..9_000, proptest::bool::ANY, 0u32..4), 1..6),
                1..8,
            ),
        ) {
            let mut pages = Pages::new(7, bytes);
            let mut plain = vec![7u32; bytes as usize];
            for step in steps {
                let mut runs = Vec::new();
                let mut at = 0;
                for (start, count, even, state) in step {
                    let mut range = at + start % 6_000..at + start % 6_000 + count;
                    if even {
                        range = range.start / 4096 * 4096..range.end.next_multiple_of(4096);
                        range.start = range.start.max(at);
                    }
                    at = range.end;
                    if range.start < bytes {
                        runs.push((range.start..range.end.min(bytes), state));
                    }
                }
                let mut seen = Vec::new();
                pages.visit(&runs, &mut |old, range, state| {
                    seen.push((old, range));
                    if *state == 3 { old } else { *state * 2 + u32::from(old == 2) }
                });
                let mut expected = seen.iter().flat_map(|(old, range)| range.clone().map(|at| (at, *old)));
                for (range, state) in &runs {
                    for at in range.clone() {
                        let old = plain[at as usize];
                        prop_assert_eq!(expected.next(), Some((at, old)));
                        if *state != 3 {
                            plain[at as usize] = *state * 2 + u32::from(old == 2);
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
        for (range, state) in [
            (0..1 << 32, 1),
            (10..20, 2),
            (0..1 << 32, 3),
            (0..1 << 32, 4),
        ] {
            pages.visit(&[(range, state)], &mut |_, _, state| {
                pieces += 1;
                *state
            });
        }
        assert_eq!(pieces, 1 + 1 + 4 + 1);
        assert_eq!(pages.cells.len(), 1);
    }
}
