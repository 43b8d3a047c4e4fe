//! The bytes of an access: a range of an allocation, or the rows of a rectangle in it.

use std::ops::Range;

/// Bytes of an allocation: one range, or several of one length at equal distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The range, or the first row.
    first: Range<u64>,
    /// How many rows there are; 1 for a range.
    rows: u64,
    /// From the start of a row to the start of the next: more than a row is long, so that rows
    /// never touch. A range has none, and 0 here.
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
    /// `rows` ranges as long as `first`, whose starts are `pitch` apart. Rows do not overlap:
    /// `pitch` is at least their length. What lies without gaps is a range.
    pub(crate) fn strided(first: Range<u64>, rows: u64, pitch: u64) -> Self {
        let Range { start, end } = first;
        let row_bytes = end - start;
        debug_assert!(pitch >= row_bytes || rows <= 1, "rows that overlap");
        match rows {
            0 => (start..start).into(),
            1 => first.into(),
            _ if row_bytes == 0 => first.into(),
            _ if row_bytes == pitch => (start..start + rows * pitch).into(),
            _ => Self { first, rows, pitch },
        }
    }

    /// The range that this is, if it is one.
    #[inline]
    pub(super) fn as_range(&self) -> Option<&Range<u64>> {
        (self.rows == 1).then_some(&self.first)
    }

    /// From the first byte to the last, with all that is between.
    pub(super) fn hull(&self) -> Range<u64> {
        self.first.start..self.row(self.rows - 1).end
    }

    /// The distance of the rows.
    pub(super) fn pitch(&self) -> u64 {
        self.pitch
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The bytes of one row.
    pub(super) fn row(&self, number: u64) -> Range<u64> {
        let offset = number * self.pitch;
        self.first.start + offset..self.first.end + offset
    }

    /// Whether a byte of the range is one of these.
    pub(super) fn touches(&self, range: &Range<u64>) -> bool {
        if range.is_empty() || self.first.is_empty() {
            return false;
        }
        let row = self.first_row_ending_after(range.start);
        row < self.rows && self.row(row).start < range.end
    }

    /// Whether both have a byte in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (few, many) = if self.rows <= other.rows {
            (self, other)
        } else {
            (other, self)
        };
        if !many.touches(&few.hull()) {
            return false;
        }
        if few.pitch != many.pitch || few.rows == 1 {
            return (0..few.rows).any(|row| many.touches(&few.row(row)));
        }
        // At equal distances it depends on the difference of the rows' numbers alone whether two
        // meet.
        many.touches(&few.row(0)) || few.touches(&many.row(0))
    }

    /// The first row that ends behind this byte, or a number past the last.
    fn first_row_ending_after(&self, byte: u64) -> u64 {
        if byte < self.first.end || self.pitch == 0 {
            return u64::from(byte >= self.first.end);
        }
        (byte - self.first.end) / self.pitch + 1
    }
}

/// Rows and columns of an allocation that is seen as a table, `pitch` bytes a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) rows: Range<u64>,
    pub(super) columns: Range<u64>,
}

impl Extent {
    /// Calls `each` for the rectangles, at most three, that these bytes are in a table of `bytes`
    /// bytes, `pitch` a row. Either this is a range, or its rows have that pitch.
    pub(super) fn for_each_rect(&self, pitch: u64, bytes: u64, mut each: impl FnMut(Rect)) {
        let mut rect = |rows: Range<u64>, columns: Range<u64>| {
            if !rows.is_empty() && !columns.is_empty() {
                each(Rect { rows, columns });
            }
        };
        let (row, column) = (self.first.start / pitch, self.first.start % pitch);
        let Some(range) = self.as_range() else {
            debug_assert_eq!(self.pitch, pitch, "rows of another table");
            let end = column + (self.first.end - self.first.start);
            rect(row..row + self.rows, column..end.min(pitch));
            rect(row + 1..row + 1 + self.rows, 0..end.saturating_sub(pitch));
            return;
        };
        if range.is_empty() {
            return;
        }
        // What the last row lacks belongs to nobody; taking it along lets the whole allocation be
        // one rectangle.
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
    fn what_has_no_gaps_is_a_range() {
        assert_eq!(Extent::strided(3..7, 5, 4), Extent::from(3..23));
        assert_eq!(Extent::strided(3..7, 1, 9), Extent::from(3..7));
        assert_eq!(Extent::strided(3..7, 0, 9), Extent::from(3..3));
        assert_eq!(Extent::strided(3..3, 5, 9), Extent::from(3..3));
        assert_eq!(Extent::strided(3..7, 2, 9).hull(), 3..16);
    }

    #[test]
    fn rows_at_different_distances_meet_where_neither_begins() {
        let (fours, threes) = (Extent::strided(0..1, 3, 4), Extent::strided(2..3, 3, 3));
        assert!(
            fours.overlaps(&threes) && threes.overlaps(&fours),
            "byte 8 is of both"
        );
        assert!(!Extent::strided(0..1, 3, 4).overlaps(&Extent::strided(2..3, 2, 3)));
    }

    proptest! {
        #[test]
        fn touches_and_overlaps_are_those_of_the_bytes(a in extent(), b in extent(), start in 0..60_u64, len in 0..30_u64) {
            let (of_a, of_b) = (bytes_of(&a), bytes_of(&b));
            let range = start..start + len;
            prop_assert_eq!(a.touches(&range), of_a.iter().any(|byte| range.contains(byte)));
            prop_assert_eq!(a.overlaps(&b), of_a.iter().any(|byte| of_b.contains(byte)));
        }

        #[test]
        fn rectangles_are_the_same_bytes(a in extent(), pitch in 1..12_u64, missing in 0..4_u64) {
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
