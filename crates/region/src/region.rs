//! `Region`: work on a device that is noted down first and done together.

use std::{panic::Location, sync::Arc};

use bytemuck::cast_slice;
use millstream::Device;
use ndarray::{ArrayView, Dimension};

use crate::{
    Array,
    element::Element,
    error::Result,
    graph::Session,
    host::{DeviceValue, Input, Pending, Place},
    shape::Shape,
};

/// Work on a device that is noted down first and done together: see [`RegionExt::region`].
///
/// ```
/// use millstream_region::{Region, RegionExt};
/// use ndarray::{Array1, array};
///
/// fn twice(g: &Region, x: &Array1<f32>) -> millstream_region::Array<f32, ndarray::Ix1> {
///     g.array(x) * 2.0
/// }
///
/// let device = millstream::Device::simulated()?;
/// let x = array![1.0, 2.0];
/// assert_eq!(device.region(|g| twice(g, &x))?.wait()?, array![2.0, 4.0]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone)]
pub struct Region {
    session: Arc<Session>,
}

impl Region {
    pub(crate) fn new(device: Device) -> Self {
        Self {
            session: Session::new(device),
        }
    }

    /// The region with this session.
    pub(crate) fn of(session: &Arc<Session>) -> Self {
        Self {
            session: Arc::clone(session),
        }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The device on which the work is done.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.session.device
    }

    /// An array for the region: of the host, which is copied before this returns, or of the device, which is not copied.
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
            self.session.upload(T::DTYPE, shape, bytes, location)
        };
        // Elements that lie in order are copied from where they are.
        let node = match source.as_slice() {
            Some(elements) => upload(elements),
            None => upload(&source.iter().copied().collect::<Vec<_>>()),
        };
        Array::of(&self.session, node)
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region(on {})", self.session.device)
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
    /// Runs a block on the device: what `body` gives is calculated there and brought back. This returns as soon as the work is
    /// enqueued; nothing is waited for.
    ///
    /// # Errors
    ///
    /// If an operation of the body was wrong, there is not enough memory, or the device is lost. Then nothing comes of it.
    fn region<R: DeviceValue>(&self, body: impl FnOnce(&Region) -> R) -> Result<Pending<'static, R::Host>>;
}

impl RegionExt for Device {
    fn region<R: DeviceValue>(&self, body: impl FnOnce(&Region) -> R) -> Result<Pending<'static, R::Host>> {
        let region = Place::enter(&self);
        let result = body(&region);
        <&Device as Place>::leave::<R::Host>(self, region, result, Vec::new())
    }
}
