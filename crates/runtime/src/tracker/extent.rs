//! Extents: the bytes of an access, as a range of an allocation or the rows of a rectangle in it.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    Read,
    Write,
}

/// Bytes of an allocation: one range, or rows of equal length at a constant pitch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The range, or the first row.
    first: Range<u64>,
    /// The number of rows; 1 for a range.
    rows: u64,
    /// The distance between the starts of consecutive rows. It exceeds the length of a row, so that
    /// rows never touch. It is 0 for a range.
    pitch: u64,
}

impl From<Range<u64>> for Extent {
    fn from(range: Range<u64>) -> Self {
        Self {
            first: range,
            rows: 1,
            pitch: 0,
        }
    }
}

impl Extent {
    /// Creates an extent of `rows` rows as long as `first`, whose starts are `pitch` bytes apart.
    /// Rows do not overlap: `pitch` is at least their length. Rows without gaps become a range.
    pub(crate) fn strided(first: Range<u64>, rows: u64, pitch: u64) -> Self {
        let Range { start, end } = first;
        let row_bytes = end - start;
        debug_assert!(pitch >= row_bytes || rows <= 1, "rows overlap");
        match rows {
            0 => (start..start).into(),
            1 => first.into(),
            _ if row_bytes == 0 => first.into(),
            _ if row_bytes == pitch => (start..start + rows * pitch).into(),
            _ => Self { first, rows, pitch },
        }
    }

    /// Returns the range, unless the extent has several rows.
    #[inline]
    pub(super) fn as_range(&self) -> Option<&Range<u64>> {
        (self.rows == 1).then_some(&self.first)
    }

    pub(crate) fn is_whole(&self, bytes: u64) -> bool {
        self.as_range() == Some(&(0..bytes))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.rows * (self.first.end - self.first.start)
    }

    /// Returns whether every byte of `other` is in this extent. May return `false` although it is,
    /// if both have several rows.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let hull = other.hull();
        match self.as_range() {
            Some(range) => range.start <= hull.start && hull.end <= range.end,
            None => self == other,
        }
    }

    /// Returns the range of both, if they are ranges with no gap between them.
    pub(super) fn joined(&self, other: &Self) -> Option<Self> {
        let (one, two) = (self.as_range()?, other.as_range()?);
        let touch = one.start.max(two.start) <= one.end.min(two.end);
        touch.then(|| (one.start.min(two.start)..one.end.max(two.end)).into())
    }

    pub(crate) fn hull(&self) -> Range<u64> {
        self.first.start..self.row(self.rows - 1).end
    }

    pub(super) fn pitch(&self) -> u64 {
        self.pitch
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn row(&self, number: u64) -> Range<u64> {
        let offset = number * self.pitch;
        self.first.start + offset..self.first.end + offset
    }

    /// Returns whether the extent contains a byte of the range.
    pub(super) fn touches(&self, range: &Range<u64>) -> bool {
        if range.is_empty() || self.first.is_empty() {
            return false;
        }
        let row = self.first_row_ending_after(range.start);
        row < self.rows && self.row(row).start < range.end
    }

    /// Returns whether both extents have a byte in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (few, many) = if self.rows <= other.rows {
            (self, other)
        } else {
            (other, self)
        };
        if !many.touches(&few.hull()) {
            return false;
        }
        if few.pitch != many.pitch {
            return (0..few.rows).any(|row| many.touches(&few.row(row)));
        }
        // At equal pitches, as of two ranges, whether two rows overlap depends only on the
        // difference of their numbers.
        many.touches(&few.row(0)) || few.touches(&many.row(0))
    }

    /// Returns the first row that ends after this byte, or a number past the last row.
    fn first_row_ending_after(&self, byte: u64) -> u64 {
        let rows_before = |beyond: u64| beyond.checked_div(self.pitch).unwrap_or(0) + 1;
        byte.checked_sub(self.first.end).map_or(0, rows_before)
    }
}

/// Rows and columns of an allocation with a pitched layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) rows: Range<u64>,
    pub(super) columns: Range<u64>,
}

impl Extent {
    /// Calls `each` for the rectangles, at most three, that cover this extent in a pitched layout
    /// of `bytes` bytes. The extent is a range, or its rows have that pitch.
    pub(super) fn for_each_rect(&self, pitch: u64, bytes: u64, mut each: impl FnMut(Rect)) {
        let mut rect = |rows: Range<u64>, columns: Range<u64>| {
            if !rows.is_empty() && !columns.is_empty() {
                each(Rect { rows, columns });
            }
        };
        let (row, column) = (self.first.start / pitch, self.first.start % pitch);
        let Some(range) = self.as_range() else {
            debug_assert_eq!(self.pitch, pitch, "the extent has another pitch");
            let end = column + (self.first.end - self.first.start);
            rect(row..row + self.rows, column..end.min(pitch));
            rect(row + 1..row + 1 + self.rows, 0..end.saturating_sub(pitch));
            return;
        };
        if range.is_empty() {
            return;
        }
        // The missing bytes of an incomplete last row belong to no access; including them makes the
        // whole allocation one rectangle.
        let end = if range.end == bytes {
            bytes.next_multiple_of(pitch)
        } else {
            range.end
        };
        let (last_row, last_column) = (end / pitch, end % pitch);
        if row == last_row {
            rect(row..row + 1, column..last_column);
            return;
        }
        let full = if column == 0 { row } else { row + 1 };
        rect(row..full, column..pitch);
        rect(full..last_row, 0..pitch);
        rect(last_row..last_row + 1, 0..last_column);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(extent: &Extent) -> Vec<u64> {
        (0..extent.rows()).flat_map(|row| extent.row(row)).collect()
    }

    fn extent() -> impl Strategy<Value = Extent> {
        (
            0..40_u64,
            0..8_u64,
            0..5_u64,
            prop_oneof![Just(8_u64), 1..12_u64],
        )
            .prop_map(|(start, len, rows, pitch)| {
                Extent::strided(start..start + len.min(pitch), rows, pitch)
            })
    }

    #[test]
    fn rows_without_gaps_are_a_range() {
        assert_eq!(Extent::strided(3..7, 5, 4), Extent::from(3..23));
        assert_eq!(Extent::strided(3..7, 1, 9), Extent::from(3..7));
        assert_eq!(Extent::strided(3..7, 0, 9), Extent::from(3..3));
        assert_eq!(Extent::strided(3..3, 5, 9), Extent::from(3..3));
        assert_eq!(Extent::strided(3..7, 2, 9).hull(), 3..16);
        assert!(Extent::strided(0..4, 3, 4).is_whole(12) && !Extent::from(0..4).is_whole(12));
        assert!(!Extent::strided(0..3, 3, 4).is_whole(3));
    }

    #[test]
    fn extents_of_different_pitches_overlap_between_row_starts() {
        let (fours, threes) = (Extent::strided(0..1, 3, 4), Extent::strided(2..3, 3, 3));
        assert!(
            fours.overlaps(&threes) && threes.overlaps(&fours),
            "both contain byte 8"
        );
        assert!(!Extent::strided(0..1, 3, 4).overlaps(&Extent::strided(2..3, 2, 3)));
    }

    proptest! {
        #[test]
        fn touches_and_overlaps_match_a_comparison_of_bytes(
            a in extent(),
            b in extent(),
            start in 0..60_u64,
            len in 0..30_u64,
        ) {
            let (of_a, of_b) = (bytes_of(&a), bytes_of(&b));
            let range = start..start + len;
            prop_assert_eq!((a.bytes(), a.is_empty()), (of_a.len() as u64, of_a.is_empty()));
            prop_assert_eq!(a.touches(&range), of_a.iter().any(|byte| range.contains(byte)));
            prop_assert_eq!(a.overlaps(&b), of_a.iter().any(|byte| of_b.contains(byte)));
        }

        #[test]
        fn rectangles_cover_exactly_the_bytes_of_the_extent(
            a in extent(),
            pitch in 1..12_u64,
            missing in 0..4_u64,
        ) {
            let pitch = if a.as_range().is_some() { pitch } else { a.pitch() };
            let bytes = a.hull().end + missing;
            let mut found = Vec::new();
            a.for_each_rect(pitch, bytes, |rect| {
                assert!(!rect.rows.is_empty() && !rect.columns.is_empty());
                for row in rect.rows {
                    found.extend(rect.columns.clone().map(|column| row * pitch + column));
                }
            });
            found.retain(|&byte| byte < bytes);
            found.sort_unstable();
            prop_assert_eq!(found, bytes_of(&a));
        }
    }
}
