//! An allocation as a table of rows of equal length, for those whose rectangles are used: images,
//! matrices, tiles.
//!
//! The rows are cut into *bands*, and each band's columns into segments, the same for all its rows.
//! So a rectangle costs the bands and segments that it meets, however many rows it has; and two
//! that share no byte share no segment.

use std::ops::Range;

use super::{
    Ticket,
    extent::{Extent, Rect},
    linear_layout::{LinearLayout, Segment},
};

/// Rows next to each other whose columns have the same histories.
#[derive(Clone, Debug)]
struct Band {
    rows: Range<u64>,
    columns: LinearLayout,
}

/// The history of an allocation, as disjoint bands that together cover a table of `pitch` bytes a
/// row.
#[derive(Clone, Debug)]
pub(super) struct PitchedLayout {
    pitch: u64,
    bytes: u64,
    bands: Vec<Band>,
}

impl PitchedLayout {
    /// The same history as `linear`'s.
    pub(super) fn of(linear: &LinearLayout, pitch: u64) -> Self {
        let bytes = linear.bytes();
        let mut pitched = Self {
            pitch,
            bytes,
            bands: vec![Band {
                rows: 0..bytes.div_ceil(pitch),
                columns: LinearLayout::new(pitch),
            }],
        };
        for segment in linear.segments() {
            pitched.update(&segment.range().into(), |own| {
                own.writes.clone_from(&segment.writes);
                own.reads.clone_from(&segment.reads);
            });
        }
        pitched
    }

    /// The same history without bands. If that takes more than `segments_max` segments, each band
    /// has one for all its columns, which may make later operations wait for more than they must.
    pub(super) fn to_linear(&self, segments_max: usize) -> LinearLayout {
        let exact: u64 = self.bands.iter().map(Band::linear_segments).sum();
        let exact = usize::try_from(exact)
            .ok()
            .filter(|&exact| exact <= segments_max);
        let mut linear = LinearLayout::with_capacity(exact.unwrap_or(self.bands.len()));
        for band in &self.bands {
            let mut columns = band.columns.clone();
            if exact.is_none() {
                columns.coarsen(1);
            }
            // Bands of one segment are one range, others have a range for each row.
            let step = match columns.segments() {
                [_] => band.rows.end - band.rows.start,
                _ => 1,
            };
            let mut row = band.rows.start;
            while row < band.rows.end {
                for segment in columns.segments() {
                    let start = (row * self.pitch + segment.start).min(self.bytes);
                    let end = ((row + step - 1) * self.pitch + segment.end).min(self.bytes);
                    if start < end {
                        linear.push(Segment {
                            start,
                            end,
                            ..segment.clone()
                        });
                    }
                }
                row += step;
            }
        }
        linear
    }

    pub(super) fn pitch(&self) -> u64 {
        self.pitch
    }

    /// How many segments there are.
    pub(super) fn len(&self) -> usize {
        self.bands
            .iter()
            .map(|band| band.columns.segments().len())
            .sum()
    }

    /// The only segment, if all bytes share one history.
    pub(super) fn as_segment(&self) -> Option<&Segment> {
        match self.bands.as_slice() {
            [band] => match band.columns.segments() {
                [segment] => Some(segment),
                _ => None,
            },
            _ => None,
        }
    }

    /// All segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.bands.iter().flat_map(|band| band.columns.segments())
    }

    /// Calls `each` for the segments that share a byte with `extent`, whose rows have the table's
    /// pitch.
    pub(super) fn each_touched(&self, extent: &Extent, mut each: impl FnMut(&Segment)) {
        extent.for_each_rect(self.pitch, self.bytes, |Rect { rows, columns }| {
            let first = self
                .bands
                .partition_point(|band| band.rows.end <= rows.start);
            let last = self
                .bands
                .partition_point(|band| band.rows.start < rows.end);
            for band in &self.bands[first..last] {
                band.columns.touched(&columns).iter().for_each(&mut each);
            }
        });
    }

    /// Changes the history of exactly these bytes, whose rows have the table's pitch.
    pub(super) fn update(&mut self, extent: &Extent, mut change: impl FnMut(&mut Segment)) {
        extent.for_each_rect(self.pitch, self.bytes, |Rect { rows, columns }| {
            let first = self.cut(rows.start);
            let last = self.cut(rows.end);
            for band in &mut self.bands[first..last] {
                band.columns.update(&columns, &mut change);
            }
            self.merge_around(first, last);
        });
    }

    /// Drops the tickets that are done, and joins what then has equal histories.
    pub(super) fn forget_done(&mut self, is_done: &dyn Fn(Ticket) -> bool) {
        for band in &mut self.bands {
            band.columns.forget_done(is_done);
        }
        self.merge_around(0, self.bands.len());
    }

    /// The number of the band that begins with this row, which may be the one past the last.
    fn cut(&mut self, row: u64) -> usize {
        let at = self.bands.partition_point(|band| band.rows.end <= row);
        match self.bands.get_mut(at) {
            Some(band) if band.rows.start < row => {
                let tail = Band {
                    rows: row..band.rows.end,
                    columns: band.columns.clone(),
                };
                band.rows.end = row;
                self.bands.insert(at + 1, tail);
                at + 1
            }
            _ => at,
        }
    }

    /// Joins neighbours of equal columns among `first - 1 ..= last`.
    fn merge_around(&mut self, first: usize, last: usize) {
        let from = first.saturating_sub(1);
        let until = (last + 1).min(self.bands.len());
        let mut kept = from;
        for at in from + 1..until {
            if self.bands[kept].columns == self.bands[at].columns {
                self.bands[kept].rows.end = self.bands[at].rows.end;
            } else {
                kept += 1;
                self.bands.swap(kept, at);
            }
        }
        self.bands.drain(kept + 1..until);
    }
}

impl Band {
    /// How many segments of a line this is.
    fn linear_segments(&self) -> u64 {
        match self.columns.segments().len() as u64 {
            1 => 1,
            several => several.saturating_mul(self.rows.end - self.rows.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::AccessKind::Write;
    use proptest::prelude::*;

    const BYTES: u64 = 45;
    const PITCH: u64 = 8;

    /// A range, or rows of the table.
    fn extent() -> impl Strategy<Value = Extent> {
        (0..BYTES, 0..=BYTES, 1..5_u64, any::<bool>()).prop_map(|(start, len, rows, is_range)| {
            if is_range {
                return Extent::from(start..start + len.min(BYTES - start));
            }
            let len = len.min(PITCH).min(BYTES - start);
            let fitting = (BYTES - start - len) / PITCH + 1;
            Extent::strided(start..start + len, rows.min(fitting), PITCH)
        })
    }

    /// Each two in a row are accesses of one operation.
    fn ticket(number: usize) -> Ticket {
        let operation = number as u64 / 2;
        Ticket::of(1 + operation % 3, 1 + operation)
    }

    /// The same writes in a line and in a table, which begins as one or is made of a line after so
    /// many of them.
    fn written(extents: &[Extent], lines: usize) -> (LinearLayout, PitchedLayout) {
        let mut linear = LinearLayout::new(BYTES);
        let mut pitched = None;
        for (number, extent) in extents.iter().enumerate() {
            if number == lines {
                pitched = Some(PitchedLayout::of(&linear, PITCH));
            }
            match extent.as_range() {
                Some(range) => linear.update(range, |segment| segment.enter(Write, ticket(number))),
                None => linear.update_rows(extent, |segment| segment.enter(Write, ticket(number))),
            }
            if let Some(pitched) = &mut pitched {
                pitched.update(extent, |segment| segment.enter(Write, ticket(number)));
            }
        }
        let pitched = pitched.unwrap_or_else(|| PitchedLayout::of(&linear, PITCH));
        (linear, pitched)
    }

    fn assert_joined(pitched: &PitchedLayout) {
        for pair in pitched.bands.windows(2) {
            assert_eq!(pair[0].rows.end, pair[1].rows.start);
            assert_ne!(
                pair[0].columns, pair[1].columns,
                "equal neighbours are one band"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 10 } else { 2000 }, ..ProptestConfig::default() })]

        #[test]
        fn a_table_is_a_line_and_joins_what_is_equal(extents in prop::collection::vec(extent(), 0..8), lines in 0..8_usize) {
            let (linear, mut pitched) = written(&extents, lines);
            assert_joined(&pitched);
            prop_assert_eq!(pitched.to_linear(usize::MAX), linear.clone());
            prop_assert_eq!(pitched.to_linear(linear.segments().len() + pitched.len() * BYTES as usize), linear.clone());
            let bands = pitched.bands.len();
            prop_assert!(pitched.to_linear(0).segments().len() <= bands, "a segment a band, if there is no room for more");
            // With the last byte comes what its row lacks, which may have an older history.
            for at in 0..BYTES - 1 {
                let mut found = Vec::new();
                pitched.each_touched(&(at..at + 1).into(), |segment| found.push(segment.writes.clone()));
                let known: Vec<_> = linear.touched(&(at..at + 1)).iter().map(|segment| segment.writes.clone()).collect();
                prop_assert_eq!(found, known);
            }
            let is_old = |ticket: Ticket| ticket.sequence.get() <= 2;
            let mut of_late = linear;
            of_late.forget_done(&is_old);
            pitched.forget_done(&is_old);
            assert_joined(&pitched);
            prop_assert_eq!(pitched.to_linear(usize::MAX), of_late);
        }
    }

    #[test]
    fn a_table_with_room_for_its_rows_keeps_them_apart() {
        let mut pitched = PitchedLayout::of(&LinearLayout::new(64), 8);
        pitched.update(&Extent::strided(34..36, 2, 8), |segment| {
            segment.enter(Write, ticket(0))
        });
        // Bands of four rows without a history, of two rows in three segments each, and of two more
        // without.
        assert_eq!(pitched.bands.len(), 3);
        assert_eq!(pitched.to_linear(8).segments().len(), 5);
        assert_eq!(pitched.to_linear(7).segments().len(), 3);
        assert_eq!(pitched.to_linear(7).segments()[1].range(), 32..48);
    }

    #[test]
    fn what_the_last_row_lacks_is_no_segment() {
        let mut pitched = PitchedLayout::of(&LinearLayout::new(45), 8);
        pitched.update(&Extent::strided(33..37, 2, 8), |segment| {
            segment.enter(Write, ticket(0))
        });
        let ranges: Vec<_> = pitched
            .to_linear(9)
            .segments()
            .iter()
            .map(Segment::range)
            .collect();
        assert_eq!(ranges, [0..33, 33..37, 37..41, 41..45]);
    }
}
