//! The union of the accesses of several operations to one allocation.

use super::{Access, AccessHistory, AccessKind, extent::Extent};

/// The maximum number of entries of a bounded union. Beyond it, the union is one access to all
/// bytes in between, which costs later operations unnecessary waits, but never loses a dependency.
const ENTRIES_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnionEntry {
    pub(crate) extent: Extent,
    pub(crate) kind: AccessKind,
    /// True if the accesses wait for conflicting operations: see
    /// [`Access::ordered`](super::Access::ordered).
    pub(crate) ordered: bool,
}

impl UnionEntry {
    pub(crate) fn access<'a>(&self, history: &'a AccessHistory) -> Access<'a> {
        Access {
            ordered: self.ordered,
            ..Access::new(history, self.extent.clone(), self.kind)
        }
    }

    /// Returns whether this access has all conflicts of the other.
    fn includes(&self, other: &Self) -> bool {
        (self.kind == AccessKind::Write || other.kind == AccessKind::Read)
            && (self.ordered || !other.ordered)
            && self.extent.covers(&other.extent)
    }

    /// Returns one access for both, if they are of one kind and next to each other.
    fn joined(&self, other: &Self) -> Option<Self> {
        if (self.kind, self.ordered) != (other.kind, other.ordered) {
            return None;
        }
        Some(Self {
            extent: self.extent.joined(&other.extent)?,
            ..*self
        })
    }
}

/// The union of accesses to one allocation: bytes that are read and written are only in a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessUnion {
    entries: Vec<UnionEntry>,
    /// True if the number of entries is bounded, at a loss of precision.
    is_bounded: bool,
}

impl AccessUnion {
    /// Creates an empty union of at most [`ENTRIES_MAX`] entries. The default is not bounded.
    pub(crate) fn bounded(is_bounded: bool) -> Self {
        Self {
            entries: Vec::new(),
            is_bounded,
        }
    }

    pub(crate) fn add(&mut self, extent: &Extent, kind: AccessKind, ordered: bool) {
        let mut new = UnionEntry {
            extent: extent.clone(),
            kind,
            ordered,
        };
        if extent.is_empty() || self.entries.iter().any(|entry| entry.includes(&new)) {
            return;
        }
        while let Some(at) = self
            .entries
            .iter()
            .position(|entry| entry.joined(&new).is_some())
        {
            let entry = self.entries.swap_remove(at);
            new = entry.joined(&new).unwrap_or(entry);
        }
        self.entries.retain(|entry| !new.includes(entry));
        self.entries.push(new);
        if self.is_bounded && self.entries.len() > ENTRIES_MAX {
            self.widen();
        }
    }

    /// Replaces all entries by one.
    fn widen(&mut self) {
        let hulls = || self.entries.iter().map(|entry| entry.extent.hull());
        let start = hulls().map(|hull| hull.start).min().unwrap_or(0);
        let end = hulls().map(|hull| hull.end).max().unwrap_or(0);
        let writes = |entry: &UnionEntry| entry.kind == AccessKind::Write;
        let kind = match self.entries.iter().any(writes) {
            true => AccessKind::Write,
            false => AccessKind::Read,
        };
        self.entries = vec![UnionEntry {
            extent: (start..end).into(),
            kind,
            ordered: self.entries.iter().any(|entry| entry.ordered),
        }];
    }

    pub(crate) fn into_entries(self) -> Vec<UnionEntry> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::{
        AccessKind::{Read, Write},
        *,
    };
    use proptest::prelude::*;

    fn union_of(accesses: &[(Extent, AccessKind, bool)]) -> Vec<UnionEntry> {
        let mut union = AccessUnion::bounded(true);
        for (extent, kind, ordered) in accesses {
            union.add(extent, *kind, *ordered);
        }
        union.into_entries()
    }

    /// The bytes of the entries that have all conflicts of such an access.
    fn covers(entries: &[UnionEntry], byte: u64, kind: AccessKind, ordered: bool) -> bool {
        let one = UnionEntry {
            extent: (byte..byte + 1).into(),
            kind,
            ordered,
        };
        entries.iter().any(|entry| {
            let same = UnionEntry {
                extent: one.extent.clone(),
                ..*entry
            };
            same.includes(&one) && entry.extent.overlaps(&one.extent)
        })
    }

    #[test]
    fn neighbours_are_joined_and_reads_of_written_bytes_are_left_out() {
        let union = union_of(&[
            ((0..4).into(), Write, true),
            ((8..12).into(), Read, true),
            ((4..8).into(), Write, true),
            ((2..6).into(), Read, true),
        ]);
        let entry = |range: std::ops::Range<u64>, kind| UnionEntry {
            extent: range.into(),
            kind,
            ordered: true,
        };
        assert_eq!(union, [entry(8..12, Read), entry(0..8, Write)]);
    }

    #[test]
    fn a_union_of_too_many_pieces_is_one_access_to_all_between() {
        let history = AccessHistory::new(72);
        for (written, kind) in [(16, Write), (17, Read)] {
            let pieces = (0..17_u64).map(|at| {
                let kind = if at == written { Write } else { Read };
                ((4 * at..4 * at + 2).into(), kind, false)
            });
            let pieces: Vec<_> = pieces.collect();
            assert_eq!(union_of(&pieces[1..]).len(), ENTRIES_MAX);
            let [union] = &union_of(&pieces)[..] else {
                panic!("more pieces than the limit are one");
            };
            let access = union.access(&history);
            assert_eq!((access.kind, access.ordered), (kind, false));
            assert_eq!(access.extent, (0..66).into());
        }
    }

    proptest! {
        #[test]
        fn a_union_has_the_conflicts_of_its_accesses_and_few_others(
            accesses in prop::collection::vec(
                (0..60_u64, 1..9_u64, 1..4_u64, any::<bool>(), any::<bool>()),
                0..12,
            ),
        ) {
            let accesses: Vec<_> = accesses
                .into_iter()
                .map(|(start, len, rows, writes, ordered)| {
                    let extent = Extent::strided(start..start + len, rows, 10);
                    (extent, if writes { Write } else { Read }, ordered)
                })
                .collect();
            let union = union_of(&accesses);
            for byte in 0..110 {
                let one: Extent = (byte..byte + 1).into();
                let here = accesses.iter().filter(|(extent, ..)| extent.overlaps(&one));
                for (_, kind, ordered) in here.clone() {
                    prop_assert!(covers(&union, byte, *kind, *ordered));
                }
                let found = union.iter().filter(|entry| entry.extent.overlaps(&one));
                for entry in found {
                    prop_assert!(here.clone().any(|(_, kind, _)| *kind == entry.kind));
                    prop_assert!(here.clone().any(|(.., ordered)| *ordered == entry.ordered));
                }
            }
        }
    }
}
