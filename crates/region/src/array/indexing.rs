//! Indexing by arrays: `select`, `gather` and `scatter`.
//!
//! The device checks indices in its memory when it uses them: an index out of bounds is reported
//! when the host downloads an element that depends on it, and no memory outside the operands is
//! accessed.

use bytemuck::cast_slice;
use ndarray::{Axis, Dimension, Ix1};

use crate::{
    array::Array,
    element::{DType, Element, Number, sealed::Sealed},
    error::{Site, UsageErrorKind},
    expr::{NodeRef, Op, ScatterMode, Session},
    schedule::adds_to_few,
    shape::{self, Shape},
};

/// An index type: `i32` or `i64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an index type",
    note = "indices are `i32` or `i64`; `cast` converts between types"
)]
pub trait IndexElement: Number {}

impl IndexElement for i32 {}
impl IndexElement for i64 {}

/// The indices that [`Array::select`] takes: on the device, or on the host.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::{Axis, array};
/// let device = millstream::Device::simulated()?;
/// let x = array![10, 11, 12];
/// let chosen = device.region(|g| {
///     let x = g.array(&x);
///     (x.select(Axis(0), &[2, 0]), x.select(Axis(0), &x.argmax().flatten()))
/// })?;
/// assert_eq!(chosen.wait()?, (array![12, 10], array![12]));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot index an array on a device",
    note = "indices are a device array of `i32` or `i64` with one axis, or a host slice of `usize`"
)]
pub trait Indices: private::Sealed {
    /// Returns the node of the indices on the session's device, or a failed node.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn node(self, session: &Session, along: IndexedAxis) -> NodeRef;
}

/// The axis that indices refer to.
#[derive(Clone, Copy)]
pub(crate) struct IndexedAxis {
    axis: usize,
    length: usize,
    site: Site,
}

mod private {
    pub trait Sealed {}
    impl<I: super::IndexElement> Sealed for &super::Array<I, super::Ix1> {}
    impl Sealed for &[usize] {}
    impl Sealed for &Vec<usize> {}
    impl<const N: usize> Sealed for &[usize; N] {}
}

impl<I: IndexElement> Indices for &Array<I, Ix1> {
    #[allow(private_interfaces)]
    fn node(self, _session: &Session, _along: IndexedAxis) -> NodeRef {
        NodeRef::clone(self.node())
    }
}

impl Indices for &[usize] {
    #[allow(private_interfaces)]
    fn node(self, session: &Session, along: IndexedAxis) -> NodeRef {
        let IndexedAxis { axis, length, site } = along;
        let shape = Shape::from_slice(&[self.len()]);
        if let Some(&index) = self.iter().find(|&&index| index >= length) {
            let usage_error = site.error(UsageErrorKind::Index {
                index: Some(i64::try_from(index).unwrap_or(i64::MAX)),
                axis,
                length,
            });
            return session.fail(DType::I64, &shape, usage_error, site.line);
        }
        // The indices are less than a length, which fits an `i64`.
        let indices: Vec<i64> = self.iter().map(|&index| index as i64).collect();
        session.upload(DType::I64, shape, cast_slice(&indices), site.line)
    }
}

macro_rules! slices {
    ($([$($generic:tt)*] $list:ty;)*) => {$(
        impl<$($generic)*> Indices for &$list {
            #[allow(private_interfaces)]
            fn node(self, session: &Session, along: IndexedAxis) -> NodeRef {
                self.as_slice().node(session, along)
            }
        }
    )*};
}

slices! {
    [] Vec<usize>;
    [const N: usize] [usize; N];
}

impl<T: Element, D: Dimension> Array<T, D> {
    /// Selects the given indices of an axis, in their order, as `ndarray`'s `select`.
    ///
    /// # Errors
    ///
    /// Waiting for the region returns an error if an index is out of bounds; if the result stays on
    /// the device, downloading an element of it does.
    #[track_caller]
    pub fn select(&self, axis: Axis, indices: impl Indices) -> Self {
        let (site, number) = (Site::of("select"), axis.index());
        let Some(&length) = self.shape().get(number) else {
            return self.missing_axis(axis, self.shape(), site);
        };
        let along = IndexedAxis {
            axis: number,
            length,
            site,
        };
        let indices = indices.node(self.session(), along);
        let indices: Array<i64, Ix1> = Array::of(self.session(), indices);
        self.gathered_along(&indices, (number, true), site)
    }

    /// Gathers by the same indices everywhere along an axis. The flag says whether the device
    /// checks them.
    pub(super) fn gathered_along<I: Element>(
        &self,
        indices: &Array<I, Ix1>,
        (axis, is_checked): (usize, bool),
        site: Site,
    ) -> Self {
        let mut shape = self.node().shape.clone();
        shape[axis] = indices.len();
        let indices: Array<I, D> = indices.along(axis, shape, site);
        self.gathered(self.clone(), indices.node(), (axis, is_checked), site)
    }

    /// Gathers elements along an axis: the result has the shape of `index`, and each of its
    /// elements is the element of this array at the same position, but with that index along the
    /// axis. This is NumPy's `take_along_axis`. The other axes are broadcast to the same lengths.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let (x, index) = (array![[1, 2, 3], [4, 5, 6]], array![[2, 2], [0, 1]]);
    /// let chosen = device.region(|g| g.array(&x).gather(Axis(1), &g.array(&index)))?;
    /// assert_eq!(chosen.wait()?, array![[3, 3], [4, 5]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// Fails as [`select`](Self::select).
    #[track_caller]
    pub fn gather<I: IndexElement>(&self, axis: Axis, index: &Array<I, D>) -> Self {
        let (site, number) = (Site::of("gather"), axis.index());
        let Some(&length) = self.shape().get(number) else {
            return self.missing_axis(axis, index.shape(), site);
        };
        let (own, others) = (shape_without(self, axis), shape_without(index, axis));
        let Some(mut shape) = shape::broadcast(&own, &others) else {
            let problem = UsageErrorKind::shapes(self.shape(), index.shape());
            return self.failed(T::DTYPE, index.shape(), problem, site);
        };
        shape[number] = length;
        let source: Self = self.broadcast_view(&shape, site);
        shape[number] = index.shape()[number];
        let index: Array<I, D> = index.broadcast_view(&shape, site);
        self.gathered(source, index.node(), (number, true), site)
    }

    /// Gathers from `source` along an axis, with the result having the shape of `index`. The flag
    /// says whether the device checks the indices.
    pub(super) fn gathered<E>(
        &self,
        source: Array<T, E>,
        index: &NodeRef,
        (axis, is_checked): (usize, bool),
        site: Site,
    ) -> Array<T, E> {
        let length = source.shape()[axis];
        if length == 0 && index.elements > 0 {
            let problem = UsageErrorKind::Index {
                index: None,
                axis,
                length,
            };
            return self.failed(T::DTYPE, &index.shape, problem, site);
        }
        let op = Op::Gather {
            source: NodeRef::clone(source.node()),
            index: NodeRef::clone(index),
            axis,
            is_checked,
        };
        self.plan(T::DTYPE, index.shape.clone(), op, site)
    }

    /// Returns this array with elements replaced: each element of `values` is stored at the
    /// position of its element of `index`, but with that index along the axis. The values are
    /// broadcast to the shape of `index`, which is broadcast to this array's along the other axes.
    /// If several values have one position, the last in row-major order is stored.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let (index, values) = (array![1_i64, 3, 1], array![10, 20, 30]);
    /// let put = device.region(|g| {
    ///     let x = g.zeros::<i32, _>(4);
    ///     let (index, values) = (g.array(&index), g.array(&values));
    ///     (x.scatter(Axis(0), &index, &values), x.scatter_add(Axis(0), &index, &values))
    /// })?;
    /// assert_eq!(put.wait()?, (array![0, 30, 0, 20], array![0, 40, 0, 20]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// Fails as [`select`](Self::select).
    #[track_caller]
    pub fn scatter<I: IndexElement, E: Dimension>(
        &self,
        axis: Axis,
        index: &Array<I, D>,
        values: &Array<T, E>,
    ) -> Self {
        self.scattered(axis, index, values, ScatterMode::Last, Site::of("scatter"))
    }

    fn scattered<I: IndexElement, E: Dimension>(
        &self,
        axis: Axis,
        index: &Array<I, D>,
        values: &Array<T, E>,
        mode: ScatterMode,
        site: Site,
    ) -> Self {
        let number = axis.index();
        let Some(&length) = self.shape().get(number) else {
            return self.missing_axis(axis, self.shape(), site);
        };
        let fails = |problem| self.failed(T::DTYPE, self.shape(), problem, site);
        let own = shape_without(self, axis);
        if shape::broadcast(&own, &shape_without(index, axis)) != Some(own) {
            return fails(UsageErrorKind::shapes(self.shape(), index.shape()));
        }
        let mut shape = self.node().shape.clone();
        shape[number] = index.shape()[number];
        if let Err(problem) = values.check_broadcast(&shape) {
            return fails(problem);
        }
        if length == 0 && shape::element_count(&shape) != Some(0) {
            return fails(UsageErrorKind::Index {
                index: None,
                axis: number,
                length,
            });
        }
        let index: Array<I, D> = index.broadcast_view(&shape, site);
        let value: Array<T, D> = values.broadcast_view(&shape, site);
        let op = Op::Scatter {
            base: NodeRef::clone(self.node()),
            index: NodeRef::clone(index.node()),
            value: NodeRef::clone(value.node()),
            axis: number,
            mode,
        };
        self.plan(T::DTYPE, self.node().shape.clone(), op, site)
    }
}

impl<T: Number, D: Dimension> Array<T, D> {
    /// Adds values to elements, at the positions that [`scatter`](Self::scatter) stores to. All
    /// values of one position are added.
    ///
    /// Integers wrap around. Floats are added in no fixed order, so that the last bits may differ
    /// from run to run. Each addition of `f32` and `f64` is rounded: a sum of `n` values is off by
    /// at most `n` · 2⁻²⁴ or `n` · 2⁻⁵³ of the sum of the magnitudes, the element's own among them.
    /// A GPU takes an `f32` below 2⁻¹²⁶ for 0 in these additions.
    ///
    /// Two kinds of sums are computed in `f64` and rounded once: those of 16-bit elements, and
    /// those of at most 4,096 elements of `f32` that get at least 4,096 values, 32 or more for
    /// each.
    /// [`scatter_add_in_f64`](Self::scatter_add_in_f64) always does so.
    ///
    /// Fails as [`select`](Self::select).
    #[track_caller]
    pub fn scatter_add<I: IndexElement, E: Dimension>(
        &self,
        axis: Axis,
        index: &Array<I, D>,
        values: &Array<T, E>,
    ) -> Self {
        self.added(axis, index, values, Site::of("scatter_add"))
    }

    /// Adds values to elements, on behalf of an operation.
    #[track_caller]
    pub(super) fn added<I: IndexElement, E: Dimension>(
        &self,
        axis: Axis,
        index: &Array<I, D>,
        values: &Array<T, E>,
        site: Site,
    ) -> Self {
        if <T as Sealed>::DTYPE == DType::F32 && !self.gets_many(axis, index) {
            return self.scattered(axis, index, values, ScatterMode::Add, site);
        }
        self.added_in_f64(axis, index, values, site)
    }

    /// Adds values to elements as [`scatter_add`](Self::scatter_add) does, but floats always as
    /// `f64`: those of a shorter type are rounded once, at the end. Elements of `f32` take two more
    /// kernels, and a copy as `f64`.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, arr0, array};
    /// let device = millstream::Device::simulated()?;
    /// let (x, index) = (array![16_777_216.0_f32], array![0_i64, 0]);
    /// let one = arr0(1.0_f32);
    /// let (short, wide) = device
    ///     .region(|g| {
    ///         let (x, index, one) = (g.array(&x), g.array(&index), g.array(&one));
    ///         let short = x.scatter_add(Axis(0), &index, &one);
    ///         (short, x.scatter_add_in_f64(Axis(0), &index, &one))
    ///     })?
    ///     .wait()?;
    /// assert_eq!((short[0], wide[0]), (16_777_216.0, 16_777_218.0));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// Fails as [`scatter_add`](Self::scatter_add).
    #[track_caller]
    pub fn scatter_add_in_f64<I: IndexElement, E: Dimension>(
        &self,
        axis: Axis,
        index: &Array<I, D>,
        values: &Array<T, E>,
    ) -> Self {
        self.added_in_f64(axis, index, values, Site::of("scatter_add"))
    }

    #[track_caller]
    fn added_in_f64<I: IndexElement, E: Dimension>(
        &self,
        axis: Axis,
        index: &Array<I, D>,
        values: &Array<T, E>,
        site: Site,
    ) -> Self {
        match <T as Sealed>::DTYPE {
            DType::F16 | DType::Bf16 | DType::F32 => {
                self.added_as::<f64, I, E>(axis, index, values, site)
            }
            dtype if dtype.is_narrow_integer() => {
                self.added_as::<i32, I, E>(axis, index, values, site)
            }
            _ => self.scattered(axis, index, values, ScatterMode::Add, site),
        }
    }

    /// Returns whether the values are so many that each block adds its own in shared memory first.
    /// Copies of the elements as `f64` are small then.
    fn gets_many<I: IndexElement>(&self, axis: Axis, index: &Array<I, D>) -> bool {
        let along = |shape: &[usize]| shape.get(axis.index()).copied();
        let lengths = along(self.shape()).zip(along(index.shape()));
        lengths.is_some_and(|(length, values)| {
            adds_to_few(self.len() / length.max(1) * values, self.len())
        })
    }

    /// Adds in a wider type, for which the device has atomic additions.
    #[track_caller]
    fn added_as<W: Number, I: IndexElement, E: Dimension>(
        &self,
        axis: Axis,
        index: &Array<I, D>,
        values: &Array<T, E>,
        site: Site,
    ) -> Self {
        let (wide, values) = (self.cast::<W>(), values.cast::<W>());
        wide.scattered(axis, index, &values, ScatterMode::Add, site)
            .cast()
    }
}

/// Returns the shape of an array with the length of one axis replaced by 1.
fn shape_without<T, D>(array: &Array<T, D>, axis: Axis) -> Shape {
    let mut shape = array.node().shape.clone();
    if let Some(length) = shape.get_mut(axis.index()) {
        *length = 1;
    }
    shape
}
