//! `Region`: the handle with which a body records device work.

use std::sync::Arc;

use millstream::Device;

use crate::expr::{MeshMember, Session};

/// A handle that records device work for fused, deferred evaluation; see
/// [`RegionExt::region`](crate::RegionExt::region).
///
/// ```
/// use millstream_region::{Region, RegionExt};
/// use ndarray::{Array1, array};
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
        Self::of(&Session::new(device))
    }

    pub(crate) fn in_mesh(device: Device, member: MeshMember) -> Self {
        Self::of(&Session::in_mesh(device, member))
    }

    pub(crate) fn of(session: &Arc<Session>) -> Self {
        Self {
            session: Arc::clone(session),
        }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns the device on which the region runs.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.session.device
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region(on {})", self.session.device)
    }
}
