//! Two-dimensional views of arrays: checked numbers of rows and columns, and pitches.

use std::panic::Location;

use super::{Buffer, View, View2d, View2dMut, ViewMut, span_2d::Base};
use crate::{Pinned, Result, UsageError, UsageErrorKind};

/// Rows, columns and pitch, in elements, checked to fit an array.
#[derive(Clone, Copy)]
pub(super) struct Shape2d {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) pitch: usize,
}

impl Shape2d {
    /// Returns the shape of contiguous rows that make up all `len` elements of an array, or a usage
    /// error with the caller's line.
    #[track_caller]
    fn whole(rows: usize, cols: usize, len: usize) -> Result<Self, UsageError> {
        if rows.checked_mul(cols) == Some(len) {
            return Ok(Self {
                rows,
                cols,
                pitch: cols,
            });
        }
        let usage_error =
            UsageError::new("view_2d", UsageErrorKind::View2dSize { rows, cols, len });
        Err(usage_error.at(Location::caller()))
    }

    /// Returns the shape of rows that begin `pitch` elements apart, the first at the start of an
    /// array of `len` elements, or a usage error with the caller's line.
    #[track_caller]
    fn pitched(
        operation: &'static str,
        rows: usize,
        cols: usize,
        pitch: usize,
        len: usize,
    ) -> Result<Self, UsageError> {
        if rows > 1 && cols > pitch {
            let usage_error =
                UsageError::new(operation, UsageErrorKind::View2dRows { cols, pitch });
            return Err(usage_error.at(Location::caller()));
        }
        let end = match rows.checked_sub(1) {
            Some(further_rows) if cols > 0 => further_rows
                .checked_mul(pitch)
                .and_then(|start| start.checked_add(cols)),
            _ => Some(0),
        };
        if end.is_some_and(|end| end <= len) {
            return Ok(Self { rows, cols, pitch });
        }
        let problem = UsageErrorKind::View2dPitch {
            rows,
            cols,
            pitch,
            len,
        };
        Err(UsageError::new(operation, problem).at(Location::caller()))
    }
}

/// Returns a usage error, with the caller's line, unless `rows` rows of `cols` elements that begin
/// `pitch` elements apart fit in `len` elements.
#[track_caller]
pub(crate) fn check_rows(
    operation: &'static str,
    rows: usize,
    cols: usize,
    pitch: usize,
    len: usize,
) -> Result<(), UsageError> {
    Shape2d::pitched(operation, rows, cols, pitch, len).map(drop)
}

impl<'a, T> View<'a, T> {
    /// Returns the elements as `rows` rows of `cols` elements.
    ///
    /// # Errors
    ///
    /// If the number of elements differs.
    #[track_caller]
    pub fn view_2d(self, rows: usize, cols: usize) -> Result<View2d<'a, T>> {
        let shape = Shape2d::whole(rows, cols, self.len())?;
        Ok(View2d::of_span(self.span, shape))
    }

    /// Returns `rows` rows of `cols` of the elements, with `pitch` elements from the start of a row
    /// to the next.
    ///
    /// # Errors
    ///
    /// If there are too few elements, or rows would overlap.
    #[track_caller]
    pub fn view_2d_pitched(self, rows: usize, cols: usize, pitch: usize) -> Result<View2d<'a, T>> {
        let shape = Shape2d::pitched("view_2d_pitched", rows, cols, pitch, self.len())?;
        Ok(View2d::of_span(self.span, shape))
    }
}

impl<'a, T> ViewMut<'a, T> {
    /// Returns the elements as `rows` rows of `cols` elements for writing.
    ///
    /// # Errors
    ///
    /// If the number of elements differs.
    #[track_caller]
    pub fn view_2d_mut(self, rows: usize, cols: usize) -> Result<View2dMut<'a, T>> {
        let shape = Shape2d::whole(rows, cols, self.len())?;
        Ok(View2dMut::of_span(self.span, shape))
    }

    /// Returns `rows` rows of `cols` of the elements for writing, with `pitch` elements from the
    /// start of a row to the next.
    ///
    /// # Errors
    ///
    /// If there are too few elements, or rows would overlap.
    #[track_caller]
    pub fn view_2d_pitched_mut(
        self,
        rows: usize,
        cols: usize,
        pitch: usize,
    ) -> Result<View2dMut<'a, T>> {
        let shape = Shape2d::pitched("view_2d_pitched_mut", rows, cols, pitch, self.len())?;
        Ok(View2dMut::of_span(self.span, shape))
    }
}

impl<T> Buffer<T> {
    /// Returns the array as `rows` rows of `cols` elements.
    ///
    /// # Errors
    ///
    /// If the array does not have `rows * cols` elements.
    #[track_caller]
    pub fn view_2d(&self, rows: usize, cols: usize) -> Result<View2d<'_, T>> {
        self.view().view_2d(rows, cols)
    }

    /// Returns the array as `rows` rows of `cols` elements for writing.
    ///
    /// # Errors
    ///
    /// If the array does not have `rows * cols` elements.
    #[track_caller]
    pub fn view_2d_mut(&mut self, rows: usize, cols: usize) -> Result<View2dMut<'_, T>> {
        self.view_mut().view_2d_mut(rows, cols)
    }

    /// Returns `rows` rows of `cols` elements of the array, the first at its start, with `pitch`
    /// elements from the start of a row to the next.
    ///
    /// ```
    /// # let stream = millstream::Device::simulated()?.stream()?;
    /// let padded = stream.upload(&[1, 2, 0, 0, 3, 4])?;
    /// assert_eq!(stream.download_2d(padded.view_2d_pitched(2, 2, 4)?)?.wait()?, [1, 2, 3, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the array has too few elements, or rows would overlap.
    #[track_caller]
    pub fn view_2d_pitched(&self, rows: usize, cols: usize, pitch: usize) -> Result<View2d<'_, T>> {
        self.view().view_2d_pitched(rows, cols, pitch)
    }

    /// Returns `rows` rows of `cols` elements of the array for writing, with `pitch` elements from
    /// the start of a row to the next.
    ///
    /// # Errors
    ///
    /// If the array has too few elements, or rows would overlap.
    #[track_caller]
    pub fn view_2d_pitched_mut(
        &mut self,
        rows: usize,
        cols: usize,
        pitch: usize,
    ) -> Result<View2dMut<'_, T>> {
        self.view_mut().view_2d_pitched_mut(rows, cols, pitch)
    }
}

impl<T> Pinned<T> {
    /// Returns the array as `rows` rows of `cols` elements.
    ///
    /// # Errors
    ///
    /// If the array does not have `rows * cols` elements.
    #[track_caller]
    pub fn view_2d(&self, rows: usize, cols: usize) -> Result<View2d<'_, T>> {
        let shape = Shape2d::whole(rows, cols, self.len())?;
        Ok(View2d::of(Base::Pinned(self.span()), 0, true, shape))
    }

    /// Returns the array as `rows` rows of `cols` elements for writing.
    ///
    /// ```
    /// # let stream = millstream::Device::simulated()?.stream()?;
    /// let numbers = stream.upload(&[1, 2, 3, 4, 5, 6])?;
    /// let mut pinned = stream.device().pinned::<i32>(6)?;
    /// let right = pinned.view_2d_mut(3, 2)?.rect_mut(.., 1..)?;
    /// stream.copy_2d(numbers.view_2d(2, 3)?.rect(.., 0..1)?, right.rect_mut(..2, ..)?)?;
    /// assert_eq!(*pinned.read()?, [0, 1, 0, 4, 0, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the array does not have `rows * cols` elements.
    #[track_caller]
    pub fn view_2d_mut(&mut self, rows: usize, cols: usize) -> Result<View2dMut<'_, T>> {
        let shape = Shape2d::whole(rows, cols, self.len())?;
        Ok(View2dMut::of(Base::Pinned(self.span()), 0, true, shape))
    }

    /// Returns `rows` rows of `cols` elements of the array, the first at its start, with `pitch`
    /// elements from the start of a row to the next.
    ///
    /// # Errors
    ///
    /// If the array has too few elements, or rows would overlap.
    #[track_caller]
    pub fn view_2d_pitched(&self, rows: usize, cols: usize, pitch: usize) -> Result<View2d<'_, T>> {
        let shape = Shape2d::pitched("view_2d_pitched", rows, cols, pitch, self.len())?;
        Ok(View2d::of(Base::Pinned(self.span()), 0, true, shape))
    }

    /// Returns `rows` rows of `cols` elements of the array for writing, with `pitch` elements from
    /// the start of a row to the next.
    ///
    /// # Errors
    ///
    /// If the array has too few elements, or rows would overlap.
    #[track_caller]
    pub fn view_2d_pitched_mut(
        &mut self,
        rows: usize,
        cols: usize,
        pitch: usize,
    ) -> Result<View2dMut<'_, T>> {
        let shape = Shape2d::pitched("view_2d_pitched_mut", rows, cols, pitch, self.len())?;
        Ok(View2dMut::of(Base::Pinned(self.span()), 0, true, shape))
    }
}
