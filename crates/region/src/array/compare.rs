//! Comparisons, minima and maxima, and selection by masks.

use std::{borrow::Borrow, cmp::Ordering};

use ndarray::{DimMax, Dimension, Ix0};

use crate::{
    array::Array,
    element::{Element, Number, sealed::Sealed},
    error::{Line, Site, UsageErrorKind},
    expr::{Comparison, Function, NodeRef, Op},
    shape,
};

/// The other operand of a method such as [`Array::greater`]: an array, or one value for all
/// elements.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
/// let device = millstream::Device::simulated()?;
/// let x = array![1.0_f32, 5.0, 3.0];
/// let high = device.region(|g| {
///     let x = g.array(&x);
///     (x.greater(2.0), x.maximum(&x.mean()))
/// })?;
/// assert_eq!(high.wait()?, (array![false, true, true], array![3.0, 5.0, 3.0]));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the other operand of an array of `{T}` on a device",
    note = "the other operand is a device array or a value, and has the same element type; \
            `cast` converts between types, and `g.array(&host)` copies a host array to the device"
)]
pub trait Operand<T, D>: private::Sealed {
    /// The dimension of the result.
    type Dim;

    /// Applies a function to `left` and this operand.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn apply<U: Element>(self, left: &Array<T, D>, function: Function) -> Array<U, Self::Dim>;

    /// Returns the value, if the operand is one.
    #[doc(hidden)]
    fn value(&self) -> Option<T> {
        None
    }
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
        left.binary_scalar(function, self, false)
    }

    fn value(&self) -> Option<T> {
        Some(*self)
    }
}

macro_rules! arrays {
    ($($array:ty),*) => {$(
        impl<T: Element, D: Dimension + DimMax<E>, E: Dimension> Operand<T, D> for $array {
            type Dim = <D as DimMax<E>>::Output;

            #[allow(private_interfaces)]
            #[track_caller]
            fn apply<U: Element>(
                self,
                left: &Array<T, D>,
                function: Function,
            ) -> Array<U, Self::Dim> {
                left.binary(function, self.borrow())
            }
        }

        impl<T: Element, E: Dimension> WhereOperand for $array {
            type Elem = T;
            type Dim = E;

            fn array<D>(self, _beside: &Array<bool, D>, _line: Line) -> Array<T, E> {
                Array::clone(self.borrow())
            }
        }
    )*};
}

arrays!(Array<T, E>, &Array<T, E>);

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident, $bound:ident, $comparison:ident;)*) => {
        $(
            impl<T: $bound, D> Array<T, D> {
                $(#[$doc])*
                #[track_caller]
                pub fn $name<O: Operand<T, D>>(&self, other: O) -> Array<bool, O::Dim> {
                    other.apply(self, Function::Compare(Comparison::$comparison))
                }
            }
        )*
    };
}

comparisons! {
    /// Compares each element with the other operand: `true` where it is less, `false` where an
    /// operand is NaN.
    less, Number, Less;
    /// Compares each element with the other operand: `true` where it is less or equal, `false`
    /// where an operand is NaN.
    less_equal, Number, LessOrEqual;
    /// Compares each element with the other operand: `true` where it is greater, `false` where an
    /// operand is NaN.
    greater, Number, Greater;
    /// Compares each element with the other operand: `true` where it is greater or equal, `false`
    /// where an operand is NaN.
    greater_equal, Number, GreaterOrEqual;
    /// Compares each element with the other operand: `true` where they are equal, `false` where an
    /// operand is NaN.
    equal, Element, Equal;
    /// Compares each element with the other operand: `true` where they differ or an operand is NaN.
    not_equal, Element, NotEqual;
}

impl<T: Number, D> Array<T, D> {
    /// Computes the element-wise minimum, NaN where an operand is NaN. −0 is less than +0.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let (x, y) = (array![-0.0_f32, 3.0], array![0.0_f32, 2.0]);
    /// let least = device.region(|g| g.array(&x).minimum(&g.array(&y)))?.wait()?;
    /// assert_eq!(least, array![-0.0, 2.0]);
    /// assert!(least[0].is_sign_negative());
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn minimum<O: Operand<T, D>>(&self, other: O) -> Array<T, O::Dim> {
        other.apply(self, Function::Minimum)
    }

    /// Computes the element-wise maximum, NaN where an operand is NaN. −0 is less than +0.
    #[track_caller]
    pub fn maximum<O: Operand<T, D>>(&self, other: O) -> Array<T, O::Dim> {
        other.apply(self, Function::Maximum)
    }

    /// Limits each element to the range from `least` to `greatest`; NaN stays NaN.
    ///
    /// The result is the minimum of `greatest` and the maximum of `least` and the element, so that
    /// −0 is less than +0: a lower bound of +0 turns −0 into +0, where Rust's `clamp` keeps −0.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![-0.0_f32, 0.5, 7.0];
    /// let within = device.region(|g| g.array(&x).clamp(0.0, 1.0))?.wait()?;
    /// assert_eq!(within, array![0.0, 0.5, 1.0]);
    /// assert!(within[0].is_sign_positive());
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if `least` is greater than
    /// `greatest` or a bound is NaN.
    #[track_caller]
    pub fn clamp(&self, least: T, greatest: T) -> Self {
        if least.partial_cmp(&greatest).is_none_or(Ordering::is_gt) {
            let problem = UsageErrorKind::argument(format!(
                "the lower bound {least:?} is above the upper bound {greatest:?}, or one is NaN"
            ));
            return self.failed(T::DTYPE, self.shape(), problem, Site::of("clamp"));
        }
        let above = self.binary_scalar::<T>(Function::Maximum, least, false);
        above.binary_scalar(Function::Minimum, greatest, false)
    }
}

impl<D> Array<bool, D> {
    /// Selects between two arrays of the shape of this mask.
    pub(super) fn selected<T: Element>(
        &self,
        yes: &Array<T, D>,
        no: &Array<T, D>,
        site: Site,
    ) -> Array<T, D> {
        let operands = [self.node(), yes.node(), no.node()].map(NodeRef::clone);
        let op = Op::Apply(Function::Select, operands.into_iter().collect());
        self.plan(T::DTYPE, self.node().shape.clone(), op, site)
    }
}

impl<D: Dimension> Array<bool, D> {
    /// Selects the elements of `yes` where this mask is true, and those of `no` elsewhere, as
    /// NumPy's `where`. Either is an array, or one value for all elements.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![-1.0_f32, 4.0];
    /// let roots = device.region(|g| {
    ///     let x = g.array(&x);
    ///     x.less(0.0).where_cond(0.0, x.sqrt())
    /// })?;
    /// assert_eq!(roots.wait()?, array![0.0, 2.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn where_cond<Y, N>(&self, yes: Y, no: N) -> Selected<Y::Elem, D, Y::Dim, N::Dim>
    where
        Y: WhereOperand,
        N: WhereOperand<Elem = Y::Elem>,
        Y::Dim: DimMax<N::Dim>,
        D: DimMax<<Y::Dim as DimMax<N::Dim>>::Output>,
    {
        let site = Site::of("where_cond");
        let (yes, no) = (yes.array(self, site.line), no.array(self, site.line));
        let dtype = <Y::Elem as Sealed>::DTYPE;
        let both = shape::broadcast(yes.shape(), no.shape());
        let whole = (both.as_ref()).and_then(|both| shape::broadcast(self.shape(), both));
        let Some(shape) = whole else {
            let problem = match both {
                Some(both) => UsageErrorKind::shapes(self.shape(), &both),
                None => UsageErrorKind::shapes(yes.shape(), no.shape()),
            };
            let shapes = [self.shape(), yes.shape(), no.shape()];
            let longest = shapes.into_iter().max_by_key(|shape| shape.len());
            let longest = longest.expect("the list has three shapes");
            return self.failed(dtype, longest, problem, site);
        };
        let which: Array<bool, _> = self.broadcast_view(&shape, site);
        let yes: Array<Y::Elem, _> = yes.broadcast_view(&shape, site);
        let no: Array<Y::Elem, _> = no.broadcast_view(&shape, site);
        which.selected(&yes, &no, site)
    }
}

/// The result type of [`Array::where_cond`], with the dimension to which the three operands
/// broadcast.
pub type Selected<T, D, E, F> = Array<T, <D as DimMax<<E as DimMax<F>>::Output>>::Output>;

/// An operand of [`Array::where_cond`]: an array, or one value for all elements.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
/// let device = millstream::Device::simulated()?;
/// let x = array![3.0_f32, -4.0];
/// let signs = device.region(|g| {
///     let x = g.array(&x);
///     let is_negative = x.less(0.0);
///     (is_negative.where_cond(-1.0_f32, 1.0), is_negative.where_cond(&x, 0.0))
/// })?;
/// assert_eq!(signs.wait()?, (array![1.0, -1.0], array![0.0, -4.0]));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`where_cond` cannot select from `{Self}`",
    note = "`where_cond` selects from device arrays and from values of an element type"
)]
pub trait WhereOperand: private::Sealed {
    /// The element type.
    type Elem: Element;
    /// The dimension: that of an array, or `Ix0` for a value.
    type Dim: Dimension;

    /// Returns the operand as an array in the session of the mask.
    #[doc(hidden)]
    fn array<D>(self, beside: &Array<bool, D>, line: Line) -> Array<Self::Elem, Self::Dim>;
}

impl<T: Element> WhereOperand for T {
    type Elem = T;
    type Dim = Ix0;

    fn array<D>(self, beside: &Array<bool, D>, line: Line) -> Array<T, Ix0> {
        let node = beside.constant_node(self.scalar(), &[], line);
        Array::of(beside.session(), node)
    }
}
