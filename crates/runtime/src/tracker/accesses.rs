//! What an operation does to which bytes of which allocations.

use smallvec::SmallVec;

use super::{AccessKind, Extent, Ledger};

/// One operand of an operation: some bytes of an allocation, and what is done to them.
#[derive(Clone, Debug)]
pub(crate) struct Access<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) extent: Extent,
    pub(crate) kind: AccessKind,
    /// Whether the operation waits for what this access conflicts with. If not, the caller vouches
    /// for the order.
    pub(crate) ordered: bool,
}

impl<'a> Access<'a> {
    /// An ordered access.
    pub(crate) fn new(ledger: &'a Ledger, extent: impl Into<Extent>, kind: AccessKind) -> Self {
        Self {
            ledger,
            extent: extent.into(),
            kind,
            ordered: true,
        }
    }
}

/// The accesses of one operation, few enough to live on the stack. They are put in the order in
/// which their ledgers are locked when someone first looks at them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses<'a> {
    list: SmallVec<[Access<'a>; 4]>,
    /// The number of the last one's ledger; 0, which no ledger has, before the first.
    last: u64,
    is_unsorted: bool,
    repeat: bool,
}

impl<'a> Accesses<'a> {
    /// Adds one.
    #[inline(always)]
    pub(crate) fn push(&mut self, access: Access<'a>) {
        let id = access.ledger.id();
        self.is_unsorted |= id <= self.last;
        self.last = id;
        self.list.push(access);
    }

    /// Whether two are to the same allocation.
    #[inline(always)]
    pub(crate) fn repeat(&mut self) -> bool {
        self.is_unsorted && self.sort()
    }

    /// All of them, in the order of their ledgers' numbers.
    #[inline(always)]
    pub(super) fn sorted(&mut self) -> &[Access<'a>] {
        if self.is_unsorted {
            self.sort();
        }
        &self.list
    }

    /// Sorts them, if that was not done yet; says whether two are to the same allocation.
    #[inline(never)]
    fn sort(&mut self) -> bool {
        if self.last > 0 {
            self.list.sort_by_key(|access| access.ledger.id());
            let same = |pair: &[Access<'_>]| pair[0].ledger.id() == pair[1].ledger.id();
            self.repeat = self.list.windows(2).any(same);
            self.last = 0;
        }
        self.repeat
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
    fn in_whatever_order_they_come_they_are_in_the_order_of_their_ledgers() {
        let ledgers: Vec<Ledger> = (0..6).map(|_| Ledger::new(8)).collect();
        let accesses = |order: &[usize]| -> Accesses<'_> {
            let each = order
                .iter()
                .map(|&at| Access::new(&ledgers[at], 0..8, AccessKind::Read));
            each.collect()
        };
        for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 0, 5, 1, 4, 3]] {
            let mut accesses = accesses(&order);
            let ids: Vec<u64> = accesses
                .sorted()
                .iter()
                .map(|access| access.ledger.id())
                .collect();
            assert_eq!(ids, ledgers.iter().map(Ledger::id).collect::<Vec<_>>());
            assert!(!accesses.repeat());
        }
        for order in [&[1, 1][..], &[0, 1, 0], &[2, 0, 1, 0], &[0, 3, 2, 3]] {
            let mut accesses = accesses(order);
            assert!(
                accesses
                    .sorted()
                    .is_sorted_by_key(|access| access.ledger.id())
            );
            assert!(accesses.repeat() && accesses.sorted().len() == order.len());
        }
    }
}
