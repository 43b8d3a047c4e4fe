//! Where regions begin: what they take from the host, and the block that runs in one.

use std::panic::Location;

use bytemuck::cast_slice;
use millstream::Device;
use ndarray::{ArrayView, Dimension};

use super::{DeviceValue, Input, Pending, RegionTarget};
use crate::{Array, Region, element::Element, error::Result, shape::Shape};

impl Region {
    /// An array for the region: of the host, which is copied before this returns, or of the device,
    /// which is not copied.
    #[track_caller]
    pub fn array<T: Element, D: Dimension>(&self, source: impl Input<Array<T, D>>) -> Array<T, D> {
        source.capture(self, Location::caller())
    }

    /// Copies an array of the host to the device.
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
        // Elements that lie in order are copied from where they are.
        let node = match source.as_slice() {
            Some(elements) => upload(elements),
            None => upload(&source.iter().copied().collect::<Vec<_>>()),
        };
        Array::of(self.session(), node)
    }
}

/// Regions on a [`Device`].
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
    /// Runs a block on the device: what `body` gives is calculated there and brought back. This
    /// returns as soon as the work is enqueued; nothing is waited for.
    ///
    /// # Errors
    ///
    /// If an operation of the body was wrong, there is not enough memory, or the device is lost.
    /// Then nothing comes of it.
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
