//! The pitched layout: an allocation as a table of rows of equal length, for images, matrices and
//! tiles.
//!
//! The rows are divided into *bands*, and each band's columns into segments, the same for all its
//! rows. A rectangle therefore costs the bands and segments that it overlaps, however many rows it
//! has, and two disjoint rectangles share no segment.

use std::ops::Range;

use super::{
    Ticket,
    extent::{Extent, Rect},
    linear_layout::{LinearLayout, Segment, merge_neighbours},
};

/// Adjacent rows whose columns have the same tickets.
#[derive(Clone, Debug)]
struct Band {
    rows: Range<u64>,
    columns: LinearLayout,
}

/// Disjoint bands that cover a table of `pitch` bytes per row.
#[derive(Clone, Debug)]
pub(super) struct PitchedLayout {
    pitch: u64,
    bytes: u64,
    bands: Vec<Band>,
}

impl PitchedLayout {
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

    /// Converts to a linear layout. If that takes more than `segments_max` segments, the columns of
    /// each band are merged into one segment, which may make later operations wait for more than
    /// necessary.
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
            // A band of one segment is one range; other bands have a range per row and segment.
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

    pub(super) fn len(&self) -> usize {
        self.bands
            .iter()
            .map(|band| band.columns.segments().len())
            .sum()
    }

    /// Returns the segment, if there is only one.
    pub(super) fn as_segment(&self) -> Option<&Segment> {
        match self.bands.as_slice() {
            [band] => match band.columns.segments() {
                [segment] => Some(segment),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.bands.iter().flat_map(|band| band.columns.segments())
    }

    /// Calls `each` for the segments that overlap `extent`, whose rows have this layout's pitch.
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

    /// Changes the tickets of exactly these bytes, whose rows have this layout's pitch.
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

    /// Removes completed tickets, and merges neighbours whose tickets are then equal.
    pub(super) fn forget_done(&mut self, is_done: &dyn Fn(Ticket) -> bool) {
        for band in &mut self.bands {
            band.columns.forget_done(is_done);
        }
        self.merge_around(0, self.bands.len());
    }

    /// Splits the band that contains this row, so that a band begins there. Returns its index,
    /// which may be the one past the last.
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

    /// Merges neighbours with equal columns among `first - 1 ..= last`.
    fn merge_around(&mut self, first: usize, last: usize) {
        let merged = merge_neighbours(&mut self.bands, first, last, |band, next| {
            let is_equal = band.columns == next.columns;
            if is_equal {
                band.rows.end = next.rows.end;
            }
            is_equal
        });
        self.bands.drain(merged);
    }
}

impl Band {
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

    /// Generates a range or rows with the layout's pitch.
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

    /// Returns the ticket of an access. Two consecutive accesses belong to one operation.
    fn ticket(number: usize) -> Ticket {
        let operation = number as u64 / 2;
        Ticket::of(1 + operation % 3, 1 + operation)
    }

    /// Makes the same writes in a linear and a pitched layout, which is converted after the first
    /// `lines` writes.
    fn written(extents: &[Extent], lines: usize) -> (LinearLayout, PitchedLayout) {
        let mut linear = LinearLayout::new(BYTES);
        let mut pitched = None;
        for (number, extent) in extents.iter().enumerate() {
            if number == lines {
                pitched = Some(PitchedLayout::of(&linear, PITCH));
            }
            match extent.as_range() {
                Some(range) => {
                    linear.update(range, |segment| segment.enter_sole(Write, ticket(number)))
                }
                None => {
                    linear.update_rows(extent, |segment| segment.enter_sole(Write, ticket(number)))
                }
            }
            if let Some(pitched) = &mut pitched {
                pitched.update(extent, |segment| segment.enter_sole(Write, ticket(number)));
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
                "equal neighbours are merged"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 10 } else { 2000 },
            ..ProptestConfig::default()
        })]

        #[test]
        fn the_pitched_layout_equals_the_linear_one_and_merges_equal_bands(
            extents in prop::collection::vec(extent(), 0..8),
            lines in 0..8_usize,
        ) {
            let (linear, mut pitched) = written(&extents, lines);
            assert_joined(&pitched);
            prop_assert_eq!(pitched.to_linear(usize::MAX), linear.clone());
            let enough = linear.segments().len() + pitched.len() * BYTES as usize;
            prop_assert_eq!(pitched.to_linear(enough), linear.clone());
            let bands = pitched.bands.len();
            prop_assert!(
                pitched.to_linear(0).segments().len() <= bands,
                "at most one segment per band if the limit is exceeded"
            );
            // Without the last byte: its segment may include the missing bytes of the last row,
            // which may have older tickets.
            for at in 0..BYTES - 1 {
                let mut found = Vec::new();
                pitched.each_touched(&(at..at + 1).into(), |segment| {
                    found.push(segment.writes.clone());
                });
                let touched = linear.touched(&(at..at + 1)).iter();
                let known: Vec<_> = touched.map(|segment| segment.writes.clone()).collect();
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
    fn conversion_keeps_rows_apart_if_the_limit_allows() {
        let mut pitched = PitchedLayout::of(&LinearLayout::new(64), 8);
        pitched.update(&Extent::strided(34..36, 2, 8), |segment| {
            segment.enter_sole(Write, ticket(0))
        });
        // Bands: four rows without tickets, two rows of three segments each, two rows without
        // tickets.
        assert_eq!(pitched.bands.len(), 3);
        assert_eq!(pitched.to_linear(8).segments().len(), 5);
        assert_eq!(pitched.to_linear(7).segments().len(), 3);
        assert_eq!(pitched.to_linear(7).segments()[1].range(), 32..48);
    }

    #[test]
    fn missing_bytes_of_the_last_row_are_no_segment() {
        let mut pitched = PitchedLayout::of(&LinearLayout::new(45), 8);
        pitched.update(&Extent::strided(33..37, 2, 8), |segment| {
            segment.enter_sole(Write, ticket(0))
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
