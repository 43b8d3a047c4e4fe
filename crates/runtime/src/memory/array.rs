//! What every array that an allocation holds can do: parts of it, to read and to write.

/// Writes the methods of an array with the fields `allocation`, `len` and `element`.
macro_rules! array {
    ($name:ident) => {
        impl<T> $name<T> {
            /// Elements in the array.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether the array has no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// The whole array, to read.
            #[must_use]
            pub fn view(&self) -> View<'_, T> {
                View {
                    span: self.span(),
                    element: PhantomData,
                }
            }

            /// The whole array, to write.
            #[must_use]
            pub fn view_mut(&mut self) -> ViewMut<'_, T> {
                ViewMut {
                    span: self.span(),
                    element: PhantomData,
                }
            }

            /// A part of the array, to read.
            ///
            /// # Panics
            ///
            /// If the range does not lie within the array, like a slice's index. See
            /// [`try_slice`](Self::try_slice).
            #[must_use]
            #[track_caller]
            pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
                match self.view().into_part(range) {
                    Ok(part) => part,
                    Err(usage_error) => panic!("{usage_error}"),
                }
            }

            /// A part of the array, to read.
            ///
            /// # Errors
            ///
            /// If the range does not lie within the array.
            #[track_caller]
            pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T>> {
                let location = Location::caller();
                let part = self.view().into_part(range);
                Ok(part.map_err(|usage_error| usage_error.at(location))?)
            }

            /// A part of the array, to write.
            ///
            /// # Panics
            ///
            /// If the range does not lie within the array. See
            /// [`try_slice_mut`](Self::try_slice_mut).
            #[must_use]
            #[track_caller]
            pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
                match self.view_mut().into_part(range) {
                    Ok(part) => part,
                    Err(usage_error) => panic!("{usage_error}"),
                }
            }

            /// A part of the array, to write.
            ///
            /// # Errors
            ///
            /// If the range does not lie within the array.
            #[track_caller]
            pub fn try_slice_mut(
                &mut self,
                range: impl RangeBounds<usize>,
            ) -> Result<ViewMut<'_, T>> {
                let location = Location::caller();
                let part = self.view_mut().into_part(range);
                Ok(part.map_err(|usage_error| usage_error.at(location))?)
            }

            /// Two parts of the array to write at the same time: the first `middle` elements, and
            /// the rest.
            ///
            /// # Panics
            ///
            /// If `middle` is more than the array has.
            #[must_use]
            #[track_caller]
            pub fn split_at_mut(&mut self, middle: usize) -> (ViewMut<'_, T>, ViewMut<'_, T>) {
                self.view_mut().split_at_mut(middle)
            }

            /// The array in parts of `chunk_len` elements to write at the same time, the last
            /// perhaps shorter.
            ///
            /// # Panics
            ///
            /// If `chunk_len` is 0.
            #[track_caller]
            pub fn chunks_mut(&mut self, chunk_len: usize) -> impl Iterator<Item = ViewMut<'_, T>> {
                self.view_mut().chunks_mut(chunk_len)
            }

            /// Where the whole array is.
            pub(super) fn span(&self) -> Span<'_> {
                Span {
                    allocation: &self.allocation,
                    bytes: 0..self.len * size_of::<T>(),
                    ordered: true,
                }
            }
        }
    };
}

pub(super) use array;
