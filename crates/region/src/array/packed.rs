//! `Packed`: arrays whose length only the device knows.
//!
//! The number of elements that satisfy a condition follows from the elements. An array of them has
//! memory for all, its *capacity*, and a length on the device, so that no operation waits for it.
//!
//! A scan of the mask counts the selected elements in front of each one, which is its place if it
//! is selected itself. The others have the places behind, so that the places are a permutation and
//! one kernel moves all elements.

mod elementwise;

use std::fmt;

use ndarray::{Axis, Dimension, Ix0, Ix1, Ix2, RemoveAxis};
use smallvec::smallvec;

pub use elementwise::PackedOperand;

use crate::{
    Region,
    array::{Array, indexing::IndexElement, stack},
    element::{DType, Element, Float, Number, Scalar},
    error::{Site, UsageErrorKind},
    expr::{Op, Reduction, ScatterMode},
    shape::Shape,
};
use half::{bf16, f16};

/// Elements whose number only the device knows: those that a mask selects, for example.
///
/// Along the first axis, the array has memory for [`capacity`](Self::capacity) elements, of which
/// the first [`len`](Self::len) count. The other axes are those of an [`Array`].
///
/// As the result of a region it is downloaded as an `ndarray` array of its length, with one wait: a
/// region function declares [`Unpacked`](crate::Unpacked) as its result type. If it declares
/// `Packed`, the elements stay on the device, and other regions take them as a parameter
/// `&Packed<T>`. [`to_host`](Self::to_host) waits and downloads at once.
///
/// ```
/// use millstream_region::{Packed, RegionExt, Unpacked, region};
/// use ndarray::{Array1, array};
/// #[region]
/// fn above(x: &Array1<f32>, least: f32) -> Packed<f32> {
///     x.compress(&x.greater_equal(least))
/// }
///
/// #[region]
/// fn deviations(x: &Packed<f32>) -> Unpacked<f32> {
///     x - x.mean()
/// }
///
/// let device = millstream::Device::simulated()?;
/// let x = array![5.0_f32, -1.0, 7.0, -2.0, 9.0];
/// let kept = above(&device, &x, 0.0)?.wait()?; // waits for nothing
/// assert_eq!(deviations(&device, &kept)?.wait()?, array![-2.0, 0.0, 2.0]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
///
/// # Operations
///
/// - element by element: the arithmetic and bitwise operators, comparisons, `minimum`, `maximum`,
///   functions such as [`exp`](Self::exp), and [`cast`](Self::cast). The other operand is a value,
///   an array of one element such as the mean above, or elements packed by the same mask; others
///   fail the region, because their lengths may differ
/// - over all elements: [`sum`](Self::sum), [`product`](Self::product), [`min`](Self::min),
///   [`max`](Self::max), [`mean`](Self::mean), [`any`](Self::any), [`all`](Self::all)
/// - as indices: [`Array::take`]
/// - as elements to select from: [`compress`](Self::compress)
/// - conversions: [`to_array`](Self::to_array), [`len`](Self::len)
///
/// Every other operation does not compile. [`to_array`](Self::to_array) gives an [`Array`], which
/// has them all.
#[must_use]
pub struct Packed<T, D = Ix1> {
    elements: Array<T, D>,
    length: Array<i64, Ix0>,
}

impl<T, D> Packed<T, D> {
    /// Packs elements of which the first `length` along the first axis count.
    pub(crate) fn of(elements: Array<T, D>, length: Array<i64, Ix0>) -> Self {
        Self { elements, length }
    }

    /// Returns all elements, those behind the length among them.
    pub(crate) fn elements(&self) -> &Array<T, D> {
        &self.elements
    }

    /// Returns the number of elements for which there is memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.elements.shape()[0]
    }

    /// Returns the number of elements, as a value on the device.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![3, -4, 5];
    /// let (count, share) = device
    ///     .region(|g| {
    ///         let x = g.array(&x);
    ///         let count = x.compress(&x.greater(0)).len();
    ///         (count.clone(), count.cast::<f32>() / x.len() as f32)
    ///     })?
    ///     .wait()?;
    /// assert_eq!((count[()], share[()]), (2, 2.0 / 3.0));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    pub fn len(&self) -> Array<i64, Ix0> {
        self.length.clone()
    }
}

impl<T: Element, D: Dimension> Packed<T, D> {
    /// Returns an array of the whole capacity, with `fill` behind the elements.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![3, -4, 5];
    /// let positive = device.region(|g| {
    ///     let x = g.array(&x);
    ///     x.compress(&x.greater(0)).to_array(-1)
    /// })?;
    /// assert_eq!(positive.wait()?, array![3, 5, -1]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn to_array(&self, fill: T) -> Array<T, D> {
        self.filled(fill.scalar(), Site::of("to_array"))
    }

    /// Selects the elements of which the mask is true. The mask is computed from these elements, or
    /// from others that the same mask has packed.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![3.0_f32, -4.0, 50.0, 6.0];
    /// let within = device.region(|g| {
    ///     let x = g.array(&x);
    ///     let positive = x.compress(&x.greater(0.0));
    ///     positive.compress(&positive.less(2.0 * 5.0))
    /// })?;
    /// assert_eq!(within.wait()?, array![3.0, 6.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn compress(&self, mask: &Packed<bool>) -> Self {
        let site = Site::of("compress");
        if let Err(problem) = self.check_alike(mask) {
            return self.failed(problem, site);
        }
        let mask = mask.filled(Scalar::Bool(false), site);
        self.elements.rows_where(&mask, site)
    }

    /// Converts the elements to another type, as [`Array::cast`].
    #[track_caller]
    pub fn cast<U: Element>(&self) -> Packed<U, D> {
        Packed::of(self.elements.cast(), self.len())
    }

    /// Returns packed elements that have failed.
    fn failed<U: Element, E>(&self, problem: UsageErrorKind, site: Site) -> Packed<U, E> {
        let (elements, shape) = (&self.elements, self.elements.shape());
        Packed::of(elements.failed(U::DTYPE, shape, problem, site), self.len())
    }

    /// Returns an error unless others have the same length for certain.
    fn check_alike<U, E>(&self, other: &Packed<U, E>) -> Result<(), UsageErrorKind> {
        let (own, others) = (self.length.node(), other.length.node());
        match own.id == others.id && self.capacity() == other.capacity() {
            true => Ok(()),
            false => Err(UsageErrorKind::argument(
                "the lengths of packed operands may differ: pack both by one mask, or convert them \
                 with `to_array`",
            )),
        }
    }

    /// Returns an array with one value behind the elements, or of this value alone where there is
    /// no room for any.
    fn to_reduce(&self, fill: Scalar, site: Site) -> Array<T, D> {
        let one: Shape = smallvec![1; self.elements.ndim()];
        match self.elements.is_empty() {
            true => self.elements.constant(fill, &one, site.line),
            false => self.filled(fill, site),
        }
    }

    /// Returns an array with one value behind the elements.
    fn filled(&self, fill: Scalar, site: Site) -> Array<T, D> {
        let shape = self.elements.node().shape.clone();
        let numbers: Array<i64, Ix1> = self.region().iota(&[self.capacity()], site);
        let counts: Array<bool, Ix1> = numbers.less(&self.length);
        let counts: Array<bool, D> = counts.along(0, shape.clone(), site);
        let fill = self.elements.constant(fill, &shape, site.line);
        counts.selected(&self.elements, &fill, site)
    }

    fn region(&self) -> Region {
        Region::of(self.elements.session())
    }
}

macro_rules! reductions {
    ($([$($generic:tt)*] $element:ty, $name:ident, $fill:expr, $what:literal -> $result:ty;)*) => {
        $(
            impl<$($generic)* D: Dimension> Packed<$element, D> {
                #[doc = concat!("Returns ", $what, ".")]
                #[track_caller]
                pub fn $name(&self) -> Array<$result, Ix0> {
                    self.to_reduce($fill, Site::of(stringify!($name))).$name()
                }
            }
        )*
    };
}

reductions! {
    [T: Number,] T, sum, T::ZERO.scalar(), "the sum of all elements" -> T;
    [T: Number,] T, product, T::ONE.scalar(), "the product of all elements" -> T;
    [T: Number,] T, min, extreme(T::DTYPE, false),
        "the minimum of all elements, or the greatest value of the type if there are none" -> T;
    [T: Number,] T, max, extreme(T::DTYPE, true),
        "the maximum of all elements, or the least value of the type if there are none" -> T;
    [] bool, sum, Scalar::Bool(false), "the number of true elements" -> i64;
    [] bool, any, Scalar::Bool(false), "whether one element is true" -> bool;
    [] bool, all, Scalar::Bool(true), "whether every element is true" -> bool;
}

impl<T: Float, D: Dimension> Packed<T, D> {
    /// Returns the mean of all elements, NaN if there are none. Rounded as [`Array::mean`].
    #[track_caller]
    pub fn mean(&self) -> Array<T, Ix0> {
        let site = Site::of("mean");
        let all = (0..self.elements.ndim()).collect();
        let elements = self.filled(T::ZERO.scalar(), site);
        let sum: Array<f64, Ix0> = elements.reduced(Reduction::Sum, all, site);
        let of_row: usize = self.elements.shape()[1..].iter().product();
        let count: Array<f64, Ix0> = self.length.cast();
        (sum / (count * of_row as f64)).cast()
    }
}

/// Returns the least value of a type, or the greatest.
fn extreme(dtype: DType, is_least: bool) -> Scalar {
    macro_rules! of {
        ($($kind:ident: $least:expr, $greatest:expr;)*) => {
            match dtype {
                $(DType::$kind => Scalar::$kind(if is_least { $least } else { $greatest }),)*
            }
        };
    }
    of! {
        F16: f16::NEG_INFINITY, f16::INFINITY;
        Bf16: bf16::NEG_INFINITY, bf16::INFINITY;
        F32: f32::NEG_INFINITY, f32::INFINITY;
        F64: f64::NEG_INFINITY, f64::INFINITY;
        I8: i8::MIN, i8::MAX;
        I16: i16::MIN, i16::MAX;
        I32: i32::MIN, i32::MAX;
        I64: i64::MIN, i64::MAX;
        U8: u8::MIN, u8::MAX;
        U16: u16::MIN, u16::MAX;
        U32: u32::MIN, u32::MAX;
        U64: u64::MIN, u64::MAX;
        Bool: false, true;
    }
}

impl<T: Element, D: Dimension> Array<T, D> {
    /// Selects the elements of which the mask is true, in row-major order: NumPy's `x[mask]` and
    /// `compress`. No call waits for their number.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1.0_f32, -2.0], [-3.0, 4.0]];
    /// let (positive, sum) = device
    ///     .region(|g| {
    ///         let x = g.array(&x);
    ///         let positive = x.compress(&x.greater(0.0));
    ///         (positive.sqrt(), positive.sum())
    ///     })?
    ///     .wait()?;
    /// assert_eq!((positive, sum[()]), (array![1.0, 2.0], 5.0));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if the shapes differ. Rows are
    /// selected by their numbers: `x.take(&mask.flatnonzero())`.
    #[track_caller]
    pub fn compress(&self, mask: &Array<bool, D>) -> Packed<T> {
        let site = Site::of("compress");
        if self.shape() != mask.shape() {
            let problem = UsageErrorKind::shapes(self.shape(), mask.shape());
            let elements = self.failed(T::DTYPE, &[0], problem, site);
            return Packed::of(elements, self.constant_length(0, site));
        }
        let line = |length: usize| Shape::from_slice(&[length]);
        let elements: Array<T, Ix1> = self.reshaped(line(self.len()), site);
        elements.rows_where(&mask.reshaped(line(mask.len()), site), site)
    }

    /// Selects indices of the first axis whose number only the device knows, in their order.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1, 2], [3, 4], [5, 6]];
    /// let rows = device.region(|g| {
    ///     let x = g.array(&x);
    ///     let is_large = x.sum_axis(Axis(1)).greater(5);
    ///     x.take(&is_large.flatnonzero())
    /// })?;
    /// assert_eq!(rows.wait()?, array![[3, 4], [5, 6]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// Fails as [`select`](Self::select). An array without rows fails for every capacity but 0.
    #[track_caller]
    pub fn take<I: IndexElement>(&self, indices: &Packed<I>) -> Packed<T, D>
    where
        D: RemoveAxis,
    {
        let site = Site::of("take");
        if self.shape().is_empty() {
            let elements = self.missing_axis(Axis(0), &[0], site);
            return Packed::of(elements, indices.len());
        }
        let numbers = indices.filled(I::ZERO.scalar(), site);
        let elements = self.gathered_along(&numbers, (0, true), site);
        Packed::of(elements, indices.len())
    }

    /// Returns the rows for which the mask is true, which has an element for each.
    fn rows_where(&self, mask: &Array<bool, Ix1>, site: Site) -> Packed<T, D> {
        match i32::try_from(mask.len()) {
            Ok(_) => self.rows_by::<i32>(mask, site),
            Err(_) => self.rows_by::<i64>(mask, site),
        }
    }

    /// Does the same with indices of a type in which the number of rows fits.
    fn rows_by<I: IndexElement>(&self, mask: &Array<bool, Ix1>, site: Site) -> Packed<T, D> {
        let rows = mask.len();
        if rows == 0 {
            return Packed::of(self.clone(), self.constant_length(0, site));
        }
        let counts = mask.cast::<I>();
        let counts = counts.accumulated(Reduction::Sum, Axis(0), site);
        let numbers: Array<i64, Ix1> = Region::of(mask.session()).iota(&[rows], site);
        let places = mask.where_cond(-1_i64, rows as i64 - 1 - numbers);
        let places = &counts + &places.cast::<I>();
        let shape = self.node().shape.clone();
        let places: Array<I, D> = places.along(0, shape.clone(), site);
        let op = Op::Scatter {
            base: self.constant_node(extreme(T::DTYPE, true), &shape, site.line),
            index: places.node().clone(),
            value: self.node().clone(),
            axis: 0,
            mode: ScatterMode::Permute,
        };
        let elements = self.plan(T::DTYPE, shape, op, site);
        let length: Array<I, Ix0> = counts.subview(Axis(0), rows - 1, site);
        Packed::of(elements, length.cast())
    }

    fn constant_length(&self, length: i64, site: Site) -> Array<i64, Ix0> {
        self.constant(Scalar::I64(length), &[], site.line)
    }
}

impl<D: Dimension> Array<bool, D> {
    /// Returns the row-major linear indices of the true elements.
    #[track_caller]
    pub fn flatnonzero(&self) -> Packed<i64> {
        let site = Site::of("flatnonzero");
        let region = Region::of(self.session());
        let numbers: Array<i64, Ix1> = region.iota(&[self.len()], site);
        let mask = self.reshaped(Shape::from_slice(&[self.len()]), site);
        numbers.rows_where(&mask, site)
    }

    /// Returns the indices of the true elements, in row-major order: those along each axis, as
    /// NumPy.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[0, 7, 0], [0, 0, 8]];
    /// let pending = device.region(|g| {
    ///     let is_set = g.array(&x).not_equal(0);
    ///     let indices = is_set.nonzero();
    ///     (is_set.argwhere(), indices[0].clone(), indices[1].clone())
    /// })?;
    /// let expected = (array![[0, 1], [1, 2]], array![0, 1], array![1, 2]);
    /// assert_eq!(pending.wait()?, expected);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Vec<Packed<i64>> {
        let flat = self.flatnonzero();
        let mut stride = 1;
        let of_axis = |&length: &usize| {
            let indices = &flat / stride % (length.max(1) as i64);
            stride *= length.max(1) as i64;
            indices
        };
        let mut indices: Vec<_> = self.shape().iter().rev().map(of_axis).collect();
        indices.reverse();
        indices
    }

    /// Returns the indices of the true elements, in row-major order: a row for each of them, with
    /// its indices along all axes. The region fails if the array has no axes.
    #[track_caller]
    pub fn argwhere(&self) -> Packed<i64, Ix2> {
        let columns = self.nonzero();
        let length = columns.first().map(Packed::len);
        let columns: Vec<_> = columns.into_iter().map(|column| column.elements).collect();
        let site = Site::of("argwhere");
        let rows = stack(Axis(1), &columns)
            .unwrap_or_else(|error| Array::failed_with(self.session(), &[0, 0], error, site.line));
        let length = length.unwrap_or_else(|| self.constant_length(0, site));
        Packed::of(rows, length)
    }
}

impl<T, D> Clone for Packed<T, D> {
    fn clone(&self) -> Self {
        Self::of(self.elements.clone(), self.length.clone())
    }
}

impl<T, D> fmt::Debug for Packed<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({:?})", self.elements)
    }
}
