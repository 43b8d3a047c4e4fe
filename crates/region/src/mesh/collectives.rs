//! The collectives of arrays, which the bodies of mesh regions record.

use std::sync::Arc;

use ndarray::{Axis, Dimension, Slice};
use smallvec::{SmallVec, smallvec};

use crate::{
    Array,
    array::concatenated,
    element::{Element, Number},
    error::{Line, MeshErrorKind, Site, UsageErrorKind},
    expr::{AxisSet, Collective, CollectiveKind, MeshMember, Node, NodeRef, Reduction, State},
    mesh::{axis_of, share},
    shape::Shape,
};

/// The elements that a halo has beyond the first and the last device.
///
/// ```
/// use millstream::{Device, sim::{Gpu, SimConfig}};
/// use millstream_region::{Border, Mesh, Sharded, Split};
/// use ndarray::{Array1, Axis, array};
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
/// let mesh = Mesh::new(devices, [("data", 2)])?;
/// let x = mesh.shard(&array![1, 2, 3, 4], Split::<0>::over("data"))?;
/// let zeros: Sharded<Array1<i32>, 0> =
///     mesh.region(|g| g.local(&x).halo("data", Axis(0), 1, Border::Zero))?;
/// assert_eq!(zeros.to_host()?, array![0, 1, 2, 3, 2, 3, 4, 0]);
/// let wrapped: Sharded<Array1<i32>, 0> =
///     mesh.region(|g| g.local(&x).halo("data", Axis(0), 1, Border::Wrap))?;
/// assert_eq!(wrapped.to_host()?, array![4, 1, 2, 3, 2, 3, 4, 1]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// Zeros.
    Zero,
    /// The elements of the device at the other end.
    Wrap,
}

/// Collectives, in the regions of a mesh: the array of each device is combined with those of the
/// devices along one axis of the mesh. All devices must make the same collectives in the same
/// order. A collective runs when the bodies of all devices have ended, so a body cannot read values
/// that depend on one ([`to_host`](Self::to_host), [`item`](Array::item)).
///
/// An error of a collective is the region's error, as for all operations.
impl<T: Element, D: Dimension> Array<T, D> {
    /// Concatenates the arrays of all devices along an axis, in the order of their ranks. They have
    /// equal shapes; [`Sharded::all_gather`](crate::Sharded::all_gather) joins uneven parts.
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    /// use millstream_region::{Mesh, Replicated, Split};
    /// use ndarray::{Array1, Axis, array};
    /// let gpu = Gpu::new(SimConfig::new().devices(2));
    /// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
    /// let mesh = Mesh::new(devices, [("data", 2)])?;
    /// let x = mesh.shard(&array![1, 2, 3, 4], Split::<0>::over("data"))?;
    /// let squares: Replicated<Array1<i32>> = mesh.region(|g| {
    ///     let x = g.local(&x);
    ///     (&x * &x).all_gather("data", Axis(0))
    /// })?;
    /// assert_eq!(squares.to_host()?, array![1, 4, 9, 16]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn all_gather(&self, mesh_axis: &str, along: Axis) -> Self {
        let kind = gathers(along);
        self.collective(kind, mesh_axis, Some(along), |_, mesh_axis, site| {
            Ok(gather(self, mesh_axis, along, None, site.line))
        })
    }

    /// Returns the result of `make`, which gets the place in the mesh and the index of the mesh
    /// axis. The elements must differ along that, and the array have the axis `along`.
    #[track_caller]
    fn collective(
        &self,
        kind: CollectiveKind,
        mesh_axis: &str,
        along: Option<Axis>,
        make: impl FnOnce(&MeshMember, usize, Site) -> Result<Self, UsageErrorKind>,
    ) -> Self {
        let site = Site::of(kind.name());
        let place = self.along_mesh(mesh_axis).and_then(|place| match along {
            Some(Axis(axis)) if axis >= self.ndim() => {
                Err(UsageErrorKind::axis(axis, self.shape()))
            }
            _ => Ok(place),
        });
        let made = place.and_then(|(member, mesh_axis)| make(member, mesh_axis, site));
        made.unwrap_or_else(|problem| self.failed(self.node().dtype, self.shape(), problem, site))
    }

    /// Returns the place in the mesh and the index of the mesh axis along which the elements
    /// differ.
    fn along_mesh(&self, mesh_axis: &str) -> Result<(&MeshMember, usize), UsageErrorKind> {
        let member = self.session().member.as_ref();
        let member = member.ok_or(MeshErrorKind::NotInMesh)?;
        let axis = axis_of(&member.shape, mesh_axis)?;
        if self.node().varies & (1 << axis) == 0 {
            let axis = mesh_axis.to_owned();
            return Err(MeshErrorKind::Replicated { axis }.into());
        }
        Ok((member, axis))
    }

    /// Returns an array that stands for the result of a collective.
    fn awaiting(&self, shape: Shape, varies: AxisSet, line: Line) -> Self {
        let (session, dtype) = (self.session(), self.node().dtype);
        let device = session.device.clone();
        let node = Node::new(device, dtype, shape, State::Awaiting, line);
        Array::of(session, Arc::new(node.varying(varies)))
    }

    fn recorded(
        &self,
        (kind, mesh_axis): (CollectiveKind, usize),
        operands: SmallVec<[NodeRef; 2]>,
        (shape, varies): (Shape, AxisSet),
        location: Line,
    ) -> Self {
        let result = self.awaiting(shape, varies, location);
        let member = self.session().member.as_ref();
        member
            .expect("the session is one of a mesh")
            .record(Collective {
                kind,
                mesh_axis,
                operands,
                results: smallvec![Some(NodeRef::clone(result.node()))],
                location,
            });
        result
    }
}

fn gathers(along: Axis) -> CollectiveKind {
    let axis = along.index();
    CollectiveKind::AllGather { axis }
}

/// Records a gathering of parts. `total` is the length of all parts together along the axis, if it
/// does not follow from that of this part.
pub(super) fn gather<T: Element, D: Dimension>(
    part: &Array<T, D>,
    mesh_axis: usize,
    along: Axis,
    total: Option<usize>,
    line: Line,
) -> Array<T, D> {
    let member = part.session().member.as_ref();
    let member = member.expect("the session is one of a mesh");
    let mut shape = part.node().shape.clone();
    let all = shape[along.index()].saturating_mul(member.shape.axes[mesh_axis].1);
    shape[along.index()] = total.unwrap_or(all);
    let varies = part.node().varies & !(1 << mesh_axis);
    let operands = smallvec![NodeRef::clone(part.node())];
    part.recorded((gathers(along), mesh_axis), operands, (shape, varies), line)
}

impl<T: Number, D: Dimension> Array<T, D> {
    /// Adds the arrays of all devices element by element. Every device gets the sum.
    ///
    /// GPUs that are connected by NCCL add in an order that depends on the machine. All others,
    /// simulated devices included, add in the order of the ranks, so that every run gives the same
    /// bits.
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    /// use millstream_region::{Mesh, Replicated, Split};
    /// use ndarray::{Array0, arr0, array};
    /// let gpu = Gpu::new(SimConfig::new().devices(2));
    /// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
    /// let mesh = Mesh::new(devices, [("data", 2)])?;
    /// let x = mesh.shard(&array![1.0, 2.0, 3.0], Split::<0>::over("data"))?;
    /// let sum: Replicated<Array0<f64>> =
    ///     mesh.region(|g| g.local(&x).sum().all_reduce("data"))?;
    /// assert_eq!(sum.to_host()?, arr0(6.0));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce(&self, mesh_axis: &str) -> Self {
        self.reduce_over(Reduction::Sum, mesh_axis)
    }

    /// Gives every device the maxima of the arrays of all devices, element by element.
    #[track_caller]
    pub fn all_reduce_max(&self, mesh_axis: &str) -> Self {
        self.reduce_over(Reduction::Maximum, mesh_axis)
    }

    /// Gives every device the minima of the arrays of all devices, element by element.
    #[track_caller]
    pub fn all_reduce_min(&self, mesh_axis: &str) -> Self {
        self.reduce_over(Reduction::Minimum, mesh_axis)
    }

    #[track_caller]
    fn reduce_over(&self, reduction: Reduction, mesh_axis: &str) -> Self {
        let kind = CollectiveKind::AllReduce(reduction);
        self.collective(kind, mesh_axis, None, |_, mesh_axis, site| {
            let varies = self.node().varies & !(1 << mesh_axis);
            let (operand, shape) = (NodeRef::clone(self.node()), self.node().shape.clone());
            Ok(self.recorded(
                (kind, mesh_axis),
                smallvec![operand],
                (shape, varies),
                site.line,
            ))
        })
    }

    /// Adds the arrays of all devices element by element, in the order of their ranks, and gives
    /// every device a part of the sum, which is split along an axis as by
    /// [`Mesh::shard`](crate::Mesh::shard).
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    /// use millstream_region::{Mesh, Sharded, Split};
    /// use ndarray::{Array1, Axis, array};
    /// let gpu = Gpu::new(SimConfig::new().devices(2));
    /// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
    /// let mesh = Mesh::new(devices, [("data", 2)])?;
    /// let x = mesh.shard(&array![[1, 2], [10, 20]], Split::<0>::over("data"))?;
    /// let sums: Sharded<Array1<i32>, 0> =
    ///     mesh.region(|g| g.local(&x).row(0).reduce_scatter("data", Axis(0)))?;
    /// assert_eq!(sums.parts()[1].to_host()?, array![22]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce_scatter(&self, mesh_axis: &str, along: Axis) -> Self {
        let axis = along.index();
        let kind = CollectiveKind::ReduceScatter { axis };
        self.collective(kind, mesh_axis, Some(along), |member, mesh_axis, site| {
            let (length, count) = (self.shape()[axis], member.shape.axes[mesh_axis].1);
            let strip = |position: usize| {
                let range = share(length, count, position);
                NodeRef::clone(self.along_axis(along, Slice::from(range), site).node())
            };
            let operands: SmallVec<[NodeRef; 2]> = (0..count).map(strip).collect();
            let own = &operands[member.shape.position(member.rank, mesh_axis)];
            let result = (own.shape.clone(), self.node().varies);
            Ok(self.recorded((kind, mesh_axis), operands, result, site.line))
        })
    }

    /// Adds the neighbours' elements at both ends of an axis, `width` of them at each, for
    /// stencils. The neighbours of a device are those before and after it along the axis of the
    /// mesh; `border` says what is beyond the first and the last.
    ///
    /// The neighbours' elements are copied while kernels run that do not depend on them.
    #[track_caller]
    pub fn halo(&self, mesh_axis: &str, along: Axis, width: usize, border: Border) -> Self {
        let axis = along.index();
        let wraps = border == Border::Wrap;
        let kind = CollectiveKind::Halo { axis, width, wraps };
        self.collective(kind, mesh_axis, Some(along), |member, mesh_axis, site| {
            let length = self.shape()[axis];
            if width > length {
                let (rank, part) = (member.rank, self.shape().into());
                return Err(MeshErrorKind::HaloWidth {
                    width,
                    axis,
                    rank,
                    part,
                }
                .into());
            }
            let strip = |range| self.along_axis(along, Slice::from(range), site);
            let (first, last) = (strip(0..width), strip(length - width..length));
            let position = member.shape.position(member.rank, mesh_axis);
            let end = member.shape.axes[mesh_axis].1 - 1;
            let sides = [position == 0, position == end].map(|is_end| {
                if is_end && !wraps {
                    return (first.zeros_like(), None);
                }
                let (shape, varies) = (first.node().shape.clone(), self.node().varies);
                let side = first.awaiting(shape, varies, site.line);
                let node = NodeRef::clone(side.node());
                (side, Some(node))
            });
            let [(before, front), (after, behind)] = sides;
            member.record(Collective {
                kind,
                mesh_axis,
                operands: smallvec![first.node().clone(), last.node().clone()],
                results: smallvec![front, behind],
                location: site.line,
            });
            let joined = concatenated(along, &[&before, self, &after], site);
            Ok(joined.unwrap_or_else(|error| {
                Array::failed_with(self.session(), self.shape(), error, site.line)
            }))
        })
    }
}
