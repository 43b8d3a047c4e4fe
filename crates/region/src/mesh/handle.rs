//! `MeshRegion`: the handle with which a body records one device's work.

use std::{fmt, ops::Deref, panic::Location, sync::Arc};

use ndarray::{Dimension, Ix0, arr0};

use crate::{
    Array, Region,
    element::Element,
    error::{Line, Site},
    expr::{AxisSet, MeshMember, State},
    mesh::{Mesh, MeshParameter, axis_of},
};

/// A handle that records one device's work in a region of a mesh; see [`Mesh::region`]. It
/// dereferences to the [`Region`] of its device.
///
/// ```
/// use millstream::{Device, sim::{Gpu, SimConfig}};
/// use millstream_region::{Mesh, Sharded};
/// use ndarray::{Array1, array};
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
/// let mesh = Mesh::new(devices, [("data", 2)])?;
/// let x: Sharded<Array1<i64>, 0> = mesh.region(|g| g.zeros::<i64, _>(2) + g.index("data"))?;
/// assert_eq!(x.to_host()?, array![0, 0, 1, 1]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
pub struct MeshRegion {
    pub(super) mesh: Mesh,
    pub(super) region: Region,
}

impl MeshRegion {
    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns this device's part of a sharded array, or its copy of a replicated one.
    #[track_caller]
    #[must_use]
    pub fn local<P: MeshParameter>(&self, array: &P) -> P::Body {
        array.capture(self, Location::caller())
    }

    /// Returns the position of this device along an axis of the mesh, as an array that differs from
    /// device to device. Uploads 8 bytes.
    #[track_caller]
    pub fn index(&self, axis: &str) -> Array<i64, Ix0> {
        let (site, member) = (Site::of("index"), self.member());
        match axis_of(&member.shape, axis) {
            Ok(axis) => {
                let position = member.shape.position(member.rank, axis);
                let position = self.region.upload(&arr0(position as i64).view(), site.line);
                self.varying(&position, 1 << axis, site.line)
            }
            Err(problem) => {
                Array::failed_with(self.region.session(), &[], site.error(problem), site.line)
            }
        }
    }

    /// Returns the part of this device, whose elements differ along these axes.
    pub(super) fn capture<T: Element, D: Dimension>(
        &self,
        parts: &[Array<T, D>],
        varies: AxisSet,
        line: Line,
    ) -> Array<T, D> {
        self.varying(&parts[self.member().rank], varies, line)
    }

    /// Returns an array of the region with the memory of a stored one, whose elements differ along
    /// these axes; a failed array stays a failed one.
    fn varying<T: Element, D: Dimension>(
        &self,
        array: &Array<T, D>,
        varies: AxisSet,
        line: Line,
    ) -> Array<T, D> {
        let (session, node) = (self.region.session(), array.node());
        let Some(storage) = node.storage() else {
            return array.in_session(session);
        };
        let node = node.alike(State::Stored(storage), line);
        Array::of(session, Arc::new(node.varying(varies)))
    }

    pub(super) fn member(&self) -> &MeshMember {
        let member = &self.region.session().member;
        member.as_ref().expect("the region is one of a mesh")
    }
}

impl Deref for MeshRegion {
    type Target = Region;

    fn deref(&self) -> &Region {
        &self.region
    }
}

impl fmt::Debug for MeshRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeshRegion({} of {:?})", self.member().rank, self.mesh)
    }
}
