//! Two-dimensional views of arrays: checked numbers of rows and columns, and pitches.

use std::panic::Location;

use super::{Buffer, PinnedView, PinnedViewMut, View, View2d, View2dMut, ViewMut};
use crate::{Pinned, Result, UsageError, UsageErrorKind};

/// Rows, columns and pitch, in elements, checked to fit an array.
#[derive(Clone, Copy)]
pub(super) struct Shape2d {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) pitch: usize,
}

impl Shape2d {
    /// Returns the shape of contiguous rows, or a usage error with the caller's line unless the
    /// rows are all `len` elements of the array.
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

    /// Returns the shape of rows that begin `pitch` elements apart, or a usage error with the
    /// caller's line unless they fit in an array of `len` elements.
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

/// Returns a usage error with the caller's line unless the rows fit in `len` elements.
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

/// Implements the two methods by which an array or a view becomes rows.
macro_rules! rows {
    ($(
        impl[$($generics:tt)*] $owner:ty: ($($receiver:tt)*) -> $view:ty, $whole:ident,
        $pitched:ident, $access:literal, $len:expr, $shape:ident => $make:expr;
    )*) => {
        $(
            impl<$($generics)*> $owner {
                #[doc = concat!("Returns the elements as `rows` rows of `cols` elements", $access)]
                ///
                /// # Errors
                ///
                /// If there are not `rows * cols` elements.
                #[track_caller]
                pub fn $whole($($receiver)*, rows: usize, cols: usize) -> Result<$view> {
                    let $shape = Shape2d::whole(rows, cols, $len)?;
                    Ok($make)
                }

                #[doc = concat!("Returns `rows` rows of `cols` of the elements", $access)]
                /// The first is at the start, and a row begins `pitch` elements after the one
                /// before.
                ///
                /// # Errors
                ///
                /// If there are too few elements, or rows would overlap.
                #[track_caller]
                pub fn $pitched(
                    $($receiver)*,
                    rows: usize,
                    cols: usize,
                    pitch: usize,
                ) -> Result<$view> {
                    let $shape = Shape2d::pitched(stringify!($pitched), rows, cols, pitch, $len)?;
                    Ok($make)
                }
            }
        )*
    };
}

rows! {
    impl['a, T] View<'a, T>: (self) -> View2d<'a, T>, view_2d, view_2d_pitched, ".",
        self.len(), shape => View2d::of_span(self.span, shape);
    impl['a, T] ViewMut<'a, T>: (self) -> View2dMut<'a, T>, view_2d_mut, view_2d_pitched_mut,
        " for writing.", self.len(), shape => View2dMut::of_span(self.span, shape);
    impl[T] Buffer<T>: (&self) -> View2d<'_, T>, view_2d, view_2d_pitched, ".",
        self.len(), shape => View2d::of_span(self.span(), shape);
    impl[T] Buffer<T>: (&mut self) -> View2dMut<'_, T>, view_2d_mut, view_2d_pitched_mut,
        " for writing.", self.len(), shape => View2dMut::of_span(self.span(), shape);
    impl['a, T] PinnedView<'a, T>: (self) -> View2d<'a, T>, view_2d, view_2d_pitched, ".",
        self.len(), shape => View2d::of_pinned(self.span, shape);
    impl['a, T] PinnedViewMut<'a, T>: (self) -> View2dMut<'a, T>, view_2d_mut, view_2d_pitched_mut,
        " for writing.", self.len(), shape => View2dMut::of_pinned(self.span, shape);
    impl[T] Pinned<T>: (&self) -> View2d<'_, T>, view_2d, view_2d_pitched, ".",
        self.len(), shape => View2d::of_pinned(self.span(), shape);
    impl[T] Pinned<T>: (&mut self) -> View2dMut<'_, T>, view_2d_mut, view_2d_pitched_mut,
        " for writing.", self.len(), shape => View2dMut::of_pinned(self.span(), shape);
}
