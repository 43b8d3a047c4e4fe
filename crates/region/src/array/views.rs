//! Zero-copy views.

use ndarray::{Axis, Dimension, IntoDimension, Ix1, RemoveAxis, Slice, SliceArg, SliceInfoElem};

use crate::{
    array::Array,
    element::Element,
    error::{Line, Site, UsageErrorKind},
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
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1, 2, 3], [4, 5, 6]];
    /// let part = device.region(|g| g.array(&x).slice(s![1, ..;-2]))?.wait()?;
    /// assert_eq!(part, array![6, 4]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn slice<I: SliceArg<D>>(&self, info: I) -> Array<T, I::OutDim>
    where
        D: Dimension,
    {
        let failed = Shape::from_elem(0, info.out_ndim());
        self.view_of(self.sliced(info.as_ref()), &failed, Site::of("slice"))
    }

    fn view_of<E>(
        &self,
        sliced: Result<SliceView, UsageErrorKind>,
        failed: &[usize],
        site: Site,
    ) -> Array<T, E> {
        match sliced {
            Ok(SliceView { shape, map }) => self.view_through(shape, map, site),
            Err(problem) => self.failed(self.node().dtype, failed, problem, site),
        }
    }

    /// Returns a view of a slice of one axis.
    #[track_caller]
    pub fn slice_axis(&self, axis: Axis, slice: Slice) -> Self {
        self.along_axis(axis, slice, Site::of("slice_axis"))
    }

    /// Returns a view of a slice of one axis, on behalf of an operation.
    pub(crate) fn along_axis(&self, axis: Axis, slice: Slice, site: Site) -> Self {
        self.view_of(self.sliced_at(axis, slice.into()), self.shape(), site)
    }

    /// Returns a view of one index of an axis, without that axis.
    #[track_caller]
    pub fn index_axis(&self, axis: Axis, index: usize) -> Array<T, D::Smaller>
    where
        D: RemoveAxis,
    {
        self.subview(axis, index, Site::of("index_axis"))
    }

    /// Returns a view of one index of an axis, without that axis, on behalf of an operation.
    pub(super) fn subview<E>(&self, axis: Axis, index: usize, site: Site) -> Array<T, E> {
        let smaller = &self.shape()[..self.ndim().saturating_sub(1)];
        self.view_of(self.index_view(axis, index), smaller, site)
    }

    /// Returns the shape and the index map of one index of an axis.
    pub(super) fn index_view(&self, axis: Axis, index: usize) -> Result<SliceView, UsageErrorKind> {
        let index = isize::try_from(index).unwrap_or(isize::MAX);
        self.sliced_at(axis, SliceInfoElem::Index(index))
    }

    fn sliced_at(&self, axis: Axis, part: SliceInfoElem) -> Result<SliceView, UsageErrorKind> {
        self.length_of(axis.index())?;
        let mut elements = vec![Slice::new(0, None, 1).into(); self.ndim()];
        elements[axis.index()] = part;
        self.sliced(&elements)
    }

    pub(crate) fn missing_axis<U, E>(
        &self,
        axis: Axis,
        shape: &[usize],
        site: Site,
    ) -> Array<U, E> {
        let problem = UsageErrorKind::axis(axis.index(), self.shape());
        self.failed(self.node().dtype, shape, problem, site)
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
            let (axes, shape) = (map.len(), self.shape());
            let detail = format!("the slice has {axes} axes, but the array has shape {shape:?}");
            return Err(UsageErrorKind::argument(detail));
        }
        Ok(SliceView { shape, map })
    }

    fn length_of(&self, axis: usize) -> Result<usize, UsageErrorKind> {
        let length = self.shape().get(axis).copied();
        length.ok_or_else(|| UsageErrorKind::axis(axis, self.shape()))
    }

    /// Returns a view with the axes reversed; for a matrix, the transpose.
    #[track_caller]
    pub fn t(&self) -> Self {
        let order: Vec<_> = (0..self.ndim()).rev().collect();
        self.permuted(&order, Site::of("t"))
    }

    /// Returns a view with the axes reversed, as [`t`](Self::t).
    #[track_caller]
    pub fn reversed_axes(&self) -> Self {
        self.t()
    }

    /// Returns a view with the axes permuted: the result's axis `i` is this array's axis `axes[i]`.
    #[track_caller]
    pub fn permuted_axes(&self, axes: impl IntoDimension<Dim = D>) -> Self
    where
        D: Dimension,
    {
        self.permuted(axes.into_dimension().slice(), Site::of("permuted_axes"))
    }

    /// Returns a view with two axes exchanged.
    #[track_caller]
    pub fn swapped_axes(&self, one: usize, other: usize) -> Self {
        let site = Site::of("swapped_axes");
        if one >= self.ndim() || other >= self.ndim() {
            return self.missing_axis(Axis(one.max(other)), self.shape(), site);
        }
        self.swapped(one, other, site)
    }

    /// Returns a view with two axes exchanged, both of which exist, on behalf of an operation.
    pub(super) fn swapped(&self, one: usize, other: usize, site: Site) -> Self {
        let mut order: Vec<_> = (0..self.ndim()).collect();
        order.swap(one, other);
        self.permuted(&order, site)
    }

    fn permuted(&self, order: &[usize], site: Site) -> Self {
        let fails = || {
            let (axes, shape) = (order.into(), self.shape().into());
            let problem = UsageErrorKind::Permutation { axes, shape };
            self.failed(self.node().dtype, self.shape(), problem, site)
        };
        if order.len() != self.ndim() {
            return fails();
        }
        let mut places: Vec<Option<usize>> = vec![None; self.ndim()];
        for (place, &axis) in order.iter().enumerate() {
            if let Some(entry) = places.get_mut(axis) {
                *entry = Some(place);
            }
        }
        let places = places.into_iter();
        let map: Option<AxisMap> = places.map(|place| place.map(AxisSource::same)).collect();
        let Some(map) = map else {
            return fails();
        };
        let shape = order.iter().map(|&axis| self.shape()[axis]).collect();
        self.view_through(shape, map, site)
    }

    /// Returns a view with an additional axis of length 1.
    #[track_caller]
    pub fn insert_axis(&self, axis: Axis) -> Array<T, D::Larger>
    where
        D: Dimension,
    {
        self.with_axis(axis, Site::of("insert_axis"))
    }

    /// Returns a view with an additional axis of length 1, on behalf of an operation.
    pub(super) fn with_axis<E>(&self, axis: Axis, site: Site) -> Array<T, E> {
        let mut shape = self.node().shape.clone();
        if axis.index() > shape.len() {
            shape.push(1);
            return self.missing_axis(axis, &shape, site);
        }
        shape.insert(axis.index(), 1);
        let map =
            (0..self.ndim()).map(|own| AxisSource::same(own + usize::from(own >= axis.index())));
        self.view_through(shape, map.collect(), site)
    }

    /// Returns a view with an axis reversed.
    #[track_caller]
    pub fn inverted_axis(&self, axis: Axis) -> Self {
        self.along_axis(axis, Slice::new(0, None, -1), Site::of("inverted_axis"))
    }

    /// Returns a view broadcast to a shape: axes of length 1 are repeated, and axes are added in
    /// front.
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if the shapes are incompatible.
    #[track_caller]
    pub fn broadcast<E: Dimension>(&self, shape: impl IntoDimension<Dim = E>) -> Array<T, E> {
        let shape = Shape::from_slice(shape.into_dimension().slice());
        self.broadcast_shape(&shape, Site::of("broadcast"))
    }

    /// Returns a view broadcast to the shape of another array, on behalf of `operation`.
    #[track_caller]
    pub(super) fn broadcast_to<E>(
        &self,
        like: &Array<T, E>,
        operation: &'static str,
    ) -> Array<T, E> {
        self.broadcast_shape(&like.node().shape, Site::of(operation))
    }

    /// Returns the array itself if it has this shape, and a failed array otherwise.
    pub(crate) fn shaped_as(&self, shape: &[usize], line: Line) -> Self {
        if self.shape() == shape {
            return self.clone();
        }
        let problem = UsageErrorKind::shapes(self.shape(), shape);
        let operation = "write back";
        self.failed(self.node().dtype, shape, problem, Site { operation, line })
    }

    fn broadcast_shape<E>(&self, shape: &Shape, site: Site) -> Array<T, E> {
        match self.check_broadcast(shape) {
            Ok(()) => self.broadcast_view(shape, site),
            Err(problem) => self.failed(self.node().dtype, shape, problem, site),
        }
    }

    pub(super) fn check_broadcast(&self, target: &Shape) -> Result<(), UsageErrorKind> {
        if shape::broadcast(self.shape(), target).as_ref() == Some(target) {
            return Ok(());
        }
        let (shape, target) = (self.shape().into(), target[..].into());
        Err(UsageErrorKind::Broadcast { shape, target })
    }

    /// Reshapes the array, with its elements in the same row-major order.
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if the numbers of elements differ.
    #[track_caller]
    pub fn into_shape_with_order<E: Dimension>(
        &self,
        shape: impl IntoDimension<Dim = E>,
    ) -> Array<T, E> {
        let shape = Shape::from_slice(shape.into_dimension().slice());
        self.reshaped(shape, Site::of("into_shape_with_order"))
    }

    /// Returns all elements as a vector, in row-major order.
    #[track_caller]
    pub fn flatten(&self) -> Array<T, Ix1> {
        self.reshaped(Shape::from_slice(&[self.len()]), Site::of("flatten"))
    }

    /// Reshapes the array, on behalf of an operation.
    pub(super) fn reshaped<E>(&self, shape: Shape, site: Site) -> Array<T, E> {
        let dtype = self.node().dtype;
        if shape::element_count(&shape) != Some(self.len()) {
            let (own, target) = (self.shape().into(), shape[..].into());
            let problem = UsageErrorKind::Reshape { shape: own, target };
            return self.failed(dtype, &shape, problem, site);
        }
        if shape == self.node().shape {
            return Array::of(self.session(), self.node().clone());
        }
        self.plan(dtype, shape, Op::Reshape(self.node().clone()), site)
    }
}

impl<T: Element> Array<T, ndarray::Ix2> {
    /// Returns a view of one row of a matrix.
    #[track_caller]
    pub fn row(&self, index: usize) -> Array<T, Ix1> {
        self.subview(Axis(0), index, Site::of("row"))
    }

    /// Returns a view of one column of a matrix.
    #[track_caller]
    pub fn column(&self, index: usize) -> Array<T, Ix1> {
        self.subview(Axis(1), index, Site::of("column"))
    }

    /// Returns a view of the main diagonal of a matrix.
    #[track_caller]
    pub fn diag(&self) -> Array<T, Ix1> {
        let length = self.shape()[0].min(self.shape()[1]);
        let map = AxisMap::from_slice(&[AxisSource::same(0), AxisSource::same(0)]);
        self.view_through(Shape::from_slice(&[length]), map, Site::of("diag"))
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
    let problem = || {
        let to = end.map_or(String::new(), |end| end.to_string());
        let range = format!("{start}..{to};{step}");
        UsageErrorKind::Slice {
            range,
            axis,
            length,
        }
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
