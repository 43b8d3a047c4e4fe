//! How the history of an allocation is laid out: as segments in a row, or in a table.

use super::{
    Ticket,
    extent::Extent,
    grid::Grid,
    line::{Line, Segment},
};

/// How many segments a ledger may have before it gives up precision for space: enough for the rows
/// of two rectangles of different pitches in one image.
pub(super) const SEGMENTS_MAX: usize = 16 << 10;
/// How many segments may be turned into a table when the first rectangle is used.
const GRID_SEGMENTS_MAX: usize = 64;

/// The segments of an allocation, one way or the other.
pub(super) enum Layout {
    /// In a row. So it is while whole arrays and ranges are used.
    Line(Line),
    /// In a table, once rectangles are.
    Grid(Box<Grid>),
}

impl Layout {
    /// Bytes 0 to `bytes`, without a history.
    pub(super) fn new(bytes: u64) -> Self {
        Self::Line(Line::new(bytes))
    }

    /// Calls `look_at` for the segments that share a byte with `extent`.
    pub(super) fn for_each_touched(&mut self, extent: &Extent, look_at: impl FnMut(&Segment)) {
        self.prepare(extent);
        match (&*self, extent.as_range()) {
            (Self::Line(line), Some(range)) => line.touched(range).iter().for_each(look_at),
            (Self::Line(line), None) => {
                let between = line.touched(&extent.hull()).iter();
                between
                    .filter(|segment| extent.touches(&segment.range()))
                    .for_each(look_at);
            }
            (Self::Grid(grid), _) => grid.each_touched(extent, look_at),
        }
    }

    /// Calls `look_at` for all segments.
    pub(super) fn for_each(&self, look_at: impl FnMut(&Segment)) {
        match self {
            Self::Line(line) => line.segments().iter().for_each(look_at),
            Self::Grid(grid) => grid.segments().for_each(look_at),
        }
    }

    /// The one segment, if there are no more.
    #[inline]
    pub(super) fn segment(&self) -> Option<&Segment> {
        match self {
            Self::Line(line) => match line.segments() {
                [only] => Some(only),
                _ => None,
            },
            Self::Grid(_) => None,
        }
    }

    /// The one segment that there is, if all its bytes are meant: what is used whole costs no
    /// search.
    #[inline]
    pub(super) fn only(&mut self, extent: &Extent) -> Option<&mut Segment> {
        match (&mut *self, extent.as_range()) {
            (Self::Line(line), Some(range)) => line.only(range),
            _ => None,
        }
    }

    /// Changes the history of exactly these bytes.
    pub(super) fn update(&mut self, extent: &Extent, mut change: impl FnMut(&mut Segment)) {
        if let Some(only) = self.only(extent) {
            return change(only);
        }
        self.prepare(extent);
        match (&mut *self, extent.as_range()) {
            (Self::Line(line), Some(range)) => line.update(range, change),
            (Self::Line(line), None) => line.update_rows(extent, change),
            (Self::Grid(grid), _) => {
                grid.update(extent, change);
                if grid.as_one().is_some() {
                    *self = Self::Line(grid.to_line(1));
                }
            }
        }
    }

    /// Sees to a layout that rows at this distance fit: their table, unless others are in use that
    /// do not fit it. In a row everything fits, at the price of a segment for each row.
    fn prepare(&mut self, extent: &Extent) {
        if extent.as_range().is_some() {
            return;
        }
        if let Self::Grid(grid) = self {
            if grid.pitch() == extent.pitch() {
                return;
            }
            *self = Self::Line(grid.to_line(SEGMENTS_MAX));
        }
        if let Self::Line(line) = self
            && line.segments().len() <= GRID_SEGMENTS_MAX
        {
            *self = Self::Grid(Box::new(Grid::of(line, extent.pitch())));
        }
    }

    /// Bounds the number of segments: first forgets what is done, then lets neighbours share their
    /// histories, which may cost a later operation a wait that it did not need, but never loses one
    /// that it does.
    #[inline]
    pub(super) fn compact(&mut self, is_done: &dyn Fn(Ticket) -> bool) {
        if self.len() > SEGMENTS_MAX {
            self.compact_now(is_done);
        }
    }

    #[cold]
    fn compact_now(&mut self, is_done: &dyn Fn(Ticket) -> bool) {
        match self {
            Self::Line(line) => line.forget_done(is_done),
            Self::Grid(grid) => grid.forget_done(is_done),
        }
        if self.len() <= SEGMENTS_MAX / 2 {
            return;
        }
        let mut line = match self {
            Self::Line(line) => std::mem::replace(line, Line::new(0)),
            Self::Grid(grid) => grid.to_line(SEGMENTS_MAX),
        };
        line.coarsen(SEGMENTS_MAX / 2);
        *self = Self::Line(line);
    }

    /// How many segments there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Line(line) => line.segments().len(),
            Self::Grid(grid) => grid.len(),
        }
    }
}
