//! Elements by classes: counts, histograms, and sums of segments.

use ndarray::{Axis, Dimension, Ix1, RemoveAxis};

use crate::{
    Region,
    array::{Array, indexing::IndexElement},
    element::{DType, Number, Scalar},
    error::{Site, UsageErrorKind},
    shape::Shape,
};

impl<I: IndexElement> Array<I, Ix1> {
    /// Counts how often each of the numbers from 0 to `length` occurs: NumPy's `bincount`, with a
    /// length that does not depend on the elements.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let (x, weights) = (array![1, 3, 1, 0], array![0.5_f32, 2.0, 0.25, 1.0]);
    /// let counts = device.region(|g| {
    ///     let (x, weights) = (g.array(&x), g.array(&weights));
    ///     (x.bincount(5), x.bincount_weighted(4, &weights))
    /// })?;
    /// assert_eq!(counts.wait()?, (array![1, 2, 0, 1, 0], array![1.0, 0.75, 0.0, 2.0]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Waiting for the region returns an error if an element is negative, or not less than
    /// `length`.
    #[track_caller]
    pub fn bincount(&self, length: usize) -> Array<i64, Ix1> {
        let site = Site::of("bincount");
        let one: Array<i64, Ix1> = self.constant(Scalar::I64(1), &[1], site.line);
        let none: Array<i64, Ix1> = self.constant(Scalar::I64(0), &[length], site.line);
        none.added(Axis(0), self, &one, site)
    }

    /// Adds the weights of each of the numbers from 0 to `length`, as
    /// [`scatter_add`](Array::scatter_add) does.
    ///
    /// # Errors
    ///
    /// As [`bincount`](Self::bincount). The region fails with a [`UsageError`](crate::UsageError)
    /// if there is not one weight for each element.
    #[track_caller]
    pub fn bincount_weighted<T: Number>(
        &self,
        length: usize,
        weights: &Array<T, Ix1>,
    ) -> Array<T, Ix1> {
        weights.segments(self, length, Site::of("bincount_weighted"))
    }
}

impl<T: Number, D: Dimension> Array<T, D> {
    /// Adds the rows of each segment: row `i` of this array is added to the row of the result whose
    /// number is element `i` of `segments`, which need not be sorted. This is JAX's `segment_sum`,
    /// with the sums of [`scatter_add`](Self::scatter_add).
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let (x, segments) = (array![[1, 2], [3, 4], [5, 6]], array![1_i64, 0, 1]);
    /// let sums = device.region(|g| g.array(&x).segment_sum(&g.array(&segments), 3))?;
    /// assert_eq!(sums.wait()?, array![[3, 4], [6, 8], [0, 0]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Waiting for the region returns an error if a segment is negative, or not less than `count`.
    /// The region fails with a [`UsageError`](crate::UsageError) if there is not one segment for
    /// each row.
    #[track_caller]
    pub fn segment_sum<I: IndexElement>(&self, segments: &Array<I, Ix1>, count: usize) -> Self
    where
        D: RemoveAxis,
    {
        self.segments(segments, count, Site::of("segment_sum"))
    }

    fn segments<I: IndexElement>(
        &self,
        segments: &Array<I, Ix1>,
        count: usize,
        site: Site,
    ) -> Self {
        let mut shape = self.node().shape.clone();
        if shape.first() != segments.shape().first() {
            let problem = UsageErrorKind::shapes(self.shape(), segments.shape());
            return self.failed(T::DTYPE, self.shape(), problem, site);
        }
        let mut column = Shape::from_elem(1, self.ndim());
        column[0] = std::mem::replace(&mut shape[0], count);
        let segments: Array<I, D> = segments.reshaped(column, site);
        let none: Self = self.constant(T::ZERO.scalar(), &shape, site.line);
        none.added(Axis(0), &segments, self, site)
    }

    /// Counts the elements in each of `bins` intervals of equal length, which divide the range.
    /// Returns the counts and the edges of the intervals, as NumPy's `histogram`.
    ///
    /// An element at an edge counts for the interval above, and one at the end of the range for the
    /// last. Elements beyond the range and NaN count for none. The elements are compared with the
    /// edges as `f64`.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![0.5_f32, 1.0, 3.9, 4.0, 7.0];
    /// let (counts, edges) = device.region(|g| g.array(&x).histogram(4, (0.0, 4.0)))?.wait()?;
    /// assert_eq!((counts, edges), (array![1, 1, 0, 2], array![0.0, 1.0, 2.0, 3.0, 4.0]));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// The region fails with a [`UsageError`](crate::UsageError) if there are no bins, or the range
    /// is empty or infinite.
    #[track_caller]
    pub fn histogram(
        &self,
        bins: usize,
        (start, end): (f64, f64),
    ) -> (Array<i64, Ix1>, Array<f64, Ix1>) {
        let site = Site::of("histogram");
        let length = end - start;
        if bins == 0 || !length.is_finite() || length <= 0.0 {
            let problem = UsageErrorKind::argument(format!(
                "{bins} bins from {start:?} to {end:?}: there must be at least one, and a finite \
                 range that is not empty"
            ));
            let counts = self.failed(DType::I64, &[bins], problem.clone(), site);
            return (counts, self.failed(DType::F64, &[bins], problem, site));
        }
        let (count, step) = (bins as f64, length / bins as f64);
        let edge =
            |number: &Array<f64, Ix1>| number.equal(count).where_cond(end, number * step + start);
        let x: Array<T, Ix1> = self.reshaped(Shape::from_slice(&[self.len()]), site);
        let x = x.cast::<f64>();
        // The quotient may be rounded beyond an edge, so the edges decide.
        let number = ((&x - start) * (count / length)).floor();
        let number = number.clamp(0.0, count - 1.0);
        let number = &number - x.less(&edge(&number)).cast::<f64>();
        let next = &number + 1.0;
        let is_next = x.greater_equal(&edge(&next)) & next.less(count);
        let number = is_next.where_cond(&next, &number);
        let is_within = x.greater_equal(start) & x.less_equal(end);
        let number = is_within.where_cond(&number, 0.0).cast::<i64>();
        let none: Array<i64, Ix1> = self.constant(Scalar::I64(0), &[bins], site.line);
        let counts = none.added(Axis(0), &number, &is_within.cast(), site);
        let numbers: Array<i64, Ix1> =
            Region::of(self.session()).iota(&[bins.saturating_add(1)], site);
        (counts, edge(&numbers.cast()))
    }
}
