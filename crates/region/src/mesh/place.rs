//! From the host to a mesh: `Mesh::shard` and `Mesh::replicate`.

use std::panic::Location;

use ndarray::{ArrayBase, Axis, Data, Dimension, Slice};

use crate::{
    Array, Region,
    element::Element,
    error::{Line, Result, Site, UsageErrorKind},
    mesh::{Mesh, Replicated, Sharded, share},
};

/// The axis of a mesh along which the axis `AXIS` of an array is split.
///
/// ```
/// use millstream::Device;
/// use millstream_region::{Mesh, Sharded, Split};
/// use ndarray::{Array2, array};
/// let mesh = Mesh::new([Device::simulated()?], [("data", 1)])?;
/// let rows: Sharded<Array2<i32>, 0> = mesh.shard(&array![[1, 2]], Split::over("data"))?;
/// let columns = mesh.shard(&array![[1, 2]], Split::<1>::over("data"))?;
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split<'a, const AXIS: usize> {
    mesh_axis: &'a str,
}

impl<'a, const AXIS: usize> Split<'a, AXIS> {
    /// Splits along the axis of the mesh with this name.
    #[must_use]
    pub fn over(mesh_axis: &'a str) -> Self {
        Self { mesh_axis }
    }
}

impl Mesh {
    /// Copies a part of a host array to each device. All parts are equally long along the axis
    /// `AXIS`, except the last ones if its length is no multiple of the number of devices. The
    /// elements are copied before this returns.
    ///
    /// # Errors
    ///
    /// If the mesh has no such axis, the array does not have the axis `AXIS`, there is not enough
    /// memory, or a device is lost.
    #[track_caller]
    pub fn shard<const AXIS: usize, T: Element, S: Data<Elem = T>, D: Dimension>(
        &self,
        array: &ArrayBase<S, D>,
        split: Split<'_, AXIS>,
    ) -> Result<Sharded<ndarray::Array<T, D>, AXIS>> {
        let site = Site::of("Mesh::shard");
        let mesh_axis = self.axis_index(split.mesh_axis, site)?;
        if AXIS >= array.ndim() {
            return Err(site.error(UsageErrorKind::axis(AXIS, array.shape())).into());
        }
        let (length, count) = (array.shape()[AXIS], self.shape().axes[mesh_axis].1);
        let parts = self.place(site.line, |rank| {
            let range = share(length, count, self.shape().position(rank, mesh_axis));
            array.slice_axis(Axis(AXIS), Slice::from(range))
        })?;
        Ok(Sharded {
            mesh: self.clone(),
            mesh_axis,
            parts,
        })
    }

    /// Copies a host array to each device. The elements are copied before this returns.
    ///
    /// # Errors
    ///
    /// If the array has more than 6 axes, there is not enough memory, or a device is lost.
    #[track_caller]
    pub fn replicate<T: Element, S: Data<Elem = T>, D: Dimension>(
        &self,
        array: &ArrayBase<S, D>,
    ) -> Result<Replicated<ndarray::Array<T, D>>> {
        let parts = self.place(Location::caller(), |_| array.view())?;
        Ok(Replicated {
            mesh: self.clone(),
            parts,
        })
    }

    fn place<'a, T: Element, D: Dimension>(
        &self,
        line: Line,
        part: impl Fn(usize) -> ndarray::ArrayView<'a, T, D>,
    ) -> Result<Vec<Array<T, D>>> {
        let devices = self.devices().iter().enumerate();
        let placed = devices.map(|(rank, device)| {
            let array = Region::new(device.clone()).upload(&part(rank), line);
            array.node().failure().map_or(Ok(array), Err)
        });
        placed.collect()
    }
}
