//! Entry into regions: `RegionExt::region` and the upload of arrays.

use std::panic::Location;

use bytemuck::cast_slice;
use millstream::Device;
use ndarray::{ArrayView, Dimension};

use crate::{
    Array, Region,
    element::Element,
    error::{Line, Result},
    host::{Arrays, DeviceValue, Input, Pending, Prepared, RegionTarget},
    run::replay,
    shape::Shape,
};

impl Region {
    /// Returns an array for use in the region. Host elements are copied before this returns; a
    /// device array is not copied.
    #[track_caller]
    pub fn array<T: Element, D: Dimension>(&self, source: impl Input<Array<T, D>>) -> Array<T, D> {
        source.capture(self, Location::caller())
    }

    /// Copies a host array to the device.
    pub(crate) fn upload<T: Element, D: Dimension>(
        &self,
        source: &ArrayView<'_, T, D>,
        line: Line,
    ) -> Array<T, D> {
        let shape = Shape::from_slice(source.shape());
        let upload = |elements: &[T]| {
            let bytes = cast_slice(T::stored(elements));
            self.session().upload(T::DTYPE, shape, bytes, line)
        };
        // Contiguous row-major elements are copied directly.
        let node = match source.as_slice() {
            Some(elements) => upload(elements),
            None => upload(&source.iter().copied().collect::<Vec<_>>()),
        };
        Array::of(self.session(), node)
    }
}

/// Extension methods of [`Device`] that run regions.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
///
/// let device = millstream::Device::simulated()?;
/// let x = array![3.0_f32, 4.0];
/// let length = device.region(|g| {
///     let x = g.array(&x);
///     (&x * &x).sum().sqrt() // one kernel
/// })?;
/// assert_eq!(length.wait()?.into_scalar(), 5.0);
/// # Ok::<(), millstream_region::Error>(())
/// ```
pub trait RegionExt {
    /// Runs a block on the device. The result of `body` is evaluated there and downloaded. This
    /// returns as soon as the work is enqueued, without waiting for it.
    ///
    /// # Errors
    ///
    /// If an operation of the body was wrong, there is not enough memory, or the device is lost.
    /// Host data is unchanged then.
    fn region<R: DeviceValue>(
        &self,
        body: impl FnOnce(&Region) -> R,
    ) -> Result<Pending<'static, R::Host>>;

    /// Prepares a region: runs the body once, with these arguments, and never again. Numbers and
    /// arrays that are no arguments are frozen, and so is everything that the body decides on the
    /// host. A [call](crate::Prepared::call) enqueues the kernels with other arguments of the same
    /// shapes, as one launch of a CUDA graph.
    ///
    /// The prepared region keeps the memory of its intermediate arrays, and refers to the results
    /// of its last two calls. Once the program has dropped these, a later call writes to their
    /// memory, behind everything that has used them; a result that the program still refers to is
    /// never written. The memory is freed with the prepared region, or when the device's memory is
    /// short.
    ///
    /// ```
    /// use millstream_region::{Array, RegionExt};
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let [x, y] = [array![1.0_f32, 2.0], array![3.0, 4.0]];
    /// let [x, y] = [Array::from_host(&device, &x)?, Array::from_host(&device, &y)?];
    /// let scaled = device.prepare(&x, |_, x| x * 2.0 / x.sum())?;
    /// assert_eq!(scaled.call(&x)?.to_host()?, array![2.0 / 3.0, 4.0 / 3.0]);
    /// assert_eq!(scaled.call(&y)?.to_host()?, array![6.0 / 7.0, 8.0 / 7.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an operation of the body is wrong, a result is an argument, the body updates arrays in
    /// place or calls another library in a way that fixes the addresses of arrays, there is not
    /// enough memory, or the device is lost.
    fn prepare<A: Arrays, R: Arrays>(
        &self,
        arguments: &A,
        body: impl FnOnce(&Region, &A) -> R,
    ) -> Result<Prepared<A, R>>;

    /// Sets whether regions of several kernels are replayed as [graphs](crate#graphs), which is the
    /// default. Without graphs each kernel is launched by itself, so that the error of a lost
    /// device names it.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    ///
    /// let device = millstream::Device::simulated()?;
    /// device.set_region_graphs(false);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    fn set_region_graphs(&self, are_used: bool);
}

impl RegionExt for Device {
    fn region<R: DeviceValue>(
        &self,
        body: impl FnOnce(&Region) -> R,
    ) -> Result<Pending<'static, R::Host>> {
        let region = RegionTarget::enter(&self);
        let result = body(&region);
        <&Device as RegionTarget>::leave::<R::Host>(self, region, result, Vec::new())
    }

    #[track_caller]
    fn prepare<A: Arrays, R: Arrays>(
        &self,
        arguments: &A,
        body: impl FnOnce(&Region, &A) -> R,
    ) -> Result<Prepared<A, R>> {
        Prepared::of(self, arguments, body, Location::caller())
    }

    fn set_region_graphs(&self, are_used: bool) {
        replay::set_graphs(self, are_used);
    }
}
