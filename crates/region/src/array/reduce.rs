//! One element of many.

use std::panic::Location;

use ndarray::{Axis, Dimension, Ix0, RemoveAxis};

use super::Array;
use crate::{
    element::{DType, Element, Float, Number},
    error::Problem,
    graph::{Function, NodeRef, Op, Reduction},
    shape::{Axes, Shape},
};

impl<T: Element, D> Array<T, D> {
    /// One element of all those along the axes, which must be there.
    fn reduced<U, E>(
        &self,
        reduction: Reduction,
        mut axes: Axes,
        dtype: DType,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<U, E> {
        axes.sort_unstable();
        axes.dedup();
        let kept = |axis: &usize| !axes.contains(axis);
        let shape: Shape = (0..self.ndim())
            .filter(kept)
            .map(|axis| self.shape()[axis])
            .collect();
        if let Some(&axis) = axes.iter().find(|&&axis| axis >= self.ndim()) {
            let problem = Problem::Axis {
                axis,
                shape: self.shape().into(),
            };
            return self.mistake(
                dtype,
                &shape[..shape.len().saturating_sub(1)],
                operation,
                problem,
                location,
            );
        }
        let needs_one = matches!(
            reduction,
            Reduction::Minimum | Reduction::Maximum | Reduction::ArgMinimum | Reduction::ArgMaximum
        );
        if needs_one && axes.iter().any(|&axis| self.shape()[axis] == 0) {
            let problem = Problem::Empty {
                shape: self.shape().into(),
            };
            return self.mistake(dtype, &shape, operation, problem, location);
        }
        let op = Op::Reduce {
            reduction,
            source: NodeRef::clone(self.node()),
            axes,
        };
        self.plan(dtype, shape, op, operation, location)
    }

    fn all_axes(&self) -> Axes {
        (0..self.ndim()).collect()
    }

    /// The same elements with axes of length 1 where some were reduced.
    fn keeping<U: Element>(
        &self,
        reduced: Array<U, D>,
        axes: &Axes,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<U, D> {
        let length = |axis: usize| {
            if axes.contains(&axis) {
                1
            } else {
                self.shape()[axis]
            }
        };
        let shape: Shape = (0..self.ndim()).map(length).collect();
        reduced.reordered(shape, operation, location)
    }
}

/// For each reduction: of all elements, along an axis, and along several axes that stay with length 1.
macro_rules! reductions {
    ($($bound:ident => $reduction:ident, $what:literal, $whole:ident, $along:ident, $keeping:ident -> $result:ty;)*) => {$(
        impl<T: $bound, D: Dimension> Array<T, D> {
            #[doc = concat!("The ", $what, " of all elements.")]
            #[track_caller]
            #[must_use]
            pub fn $whole(&self) -> Array<$result, Ix0> {
                let dtype = <$result as crate::element::sealed::Sealed>::DTYPE;
                self.reduced(Reduction::$reduction, self.all_axes(), dtype, stringify!($whole), Location::caller())
            }

            #[doc = concat!("The ", $what, " along an axis, which the result does not have.")]
            #[track_caller]
            #[must_use]
            pub fn $along(&self, axis: Axis) -> Array<$result, D::Smaller>
            where
                D: RemoveAxis,
            {
                let dtype = <$result as crate::element::sealed::Sealed>::DTYPE;
                let axes = Axes::from_slice(&[axis.index()]);
                self.reduced(Reduction::$reduction, axes, dtype, stringify!($along), Location::caller())
            }

            #[doc = concat!("The ", $what, " along these axes, which the result has with a length of 1.")]
            #[track_caller]
            #[must_use]
            pub fn $keeping(&self, axes: &[Axis]) -> Array<$result, D> {
                let dtype = <$result as crate::element::sealed::Sealed>::DTYPE;
                let axes: Axes = axes.iter().map(|axis| axis.index()).collect();
                let location = Location::caller();
                let reduced = self.reduced(Reduction::$reduction, axes.clone(), dtype, stringify!($keeping), location);
                self.keeping(reduced, &axes, stringify!($keeping), location)
            }
        }
    )*};
}

reductions! {
    Number => Sum, "sum", sum, sum_axis, sum_keeping -> T;
    Number => Product, "product", product, product_axis, product_keeping -> T;
    Number => Minimum, "least, or a NaN if there is one,", min, min_axis, min_keeping -> T;
    Number => Maximum, "greatest, or a NaN if there is one,", max, max_axis, max_keeping -> T;
    Number => ArgMinimum, "number of the first least element, or of the first NaN,", argmin, argmin_axis, argmin_keeping -> i64;
    Number => ArgMaximum, "number of the first greatest element, or of the first NaN,", argmax, argmax_axis, argmax_keeping -> i64;
}

/// For each question about booleans likewise.
macro_rules! questions {
    ($($reduction:ident, $what:literal, $whole:ident, $along:ident, $keeping:ident;)*) => {$(
        impl<D: Dimension> Array<bool, D> {
            #[doc = concat!("Whether ", $what, ".")]
            #[track_caller]
            #[must_use]
            pub fn $whole(&self) -> Array<bool, Ix0> {
                self.reduced(Reduction::$reduction, self.all_axes(), DType::Bool, stringify!($whole), Location::caller())
            }

            #[doc = concat!("Whether ", $what, " along an axis, which the result does not have.")]
            #[track_caller]
            #[must_use]
            pub fn $along(&self, axis: Axis) -> Array<bool, D::Smaller>
            where
                D: RemoveAxis,
            {
                let axes = Axes::from_slice(&[axis.index()]);
                self.reduced(Reduction::$reduction, axes, DType::Bool, stringify!($along), Location::caller())
            }

            #[doc = concat!("Whether ", $what, " along these axes, which the result has with a length of 1.")]
            #[track_caller]
            #[must_use]
            pub fn $keeping(&self, axes: &[Axis]) -> Array<bool, D> {
                let axes: Axes = axes.iter().map(|axis| axis.index()).collect();
                let location = Location::caller();
                let reduced =
                    self.reduced(Reduction::$reduction, axes.clone(), DType::Bool, stringify!($keeping), location);
                self.keeping(reduced, &axes, stringify!($keeping), location)
            }
        }
    )*};
}

questions! {
    Any, "one element is true", any, any_axis, any_keeping;
    All, "every element is true", all, all_axis, all_keeping;
}

impl<T: Float, D: Dimension> Array<T, D> {
    /// The mean of all elements; NaN if there are none.
    #[track_caller]
    #[must_use]
    pub fn mean(&self) -> Array<T, Ix0> {
        self.sum()
            .with_scalar(Function::Divide, T::from_count(self.len()), false)
    }

    /// The mean along an axis, which the result does not have.
    #[track_caller]
    #[must_use]
    pub fn mean_axis(&self, axis: Axis) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        self.sum_axis(axis)
            .with_scalar(Function::Divide, T::from_count(self.along(&[axis])), false)
    }

    /// The mean along these axes, which the result has with a length of 1.
    #[track_caller]
    #[must_use]
    pub fn mean_keeping(&self, axes: &[Axis]) -> Self {
        self.sum_keeping(axes)
            .with_scalar(Function::Divide, T::from_count(self.along(axes)), false)
    }

    /// The variance of all elements, with `ddof` degrees of freedom fewer than elements.
    #[track_caller]
    #[must_use]
    pub fn var(&self, ddof: T) -> Array<T, Ix0> {
        let all: Vec<_> = (0..self.ndim()).map(Axis).collect();
        let divisor = T::from_count(self.len()).less(ddof);
        self.deviations(&all)
            .sum()
            .with_scalar(Function::Divide, divisor, false)
    }

    /// The variance along an axis, which the result does not have.
    #[track_caller]
    #[must_use]
    pub fn var_axis(&self, axis: Axis, ddof: T) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        let divisor = T::from_count(self.along(&[axis])).less(ddof);
        self.deviations(&[axis])
            .sum_axis(axis)
            .with_scalar(Function::Divide, divisor, false)
    }

    /// The standard deviation of all elements, with `ddof` degrees of freedom fewer than elements.
    #[track_caller]
    #[must_use]
    pub fn std(&self, ddof: T) -> Array<T, Ix0> {
        self.var(ddof).each(Function::SquareRoot)
    }

    /// The standard deviation along an axis, which the result does not have.
    #[track_caller]
    #[must_use]
    pub fn std_axis(&self, axis: Axis, ddof: T) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        self.var_axis(axis, ddof).each(Function::SquareRoot)
    }

    /// The squares of what each element is away from the mean along the axes.
    #[track_caller]
    fn deviations(&self, axes: &[Axis]) -> Self {
        let mean = self.mean_keeping(axes);
        self.same_shape::<T>(Function::Subtract, &mean.broadcast_to(self))
            .pow2()
    }

    /// Elements along these axes together; 1 for an axis that is not there, which another operation tells of.
    fn along(&self, axes: &[Axis]) -> usize {
        let axes: std::collections::BTreeSet<_> = axes.iter().map(|axis| axis.index()).collect();
        axes.iter()
            .map(|&axis| self.shape().get(axis).copied().unwrap_or(1))
            .product()
    }
}
