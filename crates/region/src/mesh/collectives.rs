//! The collectives of arrays, which the bodies of mesh regions record.

use std::{panic::Location, sync::Arc};

use ndarray::{Axis, Dimension, Slice};
use smallvec::{SmallVec, smallvec};

use crate::{
    Array,
    array::concatenated,
    element::{Element, Number},
    error::{MeshErrorKind, UsageErrorKind},
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
///
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
    ///
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
    #[must_use]
    pub fn all_gather(&self, mesh_axis: &str, along: Axis) -> Self {
        let location = Location::caller();
        match self.along_mesh(mesh_axis) {
            Ok((_, mesh_axis)) => gather(self, mesh_axis, along, None, location),
            Err(problem) => self.refuse("all_gather", problem, location),
        }
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

    fn refuse(
        &self,
        operation: &'static str,
        problem: UsageErrorKind,
        location: &'static Location<'static>,
    ) -> Self {
        self.failed(
            self.node().dtype,
            self.shape(),
            operation,
            problem,
            location,
        )
    }

    /// Returns an array that stands for the result of a collective.
    fn awaiting(
        &self,
        shape: Shape,
        varies: AxisSet,
        location: &'static Location<'static>,
    ) -> Self {
        let (session, dtype) = (self.session(), self.node().dtype);
        let node = Node::new(
            session.device.clone(),
            dtype,
            shape,
            State::Awaiting,
            location,
        );
        Array::of(session, Arc::new(node.varying(varies)))
    }
}

/// Records a gathering of parts. `total` is the length of all parts together along the axis, if it
/// does not follow from that of this part.
pub(super) fn gather<T: Element, D: Dimension>(
    part: &Array<T, D>,
    mesh_axis: usize,
    along: Axis,
    total: Option<usize>,
    location: &'static Location<'static>,
) -> Array<T, D> {
    let kind = CollectiveKind::AllGather {
        axis: along.index(),
    };
    if along.index() >= part.ndim() {
        return part.missing_axis(along, part.shape(), kind.name(), location);
    }
    let member = part.session().member.as_ref();
    let member = member.expect("the session is one of a mesh");
    let mut shape = part.node().shape.clone();
    let all = shape[along.index()].saturating_mul(member.shape.axes[mesh_axis].1);
    shape[along.index()] = total.unwrap_or(all);
    let result = part.awaiting(shape, part.node().varies & !(1 << mesh_axis), location);
    member.record(Collective {
        kind,
        mesh_axis,
        operands: smallvec![NodeRef::clone(part.node())],
        results: smallvec![Some(NodeRef::clone(result.node()))],
        location,
    });
    result
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
    ///
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
    #[must_use]
    pub fn all_reduce(&self, mesh_axis: &str) -> Self {
        self.reduce_over(Reduction::Sum, mesh_axis, Location::caller())
    }

    /// Gives every device the maxima of the arrays of all devices, element by element.
    #[track_caller]
    #[must_use]
    pub fn all_reduce_max(&self, mesh_axis: &str) -> Self {
        self.reduce_over(Reduction::Maximum, mesh_axis, Location::caller())
    }

    /// Gives every device the minima of the arrays of all devices, element by element.
    #[track_caller]
    #[must_use]
    pub fn all_reduce_min(&self, mesh_axis: &str) -> Self {
        self.reduce_over(Reduction::Minimum, mesh_axis, Location::caller())
    }

    fn reduce_over(
        &self,
        reduction: Reduction,
        mesh_axis: &str,
        location: &'static Location<'static>,
    ) -> Self {
        let kind = CollectiveKind::AllReduce(reduction);
        let (member, mesh_axis) = match self.along_mesh(mesh_axis) {
            Ok(found) => found,
            Err(problem) => return self.refuse(kind.name(), problem, location),
        };
        let (shape, varies) = (self.node().shape.clone(), self.node().varies);
        let result = self.awaiting(shape, varies & !(1 << mesh_axis), location);
        member.record(Collective {
            kind,
            mesh_axis,
            operands: smallvec![NodeRef::clone(self.node())],
            results: smallvec![Some(NodeRef::clone(result.node()))],
            location,
        });
        result
    }

    /// Adds the arrays of all devices element by element, in the order of their ranks, and gives
    /// every device a part of the sum, which is split along an axis as by
    /// [`Mesh::shard`](crate::Mesh::shard).
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    /// use millstream_region::{Mesh, Sharded, Split};
    /// use ndarray::{Array1, Axis, array};
    ///
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
    #[must_use]
    pub fn reduce_scatter(&self, mesh_axis: &str, along: Axis) -> Self {
        let location = Location::caller();
        let axis = along.index();
        let kind = CollectiveKind::ReduceScatter { axis };
        let (member, mesh_axis) = match self.along_mesh(mesh_axis) {
            Ok(found) => found,
            Err(problem) => return self.refuse(kind.name(), problem, location),
        };
        if axis >= self.ndim() {
            return self.missing_axis(along, self.shape(), kind.name(), location);
        }
        let (length, count) = (self.shape()[axis], member.shape.axes[mesh_axis].1);
        let strip = |position: usize| {
            let range = share(length, count, position);
            self.along_axis(along, Slice::from(range), kind.name(), location)
        };
        let operands: SmallVec<[NodeRef; 2]> = (0..count)
            .map(|position| NodeRef::clone(strip(position).node()))
            .collect();
        let own = &operands[member.shape.position(member.rank, mesh_axis)];
        let result = self.awaiting(own.shape.clone(), self.node().varies, location);
        member.record(Collective {
            kind,
            mesh_axis,
            operands,
            results: smallvec![Some(NodeRef::clone(result.node()))],
            location,
        });
        result
    }

    /// Adds the neighbours' elements at both ends of an axis, `width` of them at each, for
    /// stencils. The neighbours of a device are those before and after it along the axis of the
    /// mesh; `border` says what is beyond the first and the last.
    ///
    /// The neighbours' elements are copied while kernels run that do not depend on them.
    #[track_caller]
    #[must_use]
    pub fn halo(&self, mesh_axis: &str, along: Axis, width: usize, border: Border) -> Self {
        let location = Location::caller();
        let axis = along.index();
        let wraps = border == Border::Wrap;
        let kind = CollectiveKind::Halo { axis, width, wraps };
        let (member, mesh_axis) = match self.along_mesh(mesh_axis) {
            Ok(found) => found,
            Err(problem) => return self.refuse(kind.name(), problem, location),
        };
        if axis >= self.ndim() {
            return self.missing_axis(along, self.shape(), kind.name(), location);
        }
        let length = self.shape()[axis];
        if width > length {
            let problem = MeshErrorKind::HaloWidth {
                width,
                axis,
                rank: member.rank,
                part: self.shape().into(),
            };
            return self.refuse(kind.name(), problem.into(), location);
        }
        let strip = |range| self.along_axis(along, Slice::from(range), kind.name(), location);
        let (first, last) = (strip(0..width), strip(length - width..length));
        let position = member.shape.position(member.rank, mesh_axis);
        let is_end = [
            position == 0,
            position + 1 == member.shape.axes[mesh_axis].1,
        ];
        let sides = is_end.map(|is_end| {
            if is_end && !wraps {
                return (first.zeros_like(), None);
            }
            let (shape, varies) = (first.node().shape.clone(), self.node().varies);
            let side = first.awaiting(shape, varies, location);
            let node = NodeRef::clone(side.node());
            (side, Some(node))
        });
        let [(before, front), (after, behind)] = sides;
        member.record(Collective {
            kind,
            mesh_axis,
            operands: [first.node(), last.node()].into_iter().cloned().collect(),
            results: smallvec![front, behind],
            location,
        });
        let parts = [&before, self, &after];
        concatenated(along, &parts, kind.name(), location).unwrap_or_else(|error| {
            let session = self.session();
            let node = session.fail(self.node().dtype, self.shape(), error, location);
            Array::of(session, node)
        })
    }
}
