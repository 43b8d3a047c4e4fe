//! Reductions: sums, products, extrema and their positions, means, variances, `any` and `all`.

use ndarray::{Axis, Dimension, Ix0, RemoveAxis};

use crate::{
    array::Array,
    element::{DType, Element, Float, Number, Scalar},
    error::{Site, UsageErrorKind},
    expr::{Function, NodeRef, Op, Reduction},
    plan::RowShape,
    shape::{self, Axes, Shape},
};

impl<T: Element, D> Array<T, D> {
    /// Reduces along the given axes, which are removed.
    pub(super) fn reduced<U: Element, E>(
        &self,
        reduction: Reduction,
        mut axes: Axes,
        site: Site,
    ) -> Array<U, E> {
        axes.sort_unstable();
        axes.dedup();
        let others = (0..self.ndim()).filter(|axis| !axes.contains(axis));
        let shape: Shape = others.map(|axis| self.shape()[axis]).collect();
        if let Some(&axis) = axes.iter().find(|&&axis| axis >= self.ndim()) {
            let problem = UsageErrorKind::axis(axis, self.shape());
            let shape = &shape[..shape.len().saturating_sub(1)];
            return self.failed(U::DTYPE, shape, problem, site);
        }
        if self.node().dtype.is_half() && U::DTYPE == DType::F64 {
            let wider: Array<f32, D> = self.unary(Function::Cast(DType::F32));
            return wider.reduced(reduction, axes, site);
        }
        let needs_one = matches!(
            reduction,
            Reduction::Minimum | Reduction::Maximum | Reduction::ArgMinimum | Reduction::ArgMaximum
        );
        if needs_one && axes.iter().any(|&axis| self.shape()[axis] == 0) {
            let problem = UsageErrorKind::Empty {
                shape: self.shape().into(),
            };
            return self.failed(U::DTYPE, &shape, problem, site);
        }
        let op = Op::Reduce {
            reduction,
            source: NodeRef::clone(self.node()),
            axes,
        };
        self.plan(U::DTYPE, shape, op, site)
    }

    /// Reduces along the given axes, which keep length 1.
    fn reduced_keeping<U: Element>(
        &self,
        reduction: Reduction,
        axes: &[Axis],
        site: Site,
    ) -> Array<U, D> {
        let axes = numbers(axes);
        let mut shape = self.node().shape.clone();
        let reduced: Array<U, D> = self.reduced(reduction, axes.clone(), site);
        let lengths = shape.iter_mut().enumerate();
        let along = lengths.filter(|(axis, _)| axes.contains(axis));
        along.for_each(|(_, length)| *length = 1);
        reduced.reshaped(shape, site)
    }

    fn all_axes(&self) -> Axes {
        (0..self.ndim()).collect()
    }
}

fn numbers(axes: &[Axis]) -> Axes {
    axes.iter().map(|axis| axis.index()).collect()
}

/// Defines each reduction in three forms: of all elements, along one axis, and along several axes
/// that keep length 1.
macro_rules! reductions {
    ($(
        [$($generic:tt)*] $element:ty => $reduction:ident, $what:literal $($of_all:literal)?,
        $whole:ident, $along:ident, $keeping:ident -> $result:ty;
    )*) => {$(
        impl<D: Dimension, $($generic)*> Array<$element, D> {
            #[doc = concat!("Returns ", $what, $($of_all,)? ".")]
            #[track_caller]
            pub fn $whole(&self) -> Array<$result, Ix0> {
                let site = Site::of(stringify!($whole));
                self.reduced(Reduction::$reduction, self.all_axes(), site)
            }

            #[doc = concat!("Returns ", $what, " along an axis, which is removed.")]
            #[track_caller]
            pub fn $along(&self, axis: Axis) -> Array<$result, D::Smaller>
            where
                D: RemoveAxis,
            {
                let site = Site::of(stringify!($along));
                self.reduced(Reduction::$reduction, numbers(&[axis]), site)
            }

            #[doc = concat!("Returns ", $what, " along these axes, which keep length 1.")]
            #[track_caller]
            pub fn $keeping(&self, axes: &[Axis]) -> Array<$result, D> {
                let site = Site::of(stringify!($keeping));
                self.reduced_keeping(Reduction::$reduction, axes, site)
            }
        }
    )*};
}

reductions! {
    [T: Number] T => Sum, "the sum" " of all elements", sum, sum_axis, sum_keepdims -> T;
    [T: Number] T => Product, "the product" " of all elements",
        product, product_axis, product_keepdims -> T;
    [T: Number] T => Minimum, "the minimum (NaN if there is one; −0 is less than +0)"
        " of all elements", min, min_axis, min_keepdims -> T;
    [T: Number] T => Maximum, "the maximum (NaN if there is one; −0 is less than +0)"
        " of all elements", max, max_axis, max_keepdims -> T;
    [T: Number] T => ArgMinimum,
        "the position of the first minimum (NaN if there is one; −0 is less than +0)"
        " of all elements", argmin, argmin_axis, argmin_keepdims -> i64;
    [T: Number] T => ArgMaximum,
        "the position of the first maximum (NaN if there is one; −0 is less than +0)"
        " of all elements", argmax, argmax_axis, argmax_keepdims -> i64;
    [] bool => Any, "whether one element is true", any, any_axis, any_keepdims -> bool;
    [] bool => All, "whether every element is true", all, all_axis, all_keepdims -> bool;
}

impl<D: Dimension> Array<bool, D> {
    /// Counts the true elements.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1.0_f32, 5.0], [7.0, 9.0]];
    /// let counts = device.region(|g| {
    ///     let is_large = g.array(&x).greater(4.0);
    ///     (is_large.sum(), is_large.sum_axis(Axis(0)))
    /// })?;
    /// assert_eq!(counts.wait()?, (ndarray::arr0(3), array![1, 2]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn sum(&self) -> Array<i64, Ix0> {
        self.cast::<i64>().sum()
    }

    /// Counts the true elements along an axis, which is removed.
    #[track_caller]
    pub fn sum_axis(&self, axis: Axis) -> Array<i64, D::Smaller>
    where
        D: RemoveAxis,
    {
        self.cast::<i64>().sum_axis(axis)
    }

    /// Counts the true elements along these axes, which keep length 1.
    #[track_caller]
    pub fn sum_keepdims(&self, axes: &[Axis]) -> Array<i64, D> {
        self.cast::<i64>().sum_keepdims(axes)
    }
}

impl<T: Float, D: Dimension> Array<T, D> {
    /// Returns the mean of all elements, NaN if there are none.
    ///
    /// The sum and the division are in `f64`, so that a mean of `f32` does not overflow. The result
    /// is rounded once.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![3e38_f32, 3e38];
    /// assert_eq!(device.region(|g| g.array(&x).mean())?.wait()?.into_scalar(), 3e38);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn mean(&self) -> Array<T, Ix0> {
        let sum = self.reduced(Reduction::Sum, self.all_axes(), Site::of("mean"));
        divided(sum, self.len() as f64).cast()
    }

    /// Returns the mean along an axis, which is removed. Rounded as [`mean`](Self::mean).
    #[track_caller]
    pub fn mean_axis(&self, axis: Axis) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        let sum = self.reduced(Reduction::Sum, numbers(&[axis]), Site::of("mean_axis"));
        divided(sum, self.elements_along(&[axis]) as f64).cast()
    }

    /// Returns the mean along these axes, which keep length 1. Rounded as [`mean`](Self::mean).
    #[track_caller]
    pub fn mean_keepdims(&self, axes: &[Axis]) -> Self {
        let sum = self.reduced_keeping(Reduction::Sum, axes, Site::of("mean_keepdims"));
        divided(sum, self.elements_along(axes) as f64).cast()
    }

    /// Returns the Euclidean norm of all elements: the square root of the sum of their squares,
    /// computed as `f64` and rounded once.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[3e30_f32, 4e30], [0.0, -2.0]];
    /// let norms = device.region(|g| (g.array(&x).norm(), g.array(&x).norm_axis(Axis(1))))?;
    /// assert_eq!(norms.wait()?, (ndarray::arr0(5e30), array![5e30, 2.0]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn norm(&self) -> Array<T, Ix0> {
        let site = Site::of("norm");
        let squares: Array<f64, Ix0> = self.reduced(Reduction::Squares, self.all_axes(), site);
        squares.unary::<f64>(Function::SquareRoot).cast()
    }

    /// Returns the Euclidean norm along an axis, which is removed, as [`norm`](Self::norm).
    #[track_caller]
    pub fn norm_axis(&self, axis: Axis) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        let site = Site::of("norm_axis");
        let squares: Array<f64, _> = self.reduced(Reduction::Squares, numbers(&[axis]), site);
        squares.unary::<f64>(Function::SquareRoot).cast()
    }

    /// Returns the variance of all elements; the divisor is their number minus `ddof`.
    ///
    /// The sum of the squared deviations is divided in `f64`, and the result is rounded once. The
    /// deviations of at most 8,192 elements are computed in the type of the elements (`f32` for
    /// `f16` and `bf16`); their sum corrects the rounding of the mean. Those of more elements are
    /// computed in `f64`; the relative error of their sum is at most 2⁻⁴⁶.
    #[track_caller]
    pub fn var(&self, ddof: T) -> Array<T, Ix0> {
        self.variance(wide(ddof)).cast()
    }

    /// Returns the variance along an axis, which is removed. It is computed as [`var`](Self::var)
    /// of the elements of each row, with two exceptions. The deviations of at least 128 contiguous
    /// rows are in the type of the elements even if they are longer than 8,192 elements. Rows that
    /// are not contiguous are computed in `f64`.
    #[track_caller]
    pub fn var_axis(&self, axis: Axis, ddof: T) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        self.variance_axis(axis, wide(ddof)).cast()
    }

    /// Returns the standard deviation of all elements; the divisor is their number minus `ddof`.
    ///
    /// The square root of the variance is taken as `f64` and rounded to a shorter type once, at the
    /// end.
    #[track_caller]
    pub fn std(&self, ddof: T) -> Array<T, Ix0> {
        let variance = self.variance(wide(ddof));
        variance.unary::<f64>(Function::SquareRoot).cast()
    }

    /// Returns the standard deviation along an axis, which is removed. Rounded as
    /// [`std`](Self::std).
    #[track_caller]
    pub fn std_axis(&self, axis: Axis, ddof: T) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        let variance = self.variance_axis(axis, wide(ddof));
        variance.unary::<f64>(Function::SquareRoot).cast()
    }

    /// Returns the variance of all elements, not yet rounded to their type.
    #[track_caller]
    fn variance(&self, ddof: f64) -> Array<f64, Ix0> {
        if T::DTYPE.is_half() {
            return self.cast::<f32>().variance(ddof);
        }
        let all: Vec<_> = (0..self.ndim()).map(Axis).collect();
        let sum = self.squared_deviations(&all, "var");
        divided(sum, self.len() as f64 - ddof)
    }

    /// Returns the variance along an axis, not yet rounded to the element type.
    #[track_caller]
    fn variance_axis(&self, axis: Axis, ddof: f64) -> Array<f64, D::Smaller>
    where
        D: RemoveAxis,
    {
        if T::DTYPE.is_half() {
            return self.cast::<f32>().variance_axis(axis, ddof);
        }
        let sum = self.squared_deviations(&[axis], "var_axis");
        divided(sum, self.elements_along(&[axis]) as f64 - ddof)
    }

    /// Returns the sums of the squared deviations of elements from their means along the axes.
    ///
    /// A row kernel computes the means of its rows before their deviations. Other elements are
    /// shared by blocks, none of which can wait for a mean, so that one pass computes both.
    #[track_caller]
    fn squared_deviations<E>(&self, axes: &[Axis], operation: &'static str) -> Array<f64, E> {
        let (site, numbers) = (Site::of(operation), numbers(axes));
        let results = self.len() / self.elements_along(axes).max(1);
        if RowShape::of_axes(self.shape(), &numbers, results).is_none() {
            return self.reduced(Reduction::SquaredDeviations, numbers, site);
        }
        // The halves of finite elements differ by a finite number.
        let half = T::from_whole(1).divided_by(T::from_whole(2));
        let halves: Self = self.binary_scalar(Function::Multiply, half, false);
        let means = halves.mean_keepdims(axes).broadcast_to(self, operation);
        let deviations: Self = halves.same_shape(Function::Subtract, &means);
        let squares: Array<f64, E> = deviations.reduced(Reduction::Squares, numbers.clone(), site);
        // The mean was rounded: the deviations add up to what it lacks. Squares that overflow lack
        // nothing.
        let sum: Array<f64, E> = deviations.reduced(Reduction::Sum, numbers, site);
        let mean = divided(sum.clone(), self.elements_along(axes) as f64);
        let excess: Array<f64, E> = mean.same_shape(Function::Multiply, &sum);
        let excess: Array<f64, E> = excess.binary_scalar(Function::Minimum, f64::MAX, false);
        let squares: Array<f64, E> = squares.same_shape(Function::Subtract, &excess);
        squares.binary_scalar(Function::Multiply, 4.0, false)
    }

    /// Returns the number of elements along these axes. A missing axis counts as 1, because the
    /// reduction reports it.
    fn elements_along(&self, axes: &[Axis]) -> usize {
        let lengths = self.shape().iter().enumerate();
        let along = lengths.filter(|(axis, _)| axes.contains(&Axis(*axis)));
        let lengths: Shape = along.map(|(_, &length)| length).collect();
        shape::element_count(&lengths).unwrap_or(usize::MAX)
    }
}

/// Divides sums by a number. A power of two has an exact reciprocal, whose product has the same
/// bits and takes one instruction.
#[track_caller]
fn divided<E>(sums: Array<f64, E>, divisor: f64) -> Array<f64, E> {
    let (reciprocal, significand) = (divisor.recip(), divisor.to_bits() << 12);
    if divisor.is_normal() && reciprocal.is_normal() && significand == 0 {
        sums.binary_scalar(Function::Multiply, reciprocal, false)
    } else {
        sums.binary_scalar(Function::Divide, divisor, false)
    }
}

fn wide<T: Float>(value: T) -> f64 {
    match value.scalar() {
        Scalar::F16(value) => value.into(),
        Scalar::Bf16(value) => value.into(),
        Scalar::F32(value) => value.into(),
        Scalar::F64(value) => value,
        other => unreachable!("{other:?} is no float"),
    }
}
