//! Entry into regions: `RegionExt::region` and the upload of arrays.

use std::panic::Location;

use bytemuck::cast_slice;
use millstream::Device;
use ndarray::{ArrayView, Dimension};

use super::{DeviceValue, Input, Pending, RegionTarget};
use crate::{Array, Region, element::Element, error::Result, shape::Shape};

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
        location: &'static Location<'static>,
    ) -> Array<T, D> {
        let shape = Shape::from_slice(source.shape());
        let upload = |elements: &[T]| {
            let bytes = cast_slice(T::stored(elements));
            self.session().upload(T::DTYPE, shape, bytes, location)
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
}
