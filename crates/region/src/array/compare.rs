//! Comparisons, and choosing by them.

use ndarray::{DimMax, Dimension};

use super::Array;
use crate::{
    element::{Element, Number, sealed::Sealed},
    error::Problem,
    graph::{Comparison, Function, Op},
    shape,
};

/// What can stand at the other side of an operation that has no operator: an array, or a value for all elements.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
///
/// let device = millstream::Device::simulated()?;
/// let x = array![1.0_f32, 5.0, 3.0];
/// let high = device.region(|g| {
///     let x = g.array(&x);
///     (x.greater(2.0), x.maximum(&x.mean()))
/// })?;
/// assert_eq!(high.wait()?, (array![false, true, true], array![3.0, 5.0, 3.0]));
/// # Ok::<(), millstream_region::Error>(())
/// ```
pub trait Operand<T, D>: private::Sealed {
    /// The dimension of the result.
    type Dim;

    /// The function of `left` and this.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn apply<U: Element>(self, left: &Array<T, D>, function: Function) -> Array<U, Self::Dim>;
}

mod private {
    pub trait Sealed {}
    impl<T: crate::element::sealed::Sealed> Sealed for T {}
    impl<T, D> Sealed for super::Array<T, D> {}
    impl<T, D> Sealed for &super::Array<T, D> {}
}

impl<T: Element, D> Operand<T, D> for T {
    type Dim = D;

    #[allow(private_interfaces)]
    #[track_caller]
    fn apply<U: Element>(self, left: &Array<T, D>, function: Function) -> Array<U, D> {
        left.with_scalar(function, self, false)
    }
}

impl<T: Element, D, E> Operand<T, D> for &Array<T, E>
where
    D: Dimension + DimMax<E>,
    E: Dimension,
{
    type Dim = <D as DimMax<E>>::Output;

    #[allow(private_interfaces)]
    #[track_caller]
    fn apply<U: Element>(self, left: &Array<T, D>, function: Function) -> Array<U, Self::Dim> {
        left.with(function, self)
    }
}

impl<T: Element, D, E> Operand<T, D> for Array<T, E>
where
    D: Dimension + DimMax<E>,
    E: Dimension,
{
    type Dim = <D as DimMax<E>>::Output;

    #[allow(private_interfaces)]
    #[track_caller]
    fn apply<U: Element>(self, left: &Array<T, D>, function: Function) -> Array<U, Self::Dim> {
        left.with(function, &self)
    }
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident, $bound:ident, $comparison:ident;)*) => {
        $(
            impl<T: $bound, D> Array<T, D> {
                $(#[$doc])*
                #[track_caller]
                #[must_use]
                pub fn $name<O: Operand<T, D>>(&self, other: O) -> Array<bool, O::Dim> {
                    other.apply(self, Function::Compare(Comparison::$comparison))
                }
            }
        )*
    };
}

comparisons! {
    /// Where this is less than the other; nowhere where one is NaN.
    less, Number, Less;
    /// Where this is less than the other or equal to it; nowhere where one is NaN.
    less_equal, Number, LessOrEqual;
    /// Where this is greater than the other; nowhere where one is NaN.
    greater, Number, Greater;
    /// Where this is greater than the other or equal to it; nowhere where one is NaN.
    greater_equal, Number, GreaterOrEqual;
    /// Where both are equal; nowhere where one is NaN.
    equal, Element, Equal;
    /// Where both are not equal; wherever one is NaN.
    not_equal, Element, NotEqual;
}

impl<T: Number, D> Array<T, D> {
    /// The lesser of both, element by element; NaN where one is.
    #[track_caller]
    #[must_use]
    pub fn minimum<O: Operand<T, D>>(&self, other: O) -> Array<T, O::Dim> {
        other.apply(self, Function::Minimum)
    }

    /// The greater of both, element by element; NaN where one is.
    #[track_caller]
    #[must_use]
    pub fn maximum<O: Operand<T, D>>(&self, other: O) -> Array<T, O::Dim> {
        other.apply(self, Function::Maximum)
    }

    /// Each element, or the bound that it is beyond; NaN stays NaN.
    ///
    /// If the bounds are the wrong way round, or one is NaN, that is a mistake.
    #[track_caller]
    #[must_use]
    pub fn clamp(&self, least: T, greatest: T) -> Self {
        if !matches!(
            least.partial_cmp(&greatest),
            Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)
        ) {
            let detail = format!("{least:?} is not below {greatest:?}");
            let location = std::panic::Location::caller();
            return self.mistake(
                T::DTYPE,
                self.shape(),
                "clamp",
                Problem::Argument { detail },
                location,
            );
        }
        let above = self.with_scalar::<T>(Function::Maximum, least, false);
        above.with_scalar(Function::Minimum, greatest, false)
    }
}

impl<D: Dimension> Array<bool, D> {
    /// The elements of `yes` where this is true, and those of `no` elsewhere: NumPy's `where`.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = array![-1.0_f32, 4.0];
    /// let roots = device.region(|g| {
    ///     let x = g.array(&x);
    ///     x.less(0.0).if_else(&x.zeros_like(), &x.sqrt())
    /// })?;
    /// assert_eq!(roots.wait()?, array![0.0, 2.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn if_else<T, E, F>(&self, yes: &Array<T, E>, no: &Array<T, F>) -> Chosen<T, D, E, F>
    where
        T: Element,
        E: Dimension + DimMax<F>,
        F: Dimension,
        D: DimMax<<E as DimMax<F>>::Output>,
    {
        let location = std::panic::Location::caller();
        let fits = shape::broadcast(yes.shape(), no.shape());
        let Some(shape) = fits.and_then(|both| shape::broadcast(self.shape(), &both)) else {
            let problem = Problem::Shapes {
                left: yes.shape().into(),
                right: no.shape().into(),
            };
            let longest = [self.shape(), yes.shape(), no.shape()]
                .into_iter()
                .max_by_key(|shape| shape.len());
            return self.mistake(T::DTYPE, longest.expect("of three"), "if_else", problem, location);
        };
        let which: Array<bool, D> = self.stretched(&shape, "if_else", location);
        let yes: Array<T, D> = yes.stretched(&shape, "if_else", location);
        let no: Array<T, D> = no.stretched(&shape, "if_else", location);
        let operands = [which.node(), yes.node(), no.node()]
            .into_iter()
            .cloned()
            .collect();
        self.plan(
            <T as Sealed>::DTYPE,
            shape,
            Op::Apply(Function::Select, operands),
            "if_else",
            location,
        )
    }
}

/// What [`Array::if_else`] gives: the dimension that all three are stretched to.
pub type Chosen<T, D, E, F> = Array<T, <D as DimMax<<E as DimMax<F>>::Output>>::Output>;
