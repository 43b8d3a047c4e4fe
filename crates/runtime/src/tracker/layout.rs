//! Layouts of an access history: linear or pitched segments.

use super::{
    Ticket,
    extent::Extent,
    linear_layout::{LinearLayout, Segment},
    pitched_layout::PitchedLayout,
};

/// The maximum number of segments of an access history. Beyond it, segments are merged with a loss
/// of precision. It suffices for the rows of two rectangles of different pitches in one image.
pub(super) const SEGMENTS_MAX: usize = 16 << 10;
/// The maximum number of linear segments that are converted to a pitched layout when a rectangle is
/// accessed.
const PITCHED_SEGMENTS_MAX: usize = 64;

pub(super) enum HistoryLayout {
    /// Consecutive segments, as long as only whole arrays and ranges are accessed.
    Linear(LinearLayout),
    /// Segments of a table, once rectangles are accessed.
    Pitched(Box<PitchedLayout>),
}

impl HistoryLayout {
    /// Creates one segment of bytes 0 to `bytes`, without tickets.
    pub(super) fn new(bytes: u64) -> Self {
        Self::Linear(LinearLayout::new(bytes))
    }

    /// Calls `look_at` for the segments that overlap `extent`.
    pub(super) fn for_each_touched(&mut self, extent: &Extent, look_at: impl FnMut(&Segment)) {
        self.prepare(extent);
        match (&*self, extent.as_range()) {
            (Self::Linear(linear), Some(range)) => linear.touched(range).iter().for_each(look_at),
            (Self::Linear(linear), None) => {
                let between = linear.touched(&extent.hull()).iter();
                between
                    .filter(|segment| extent.touches(&segment.range()))
                    .for_each(look_at);
            }
            (Self::Pitched(pitched), _) => pitched.each_touched(extent, look_at),
        }
    }

    pub(super) fn for_each(&self, look_at: impl FnMut(&Segment)) {
        match self {
            Self::Linear(linear) => linear.segments().iter().for_each(look_at),
            Self::Pitched(pitched) => pitched.segments().for_each(look_at),
        }
    }

    /// Returns the segment, if there is only one.
    #[inline]
    pub(super) fn segment(&self) -> Option<&Segment> {
        match self {
            Self::Linear(linear) => match linear.segments() {
                [only] => Some(only),
                _ => None,
            },
            Self::Pitched(_) => None,
        }
    }

    /// Returns the segment, if there is only one and `extent` covers it: whole accesses need no
    /// search.
    #[inline]
    pub(super) fn only(&mut self, extent: &Extent) -> Option<&mut Segment> {
        match (&mut *self, extent.as_range()) {
            (Self::Linear(linear), Some(range)) => linear.only(range),
            _ => None,
        }
    }

    /// Changes the tickets of exactly these bytes, splitting segments at their bounds.
    pub(super) fn update(&mut self, extent: &Extent, mut change: impl FnMut(&mut Segment)) {
        if let Some(only) = self.only(extent) {
            return change(only);
        }
        self.prepare(extent);
        match (&mut *self, extent.as_range()) {
            (Self::Linear(linear), Some(range)) => linear.update(range, change),
            (Self::Linear(linear), None) => linear.update_rows(extent, change),
            (Self::Pitched(pitched), _) => {
                pitched.update(extent, change);
                if pitched.as_segment().is_some() {
                    *self = Self::Linear(pitched.to_linear(1));
                }
            }
        }
    }

    /// Converts the layout for an extent with several rows: to a pitched layout of its pitch if at
    /// most [`PITCHED_SEGMENTS_MAX`] linear segments must be converted, otherwise to the linear
    /// layout, which needs a segment per row.
    fn prepare(&mut self, extent: &Extent) {
        if extent.as_range().is_some() {
            return;
        }
        if let Self::Pitched(pitched) = self {
            if pitched.pitch() == extent.pitch() {
                return;
            }
            *self = Self::Linear(pitched.to_linear(SEGMENTS_MAX));
        }
        if let Self::Linear(linear) = self
            && linear.segments().len() <= PITCHED_SEGMENTS_MAX
        {
            *self = Self::Pitched(Box::new(PitchedLayout::of(linear, extent.pitch())));
        }
    }

    /// Bounds the number of segments: removes completed tickets, then merges neighbouring segments,
    /// which may cost a later operation an unnecessary wait, but never loses a dependency.
    #[inline]
    pub(super) fn compact(&mut self, is_done: &dyn Fn(Ticket) -> bool) {
        if self.len() > SEGMENTS_MAX {
            self.compact_now(is_done);
        }
    }

    #[cold]
    pub(super) fn compact_now(&mut self, is_done: &dyn Fn(Ticket) -> bool) {
        match self {
            Self::Linear(linear) => linear.forget_done(is_done),
            Self::Pitched(pitched) => pitched.forget_done(is_done),
        }
        if self.len() <= SEGMENTS_MAX / 2 {
            return;
        }
        let mut linear = match self {
            Self::Linear(linear) => std::mem::replace(linear, LinearLayout::new(0)),
            Self::Pitched(pitched) => pitched.to_linear(SEGMENTS_MAX),
        };
        linear.coarsen(SEGMENTS_MAX / 2);
        *self = Self::Linear(linear);
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Linear(linear) => linear.segments().len(),
            Self::Pitched(pitched) => pitched.len(),
        }
    }
}
