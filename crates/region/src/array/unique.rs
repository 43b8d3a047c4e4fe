//! The distinct elements of an array, with their numbers of occurrences.
//!
//! Of the sorted elements, those that differ from the one before them are packed. The occurrences
//! of one end where those of the next begin.

use ndarray::{Axis, Dimension, Ix1, Slice};

use crate::{
    Region,
    array::{Array, Packed, concatenate::concatenated},
    element::{Element, Scalar},
    error::Site,
    expr::{Comparison, Function, Sorted},
};

impl<T: Element, D: Dimension> Array<T, D> {
    /// Returns the distinct elements in ascending order, as `numpy.unique`. No call waits for their
    /// number.
    ///
    /// The order is that of [`sort_axis`](Self::sort_axis): −0 equals +0, and all NaN are equal. Of
    /// equal elements the first is returned, with its bits.
    ///
    /// # Errors
    ///
    /// The region fails if there are more than 2³⁰ − 1 elements.
    #[track_caller]
    pub fn unique(&self) -> Packed<T> {
        let (elements, is_first) = self.sorted_with_first(Site::of("unique"));
        elements.compress(&is_first)
    }

    /// Returns the distinct elements as [`unique`](Self::unique), and how often each occurs.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = array![[2.5_f32, -1.0], [f32::NAN, 2.5]];
    /// let found = device.region(|g| g.array(&x).unique_counts())?;
    /// let (elements, counts) = found.wait()?;
    /// assert_eq!((elements.len(), elements[0], elements[1]), (3, -1.0, 2.5));
    /// assert_eq!(counts, array![1, 2, 1]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn unique_counts(&self) -> (Packed<T>, Packed<i64>) {
        let site = Site::of("unique_counts");
        let (elements, is_first) = self.sorted_with_first(site);
        // Of 32 bits, which numbers of sorted elements fit.
        let numbers: Array<i64, Ix1> = Region::of(self.session()).iota(&[self.len()], site);
        let starts = numbers.cast::<i32>().compress(&is_first);
        let all = self.len() as i32;
        let begins = starts.to_array(all);
        let last = begins.constant(Scalar::I32(all), &[1], site.line);
        let later = begins.along_axis(Axis(0), Slice::from(self.len().min(1)..), site);
        let ends = match self.is_empty() {
            true => begins.clone(),
            false => joined(&later, &last, site),
        };
        let counts: Array<i32, Ix1> = ends.same_shape(Function::Subtract, &begins);
        let counts = Packed::of(counts.cast(), starts.len());
        (elements.compress(&is_first), counts)
    }

    /// Returns the sorted elements, and which of them are the first of their equals.
    #[track_caller]
    fn sorted_with_first(&self, site: Site) -> (Array<T, Ix1>, Array<bool, Ix1>) {
        let sorted = self.flatten().sorted(Axis(0), Sorted::Elements, None, site);
        let compare = |one: &Array<T, Ix1>, comparison, other: &Array<T, Ix1>| {
            one.same_shape::<bool>(Function::Compare(comparison), other)
        };
        if self.is_empty() {
            let is_first = compare(&sorted, Comparison::NotEqual, &sorted);
            return (sorted, is_first);
        }
        let later = sorted.along_axis(Axis(0), Slice::from(1..), site);
        let earlier = sorted.along_axis(Axis(0), Slice::from(..-1), site);
        // Behind a NaN come only its equals.
        let differs = compare(&later, Comparison::NotEqual, &earlier);
        let is_number = compare(&earlier, Comparison::Equal, &earlier);
        let others = differs & is_number;
        let first = others.constant(Scalar::Bool(true), &[1], site.line);
        (sorted, joined(&first, &others, site))
    }
}

/// Joins two lines.
fn joined<T: Element>(one: &Array<T, Ix1>, other: &Array<T, Ix1>, site: Site) -> Array<T, Ix1> {
    let session = one.session();
    concatenated(Axis(0), &[one, other], site)
        .unwrap_or_else(|error| Array::failed_with(session, &[0], error, site.line))
}
