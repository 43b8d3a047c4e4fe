//! Meshes: arrays that are spread over several devices, and regions that run on all of them.
//!
//! A region of a mesh is written for one device, as JAX's `shard_map`: its body runs once for each
//! device, with that device's parts of the arrays, and names the places where devices exchange
//! elements. The key insight is that bodies only record: a collective can be a placeholder in the
//! graph, so the bodies run one after another on the calling thread, without waiting for each
//! other. When all are recorded, their collectives are compared, and the work of all devices is
//! enqueued, device by device up to each collective.
//!
//! | file | contents |
//! |---|---|
//! | `layout.rs` | `Replicated`, `Sharded`, `Partial`: arrays on a mesh |
//! | `place.rs` | `Mesh::shard` and `Mesh::replicate`: from the host to a mesh |
//! | `parameter.rs`, `output.rs` | what bodies take and return |
//! | `collectives.rs` | the methods of arrays that record collectives |
//! | `run.rs` | runs the bodies, and enqueues what they have recorded |
//! | `enqueue.rs` | moves elements between devices |

mod collectives;
mod enqueue;
mod handle;
mod layout;
mod output;
mod parameter;
mod place;
mod run;

use std::{fmt, ops::Range, sync::Arc};

use millstream::{Device, Stream};
use millstream_collective::Collectives;

pub use collectives::Border;
pub use handle::MeshRegion;
pub use layout::{MeshArray, Partial, Replicated, Sharded};
pub use output::MeshOutput;
pub use parameter::MeshParameter;
pub use place::Split;

use crate::{
    error::{MeshErrorKind, Result, Site, UsageError, UsageErrorKind},
    expr::MeshShape,
};

/// The maximum number of axes of a mesh.
const AXES_MAX: usize = 8;

/// Devices in a grid with named axes.
///
/// Arrays are spread over a mesh by [`shard`](Self::shard) and [`replicate`](Self::replicate), and
/// computed with in a region: [`Mesh::region`] or a function under `#[region(mesh)]`. Cloning gives
/// another handle of the same mesh.
///
/// ```
/// use millstream::{Device, sim::{Gpu, SimConfig}};
/// use millstream_region::{Array, Mesh, Replicated, Sharded, Split, region};
/// use ndarray::{Array2, array};
/// #[region(mesh)]
/// fn step(w: &Replicated<Array2<f32>>, x: &Sharded<Array2<f32>, 0>) -> Replicated<Array2<f32>> {
///     x.t().dot(x).all_reduce("data") * w
/// }
///
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
/// let mesh = Mesh::new(devices, [("data", 2)])?;
/// let x = mesh.shard(&array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], Split::<0>::over("data"))?;
/// let w = mesh.replicate(&array![[1.0, 0.0], [0.5, 1.0]])?;
/// assert_eq!(step(&mesh, &w, &x)?.to_host()?, array![[35.0, 0.0], [22.0, 56.0]]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone)]
pub struct Mesh {
    inner: Arc<Inner>,
}

struct Inner {
    devices: Vec<Device>,
    shape: Arc<MeshShape>,
    /// For each device, the stream of the copies to it.
    streams: Vec<Stream>,
    /// The groups of devices along each axis.
    groups: Vec<Vec<DeviceGroup>>,
}

/// Devices along one axis, with the collectives between them.
struct DeviceGroup {
    ranks: Vec<usize>,
    collectives: Collectives,
}

impl Mesh {
    /// Creates a mesh of these devices, in row-major order: the last axis varies fastest.
    ///
    /// Connects the devices, as [`Collectives::new`] does. More than two GPUs are connected by NCCL
    /// if it can be loaded, which takes up to some seconds. All devices are connected by peer
    /// access, which takes some ten milliseconds for each pair that had none. Devices without peer
    /// access exchange elements through the host.
    ///
    /// ```
    /// use millstream::Device;
    /// use millstream_region::Mesh;
    /// let devices = Device::all()?;
    /// let mesh = Mesh::new(devices.clone(), [("data", devices.len())])?;
    /// assert_eq!(mesh.axis("data")?, devices.len());
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the axes' lengths do not multiply to the number of devices, there is no axis, or two have
    /// one name; if a device is passed twice, two are of different drivers, or one is lost.
    #[track_caller]
    pub fn new<'a>(
        devices: impl IntoIterator<Item = Device>,
        axes: impl IntoIterator<Item = (&'a str, usize)>,
    ) -> Result<Self> {
        let site = Site::of("Mesh::new");
        let devices: Vec<Device> = devices.into_iter().collect();
        let axes = axes.into_iter();
        let axes = axes
            .map(|(name, length)| (name.to_owned(), length))
            .collect();
        let shape = MeshShape { axes };
        check(&devices, &shape).map_err(|problem| site.error(problem))?;
        // This checks that the devices are different ones, of one driver.
        Collectives::direct(&devices)?;
        let group = |ranks: Vec<usize>| -> Result<DeviceGroup> {
            let members: Vec<Device> = ranks.iter().map(|&rank| devices[rank].clone()).collect();
            let collectives = match &members[..] {
                [_] => Collectives::direct(&members)?,
                _ => Collectives::new(&members)?,
            };
            Ok(DeviceGroup { ranks, collectives })
        };
        let along = |axis: usize| shape.groups(axis).into_iter().map(group).collect();
        let groups = (0..shape.axes.len()).map(along).collect::<Result<_>>()?;
        let streams = devices.iter().map(|device| Ok(device.stream()?));
        Ok(Self {
            inner: Arc::new(Inner {
                streams: streams.collect::<Result<_>>()?,
                groups,
                devices,
                shape: Arc::new(shape),
            }),
        })
    }

    /// Returns the devices, by rank.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.inner.devices
    }

    /// Returns the number of devices along an axis.
    ///
    /// # Errors
    ///
    /// If the mesh has no axis of this name.
    #[track_caller]
    pub fn axis(&self, name: &str) -> Result<usize> {
        let axis = self.axis_index(name, Site::of("Mesh::axis"))?;
        Ok(self.shape().axes[axis].1)
    }

    fn shape(&self) -> &Arc<MeshShape> {
        &self.inner.shape
    }

    fn axis_index(&self, name: &str, site: Site) -> Result<usize, UsageError> {
        axis_of(self.shape(), name).map_err(|problem| site.error(problem))
    }

    /// Returns an error unless both are handles of one mesh.
    fn check_same(&self, array: &Self, site: Site) -> Result<(), UsageError> {
        if Arc::ptr_eq(&self.inner, &array.inner) {
            return Ok(());
        }
        let problem = MeshErrorKind::OtherMesh {
            array: array.shape().to_string(),
            region: self.shape().to_string(),
        };
        Err(site.error(problem))
    }
}

fn axis_of(shape: &MeshShape, name: &str) -> Result<usize, UsageErrorKind> {
    shape.axis(name).ok_or_else(|| {
        let (name, axes) = (name.to_owned(), shape.to_string());
        MeshErrorKind::NoSuchAxis { name, axes }.into()
    })
}

/// Returns the part of an axis of this length at a position of `count`: equal parts, except the
/// last ones.
fn share(length: usize, count: usize, position: usize) -> Range<usize> {
    let each = length.div_ceil(count);
    let bound = |at: usize| at.saturating_mul(each).min(length);
    bound(position)..bound(position + 1)
}

fn check(devices: &[Device], shape: &MeshShape) -> Result<(), MeshErrorKind> {
    let axes = || shape.to_string();
    let lengths = shape.axes.iter().map(|(_, length)| *length);
    if !(1..=AXES_MAX).contains(&shape.axes.len()) || lengths.clone().any(|length| length == 0) {
        return Err(MeshErrorKind::Axes { axes: axes() });
    }
    for (at, (name, _)) in shape.axes.iter().enumerate() {
        if shape.axis(name) != Some(at) {
            return Err(MeshErrorKind::RepeatedAxis { name: name.clone() });
        }
    }
    // Saturated, it is no number of devices.
    let needed = lengths.fold(1, usize::saturating_mul);
    if needed != devices.len() {
        return Err(MeshErrorKind::DeviceCount {
            axes: axes(),
            needed,
            devices: devices.len(),
        });
    }
    Ok(())
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mesh({} of {:?})", self.shape(), self.devices())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_parts_are_shorter() {
        let lengths = |length, count| -> Vec<usize> {
            let parts = (0..count).map(|at| share(length, count, at));
            parts.map(|part| part.len()).collect()
        };
        assert_eq!(lengths(8, 4), [2, 2, 2, 2]);
        assert_eq!(lengths(10, 4), [3, 3, 3, 1]);
        assert_eq!(lengths(5, 4), [2, 2, 1, 0]);
        assert_eq!(lengths(0, 2), [0, 0]);
    }
}
