//! Sorts, positions in sorted order, the greatest elements, searches in sorted arrays, quantiles.
//!
//! The device moves the bits of elements, so that zeros and NaN keep theirs, and orders them by
//! keys. An axis other than the last is first moved there, and back in the result.

use ndarray::{Axis, Dimension, Ix0, Ix1, RemoveAxis, Slice};

use crate::{
    array::Array,
    element::{DType, Element, Float},
    error::{Site, UsageErrorKind},
    expr::{Comparison, Function, NodeRef, Op, Sorted},
    run::order::{SORTED_MAX, is_selected},
};

/// The side of equal elements on which [`Array::searchsorted`] places a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// In front of all equal elements.
    #[default]
    Left,
    /// Behind all equal elements.
    Right,
}

impl<T: Element, D: Dimension> Array<T, D> {
    /// Sorts the elements along an axis in ascending order, as `numpy.sort` with `kind="stable"`.
    ///
    /// −0 equals +0, and every NaN is equal to every other and greater than all numbers. Equal
    /// elements stay in their order and keep their bits, the signs of zeros and the payloads of NaN
    /// included. Of `bool`, `false` is less.
    ///
    /// # Errors
    ///
    /// The region fails if the axis is missing or has more than 2³⁰ − 1 elements.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[3, 1, 2], [0, 5, 4]];
    /// let sorted = device.region(|g| {
    ///     let x = g.array(&x);
    ///     (x.sort_axis(Axis(1)), x.sort_axis(Axis(0)))
    /// })?;
    /// let (rows, columns) = sorted.wait()?;
    /// assert_eq!(rows, array![[1, 2, 3], [0, 4, 5]]);
    /// assert_eq!(columns, array![[0, 1, 2], [3, 5, 4]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn sort_axis(&self, axis: Axis) -> Self {
        self.sorted(axis, Sorted::Elements, None, Site::of("sort_axis"))
    }

    /// Returns the positions along an axis in the order that [`sort_axis`](Self::sort_axis) gives
    /// the elements. Positions of equal elements ascend.
    ///
    /// # Errors
    ///
    /// As [`sort_axis`](Self::sort_axis).
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let (names, x) = (array![10, 11, 12, 13], array![0.5_f32, f32::NAN, -0.0, 0.0]);
    /// let order = device.region(|g| {
    ///     let order = g.array(&x).argsort();
    ///     (g.array(&names).gather(Axis(0), &order), order)
    /// })?;
    /// assert_eq!(order.wait()?, (array![12, 13, 10, 11], array![2, 3, 0, 1]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort_axis(&self, axis: Axis) -> Array<i64, D> {
        self.sorted(axis, Sorted::Positions, None, Site::of("argsort_axis"))
    }

    /// Returns the `k` greatest elements along an axis, the greatest first, and their positions, as
    /// `torch.topk`.
    ///
    /// NaN is greater than all numbers, and −0 equals +0. Of equal elements the first are taken,
    /// and come in their order. Up to 1,024 elements are found without sorting the others.
    ///
    /// # Errors
    ///
    /// The region fails if the axis is missing, has fewer than `k` elements, or more than 2³⁰ − 1.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let scores = array![[0.1_f32, 0.7, 0.2], [0.4, 0.3, 0.4]];
    /// let best = device.region(|g| g.array(&scores).topk(2, Axis(1)))?;
    /// let (values, classes) = best.wait()?;
    /// assert_eq!(values, array![[0.7, 0.2], [0.4, 0.4]]);
    /// assert_eq!(classes, array![[1, 2], [0, 2]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: usize, axis: Axis) -> (Self, Array<i64, D>) {
        let site = Site::of("topk");
        let positions = self.sorted(axis, Sorted::PositionsDescending, Some(k), site);
        (self.gather(axis, &positions), positions)
    }

    /// Sorts along an axis. The result has the first `stored` elements, or all.
    pub(super) fn sorted<U: Element>(
        &self,
        axis: Axis,
        sorted: Sorted,
        stored: Option<usize>,
        site: Site,
    ) -> Array<U, D> {
        let number = axis.index();
        let Some(&length) = self.shape().get(number) else {
            return self.missing_axis(axis, self.shape(), site);
        };
        let stored = stored.unwrap_or(length);
        let problem = if stored > length {
            format!("axis {number} has {length} elements, and k is {stored}")
        } else if length > SORTED_MAX {
            format!("axis {number} has {length} elements: at most {SORTED_MAX} are sorted")
        } else {
            return self.sorted_here(number, sorted, (length, stored), site);
        };
        let problem = UsageErrorKind::argument(problem);
        self.failed(U::DTYPE, self.shape(), problem, site)
    }

    fn sorted_here<U: Element>(
        &self,
        axis: usize,
        sorted: Sorted,
        (length, stored): (usize, usize),
        site: Site,
    ) -> Array<U, D> {
        let last = self.ndim() - 1;
        let rows = self.swapped(axis, last, site);
        let mut shape = rows.node().shape.clone();
        if is_selected(length, stored) {
            shape[last] = stored;
        }
        let op = Op::Sort(NodeRef::clone(rows.node()), sorted);
        let mut result: Array<U, D> = rows.plan(U::DTYPE, shape, op, site);
        if stored < result.shape()[last] {
            result = result.along_axis(Axis(last), Slice::from(..stored), site);
        }
        result.swapped(axis, last, site)
    }
}

impl<T: Element> Array<T, Ix1> {
    /// Sorts the elements in ascending order. The rules are those of
    /// [`sort_axis`](Self::sort_axis).
    #[track_caller]
    pub fn sort(&self) -> Self {
        self.sorted(Axis(0), Sorted::Elements, None, Site::of("sort"))
    }

    /// Returns the positions in the order that [`sort`](Self::sort) gives the elements.
    #[track_caller]
    pub fn argsort(&self) -> Array<i64, Ix1> {
        self.sorted(Axis(0), Sorted::Positions, None, Site::of("argsort"))
    }

    /// Returns for each value its position in this array, which is sorted: on the left side, the
    /// number of elements that are less; on the right side, the number of elements that are not
    /// greater. As `numpy.searchsorted`, with the order of [`sort_axis`](Self::sort_axis).
    ///
    /// The positions in an array that is not sorted are unspecified, but within its length.
    ///
    /// ```
    /// use millstream_region::{RegionExt, Side};
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let (edges, x) = (array![0.0_f32, 1.0, 2.0], array![0.5_f32, 1.0, 7.0]);
    /// let bins = device.region(|g| {
    ///     let (edges, x) = (g.array(&edges), g.array(&x));
    ///     (edges.searchsorted(&x, Side::Left), edges.searchsorted(&x, Side::Right))
    /// })?;
    /// assert_eq!(bins.wait()?, (array![1, 1, 3], array![1, 2, 3]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted<E: Dimension>(&self, values: &Array<T, E>, side: Side) -> Array<i64, E> {
        let op = Op::Search {
            sorted: NodeRef::clone(self.node()),
            values: NodeRef::clone(values.node()),
            counts_equal: side == Side::Right,
        };
        let shape = values.node().shape.clone();
        self.plan(DType::I64, shape, op, Site::of("searchsorted"))
    }
}

impl<T: Float, D: Dimension> Array<T, D> {
    /// Returns the median of all elements: the [`quantile`](Self::quantile) of 1/2.
    #[track_caller]
    pub fn median(&self) -> Array<T, Ix0> {
        self.flatten().quantile_of(0.5, Axis(0), Site::of("median"))
    }

    /// Returns the median along an axis, which is removed: the
    /// [`quantile_axis`](Self::quantile_axis) of 1/2.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[9.0_f32, 1.0, 2.0], [f32::INFINITY, 3.0, 5.0]];
    /// let medians = device.region(|g| {
    ///     let x = g.array(&x);
    ///     (x.median_axis(Axis(1)), x.median())
    /// })?;
    /// assert_eq!(medians.wait()?, (array![2.0, 5.0], ndarray::arr0(4.0)));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn median_axis(&self, axis: Axis) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        self.quantile_of(0.5, axis, Site::of("median_axis"))
    }

    /// Returns a quantile of all elements. The rules are those of
    /// [`quantile_axis`](Self::quantile_axis).
    #[track_caller]
    pub fn quantile(&self, q: f64) -> Array<T, Ix0> {
        self.flatten().quantile_of(q, Axis(0), Site::of("quantile"))
    }

    /// Returns a quantile along an axis, which is removed: the value at the place `q · (n − 1)` of
    /// the `n` sorted elements, as `numpy.quantile`.
    ///
    /// Between two elements, the value is their mean with the weights `1 − t` and `t`, where `t` is
    /// the fractional part of the place. It is computed as `f64` and rounded once. NaN if there is
    /// one. Quantiles of one array share the sort.
    ///
    /// # Errors
    ///
    /// The region fails if `q` is not between 0 and 1, or if the axis is missing, empty, or longer
    /// than 2³⁰ − 1.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[4.0_f32, 1.0, 3.0, 2.0]];
    /// let quartiles = device.region(|g| {
    ///     let x = g.array(&x);
    ///     (x.quantile_axis(0.25, Axis(1)), x.quantile_axis(0.75, Axis(1)))
    /// })?;
    /// assert_eq!(quartiles.wait()?, (array![1.75], array![3.25]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn quantile_axis(&self, q: f64, axis: Axis) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        self.quantile_of(q, axis, Site::of("quantile_axis"))
    }

    #[track_caller]
    fn quantile_of<E>(&self, q: f64, axis: Axis, site: Site) -> Array<T, E> {
        let number = axis.index();
        let mut shape = self.node().shape.clone();
        let length = shape.get(number).copied();
        shape.truncate(shape.len().saturating_sub(1));
        let problem = match length {
            None => UsageErrorKind::axis(number, self.shape()),
            Some(0) => UsageErrorKind::Empty {
                shape: self.shape().into(),
            },
            _ if !(0.0..=1.0).contains(&q) => {
                UsageErrorKind::argument(format!("q is {q}: a quantile is between 0 and 1"))
            }
            Some(length) => return self.quantile_at(q * (length - 1) as f64, axis, length, site),
        };
        self.failed(T::DTYPE, &shape, problem, site)
    }

    /// Returns the value at a place of the sorted elements.
    #[track_caller]
    fn quantile_at<E>(&self, place: f64, axis: Axis, length: usize, site: Site) -> Array<T, E> {
        let sorted: Self = self.sorted(axis, Sorted::Elements, None, site);
        let at = |place: usize| sorted.subview::<E>(axis, place, site);
        let (low, t) = (place as usize, place.fract());
        let (last, lesser) = (at(length - 1), at(low));
        let mut value = lesser.clone();
        if t > 0.0 {
            let greater = at(low + 1);
            let weighted = |value: &Array<T, E>, weight: f64| -> Array<f64, E> {
                let wide: Array<f64, E> = value.unary(Function::Cast(DType::F64));
                wide.binary_scalar(Function::Multiply, weight, false)
            };
            let mean = weighted(&lesser, 1.0 - t);
            let mean: Array<f64, E> = mean.same_shape(Function::Add, &weighted(&greater, t));
            let mean: Array<T, E> = mean.unary(Function::Cast(T::DTYPE));
            let equal = Function::Compare(Comparison::Equal);
            let are_equal: Array<bool, E> = lesser.same_shape(equal, &greater);
            value = are_equal.selected(&lesser, &mean, site);
        }
        let not_equal = Function::Compare(Comparison::NotEqual);
        let has_nan: Array<bool, E> = last.same_shape(not_equal, &last);
        has_nan.selected(&last, &value, site)
    }
}
