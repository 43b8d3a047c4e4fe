//! Shapes as `ndarray` types, and conversions between fixed and dynamic numbers of axes.

use ndarray::{Dimension, Ix2, IxDyn};

use crate::{
    array::Array,
    error::{Result, Site, UsageErrorKind},
};

impl<T, D: Dimension> Array<T, D> {
    /// Returns the lengths of the axes: a number for one axis, a tuple for several.
    ///
    /// ```
    /// # use millstream_region::RegionExt;
    /// let device = millstream::Device::simulated()?;
    /// device.region(|g| {
    ///     let x = g.zeros::<f32, _>((2, 3));
    ///     let (rows, columns) = x.dim();
    ///     assert_eq!((rows, columns), (x.nrows(), x.ncols()));
    ///     assert_eq!(g.ones::<f32, _>(x.raw_dim()).shape(), [2, 3]);
    ///     x
    /// })?;
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[must_use]
    pub fn dim(&self) -> D::Pattern {
        self.raw_dim().into_pattern()
    }

    /// Returns the lengths of the axes as a dimension, from which arrays can be created.
    #[must_use]
    pub fn raw_dim(&self) -> D {
        let mut dimension = D::zeros(D::NDIM.unwrap_or(self.ndim()));
        for (to, &length) in dimension.slice_mut().iter_mut().zip(self.shape()) {
            *to = length;
        }
        dimension
    }

    /// Converts to a dynamic number of axes.
    ///
    /// ```
    /// use millstream_region::{Array, RegionExt};
    /// use ndarray::{Ix2, IxDyn, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let same = device.region(|g| {
    ///     let any: Array<f32, IxDyn> = g.array(&x).into_dyn();
    ///     any.into_dimensionality::<Ix2>()
    /// })?;
    /// assert_eq!(same.wait()?, x);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    pub fn into_dyn(self) -> Array<T, IxDyn> {
        Array::of(self.session(), self.node().clone())
    }

    /// Converts to another dimension type.
    ///
    /// # Errors
    ///
    /// If the number of axes differs from that of the type, or the array has failed.
    #[track_caller]
    pub fn into_dimensionality<E: Dimension>(self) -> Result<Array<T, E>> {
        if let Some(failure) = self.node().failure() {
            return Err(failure);
        }
        match E::NDIM {
            Some(axes) if axes != self.ndim() => {
                let shape = self.shape().into();
                let problem = UsageErrorKind::AxisCount { shape, axes };
                Err(Site::of("into_dimensionality").error(problem).into())
            }
            _ => Ok(Array::of(self.session(), self.node().clone())),
        }
    }
}

impl<T, D> Array<T, D> {
    /// Returns the array itself, for bodies written for `ndarray`: every handle of an array is a
    /// view.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1, 2, 3];
    /// let parts = device.region(|g| g.array(&x).view().split_at(Axis(0), 1))?;
    /// assert_eq!(parts.wait()?, (array![1], array![2, 3]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    pub fn view(&self) -> Self {
        self.clone()
    }

    /// Returns the array itself, for bodies written for `ndarray`.
    ///
    /// In `ndarray`, `mean`, `mean_axis`, `broadcast` and `into_shape_with_order` return an
    /// `Option` or a `Result`. Here they return an array, and an error is reported by the region,
    /// so that this does nothing and never panics. The mean of no elements is NaN.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let means = device.region(|g| g.array(&x).mean_axis(Axis(0)).unwrap())?;
    /// assert_eq!(means.wait()?, x.mean_axis(Axis(0)).unwrap());
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    pub fn unwrap(self) -> Self {
        self
    }

    /// Returns the array itself, as [`unwrap`](Self::unwrap).
    pub fn expect(self, _reason: &str) -> Self {
        self
    }
}

impl<T> Array<T, Ix2> {
    /// Returns the number of rows of a matrix.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.shape()[0]
    }

    /// Returns the number of columns of a matrix.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.shape()[1]
    }
}
