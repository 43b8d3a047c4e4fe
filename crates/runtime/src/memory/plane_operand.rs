//! What can stand where an operation reads or writes a rectangle.

use super::{Area, Plane, PlaneMut, operand::sealed::Sealed};

/// A rectangle that an operation may read: [`Plane`], [`PlaneMut`] and references to them.
///
/// ```
/// fn elements<T>(operand: impl millstream::PlaneSource<T>) -> usize {
///     operand.rows() * operand.cols()
/// }
/// let mut buffer = millstream::Device::simulated()?.stream()?.zeros::<f32>(12)?;
/// assert_eq!(elements(&buffer.plane(3, 4)?), 12);
/// assert_eq!(elements(buffer.plane_mut(3, 4)?.rect_mut(1.., 1..)?), 6);
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait PlaneSource<T>: Sealed {
    /// Rows of the rectangle.
    fn rows(&self) -> usize;

    /// Elements in a row.
    fn cols(&self) -> usize;

    /// Where the rectangle is.
    #[doc(hidden)]
    fn place(&self) -> PlanePlace<'_>;
}

/// A rectangle that an operation may read and write: [`PlaneMut`] and `&mut PlaneMut`.
///
/// ```
/// fn elements<T>(operand: impl millstream::PlaneTarget<T>) -> usize {
///     operand.rows() * operand.cols()
/// }
/// let mut buffer = millstream::Device::simulated()?.stream()?.zeros::<f32>(12)?;
/// assert_eq!(elements(&mut buffer.plane_mut(3, 4)?), 12);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// Nothing is written through what is there to read:
///
/// ```compile_fail,E0277
/// # let stream = millstream::Device::simulated()?.stream()?;
/// let buffer = stream.zeros::<f32>(12)?;
/// stream.fill_2d(buffer.plane(3, 4)?, 1.0)?;
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait PlaneTarget<T>: PlaneSource<T> {}

/// Where a rectangle is. Only this crate can look inside.
#[doc(hidden)]
pub struct PlanePlace<'a>(pub(crate) Area<'a>);

macro_rules! rectangles {
    ($($type:ident),*) => {
        $(
            impl<T> Sealed for $type<'_, T> {}

            impl<T> PlaneSource<T> for $type<'_, T> {
                fn rows(&self) -> usize {
                    $type::rows(self)
                }

                fn cols(&self) -> usize {
                    $type::cols(self)
                }

                fn place(&self) -> PlanePlace<'_> {
                    PlanePlace(self.area().clone())
                }
            }
        )*
    };
}

rectangles!(Plane, PlaneMut);

macro_rules! by_reference {
    ($($reference:ty),*) => {
        $(
            impl<T, O: PlaneSource<T> + ?Sized> PlaneSource<T> for $reference {
                fn rows(&self) -> usize {
                    O::rows(self)
                }

                fn cols(&self) -> usize {
                    O::cols(self)
                }

                fn place(&self) -> PlanePlace<'_> {
                    O::place(self)
                }
            }
        )*
    };
}

by_reference!(&O, &mut O);

impl<T> PlaneTarget<T> for PlaneMut<'_, T> {}
impl<T> PlaneTarget<T> for &mut PlaneMut<'_, T> {}
