//! Methods common to all arrays in an allocation: views of the whole and of parts.

/// Implements the views of an array that has a method `span`.
macro_rules! views {
    ($name:ident, $view:ident, $view_mut:ident) => {
        impl<T> $name<T> {
            /// Returns a view of the whole array for reading.
            pub fn view(&self) -> $view<'_, T> {
                $view::of(self.span())
            }

            /// Returns a view of the whole array for writing.
            pub fn view_mut(&mut self) -> $view_mut<'_, T> {
                $view_mut::of(self.span())
            }

            /// Returns a view of a range of the array for reading.
            ///
            /// # Panics
            ///
            /// If the range does not lie within the array, as for a slice. See
            /// [`try_slice`](Self::try_slice).
            #[track_caller]
            pub fn slice(&self, range: impl RangeBounds<usize>) -> $view<'_, T> {
                super::view::within(self.view().into_part(range))
            }

            /// Returns a view of a range of the array for reading.
            ///
            /// # Errors
            ///
            /// If the range does not lie within the array.
            #[track_caller]
            pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Result<$view<'_, T>> {
                let location = Location::caller();
                let part = self.view().into_part(range);
                Ok(part.map_err(|usage_error| usage_error.at(location))?)
            }

            /// Returns a view of a range of the array for writing.
            ///
            /// # Panics
            ///
            /// If the range does not lie within the array. See
            /// [`try_slice_mut`](Self::try_slice_mut).
            #[track_caller]
            pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> $view_mut<'_, T> {
                super::view::within(self.view_mut().into_part(range))
            }

            /// Returns a view of a range of the array for writing.
            ///
            /// # Errors
            ///
            /// If the range does not lie within the array.
            #[track_caller]
            pub fn try_slice_mut(
                &mut self,
                range: impl RangeBounds<usize>,
            ) -> Result<$view_mut<'_, T>> {
                let location = Location::caller();
                let part = self.view_mut().into_part(range);
                Ok(part.map_err(|usage_error| usage_error.at(location))?)
            }

            /// Splits the array into two views that can be written at the same time: the first
            /// `middle` elements, and the rest.
            ///
            /// # Panics
            ///
            /// If `middle` is greater than the length of the array.
            #[track_caller]
            pub fn split_at_mut(&mut self, middle: usize) -> ($view_mut<'_, T>, $view_mut<'_, T>) {
                self.view_mut().split_at_mut(middle)
            }

            /// Splits the array into views of `chunk_len` elements that can be written at the same
            /// time. The last may be shorter.
            ///
            /// # Panics
            ///
            /// If `chunk_len` is 0.
            #[track_caller]
            pub fn chunks_mut(
                &mut self,
                chunk_len: usize,
            ) -> impl Iterator<Item = $view_mut<'_, T>> {
                self.view_mut().chunks_mut(chunk_len)
            }
        }
    };
}

/// Implements the common methods for an array with the fields `allocation`, `len` and `element`.
macro_rules! array {
    ($name:ident) => {
        $crate::array::accessors::views!($name, View, ViewMut);

        impl<T> $name<T> {
            /// Returns the number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Returns whether the array has no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            pub(crate) fn span(&self) -> Span<'_> {
                Span {
                    allocation: &self.allocation,
                    bytes: 0..self.len * size_of::<T>(),
                    ordered: true,
                    reach: $crate::array::Reach::Own,
                }
            }
        }

        impl<T> std::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let (name, element) = (stringify!($name), std::any::type_name::<T>());
                write!(f, "{name}({} × {element}: {:?})", self.len, self.allocation)
            }
        }
    };
}

pub(super) use {array, views};
