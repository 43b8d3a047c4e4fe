//! Elements in other places: rolled, padded, tiled, repeated, in triangles and in windows.
//!
//! Each is a composition of views, joins and gathers, which the kernels that use the result
//! compute: none has a kernel of its own.

use ndarray::{Axis, DimAdd, Dimension, IntoDimension, Ix1, Ix2, Slice};
use smallvec::smallvec;

use crate::{
    Region,
    array::{Array, concatenate::concatenated},
    element::{Element, Number},
    error::{Site, UsageErrorKind},
    expr::{Comparison, Function},
    shape::{AxisMap, AxisSource, Shape},
};

/// The elements with which [`Array::pad`] surrounds an array, as NumPy's modes of the same names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode<T> {
    /// One value: `v v | a b c | v v`.
    Constant(T),
    /// The element at the edge: `a a | a b c | c c`.
    Edge,
    /// The elements mirrored at the edge, which is not repeated: `c b | a b c | b a`.
    Reflect,
    /// The elements of the other end: `b c | a b c | a b`.
    Wrap,
}

impl<T: Element, D: Dimension> Array<T, D> {
    /// Rolls the elements along an axis: each moves by `shift` places, and those beyond the end
    /// begin at the front again.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1, 2, 3, 4];
    /// let rolled = device.region(|g| {
    ///     let x = g.array(&x);
    ///     (x.roll(1, Axis(0)), x.roll(-5, Axis(0)))
    /// })?;
    /// assert_eq!(rolled.wait()?, (array![4, 1, 2, 3], array![2, 3, 4, 1]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shift: isize, axis: Axis) -> Self {
        let site = Site::of("roll");
        let Some(&length) = self.shape().get(axis.index()) else {
            return self.missing_axis(axis, self.shape(), site);
        };
        if length == 0 {
            return self.clone();
        }
        let shift = shift.rem_euclid(length as isize) as i64;
        let places = self.numbers(length, site) - shift;
        let rolled = places.less(0).where_cond(&places + length as i64, &places);
        self.taken(axis, &rolled, site)
    }

    /// Surrounds the array with elements: so many in front and behind along each axis.
    ///
    /// ```
    /// use millstream_region::{PadMode, RegionExt};
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let (x, y) = (array![1, 2, 3], array![[1, 2]]);
    /// let padded = device.region(|g| {
    ///     let (x, y) = (g.array(&x), g.array(&y));
    ///     (
    ///         x.pad(&[(2, 1)], PadMode::Reflect),
    ///         x.pad(&[(1, 5)], PadMode::Wrap),
    ///         y.pad(&[(0, 1), (1, 0)], PadMode::Constant(0)),
    ///     )
    /// })?;
    /// let expected = (
    ///     array![3, 2, 1, 2, 3, 2],
    ///     array![3, 1, 2, 3, 1, 2, 3, 1, 2],
    ///     array![[0, 1, 2], [0, 0, 0]],
    /// );
    /// assert_eq!(padded.wait()?, expected);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if there is not one pair of
    /// numbers for each axis, or if an axis without elements is padded by other elements than a
    /// constant.
    #[track_caller]
    pub fn pad(&self, widths: &[(usize, usize)], mode: PadMode<T>) -> Self {
        let site = Site::of("pad");
        let fails = |problem| self.failed(T::DTYPE, self.shape(), problem, site);
        if widths.len() != self.ndim() {
            let (pairs, shape) = (widths.len(), self.shape());
            return fails(UsageErrorKind::argument(format!(
                "{pairs} pairs of widths, but the array has shape {shape:?}: give one for each axis"
            )));
        }
        let mut padded = self.clone();
        for (axis, &widths) in widths.iter().enumerate().filter(|(_, it)| **it != (0, 0)) {
            if self.shape()[axis] == 0 && !matches!(mode, PadMode::Constant(_)) {
                return fails(UsageErrorKind::argument(format!(
                    "axis {axis} has no elements with which it could be padded: use \
                     `PadMode::Constant`"
                )));
            }
            padded = padded.padded(Axis(axis), widths, mode, site);
        }
        padded
    }

    /// Pads one axis.
    fn padded(&self, axis: Axis, widths: (usize, usize), mode: PadMode<T>, site: Site) -> Self {
        let (length, (front, behind)) = (self.shape()[axis.index()], widths);
        if let PadMode::Constant(value) = mode {
            let [front, behind] = [front, behind].map(|length| {
                let mut shape = self.node().shape.clone();
                shape[axis.index()] = length;
                self.constant(value.scalar(), &shape, site.line)
            });
            let padded = concatenated(axis, &[&front, self, &behind], site);
            return padded.unwrap_or_else(|error| {
                Self::failed_with(self.session(), self.shape(), error, site.line)
            });
        }
        let whole = front.saturating_add(length).saturating_add(behind);
        let is_narrow = front.max(behind) < length;
        let end = length as i64 - 1;
        let places = self.numbers(whole, site) - front as i64;
        let places = match mode {
            PadMode::Reflect if is_narrow => end - (end - places.abs()).abs(),
            PadMode::Wrap if is_narrow => {
                let from_front = places.greater(end).where_cond(&places - (end + 1), &places);
                places.less(0).where_cond(&places + (end + 1), from_front)
            }
            PadMode::Reflect | PadMode::Wrap if length > 1 => {
                let is_mirrored = mode == PadMode::Reflect;
                let period = if is_mirrored { 2 * length - 2 } else { length };
                let mut places = self.numbers(period, site);
                if is_mirrored {
                    places = end - (end - places).abs();
                }
                let start = (period - front % period) % period;
                let last = start.saturating_add(whole);
                let cycles = places.repeated(Axis(0), last.div_ceil(period), true, site);
                let [start, last] =
                    [start, last].map(|at| isize::try_from(at).unwrap_or(isize::MAX));
                cycles.along_axis(Axis(0), Slice::from(start..last), site)
            }
            _ => places.clamp(0, end),
        };
        self.taken(axis, &places, site)
    }

    fn numbers(&self, length: usize, site: Site) -> Array<i64, Ix1> {
        Region::of(self.session()).iota(&[length], site)
    }

    /// Takes indices of an axis that are known to be within bounds.
    fn taken(&self, axis: Axis, indices: &Array<i64, Ix1>, site: Site) -> Self {
        self.gathered_along(indices, (axis.index(), false), site)
    }

    /// Repeats the array along its axes, so many times along each: NumPy's `tile`. For more axes,
    /// [insert](Self::insert_axis) them first.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1, 2];
    /// let (tiled, rows, repeated) = device
    ///     .region(|g| {
    ///         let x = g.array(&x);
    ///         (x.tile(2), x.insert_axis(Axis(0)).tile((2, 1)), x.repeat(2, Axis(0)))
    ///     })?
    ///     .wait()?;
    /// assert_eq!((tiled, rows), (array![1, 2, 1, 2], array![[1, 2], [1, 2]]));
    /// assert_eq!(repeated, array![1, 1, 2, 2]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, repeats: impl IntoDimension<Dim = D>) -> Self {
        let (site, repeats) = (Site::of("tile"), repeats.into_dimension());
        if repeats.ndim() != self.ndim() {
            let (numbers, shape) = (repeats.ndim(), self.shape());
            let problem = UsageErrorKind::argument(format!(
                "{numbers} numbers of repetitions, but the array has shape {shape:?}"
            ));
            return self.failed(T::DTYPE, shape, problem, site);
        }
        let axes = repeats.slice().iter().enumerate();
        axes.fold(self.clone(), |tiled, (axis, &count)| {
            tiled.repeated(Axis(axis), count, true, site)
        })
    }

    /// Repeats each element along an axis, so many times: NumPy's `repeat`.
    #[track_caller]
    pub fn repeat(&self, repeats: usize, axis: Axis) -> Self {
        let site = Site::of("repeat");
        if axis.index() >= self.ndim() {
            return self.missing_axis(axis, self.shape(), site);
        }
        self.repeated(axis, repeats, false, site)
    }

    /// Repeats the whole array along an axis, or else each element.
    fn repeated(&self, axis: Axis, count: usize, is_tiled: bool, site: Site) -> Self {
        if count == 1 {
            return self.clone();
        }
        let mut shape = self.node().shape.clone();
        let (before, after) = shape.split_at(axis.index());
        let product = |lengths: &[usize]| lengths.iter().product::<usize>();
        let (outer, length, inner) = (product(before), after[0], product(&after[1..]));
        let (along, [one, two]) = match is_tiled {
            true => (2, [count, length]),
            false => (1, [length, count]),
        };
        let flat: Self = self.reshaped(smallvec![outer, length, inner], site);
        let map: AxisMap = [0, along, 3].into_iter().map(AxisSource::same).collect();
        let repeated: Self = flat.view_through(smallvec![outer, one, two, inner], map, site);
        shape[axis.index()] = length.saturating_mul(count);
        repeated.reshaped(shape, site)
    }

    /// Returns the windows of this shape: an array with an axis for their positions along each axis
    /// of this one, then an axis for the places in a window along each. This is NumPy's
    /// `sliding_window_view`, with the windows over which `ndarray`'s `windows` iterates.
    ///
    /// The elements are not copied: what is computed from the windows, such as their sums, reads
    /// them from this array.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1, 2, 3, 5, 8];
    /// let (windows, sums) = device
    ///     .region(|g| {
    ///         let windows = g.array(&x).windows(3);
    ///         (windows.clone(), windows.sum_axis(Axis(1)))
    ///     })?
    ///     .wait()?;
    /// assert_eq!(windows, array![[1, 2, 3], [2, 3, 5], [3, 5, 8]]);
    /// assert_eq!(sums, array![6, 10, 16]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// There are none along an axis that is shorter than a window. The region fails with a
    /// [`UsageError`](crate::UsageError) if a length of the window is 0, or this array has more
    /// than 3 axes.
    #[track_caller]
    pub fn windows(&self, shape: impl IntoDimension<Dim = D>) -> Array<T, <D as DimAdd<D>>::Output>
    where
        D: DimAdd<D>,
    {
        self.windows_of(shape.into_dimension().slice(), Site::of("windows"))
    }

    fn windows_of<E>(&self, window: &[usize], site: Site) -> Array<T, E> {
        let axes = self.ndim();
        if window.len() != axes || window.contains(&0) {
            let shape = self.shape();
            let problem = UsageErrorKind::argument(format!(
                "no windows of shape {window:?} in an array of shape {shape:?}: a window has a \
                 length of 1 or more along each axis"
            ));
            return self.failed(T::DTYPE, &Shape::from_elem(0, 2 * axes), problem, site);
        }
        let mut shape: Shape = self.shape().iter().chain(window).copied().collect();
        let map = (0..axes).map(AxisSource::same).collect();
        let mut windows: Array<T, E> = self.view_through(shape.clone(), map, site);
        for (axis, &within) in window.iter().enumerate().filter(|(_, it)| **it != 1) {
            shape[axis] = (self.shape()[axis] + 1).saturating_sub(within);
            let place = [axis, axes + axis];
            let [position, within] = self.indices_along(&shape, place, site);
            let index: Array<i64, E> = position.same_shape(Function::Add, &within);
            windows = self.gathered(windows, index.node(), (axis, false), site);
        }
        windows
    }

    /// Returns arrays of the indices along two axes of a shape.
    fn indices_along<E>(&self, shape: &Shape, axes: [usize; 2], site: Site) -> [Array<i64, E>; 2] {
        axes.map(|axis| {
            let numbers = self.numbers(shape[axis], site);
            numbers.along(axis, shape.clone(), site)
        })
    }
}

impl<T: Number, D: Dimension> Array<T, D> {
    /// Returns the lower triangle of the last two axes: the elements above the `k`-th diagonal are
    /// 0. As in `ndarray`, an array of fewer axes stays as it is.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1, 2, 3], [4, 5, 6], [7, 8, 9]];
    /// let triangles = device.region(|g| (g.array(&x).tril(0), g.array(&x).triu(1)))?.wait()?;
    /// assert_eq!(triangles, (x.tril(0), x.triu(1)));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn tril(&self, k: isize) -> Self {
        self.triangle(k, Comparison::LessOrEqual, Site::of("tril"))
    }

    /// Returns the upper triangle of the last two axes: the elements below the `k`-th diagonal are
    /// 0, as [`tril`](Self::tril).
    #[track_caller]
    pub fn triu(&self, k: isize) -> Self {
        self.triangle(k, Comparison::GreaterOrEqual, Site::of("triu"))
    }

    fn triangle(&self, k: isize, comparison: Comparison, site: Site) -> Self {
        let Some(rows) = self.ndim().checked_sub(2) else {
            return self.clone();
        };
        let shape = self.node().shape.clone();
        let matrix = Shape::from_slice(&shape[rows..]);
        let [row, column]: [Array<i64, Ix2>; 2] = self.indices_along(&matrix, [0, 1], site);
        let diagonal: Array<i64, Ix2> = column.same_shape(Function::Subtract, &row);
        let comparison = Function::Compare(comparison);
        let is_kept: Array<bool, Ix2> = diagonal.binary_scalar(comparison, k as i64, false);
        let map = [rows, rows + 1].into_iter().map(AxisSource::same).collect();
        let is_kept: Array<bool, D> = is_kept.view_through(shape.clone(), map, site);
        let zero: Self = self.constant(T::ZERO.scalar(), &shape, site.line);
        is_kept.selected(self, &zero, site)
    }
}
