//! Errors of meshes and of sharded arrays.

use crate::error::ArrayShape;

/// The kinds of wrong operations that concern meshes and the layouts of arrays on them.
///
/// ```
/// use millstream::Device;
/// use millstream_region::{Error, Mesh, MeshErrorKind, UsageErrorKind};
/// let devices = vec![Device::simulated()?];
/// let Err(Error::Usage(error)) = Mesh::new(devices, [("data", 2)]) else {
///     unreachable!("one device is not two")
/// };
/// assert!(matches!(
///     error.problem(),
///     UsageErrorKind::Mesh(MeshErrorKind::DeviceCount { devices: 1, needed: 2, .. })
/// ));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeshErrorKind {
    /// A mesh without axes, with an axis of length 0, or with more than 8 axes.
    #[error("a mesh has 1 to 8 axes, each of at least 1 device, not ({axes})")]
    Axes {
        /// The given axes.
        axes: String,
    },
    /// Two axes of a mesh with one name.
    #[error("two axes of the mesh are named `{name}`: each needs a name of its own")]
    RepeatedAxis {
        /// The name.
        name: String,
    },
    /// A number of devices that is not the product of the axes' lengths.
    #[error("a mesh of ({axes}) has {needed} devices, and {devices} were passed")]
    DeviceCount {
        /// The given axes.
        axes: String,
        /// The product of their lengths.
        needed: usize,
        /// The number of given devices.
        devices: usize,
    },
    /// An axis that the mesh does not have.
    #[error("the mesh has no axis `{name}`: its axes are ({axes})")]
    NoSuchAxis {
        /// The requested name.
        name: String,
        /// The axes of the mesh.
        axes: String,
    },
    /// An array on another mesh.
    #[error("the array is on another mesh, ({array}), than the region, ({region})")]
    OtherMesh {
        /// The axes of the array's mesh.
        array: String,
        /// The axes of the region's mesh.
        region: String,
    },
    /// A collective outside of the regions of a mesh.
    #[error("a collective needs several devices: call it in the body of a region of a mesh")]
    NotInMesh,
    /// A collective along an axis along which all devices have the same elements.
    #[error(
        "expected a different array on each device along `{axis}`, found one that is replicated \
         along it: every device would count the same elements again"
    )]
    Replicated {
        /// The axis of the mesh.
        axis: String,
    },
    /// A result whose elements differ along more axes than its declared layout allows.
    #[error(
        "the result is declared as `{declared}`, but its elements differ between the devices \
         along {varies}: {advice}"
    )]
    Layout {
        /// The declared type.
        declared: &'static str,
        /// The axes along which the elements differ.
        varies: String,
        /// The way out.
        advice: &'static str,
    },
    /// A sum over devices that is no sum, because all devices have the same elements.
    #[error(
        "the result is declared as `{declared}`, but all devices have the same elements: its sum \
         would count them again for each device"
    )]
    NotVarying {
        /// The declared type.
        declared: &'static str,
    },
    /// Parts that do not fit together.
    #[error(
        "the parts of devices {first} and {second} have incompatible shapes, {} and {}: \
         they may differ in {allowed}",
        shapes[0],
        shapes[1]
    )]
    Parts {
        /// The rank of the first device.
        first: usize,
        /// The rank of the second device.
        second: usize,
        /// The shapes of both parts.
        shapes: Box<[ArrayShape; 2]>,
        /// The axes in which the shapes may differ.
        allowed: String,
    },
    /// A halo that is wider than the part of a device.
    #[error(
        "a halo of {width} exceeds axis {axis} of device {rank}'s part, whose shape is {part}: \
         each part must be at least as long as the halo is wide"
    )]
    HaloWidth {
        /// The width of the halo.
        width: usize,
        /// The axis of the array.
        axis: usize,
        /// The rank of the device.
        rank: usize,
        /// The shape of its part.
        part: ArrayShape,
    },
    /// Bodies that make different collectives.
    #[error(
        "the devices must make the same collectives in the same order; number {number} is \
         {left} on device 0 and {right} on device {rank}"
    )]
    Divergent {
        /// The number of the first collective that differs, from 1 on.
        number: usize,
        /// The collective of device 0.
        left: String,
        /// The rank of the first other device that differs.
        rank: usize,
        /// The collective of that device.
        right: String,
    },
    /// A value that depends on a collective of a region that has not ended.
    #[error(
        "the value depends on a collective, which runs when the bodies of all devices have ended: \
         return the array from the region, and read it there"
    )]
    Awaiting,
    /// Too many operations behind the first collective of a region.
    #[error(
        "more than {limit} operations of one region depend on its collectives: \
         end the region earlier, for example after each step of a loop"
    )]
    TooManyDeferred {
        /// The maximum.
        limit: usize,
    },
}
