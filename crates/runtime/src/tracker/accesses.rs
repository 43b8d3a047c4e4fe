//! Memory accesses of an operation.

use smallvec::SmallVec;

use super::{AccessHistory, AccessKind, Extent};

/// A memory access of an operation: bytes of an allocation, and the kind of access.
#[derive(Clone, Debug)]
pub(crate) struct Access<'a> {
    pub(crate) history: &'a AccessHistory,
    pub(crate) extent: Extent,
    pub(crate) kind: AccessKind,
    /// True if the operation waits for conflicting operations. If false, the caller guarantees the
    /// order.
    pub(crate) ordered: bool,
    /// The number of the parameter that gets the address, or [`NO_PARAM`](Self::NO_PARAM).
    pub(crate) param: u16,
}

impl<'a> Access<'a> {
    /// The number of an access whose address no parameter of a kernel gets.
    pub(crate) const NO_PARAM: u16 = u16::MAX;

    pub(crate) fn new(
        history: &'a AccessHistory,
        extent: impl Into<Extent>,
        kind: AccessKind,
    ) -> Self {
        Self {
            history,
            extent: extent.into(),
            kind,
            ordered: true,
            param: Self::NO_PARAM,
        }
    }
}

/// The accesses of one operation, usually stored inline. They are sorted lazily into the lock order
/// of their access histories.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses<'a> {
    list: SmallVec<[Access<'a>; 4]>,
    /// The id of the last access's history; 0, which is no valid id, if there is none.
    last: u64,
    is_unsorted: bool,
    repeat: bool,
}

impl<'a> Accesses<'a> {
    #[inline(always)]
    pub(crate) fn push(&mut self, access: Access<'a>) {
        let id = access.history.id();
        self.is_unsorted |= id <= self.last;
        self.last = id;
        self.list.push(access);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Access<'a>> {
        self.list.iter()
    }

    /// Returns whether two accesses are to the same allocation.
    #[inline(always)]
    pub(crate) fn repeat(&mut self) -> bool {
        self.sorted();
        self.repeat
    }

    /// Returns all accesses in the order of their histories' ids.
    #[inline(always)]
    pub(super) fn sorted(&mut self) -> &[Access<'a>] {
        if self.is_unsorted {
            self.sort();
        }
        &self.list
    }

    #[inline(never)]
    fn sort(&mut self) {
        self.list.sort_by_key(|access| access.history.id());
        let same = |pair: &[Access<'_>]| pair[0].history.id() == pair[1].history.id();
        self.repeat = self.list.windows(2).any(same);
        self.last = self.list.last().map_or(0, |access| access.history.id());
        self.is_unsorted = false;
    }
}

impl<'a> FromIterator<Access<'a>> for Accesses<'a> {
    fn from_iter<I: IntoIterator<Item = Access<'a>>>(accesses: I) -> Self {
        let mut all = Self::default();
        accesses.into_iter().for_each(|access| all.push(access));
        all
    }
}

impl<'a, const N: usize> From<[Access<'a>; N]> for Accesses<'a> {
    fn from(accesses: [Access<'a>; N]) -> Self {
        accesses.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_sorted_by_the_ids_of_their_histories() {
        let histories: Vec<AccessHistory> = (0..6).map(|_| AccessHistory::new(8)).collect();
        let accesses = |order: &[usize]| -> Accesses<'_> {
            let each = order
                .iter()
                .map(|&at| Access::new(&histories[at], 0..8, AccessKind::Read));
            each.collect()
        };
        for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 0, 5, 1, 4, 3]] {
            let mut accesses = accesses(&order);
            assert_eq!(
                accesses.is_unsorted,
                order[0] > 0,
                "a sorted list is not sorted again"
            );
            let ids: Vec<u64> = accesses
                .sorted()
                .iter()
                .map(|access| access.history.id())
                .collect();
            assert_eq!(
                ids,
                histories.iter().map(AccessHistory::id).collect::<Vec<_>>()
            );
            assert!(!accesses.repeat());
            accesses.push(Access::new(&histories[order[1]], 0..8, AccessKind::Write));
            assert!(accesses.repeat() && accesses.list[order[1]].history.id() == ids[order[1]]);
        }
        for order in [&[1, 1][..], &[0, 1, 0], &[2, 0, 1, 0], &[0, 3, 2, 3]] {
            let mut accesses = accesses(order);
            assert!(
                accesses
                    .sorted()
                    .is_sorted_by_key(|access| access.history.id())
            );
            assert!(accesses.repeat() && accesses.sorted().len() == order.len());
        }
    }
}
