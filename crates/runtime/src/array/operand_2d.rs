//! The traits of rectangular operands that operations read and write.

use super::{Span2d, View2d, View2dMut, operand::sealed::Sealed};

/// A rectangle that an operation may read: [`View2d`], [`View2dMut`] and references to them.
pub trait CopySource2d<T>: Sealed {
    /// Returns the number of rows.
    fn rows(&self) -> usize;

    /// Returns the number of elements in a row.
    fn cols(&self) -> usize;

    /// Returns the location of the rectangle.
    #[doc(hidden)]
    fn operand_2d(&self) -> Operand2d<'_>;
}

/// A rectangle that an operation may read and write: [`View2dMut`] and `&mut View2dMut`.
///
/// ```
/// fn elements<T>(operand: impl millstream::array::CopyTarget2d<T>) -> usize {
///     operand.rows() * operand.cols()
/// }
/// let mut buffer = millstream::Device::simulated()?.stream()?.zeros::<f32>(12)?;
/// assert_eq!(elements(&mut buffer.view_2d_mut(3, 4)?), 12);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// Operations do not write through a view for reading:
///
/// ```compile_fail,E0277
/// # let stream = millstream::Device::simulated()?.stream()?;
/// let buffer = stream.zeros::<f32>(12)?;
/// stream.fill_2d(buffer.view_2d(3, 4)?, 1.0)?;
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait CopyTarget2d<T>: CopySource2d<T> {}

/// The location of a rectangle, opaque outside of this crate.
#[doc(hidden)]
pub struct Operand2d<'a>(pub(crate) Span2d<'a>);

macro_rules! rectangles {
    ($($type:ident),*) => {
        $(
            impl<T> Sealed for $type<'_, T> {}

            impl<T> CopySource2d<T> for $type<'_, T> {
                fn rows(&self) -> usize {
                    $type::rows(self)
                }

                fn cols(&self) -> usize {
                    $type::cols(self)
                }

                fn operand_2d(&self) -> Operand2d<'_> {
                    Operand2d(self.span_2d().clone())
                }
            }
        )*
    };
}

rectangles!(View2d, View2dMut);

macro_rules! by_reference {
    ($($reference:ty),*) => {
        $(
            impl<T, O: CopySource2d<T> + ?Sized> CopySource2d<T> for $reference {
                fn rows(&self) -> usize {
                    O::rows(self)
                }

                fn cols(&self) -> usize {
                    O::cols(self)
                }

                fn operand_2d(&self) -> Operand2d<'_> {
                    O::operand_2d(self)
                }
            }
        )*
    };
}

by_reference!(&O, &mut O);

impl<T> CopyTarget2d<T> for View2dMut<'_, T> {}
impl<T> CopyTarget2d<T> for &mut View2dMut<'_, T> {}
