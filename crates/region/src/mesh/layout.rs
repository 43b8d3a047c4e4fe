//! Arrays on a mesh: `Replicated`, `Sharded` and `Partial`.

use std::{fmt, panic::Location};

use ndarray::{Axis, Dimension, RemoveAxis};

use crate::{
    Array, Region,
    element::{Element, Number},
    error::Result,
    host::{ArrayDownload, PendingValue},
    mesh::{Mesh, collectives},
};

/// A host array type whose elements a mesh can hold.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be spread over a mesh",
    note = "name an owned array of `ndarray` of numbers or `bool`"
)]
pub trait MeshArray: private::Sealed {
    /// The type of the elements.
    type Element: Element;
    /// The dimension type.
    type Dim: Dimension;
}

impl<T: Element, D: Dimension> MeshArray for ndarray::Array<T, D> {
    type Element = T;
    type Dim = D;
}

mod private {
    pub trait Sealed {}
    impl<T, D: ndarray::Dimension> Sealed for ndarray::Array<T, D> {}
}

/// The device arrays of a host array type.
pub(super) type Parts<A> = Vec<Array<<A as MeshArray>::Element, <A as MeshArray>::Dim>>;

/// An array with a copy on every device of a mesh.
///
/// The types of arrays on a mesh keep layouts apart: only a region or [`Mesh::replicate`] makes a
/// `Replicated`, and a region checks that its elements are the same on every device.
///
/// ```
/// use millstream::Device;
/// use millstream_region::Mesh;
/// use ndarray::array;
/// let mesh = Mesh::new([Device::simulated()?], [("data", 1)])?;
/// let weights = mesh.replicate(&array![1.0_f32, 2.0])?;
/// assert_eq!(weights.to_host()?, array![1.0, 2.0]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
pub struct Replicated<A: MeshArray> {
    pub(super) mesh: Mesh,
    pub(super) parts: Parts<A>,
}

/// An array that is split along `AXIS`: every device along one axis of a mesh has a part of it.
/// Along the other axes of the mesh the parts are replicated.
///
/// [`Mesh::shard`] makes parts of equal length, except the last ones, which are shorter if the
/// length is no multiple. The parts that a region returns may have any lengths along `AXIS`.
///
/// ```
/// use millstream::{Device, sim::{Gpu, SimConfig}};
/// use millstream_region::{Mesh, Split};
/// use ndarray::array;
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
/// let mesh = Mesh::new(devices, [("data", 2)])?;
/// let x = mesh.shard(&array![1, 2, 3], Split::<0>::over("data"))?;
/// assert_eq!((x.parts()[0].shape(), x.parts()[1].shape()), (&[2][..], &[1][..]));
/// assert_eq!(x.to_host()?, array![1, 2, 3]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
pub struct Sharded<A: MeshArray, const AXIS: usize> {
    pub(super) mesh: Mesh,
    pub(super) mesh_axis: usize,
    pub(super) parts: Parts<A>,
}

/// An array that is a sum: every device along one axis of a mesh has a summand.
///
/// It is the result of a region that leaves the sum over the devices to its caller. No region takes
/// it and no method reads it: only [`all_reduce`](Self::all_reduce) and
/// [`reduce_scatter`](Self::reduce_scatter) make an array of it, so that a sum cannot be forgotten.
///
/// ```
/// use millstream::{Device, sim::{Gpu, SimConfig}};
/// use millstream_region::{Mesh, Partial, Sharded, Split, region};
/// use ndarray::{Array1, array};
/// #[region(mesh)]
/// fn squares(x: &Sharded<Array1<f32>, 0>) -> Partial<Array1<f32>> {
///     (x * x).sum_keepdims(&[ndarray::Axis(0)])
/// }
///
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
/// let mesh = Mesh::new(devices, [("data", 2)])?;
/// let x = mesh.shard(&array![1.0, 2.0, 3.0], Split::<0>::over("data"))?;
/// let sum = squares(&mesh, &x)?.all_reduce("data")?;
/// assert_eq!(sum.to_host()?, array![14.0]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
///
/// Without the reduction there is nothing to read:
///
/// ```compile_fail,E0599
/// # use millstream_region::Partial;
/// fn read(sum: &Partial<ndarray::Array1<f32>>) -> millstream_region::Result<()> {
///     println!("{}", sum.to_host()?);
///     Ok(())
/// }
/// ```
#[must_use = "summands are no array yet: call `all_reduce` or `reduce_scatter`"]
pub struct Partial<A: MeshArray> {
    pub(super) mesh: Mesh,
    pub(super) mesh_axis: usize,
    pub(super) parts: Parts<A>,
}

impl<A: MeshArray> Replicated<A> {
    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the lengths of the axes.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.parts[0].shape()
    }

    /// Returns the copies, by the rank of their device, for regions of single devices.
    pub fn copies(&self) -> &[Array<A::Element, A::Dim>] {
        &self.parts
    }

    /// Downloads the elements of the first device's copy. Waits for nothing else than the work that
    /// they depend on.
    ///
    /// # Errors
    ///
    /// If an index was out of bounds, there is not enough memory, or a device is lost.
    pub fn to_host(&self) -> Result<ndarray::Array<A::Element, A::Dim>> {
        self.parts[0].to_host()
    }
}

impl<A: MeshArray, const AXIS: usize> Sharded<A, AXIS> {
    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the lengths of the axes of the whole array.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self.parts[0].shape().to_vec();
        let lengths = self.ranks().map(|rank| self.parts[rank].shape()[AXIS]);
        shape[AXIS] = lengths.sum();
        shape
    }

    /// Returns the parts, by the rank of their device, for regions of single devices.
    pub fn parts(&self) -> &[Array<A::Element, A::Dim>] {
        &self.parts
    }

    /// Returns the ranks whose parts together are the array, in their order.
    fn ranks(&self) -> impl Iterator<Item = usize> {
        self.mesh.shape().group(0, self.mesh_axis).into_iter()
    }

    /// Downloads the elements of all parts, concurrently. Waits for nothing else than the work that
    /// they depend on.
    ///
    /// # Errors
    ///
    /// If an index was out of bounds, there is not enough memory, or a device is lost.
    pub fn to_host(&self) -> Result<ndarray::Array<A::Element, A::Dim>>
    where
        A::Dim: RemoveAxis,
    {
        let mut downloads = Vec::new();
        for rank in self.ranks() {
            let part = &self.parts[rank];
            let session = part.session();
            let download = ArrayDownload::begin_transfer(part, &Region::of(session))?;
            let checks = session.check_result(std::slice::from_ref(part.node()))?;
            downloads.push((download, checks));
        }
        let mut parts = Vec::new();
        for (mut download, mut checks) in downloads {
            checks.wait()?;
            download.wait()?;
            parts.push(download.take());
        }
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        Ok(ndarray::concatenate(Axis(AXIS), &views)
            .expect("the parts differ in the length of the axis alone"))
    }

    /// Gives every device a copy of the whole array; the parts may be uneven.
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    /// use millstream_region::{Mesh, Split};
    /// use ndarray::array;
    /// let gpu = Gpu::new(SimConfig::new().devices(2));
    /// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
    /// let mesh = Mesh::new(devices, [("data", 2)])?;
    /// let x = mesh.shard(&array![1, 2, 3], Split::<0>::over("data"))?;
    /// assert_eq!(x.all_gather()?.copies()[1].to_host()?, array![1, 2, 3]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or a device is lost.
    #[track_caller]
    pub fn all_gather(&self) -> Result<Replicated<A>> {
        let (location, length) = (Location::caller(), self.shape()[AXIS]);
        self.mesh.run::<Replicated<A>>(location, |g| {
            let part = g.capture(&self.parts, 1 << self.mesh_axis, location);
            collectives::gather(&part, self.mesh_axis, Axis(AXIS), Some(length), location)
        })
    }
}

impl<A: MeshArray> Partial<A>
where
    A::Element: Number,
{
    /// Adds the summands, and gives every device the sum; [`Array::all_reduce`] states the order.
    ///
    /// # Errors
    ///
    /// If `axis` is not the axis of the mesh along which the summands differ, there is not enough
    /// memory, or a device is lost.
    #[track_caller]
    pub fn all_reduce(&self, axis: &str) -> Result<Replicated<A>> {
        let location = Location::caller();
        self.mesh.run::<Replicated<A>>(location, |g| {
            let summand = g.capture(&self.parts, 1 << self.mesh_axis, location);
            summand.all_reduce(axis)
        })
    }

    /// Adds the summands, in the order of their ranks, and gives every device its part of the sum,
    /// which is split as by [`Mesh::shard`].
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    /// use millstream_region::{Mesh, Partial, Sharded, Split};
    /// use ndarray::{Array1, array};
    /// let gpu = Gpu::new(SimConfig::new().devices(2));
    /// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
    /// let mesh = Mesh::new(devices, [("data", 2)])?;
    /// let x = mesh.shard(&array![[1, 2, 3], [10, 20, 30]], Split::<0>::over("data"))?;
    /// let summands: Partial<Array1<i32>> = mesh.region(|g| g.local(&x).row(0))?;
    /// let sum: Sharded<_, 0> = summands.reduce_scatter("data")?;
    /// assert_eq!(sum.parts()[0].to_host()?, array![11, 22]);
    /// assert_eq!(sum.parts()[1].to_host()?, array![33]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`all_reduce`](Self::all_reduce); also if the array does not have the axis `AXIS`.
    #[track_caller]
    pub fn reduce_scatter<const AXIS: usize>(&self, axis: &str) -> Result<Sharded<A, AXIS>> {
        let location = Location::caller();
        self.mesh.run::<Sharded<A, AXIS>>(location, |g| {
            let summand = g.capture(&self.parts, 1 << self.mesh_axis, location);
            summand.reduce_scatter(axis, Axis(AXIS))
        })
    }
}

/// Returns the arrays with sessions of their own, so that they do not keep a region's streams
/// alive.
pub(super) fn resident<T: Element, D: Dimension>(arrays: Vec<Array<T, D>>) -> Vec<Array<T, D>> {
    let alone = |array: Array<T, D>| {
        let session = crate::expr::Session::new(array.device().clone());
        array.in_session(&session)
    };
    arrays.into_iter().map(alone).collect()
}

macro_rules! common {
    ($([$($generic:tt)*] $name:ident $type:ty { $($field:ident),* };)*) => {$(
        impl<A: MeshArray, $($generic)*> Clone for $type {
            fn clone(&self) -> Self {
                Self { $($field: self.$field.clone()),* }
            }
        }

        impl<A: MeshArray, $($generic)*> fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("mesh", &self.mesh)
                    .field("parts", &self.parts)
                    .finish_non_exhaustive()
            }
        }
    )*};
}

common! {
    [] Replicated Replicated<A> { mesh, parts };
    [const AXIS: usize] Sharded Sharded<A, AXIS> { mesh, mesh_axis, parts };
    [] Partial Partial<A> { mesh, mesh_axis, parts };
}
