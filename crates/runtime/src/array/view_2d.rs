//! Two-dimensional views: rectangles of an array, tracked by their bytes.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Range, RangeBounds},
    panic::Location,
};

use super::{
    Span,
    shape_2d::Shape2d,
    span_2d::{Base, Span2d},
};
use crate::{
    Result, UsageError, UsageErrorKind,
    element_layout::{lies_within, plain},
    page_locked::PinnedSpan,
};

/// A two-dimensional view for reading: rows of elements at equal distances in a
/// [`Buffer`](crate::Buffer) or in [`Pinned`](crate::Pinned) memory.
///
/// Operations on rectangles wait for each other if these share a byte, and only then: the left half
/// of an image and its right half are used side by side, though their rows alternate in memory.
///
/// ```
/// use millstream::Device;
///
/// let stream = Device::simulated()?.stream()?;
/// let numbers = stream.upload(&[0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23])?;
/// let view = numbers.view_2d(3, 4)?;
/// let corner = view.rect(1.., 2..)?;
/// assert_eq!((corner.rows(), corner.cols(), corner.pitch()), (2, 2, 4));
/// assert_eq!(stream.download_2d(corner)?.wait()?, [12, 13, 22, 23]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use]
pub struct View2d<'a, T> {
    span_2d: Span2d<'a>,
    element: PhantomData<&'a T>,
}

impl<T> Clone for View2d<'_, T> {
    fn clone(&self) -> Self {
        Self {
            span_2d: self.span_2d.clone(),
            element: PhantomData,
        }
    }
}

/// A two-dimensional view for writing. No two that exist at the same time have a byte in common.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let (first, second) = (device.stream()?, device.stream()?);
/// let mut numbers = first.zeros::<u8>(8)?;
/// let (mut left, mut right) = numbers.view_2d_mut(2, 4)?.split_cols_mut(1);
/// first.fill_2d(&mut left, 1)?;
/// second.fill_2d(&mut right, 2)?; // beside the other: they share no byte
/// assert_eq!(first.download(&numbers)?.wait()?, [1, 2, 2, 2, 1, 2, 2, 2]);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// Two that overlap do not compile:
///
/// ```compile_fail,E0499
/// # let stream = millstream::Device::simulated()?.stream()?;
/// # let mut numbers = stream.zeros::<u8>(8)?;
/// let mut view = numbers.view_2d_mut(2, 4)?;
/// let mut left = view.reborrow().rect_mut(.., ..3)?;
/// let mut right = view.reborrow().rect_mut(.., 2..)?;
/// stream.fill_2d(&mut left, 1)?;
/// stream.fill_2d(&mut right, 2)?;
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use]
pub struct View2dMut<'a, T> {
    span_2d: Span2d<'a>,
    element: PhantomData<&'a mut T>,
}

macro_rules! common {
    ($name:ident) => {
        impl<'a, T> $name<'a, T> {
            /// Returns the number of rows.
            #[must_use]
            pub fn rows(&self) -> usize {
                self.span_2d.rows
            }

            /// Returns the number of elements in a row.
            #[must_use]
            pub fn cols(&self) -> usize {
                self.span_2d
                    .row_bytes
                    .checked_div(size_of::<T>())
                    .unwrap_or(0)
            }

            /// Returns the number of elements from the start of a row to the start of the next.
            #[must_use]
            pub fn pitch(&self) -> usize {
                self.span_2d
                    .pitch_bytes
                    .checked_div(size_of::<T>())
                    .unwrap_or(0)
            }

            /// Returns whether the rectangle has no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.span_2d.is_empty()
            }

            pub(super) fn span_2d(&self) -> &Span2d<'a> {
                &self.span_2d
            }

            /// Returns the rectangle at `rows` and `cols`, which lie within this one.
            fn part(&self, rows: Range<usize>, cols: Range<usize>) -> Self {
                let bytes = cols.start * size_of::<T>()..cols.end * size_of::<T>();
                Self {
                    span_2d: self.span_2d.part(rows, bytes),
                    element: PhantomData,
                }
            }

            /// Returns the rectangle at `rows` and `cols`, or a usage error with the caller's line.
            #[track_caller]
            fn checked_part(
                &self,
                rows: impl RangeBounds<usize>,
                cols: impl RangeBounds<usize>,
            ) -> Result<Self, UsageError> {
                let (rows, cols) = (plain(rows, self.rows()), plain(cols, self.cols()));
                if lies_within(&rows, self.rows()) && lies_within(&cols, self.cols()) {
                    return Ok(self.part(rows, cols));
                }
                let problem = UsageErrorKind::Rect {
                    rows,
                    cols,
                    view_rows: self.rows(),
                    view_cols: self.cols(),
                };
                Err(UsageError::new("rect", problem).at(Location::caller()))
            }

            /// Creates a rectangle whose shape fits the memory from `start` on.
            fn of(base: Base<'a>, start: usize, ordered: bool, shape: Shape2d) -> Self {
                let element_bytes = size_of::<T>();
                let span_2d = Span2d {
                    base,
                    start,
                    rows: shape.rows,
                    row_bytes: shape.cols * element_bytes,
                    // Only where there are no two rows can this be more than an address can count.
                    pitch_bytes: shape.pitch.saturating_mul(element_bytes),
                    ordered,
                };
                Self {
                    span_2d,
                    element: PhantomData,
                }
            }

            /// Creates a rectangle whose shape fits the span.
            pub(super) fn of_pinned(span: PinnedSpan<'a>, shape: Shape2d) -> Self {
                let start = span.bytes.start;
                Self::of(Base::Pinned(span), start, true, shape)
            }

            pub(super) fn of_span(span: Span<'a>, shape: Shape2d) -> Self {
                Self::of(
                    Base::Device(span.allocation),
                    span.bytes.start,
                    span.ordered,
                    shape,
                )
            }
        }

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (rows, cols, pitch) = (self.rows(), self.cols(), self.pitch());
                let device = self.span_2d.device();
                write!(
                    f,
                    "{}({rows} × {cols}, {pitch} apart, from byte {} on, on {device})",
                    stringify!($name),
                    self.span_2d.start
                )
            }
        }
    };
}

common!(View2d);
common!(View2dMut);

impl<T> View2d<'_, T> {
    /// Returns a rectangle within this one.
    ///
    /// # Errors
    ///
    /// If one of the ranges does not lie within this rectangle.
    #[track_caller]
    pub fn rect(
        &self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<Self> {
        Ok(self.checked_part(rows, cols)?)
    }
}

impl<'a, T> View2dMut<'a, T> {
    /// Returns a rectangle within this one for reading.
    ///
    /// # Errors
    ///
    /// If one of the ranges does not lie within this rectangle.
    #[track_caller]
    pub fn rect(
        &self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<View2d<'_, T>> {
        let Self {
            span_2d,
            element: _,
        } = self.checked_part(rows, cols)?;
        Ok(View2d {
            span_2d,
            element: PhantomData,
        })
    }

    /// Returns a rectangle within this one for writing. Call it on a [`reborrow`](Self::reborrow)
    /// if this one is needed again.
    ///
    /// # Errors
    ///
    /// If one of the ranges does not lie within this rectangle.
    #[track_caller]
    pub fn rect_mut(
        self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<Self> {
        Ok(self.checked_part(rows, cols)?)
    }

    /// Reborrows the view, so that an operation does not consume it.
    pub fn reborrow(&mut self) -> View2dMut<'_, T> {
        self.part(0..self.rows(), 0..self.cols())
    }

    /// Splits the view in two: the first `middle` rows, and the rest.
    ///
    /// # Panics
    ///
    /// If `middle` is out of bounds.
    #[track_caller]
    pub fn split_rows_mut(self, middle: usize) -> (View2dMut<'a, T>, View2dMut<'a, T>) {
        let (rows, cols) = (self.rows(), self.cols());
        assert!(middle <= rows, "split at row {middle} of {rows}");
        (
            self.part(0..middle, 0..cols),
            self.part(middle..rows, 0..cols),
        )
    }

    /// Splits the view in two: the first `middle` columns, and the rest.
    ///
    /// # Panics
    ///
    /// If `middle` is out of bounds.
    #[track_caller]
    pub fn split_cols_mut(self, middle: usize) -> (View2dMut<'a, T>, View2dMut<'a, T>) {
        let (rows, cols) = (self.rows(), self.cols());
        assert!(middle <= cols, "split at column {middle} of {cols}");
        (
            self.part(0..rows, 0..middle),
            self.part(0..rows, middle..cols),
        )
    }

    /// Splits the view into tiles of `tile_rows` by `tile_cols`, row by row from left to right.
    /// Tiles at the lower and right edge may be smaller.
    ///
    /// ```
    /// # let stream = millstream::Device::simulated()?.stream()?;
    /// let mut numbers = stream.zeros::<u8>(3 * 4)?;
    /// for (number, tile) in numbers.view_2d_mut(3, 4)?.tiles_mut(2, 3).enumerate() {
    ///     stream.fill_2d(tile, number as u8)?;
    /// }
    /// assert_eq!(stream.download(&numbers)?.wait()?, [0, 0, 0, 1, 0, 0, 0, 1, 2, 2, 2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If a tile would have no elements.
    #[track_caller]
    pub fn tiles_mut(
        self,
        tile_rows: usize,
        tile_cols: usize,
    ) -> impl Iterator<Item = View2dMut<'a, T>> {
        assert!(tile_rows > 0 && tile_cols > 0, "tiles of no elements");
        let (rows, cols) = (self.rows(), self.cols());
        // Without a column there is no tile, however many rows there are.
        let rows = if cols == 0 { 0 } else { rows };
        (0..rows).step_by(tile_rows).flat_map(move |row| {
            let whole = self.part(0..rows, 0..cols);
            (0..cols).step_by(tile_cols).map(move |col| {
                let end_row = row.saturating_add(tile_rows).min(rows);
                whole.part(row..end_row, col..col.saturating_add(tile_cols).min(cols))
            })
        })
    }
}
