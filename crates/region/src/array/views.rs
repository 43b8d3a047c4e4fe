//! Zero-copy views.

use std::panic::Location;

use ndarray::{Axis, Dimension, IntoDimension, Ix1, RemoveAxis, Slice, SliceArg, SliceInfoElem};

use crate::{
    array::Array,
    element::Element,
    error::UsageErrorKind,
    expr::Op,
    shape::{self, AxisMap, AxisSource, Shape},
};

/// The shape and the index map of a slice.
pub(super) struct SliceView {
    pub(super) shape: Shape,
    pub(super) map: AxisMap,
}

impl<T, D> Array<T, D> {
    /// Returns a view of the slice described by [`ndarray::s!`]. Steps may be negative.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{array, s};
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1, 2, 3], [4, 5, 6]];
    /// let part = device.region(|g| g.array(&x).slice(s![1, ..;-2]))?.wait()?;
    /// assert_eq!(part, array![6, 4]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn slice<I: SliceArg<D>>(&self, info: I) -> Array<T, I::OutDim>
    where
        D: Dimension,
    {
        let location = Location::caller();
        match self.sliced(info.as_ref()) {
            Ok(sliced) => self.view_through(sliced.shape, sliced.map, "slice", location),
            Err(problem) => {
                let rank = info.out_ndim();
                self.failed(
                    self.node().dtype,
                    &vec![0; rank],
                    "slice",
                    problem,
                    location,
                )
            }
        }
    }

    /// Returns a view of a slice of one axis.
    #[track_caller]
    #[must_use]
    pub fn slice_axis(&self, axis: Axis, slice: Slice) -> Self {
        self.along_axis(axis, slice, "slice_axis", Location::caller())
    }

    /// Returns a view of a slice of one axis, on behalf of `operation`.
    pub(crate) fn along_axis(
        &self,
        axis: Axis,
        slice: Slice,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        let Some(mut elements) = self.full_slice(axis) else {
            return self.missing_axis(axis, self.shape(), operation, location);
        };
        elements[axis.index()] = slice.into();
        match self.sliced(&elements) {
            Ok(sliced) => self.view_through(sliced.shape, sliced.map, operation, location),
            Err(problem) => self.failed(
                self.node().dtype,
                self.shape(),
                operation,
                problem,
                location,
            ),
        }
    }

    /// Returns a view of one index of an axis, without that axis.
    #[track_caller]
    #[must_use]
    pub fn index_axis(&self, axis: Axis, index: usize) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        self.subview(axis, index, "index_axis", Location::caller())
    }

    /// Returns a view of one index of an axis, without that axis, on behalf of `operation`.
    pub(super) fn subview<E>(
        &self,
        axis: Axis,
        index: usize,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<T, E> {
        let smaller = || self.shape()[..self.ndim().saturating_sub(1)].to_vec();
        let sliced = match self.index_view(axis, index) {
            Ok(sliced) => sliced,
            Err(problem) => {
                return self.failed(self.node().dtype, &smaller(), operation, problem, location);
            }
        };
        self.view_through(sliced.shape, sliced.map, operation, location)
    }

    /// Returns the shape and the index map of one index of an axis.
    pub(super) fn index_view(&self, axis: Axis, index: usize) -> Result<SliceView, UsageErrorKind> {
        let Some(mut elements) = self.full_slice(axis) else {
            return Err(self.axis_error(axis));
        };
        elements[axis.index()] = SliceInfoElem::Index(isize::try_from(index).unwrap_or(isize::MAX));
        self.sliced(&elements)
    }

    /// Returns a slice of all elements, or `None` if the array does not have the axis.
    fn full_slice(&self, axis: Axis) -> Option<Vec<SliceInfoElem>> {
        (axis.index() < self.ndim()).then(|| vec![Slice::new(0, None, 1).into(); self.ndim()])
    }

    pub(crate) fn missing_axis<U, E>(
        &self,
        axis: Axis,
        shape: &[usize],
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<U, E> {
        self.failed(
            self.node().dtype,
            shape,
            operation,
            self.axis_error(axis),
            location,
        )
    }

    fn axis_error(&self, axis: Axis) -> UsageErrorKind {
        UsageErrorKind::Axis {
            axis: axis.index(),
            shape: self.shape().into(),
        }
    }

    /// Resolves a slice against the shape.
    pub(super) fn sliced(&self, elements: &[SliceInfoElem]) -> Result<SliceView, UsageErrorKind> {
        let (mut shape, mut map) = (Shape::new(), AxisMap::new());
        for element in elements {
            let axis = map.len();
            match *element {
                SliceInfoElem::NewAxis => shape.push(1),
                SliceInfoElem::Index(index) => {
                    let length = self.length_of(axis)?;
                    let problem = || UsageErrorKind::Slice {
                        range: index.to_string(),
                        axis,
                        length,
                    };
                    let at = resolve_index(index, length)
                        .filter(|&at| at < length)
                        .ok_or_else(problem)?;
                    map.push(AxisSource::fixed(at));
                }
                SliceInfoElem::Slice { start, end, step } => {
                    let length = self.length_of(axis)?;
                    let (from, count) = resolve_slice(start, end, step, axis, length)?;
                    // The step of a single index is never taken, and may be too large to calculate
                    // with.
                    let step = if count > 1 { step } else { 1 };
                    map.push(AxisSource {
                        axis: Some(shape.len()),
                        start: from,
                        step,
                    });
                    shape.push(count);
                }
            }
        }
        if map.len() != self.ndim() {
            let detail = format!(
                "the slice has {} axes, but the array has shape {:?}",
                map.len(),
                self.shape()
            );
            return Err(UsageErrorKind::Argument { detail });
        }
        Ok(SliceView { shape, map })
    }

    fn length_of(&self, axis: usize) -> Result<usize, UsageErrorKind> {
        self.shape()
            .get(axis)
            .copied()
            .ok_or_else(|| UsageErrorKind::Axis {
                axis,
                shape: self.shape().into(),
            })
    }

    /// Returns a view with the axes reversed; for a matrix, the transpose.
    #[track_caller]
    #[must_use]
    pub fn t(&self) -> Self {
        let order: Vec<_> = (0..self.ndim()).rev().collect();
        self.permuted(&order, "t", Location::caller())
    }

    /// Returns a view with the axes reversed, as [`t`](Self::t).
    #[track_caller]
    #[must_use]
    pub fn reversed_axes(&self) -> Self {
        self.t()
    }

    /// Returns a view with the axes permuted: the result's axis `i` is this array's axis `axes[i]`.
    #[track_caller]
    #[must_use]
    pub fn permuted_axes(&self, axes: impl IntoDimension<Dim = D>) -> Self
    where
        D: Dimension,
    {
        self.permuted(
            axes.into_dimension().slice(),
            "permuted_axes",
            Location::caller(),
        )
    }

    /// Returns a view with two axes exchanged.
    #[track_caller]
    #[must_use]
    pub fn swapped_axes(&self, one: usize, other: usize) -> Self {
        let mut order: Vec<_> = (0..self.ndim()).collect();
        let location = Location::caller();
        if one >= self.ndim() || other >= self.ndim() {
            return self.missing_axis(Axis(one.max(other)), self.shape(), "swapped_axes", location);
        }
        order.swap(one, other);
        self.permuted(&order, "swapped_axes", location)
    }

    pub(super) fn permuted(
        &self,
        order: &[usize],
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        let problem = || UsageErrorKind::Permutation {
            axes: order.into(),
            shape: self.shape().into(),
        };
        let fails = || {
            self.failed(
                self.node().dtype,
                self.shape(),
                operation,
                problem(),
                location,
            )
        };
        if order.len() != self.ndim() {
            return fails();
        }
        let mut places: Vec<Option<usize>> = vec![None; self.ndim()];
        for (place, &axis) in order.iter().enumerate() {
            if let Some(known) = places.get_mut(axis) {
                *known = Some(place);
            }
        }
        let Some(map) = places
            .into_iter()
            .map(|place| place.map(AxisSource::same))
            .collect::<Option<AxisMap>>()
        else {
            return fails();
        };
        let shape = order.iter().map(|&axis| self.shape()[axis]).collect();
        self.view_through(shape, map, operation, location)
    }

    /// Returns a view with an additional axis of length 1.
    #[track_caller]
    #[must_use]
    pub fn insert_axis(&self, axis: Axis) -> Array<T, D::Larger>
    where
        D: Dimension,
    {
        self.with_axis(axis, "insert_axis", Location::caller())
    }

    /// Returns a view with an additional axis of length 1, on behalf of `operation`.
    pub(super) fn with_axis<E>(
        &self,
        axis: Axis,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<T, E> {
        let mut shape = self.node().shape.clone();
        if axis.index() > shape.len() {
            shape.push(1);
            return self.missing_axis(axis, &shape, operation, location);
        }
        shape.insert(axis.index(), 1);
        let map =
            (0..self.ndim()).map(|own| AxisSource::same(own + usize::from(own >= axis.index())));
        self.view_through(shape, map.collect(), operation, location)
    }

    /// Returns a view with an axis reversed.
    #[track_caller]
    #[must_use]
    pub fn inverted_axis(&self, axis: Axis) -> Self {
        self.along_axis(
            axis,
            Slice::new(0, None, -1),
            "inverted_axis",
            Location::caller(),
        )
    }

    /// Returns a view broadcast to a shape: axes of length 1 are repeated, and axes are added in
    /// front.
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if the shapes are incompatible.
    #[track_caller]
    #[must_use]
    pub fn broadcast<E: Dimension>(&self, shape: impl IntoDimension<Dim = E>) -> Array<T, E> {
        let shape = Shape::from_slice(shape.into_dimension().slice());
        self.broadcast_shape(&shape, "broadcast", Location::caller())
    }

    /// Returns a view broadcast to the shape of another array, on behalf of `operation`.
    #[track_caller]
    pub(super) fn broadcast_to<E>(
        &self,
        like: &Array<T, E>,
        operation: &'static str,
    ) -> Array<T, E> {
        self.broadcast_shape(&like.node().shape, operation, Location::caller())
    }

    /// Returns the array itself if it has this shape, and a failed array otherwise.
    pub(crate) fn shaped_as(&self, shape: &[usize], location: &'static Location<'static>) -> Self {
        if self.shape() == shape {
            return self.clone();
        }
        let problem = UsageErrorKind::Shapes {
            left: self.shape().into(),
            right: shape.into(),
        };
        self.failed(self.node().dtype, shape, "write back", problem, location)
    }

    fn broadcast_shape<E>(
        &self,
        shape: &Shape,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<T, E> {
        if shape::broadcast(self.shape(), shape).as_ref() != Some(shape) {
            let problem = UsageErrorKind::Broadcast {
                shape: self.shape().into(),
                target: shape.as_slice().into(),
            };
            return self.failed(self.node().dtype, shape, operation, problem, location);
        }
        self.broadcast_view(shape, operation, location)
    }

    /// Reshapes the array, with its elements in the same row-major order.
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if the numbers of elements differ.
    #[track_caller]
    #[must_use]
    pub fn into_shape_with_order<E: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = E>,
    ) -> Array<T, E> {
        let shape = Shape::from_slice(shape.into_dimension().slice());
        self.reshaped(shape, "into_shape_with_order", Location::caller())
    }

    /// Returns all elements as a vector, in row-major order.
    #[track_caller]
    #[must_use]
    pub fn flatten(&self) -> Array<T, Ix1> {
        self.reshaped(
            Shape::from_slice(&[self.len()]),
            "flatten",
            Location::caller(),
        )
    }

    /// Reshapes the array, on behalf of `operation`.
    pub(super) fn reshaped<E>(
        &self,
        shape: Shape,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<T, E> {
        if shape::element_count(&shape) != Some(self.len()) {
            let problem = UsageErrorKind::Reshape {
                shape: self.shape().into(),
                target: shape.as_slice().into(),
            };
            return self.failed(self.node().dtype, &shape, operation, problem, location);
        }
        if shape == self.node().shape {
            return Array::of(self.session(), self.node().clone());
        }
        self.plan(
            self.node().dtype,
            shape,
            Op::Reshape(self.node().clone()),
            operation,
            location,
        )
    }
}

impl<T: Element> Array<T, ndarray::Ix2> {
    /// Returns a view of one row of a matrix.
    #[track_caller]
    #[must_use]
    pub fn row(&self, index: usize) -> Array<T, Ix1> {
        self.subview(Axis(0), index, "row", Location::caller())
    }

    /// Returns a view of one column of a matrix.
    #[track_caller]
    #[must_use]
    pub fn column(&self, index: usize) -> Array<T, Ix1> {
        self.subview(Axis(1), index, "column", Location::caller())
    }

    /// Returns a view of the main diagonal of a matrix.
    #[track_caller]
    #[must_use]
    pub fn diag(&self) -> Array<T, Ix1> {
        let length = self.shape()[0].min(self.shape()[1]);
        let map = AxisMap::from_slice(&[AxisSource::same(0), AxisSource::same(0)]);
        self.view_through(
            Shape::from_slice(&[length]),
            map,
            "diag",
            Location::caller(),
        )
    }
}

/// Resolves an index, which counts from the end if it is negative. Returns `None` if it lies before
/// the beginning.
fn resolve_index(index: isize, length: usize) -> Option<usize> {
    if index < 0 {
        length.checked_sub(index.unsigned_abs())
    } else {
        Some(index.unsigned_abs())
    }
}

/// Resolves a slice to its first index and its number of indices.
fn resolve_slice(
    start: isize,
    end: Option<isize>,
    step: isize,
    axis: usize,
    length: usize,
) -> Result<(usize, usize), UsageErrorKind> {
    let problem = || UsageErrorKind::Slice {
        range: format!(
            "{start}..{};{step}",
            end.map_or(String::new(), |end| end.to_string())
        ),
        axis,
        length,
    };
    let from = resolve_index(start, length).ok_or_else(problem)?;
    let to = end
        .map_or(Some(length), |end| resolve_index(end, length))
        .ok_or_else(problem)?;
    if from > length || to > length || step == 0 {
        return Err(problem());
    }
    let count = to.saturating_sub(from).div_ceil(step.unsigned_abs());
    if count == 0 {
        return Ok((0, 0));
    }
    // A reversed slice begins with the last index.
    Ok((if step < 0 { to - 1 } else { from }, count))
}
