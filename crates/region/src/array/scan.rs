//! Inclusive scans (`cumsum`, `cumprod`, `cummin`, `cummax`) and differences of neighbours.

use ndarray::{Axis, Dimension, Slice};

use crate::{
    array::Array,
    element::Number,
    error::Site,
    expr::{Function, NodeRef, Op, Reduction},
};

macro_rules! cumulative {
    ($($(#[$doc:meta])* $name:ident, $reduction:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self, axis: Axis) -> Self {
            self.accumulated(Reduction::$reduction, axis, Site::of(stringify!($name)))
        }
    )*};
}

impl<T: Number, D: Dimension> Array<T, D> {
    cumulative! {
        /// Computes the cumulative sums along an axis.
        ///
        /// Integers wrap around. Floats are added in an order that follows from the shape alone:
        /// `f32` as `f64`, and `f64` with compensation of rounding errors, so that a result is off
        /// by little more than its last rounding.
        ///
        /// ```
        /// use millstream_region::RegionExt;
        /// use ndarray::{Axis, array};
        /// let device = millstream::Device::simulated()?;
        /// let x = array![[1, 2, 3], [4, 5, 6]];
        /// let sums = device.region(|g| {
        ///     let x = g.array(&x);
        ///     (x.cumsum(Axis(0)), x.cumsum(Axis(1)))
        /// })?;
        /// assert_eq!(sums.wait()?, (array![[1, 2, 3], [5, 7, 9]], array![[1, 3, 6], [4, 9, 15]]));
        /// # Ok::<(), millstream_region::Error>(())
        /// ```
        cumsum, Sum;
        /// Computes the cumulative products along an axis.
        ///
        /// Integers wrap around. Floats are multiplied as `f64`; in long rows, neighbours are
        /// multiplied first.
        cumprod, Product;
        /// Computes the cumulative minima along an axis, NaN from the first NaN on. −0 is less than
        /// +0.
        cummin, Minimum;
        /// Computes the cumulative maxima along an axis, NaN from the first NaN on. −0 is less than
        /// +0.
        cummax, Maximum;
    }

    /// Computes the differences of neighbouring elements along an axis, `n` times. Each time the
    /// axis gets shorter by one; an axis of at most `n` elements becomes empty, as in NumPy.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1, 4, 9, 16];
    /// let changes = device.region(|g| {
    ///     let x = g.array(&x);
    ///     (x.diff(1, Axis(0)), x.diff(2, Axis(0)), x.diff(4, Axis(0)))
    /// })?;
    /// assert_eq!(changes.wait()?, (array![3, 5, 7], array![2, 2], array![]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn diff(&self, n: usize, axis: Axis) -> Self {
        let site = Site::of("diff");
        let Some(&length) = self.shape().get(axis.index()) else {
            return self.missing_axis(axis, self.shape(), site);
        };
        if n >= length {
            return self.along_axis(axis, Slice::from(..0), site);
        }
        let mut changes = self.clone();
        for _ in 0..n {
            let later = changes.along_axis(axis, Slice::from(1..), site);
            let earlier = changes.along_axis(axis, Slice::from(..-1), site);
            changes = later.same_shape(Function::Subtract, &earlier);
        }
        changes
    }

    pub(super) fn accumulated(&self, reduction: Reduction, axis: Axis, site: Site) -> Self {
        if axis.index() >= self.ndim() {
            return self.missing_axis(axis, self.shape(), site);
        }
        let op = Op::Scan {
            reduction,
            source: NodeRef::clone(self.node()),
            axis: axis.index(),
        };
        self.plan(T::DTYPE, self.node().shape.clone(), op, site)
    }
}
