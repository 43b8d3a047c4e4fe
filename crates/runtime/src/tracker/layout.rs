//! How the history of an allocation is laid out: as segments in a row, or in a table.

use super::{
    Ticket,
    extent::Extent,
    linear_layout::{LinearLayout, Segment},
    pitched_layout::PitchedLayout,
};

/// How many segments an access history may have before it gives up precision for space: enough for
/// the rows of two rectangles of different pitches in one image.
pub(super) const SEGMENTS_MAX: usize = 16 << 10;
/// How many segments may be turned into a table when the first rectangle is used.
const PITCHED_SEGMENTS_MAX: usize = 64;

/// The segments of an allocation, one way or the other.
pub(super) enum HistoryLayout {
    /// In a row. So it is while whole arrays and ranges are used.
    Linear(LinearLayout),
    /// In a table, once rectangles are.
    Pitched(Box<PitchedLayout>),
}

impl HistoryLayout {
    /// Bytes 0 to `bytes`, without a history.
    pub(super) fn new(bytes: u64) -> Self {
        Self::Linear(LinearLayout::new(bytes))
    }

    /// Calls `look_at` for the segments that share a byte with `extent`.
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

    /// Calls `look_at` for all segments.
    pub(super) fn for_each(&self, look_at: impl FnMut(&Segment)) {
        match self {
            Self::Linear(linear) => linear.segments().iter().for_each(look_at),
            Self::Pitched(pitched) => pitched.segments().for_each(look_at),
        }
    }

    /// The one segment, if there are no more.
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

    /// The one segment that there is, if all its bytes are meant: what is used whole costs no
    /// search.
    #[inline]
    pub(super) fn only(&mut self, extent: &Extent) -> Option<&mut Segment> {
        match (&mut *self, extent.as_range()) {
            (Self::Linear(linear), Some(range)) => linear.only(range),
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

    /// Sees to a layout that rows at this distance fit: their table, unless others are in use that
    /// do not fit it. In a row everything fits, at the price of a segment for each row.
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

    /// How many segments there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Linear(linear) => linear.segments().len(),
            Self::Pitched(pitched) => pitched.len(),
        }
    }
}
