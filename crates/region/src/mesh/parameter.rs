//! Parameters of the bodies of mesh regions.

use crate::{
    Array,
    error::{Line, Site},
    expr::AxisSet,
    host::plain_types,
    mesh::{Mesh, MeshArray, MeshRegion, Replicated, Sharded, layout::Parts},
};

/// A parameter type of the regions of a mesh: plain values, and replicated or sharded arrays. The
/// body gets the device's array.
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
    fn capture(&self, region: &MeshRegion, line: Line) -> Self::Body;
}

impl<A: MeshArray> MeshParameter for Replicated<A> {
    type Body = Array<A::Element, A::Dim>;

    fn capture(&self, region: &MeshRegion, line: Line) -> Self::Body {
        checked::<A>(&self.mesh, region, &self.parts, 0, line)
    }
}

impl<A: MeshArray, const AXIS: usize> MeshParameter for Sharded<A, AXIS> {
    type Body = Array<A::Element, A::Dim>;

    fn capture(&self, region: &MeshRegion, line: Line) -> Self::Body {
        checked::<A>(&self.mesh, region, &self.parts, 1 << self.mesh_axis, line)
    }
}

/// Returns the device's part, or a failed array if it is on another mesh.
fn checked<A: MeshArray>(
    mesh: &Mesh,
    region: &MeshRegion,
    parts: &Parts<A>,
    varies: AxisSet,
    line: Line,
) -> Array<A::Element, A::Dim> {
    let site = Site {
        operation: "region",
        line,
    };
    match region.mesh.check_same(mesh, site) {
        Ok(()) => region.capture(parts, varies, line),
        Err(error) => Array::failed_with(region.region.session(), parts[0].shape(), error, line),
    }
}

macro_rules! plain {
    ($($form:ident: $($type:ty),*;)*) => {$($(
        impl MeshParameter for $type {
            type Body = Self;

            fn capture(&self, _: &MeshRegion, _: Line) -> Self {
                self.clone()
            }
        }
    )*)*};
}

plain_types!(plain);
