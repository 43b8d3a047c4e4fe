//! Shapes as `ndarray`'s types: `dim`, rows and columns, and conversions between fixed and dynamic
//! numbers of axes.

use std::panic::Location;

use ndarray::{Dimension, Ix2, IxDyn};

use super::Array;
use crate::error::{Result, UsageError, UsageErrorKind};

impl<T, D: Dimension> Array<T, D> {
    /// The lengths of the axes: of one axis a number, of several a tuple.
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

    /// The lengths of the axes, as a type that shapes can be made of.
    #[must_use]
    pub fn raw_dim(&self) -> D {
        let mut dimension = D::zeros(D::NDIM.unwrap_or(self.ndim()));
        let lengths = dimension.as_array_view_mut();
        lengths
            .into_iter()
            .zip(self.shape())
            .for_each(|(to, &length)| *to = length);
        dimension
    }

    /// The same array, of which the number of axes is no part of the type any more.
    ///
    /// ```
    /// use millstream_region::{Array, RegionExt};
    /// use ndarray::{Ix2, IxDyn, array};
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let same = device.region(|g| {
    ///     let any: Array<f32, IxDyn> = g.array(&x).into_dyn();
    ///     any.into_dimensionality::<Ix2>()
    /// })?;
    /// assert_eq!(same.wait()?, x);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[must_use]
    pub fn into_dyn(self) -> Array<T, IxDyn> {
        Array::of(self.session(), self.node().clone())
    }

    /// The same array with another type for the number of axes.
    ///
    /// # Errors
    ///
    /// If it does not have as many axes, or stands for a mistake.
    #[track_caller]
    pub fn into_dimensionality<E: Dimension>(self) -> Result<Array<T, E>> {
        if let Some(failure) = self.node().failure() {
            return Err(failure);
        }
        match E::NDIM {
            Some(axes) if axes != self.ndim() => {
                let shape = self.shape().into();
                let problem = UsageErrorKind::AxisCount { shape, axes };
                Err(UsageError::new("into_dimensionality", problem, Location::caller()).into())
            }
            _ => Ok(Array::of(self.session(), self.node().clone())),
        }
    }
}

impl<T, D> Array<T, D> {
    /// The same array, for bodies that were written for `ndarray`: every handle of an array is a
    /// view of its elements.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = array![1, 2, 3];
    /// let parts = device.region(|g| g.array(&x).view().split_at(Axis(0), 1))?;
    /// assert_eq!(parts.wait()?, (array![1], array![2, 3]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[must_use]
    pub fn view(&self) -> Self {
        self.clone()
    }

    /// The array itself, for bodies that were written for `ndarray`.
    ///
    /// There, `mean`, `mean_axis`, `broadcast` and `into_shape_with_order` give an `Option` or a
    /// `Result`. Here they give an array, and a mistake is the error of the region; so there is
    /// nothing to unwrap, and this does not panic. The mean of no elements is NaN.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let means = device.region(|g| g.array(&x).mean_axis(Axis(0)).unwrap())?;
    /// assert_eq!(means.wait()?, x.mean_axis(Axis(0)).unwrap());
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[must_use]
    pub fn unwrap(self) -> Self {
        self
    }

    /// As [`unwrap`](Self::unwrap): the array itself.
    #[must_use]
    pub fn expect(self, _reason: &str) -> Self {
        self
    }
}

impl<T> Array<T, Ix2> {
    /// The number of rows of a matrix.
    #[must_use]
    pub fn nrows(&self) -> usize {
        self.shape()[0]
    }

    /// The number of columns of a matrix.
    #[must_use]
    pub fn ncols(&self) -> usize {
        self.shape()[1]
    }
}
