//! Iteration over subviews: `outer_iter`, `axis_iter` and `split_at`.

use ndarray::{Axis, RemoveAxis, Slice};

use crate::{array::Array, error::Site};

impl<T, D: RemoveAxis> Array<T, D> {
    /// Iterates over the subviews along the first axis; for a matrix, over its rows.
    ///
    /// The loop runs on the host while the region is recorded, and each iteration records its own
    /// operations. An equivalent operation on the whole array needs fewer kernels.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1, 2], [3, 4], [5, 6]];
    /// let last_first = device.region(|g| {
    ///     let mut sum = g.zeros::<i32, _>(2);
    ///     for row in g.array(&x).outer_iter().rev() {
    ///         sum = sum * 10 + row;
    ///     }
    ///     sum
    /// })?;
    /// assert_eq!(last_first.wait()?, array![531, 642]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn outer_iter(
        &self,
    ) -> impl ExactSizeIterator<Item = Array<T, D::Smaller>> + DoubleEndedIterator + use<T, D> {
        self.subviews(Axis(0), Site::of("outer_iter"))
    }

    /// Iterates over the subviews along an axis, without that axis. See
    /// [`outer_iter`](Self::outer_iter).
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let product = device.region(|g| {
    ///     let columns = g.array(&x);
    ///     columns.axis_iter(Axis(1)).reduce(|a, b| a * b).unwrap()
    /// })?;
    /// assert_eq!(product.wait()?, array![2.0, 12.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn axis_iter(
        &self,
        axis: Axis,
    ) -> impl ExactSizeIterator<Item = Array<T, D::Smaller>> + DoubleEndedIterator + use<T, D> {
        self.subviews(axis, Site::of("axis_iter"))
    }

    fn subviews(
        &self,
        axis: Axis,
        site: Site,
    ) -> impl ExactSizeIterator<Item = Array<T, D::Smaller>> + DoubleEndedIterator + use<T, D> {
        let length = self.shape().get(axis.index()).copied();
        if length.is_none() {
            // The error fails the region, although the iterator has no item for it.
            drop(self.missing_axis::<T, D>(axis, self.shape(), site));
        }
        let array = self.clone();
        (0..length.unwrap_or(0)).map(move |index| array.subview(axis, index, site))
    }
}

impl<T, D: ndarray::Dimension> Array<T, D> {
    /// Splits the array along an axis, before the given index.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::{Axis, array};
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[1, 2, 3], [4, 5, 6]];
    /// let (left, right) = device.region(|g| g.array(&x).split_at(Axis(1), 2))?.wait()?;
    /// assert_eq!((left, right), (array![[1, 2], [4, 5]], array![[3], [6]]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn split_at(&self, axis: Axis, index: usize) -> (Self, Self) {
        let (site, at) = (
            Site::of("split_at"),
            isize::try_from(index).unwrap_or(isize::MAX),
        );
        let part = |slice| self.along_axis(axis, slice, site);
        (part(Slice::from(..at)), part(Slice::from(at..)))
    }
}

/// A trait without implementations, whose diagnostic explains that the elements of a device array
/// are not iterated over: each would be a round trip to the device.
#[diagnostic::on_unimplemented(
    message = "the elements of an array on a device cannot be iterated over",
    label = "visits the elements one by one",
    note = "operate on whole arrays: `mapv`, `sum`, `where_cond` and others; `outer_iter()` \
            iterates over the subviews of the first axis",
    note = "to visit the elements on the host, return the array from the region, or write \
            `x.to_host()?.iter()`"
)]
pub trait ElementIteration {}

impl<T, D> Array<T, D> {
    /// Explains at compile time what to write instead.
    #[doc(hidden)]
    pub fn iter(&self) -> std::slice::Iter<'_, T>
    where
        Self: ElementIteration,
    {
        unreachable!("the trait has no implementations")
    }
}
