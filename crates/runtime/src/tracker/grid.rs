//! An allocation as a table of rows of equal length, for those whose rectangles are used: images, matrices, tiles.
//!
//! The rows are cut into *bands*, and each band's columns into segments, the same for all its rows. So a rectangle costs
//! the bands and segments that it meets, however many rows it has; and two that share no byte share no segment.

use std::ops::Range;

use super::{
    Ticket,
    extent::{Extent, Rect},
    line::{Line, Segment},
};

/// Rows next to each other whose columns have the same histories.
#[derive(Clone, Debug)]
struct Band {
    rows: Range<u64>,
    columns: Line,
}

/// The history of an allocation, as disjoint bands that together cover a table of `pitch` bytes a row.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pitch: u64,
    bytes: u64,
    bands: Vec<Band>,
}

impl Grid {
    /// The same history as `line`'s.
    pub(super) fn of(line: &Line, pitch: u64) -> Self {
        let bytes = line.bytes();
        let mut grid = Self {
            pitch,
            bytes,
            bands: vec![Band {
                rows: 0..bytes.div_ceil(pitch),
                columns: Line::new(pitch),
            }],
        };
        for segment in line.segments() {
            grid.update(&segment.range().into(), |own| {
                own.writes.clone_from(&segment.writes);
                own.reads.clone_from(&segment.reads);
            });
        }
        grid
    }

    /// The same history without bands. If that takes more than `segments_max` segments, each band has one for all its
    /// columns, which may make later operations wait for more than they must.
    pub(super) fn to_line(&self, segments_max: usize) -> Line {
        let exact: u64 = self.bands.iter().map(Band::segments_in_line).sum();
        let exact = usize::try_from(exact).ok().filter(|&exact| exact <= segments_max);
        let mut line = Line::with_capacity(exact.unwrap_or(self.bands.len()));
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
                        line.push(Segment {
                            start,
                            end,
                            ..segment.clone()
                        });
                    }
                }
                row += step;
            }
        }
        line
    }

    pub(super) fn pitch(&self) -> u64 {
        self.pitch
    }

    /// How many segments there are.
    pub(super) fn len(&self) -> usize {
        self.bands.iter().map(|band| band.columns.segments().len()).sum()
    }

    /// The only segment, if all bytes share one history.
    pub(super) fn as_one(&self) -> Option<&Segment> {
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

    /// Calls `each` for the segments that share a byte with `extent`, whose rows have the table's pitch.
    pub(super) fn each_touched(&self, extent: &Extent, mut each: impl FnMut(&Segment)) {
        extent.for_each_rect(self.pitch, self.bytes, |Rect { rows, columns }| {
            let first = self.bands.partition_point(|band| band.rows.end <= rows.start);
            let last = self.bands.partition_point(|band| band.rows.start < rows.end);
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
    fn segments_in_line(&self) -> u64 {
        match self.columns.segments().len() as u64 {
            1 => 1,
            several => several.saturating_mul(self.rows.end - self.rows.start),
        }
    }
}
