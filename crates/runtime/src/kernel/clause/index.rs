//! Checked indexing of arrays in a clause.

use std::ops::Index;

use super::{FAILED, Int};

/// An array in a clause, before its type is known.
///
/// The method `at` returns an element of an array, a slice or a vector. For any other type, the
/// method of the same name of [`OtherIndexed`] uses the type's own `Index` implementation.
pub struct Indexed<'a, B: ?Sized>(pub &'a B);

macro_rules! arrays {
    ($($array:ty $(where $len:ident)?;)*) => {
        $(
            impl<'a, T $(, const $len: usize)?> Indexed<'a, $array> {
                /// Returns the element at an index. If the index is out of bounds, the clause is
                /// false.
                ///
                /// # Panics
                ///
                /// If the array is empty.
                #[must_use]
                #[track_caller]
                pub fn at(&self, index: impl Into<Int>) -> &'a T {
                    element(&self.0[..], index.into())
                }
            }
        )*
    };
}

arrays! {
    [T];
    &[T];
    [T; N] where N;
    &[T; N] where N;
    Vec<T>;
    &Vec<T>;
}

/// Returns the element at an index. If it is out of bounds, marks the clause as failed and returns
/// the first element.
#[track_caller]
fn element<T>(array: &[T], index: Int) -> &T {
    let position = usize::try_from(index.get())
        .ok()
        .and_then(|index| array.get(index));
    position.unwrap_or_else(|| {
        FAILED.set(true);
        &array[0]
    })
}

/// Indexing for types other than arrays, slices and vectors.
pub trait OtherIndexed<'a, B: ?Sized> {
    /// Returns the result of the type's own `Index` implementation.
    fn at<I>(&self, index: I) -> &'a <B as Index<I>>::Output
    where
        B: Index<I>;
}

impl<'a, B: ?Sized> OtherIndexed<'a, B> for Indexed<'a, B> {
    #[track_caller]
    fn at<I>(&self, index: I) -> &'a <B as Index<I>>::Output
    where
        B: Index<I>,
    {
        &self.0[index]
    }
}
