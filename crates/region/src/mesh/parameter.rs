//! Parameters of the bodies of mesh regions.

use std::panic::Location;

use ndarray::Dimension;

use crate::{
    Array,
    element::{Element, sealed::Sealed},
    error::UsageError,
    expr::AxisSet,
    mesh::{Mesh, MeshArray, MeshRegion, Replicated, Sharded},
};

/// A parameter type of the regions of a mesh: replicated and sharded arrays, of which the body gets
/// the device's array, and plain values.
///
/// ```
/// use millstream_region::{Array, MeshParameter, Sharded};
///
/// fn the_same<T>(_: std::marker::PhantomData<T>, _: std::marker::PhantomData<T>) {}
/// use std::marker::PhantomData;
/// type OfMatrix = <Sharded<ndarray::Array2<f32>, 0> as MeshParameter>::Body;
/// the_same(PhantomData::<OfMatrix>, PhantomData::<Array<f32, ndarray::Ix2>>);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a region of a mesh",
    note = "parameters are `&Replicated<…>`, `&Sharded<…, AXIS>` and plain values; \
            `Mesh::replicate` and `Mesh::shard` copy an array of the host to a mesh",
    note = "a `Partial` holds summands: its `all_reduce` and `reduce_scatter` make an array of them"
)]
pub trait MeshParameter {
    /// The parameter's type in the body.
    type Body;

    /// Returns the body's value on one device.
    #[doc(hidden)]
    fn capture(&self, region: &MeshRegion, location: &'static Location<'static>) -> Self::Body;
}

impl<A: MeshArray> MeshParameter for Replicated<A> {
    type Body = Array<A::Element, A::Dim>;

    fn capture(&self, region: &MeshRegion, location: &'static Location<'static>) -> Self::Body {
        checked(&self.mesh, region, &self.parts, 0, location)
    }
}

impl<A: MeshArray, const AXIS: usize> MeshParameter for Sharded<A, AXIS> {
    type Body = Array<A::Element, A::Dim>;

    fn capture(&self, region: &MeshRegion, location: &'static Location<'static>) -> Self::Body {
        checked(
            &self.mesh,
            region,
            &self.parts,
            1 << self.mesh_axis,
            location,
        )
    }
}

/// Returns the device's part, or a failed array if it is on another mesh.
fn checked<T: Element, D: Dimension>(
    mesh: &Mesh,
    region: &MeshRegion,
    parts: &[Array<T, D>],
    varies: AxisSet,
    location: &'static Location<'static>,
) -> Array<T, D> {
    if let Err(error) = region.mesh.check_same(mesh, "region", location) {
        return failed(region, parts[0].shape(), error, location);
    }
    region.capture(parts, varies, location)
}

fn failed<T: Element, D>(
    region: &MeshRegion,
    shape: &[usize],
    error: UsageError,
    location: &'static Location<'static>,
) -> Array<T, D> {
    let session = region.region.session();
    Array::of(
        session,
        session.fail(<T as Sealed>::DTYPE, shape, error, location),
    )
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl MeshParameter for $type {
            type Body = Self;

            fn capture(&self, _: &MeshRegion, _: &'static Location<'static>) -> Self {
                self.clone()
            }
        }
    )*};
}

plain!(
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    isize,
    u8,
    u16,
    u32,
    u64,
    usize,
    bool,
    char,
    String,
    &'static str,
    ndarray::Axis
);
