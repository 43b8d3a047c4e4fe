//! Results of the regions of a mesh, and the checks of their layouts.

use ndarray::Dimension;

use crate::{
    Array, OutputNode,
    element::Element,
    error::{Error, MeshErrorKind, Result, UsageError, UsageErrorKind},
    expr::AxisSet,
    mesh::{Mesh, MeshArray, Partial, Replicated, Sharded, layout::resident},
};

/// A result type of the regions of a mesh: [`Replicated`], [`Sharded`], [`Partial`], and tuples of
/// those. The results stay on the devices.
///
/// The body returns a device array for each of them. Before anything is enqueued, the region checks
/// that a `Replicated` result has the same elements on each device, which it knows from the
/// operations: they differ if an operand does, until a collective makes them the same.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a region of a mesh",
    note = "results are `Replicated<…>`, `Sharded<…, AXIS>`, `Partial<…>`, tuples of those, and a \
            `Result` of them"
)]
pub trait MeshOutput: Sized {
    /// The type that the body returns for this result.
    type Body;
    /// The type that the caller gets: the result type itself, or for a `Result` its value, because
    /// the call returns its error.
    type Value;

    /// Checks the results of all devices, by rank.
    #[doc(hidden)]
    fn check(bodies: &[&Self::Body], mesh: &Mesh) -> Result<()>;

    /// Calls `visit` with the node of each array, or returns the error that the body returned.
    #[doc(hidden)]
    fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()>;

    /// Combines the results of all devices, which are enqueued and were checked.
    #[doc(hidden)]
    fn assemble(bodies: Vec<Self::Body>, mesh: &Mesh) -> Self::Value;
}

/// Implements results of one array, which a function checks.
macro_rules! arrays {
    ($([$($generic:tt)*] $name:ident $type:ty { $($mesh_axis:ident)? } $check:expr;)*) => {$(
        impl<A: MeshArray, $($generic)*> MeshOutput for $type {
            type Body = Array<A::Element, A::Dim>;
            type Value = Self;

            fn check(bodies: &[&Self::Body], mesh: &Mesh) -> Result<()> {
                let check: fn(DeclaredResult<'_, A::Element, A::Dim>) -> Result<()> = $check;
                check(DeclaredResult::of(stringify!($name), bodies, mesh))
            }

            fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
                visit(OutputNode::of(body));
                Ok(())
            }

            fn assemble(bodies: Vec<Self::Body>, mesh: &Mesh) -> Self {
                Self {
                    mesh: mesh.clone(),
                    $($mesh_axis: $mesh_axis(stringify!($name), &bodies, mesh),)?
                    parts: resident(bodies),
                }
            }
        }
    )*};
}

arrays! {
    [] Replicated Replicated<A> {} |result| {
        if result.varies != 0 {
            let advice = "end it with `.all_reduce(…)` or `.all_gather(…)`, or declare it as \
                          `Sharded` or `Partial`";
            return Err(result.layout_error(advice));
        }
        result.same_shapes(None)
    };
    [const AXIS: usize] Sharded Sharded<A, AXIS> { mesh_axis } |result| {
        let first = result.bodies[0];
        if AXIS >= first.ndim() {
            return Err(result.error(UsageErrorKind::axis(AXIS, first.shape())));
        }
        let mesh_axis = result.mesh_axis()?;
        result.same_shapes(Some((AXIS, mesh_axis)))
    };
    [] Partial Partial<A> { mesh_axis } |result| {
        if result.varies == 0 {
            return Err(result.not_varying());
        }
        result.mesh_axis()?;
        result.same_shapes(None)
    };
}

/// Returns the mesh axis of results that were checked.
fn mesh_axis<T: Element, D: Dimension>(
    declared: &'static str,
    bodies: &[Array<T, D>],
    mesh: &Mesh,
) -> usize {
    let bodies: Vec<_> = bodies.iter().collect();
    let axis = DeclaredResult::of(declared, &bodies, mesh).mesh_axis();
    axis.expect("the layout was checked")
}

/// One result of all devices, by rank.
struct DeclaredResult<'b, T, D> {
    declared: &'static str,
    bodies: &'b [&'b Array<T, D>],
    mesh: &'b Mesh,
    /// The mesh axes along which the elements differ.
    varies: AxisSet,
}

impl<'b, T: Element, D: Dimension> DeclaredResult<'b, T, D> {
    fn of(declared: &'static str, bodies: &'b [&'b Array<T, D>], mesh: &'b Mesh) -> Self {
        let varies = bodies.iter().map(|body| body.node().varies);
        Self {
            declared,
            bodies,
            mesh,
            varies: varies.fold(0, |all, one| all | one),
        }
    }

    /// Returns an error with the line of the result's last operation.
    fn error(&self, problem: impl Into<UsageErrorKind>) -> Error {
        let of_varying = self.bodies.iter().find(|body| body.node().varies != 0);
        let location = of_varying.unwrap_or(&self.bodies[0]).node().location;
        UsageError::new("region", problem.into(), location).into()
    }

    fn not_varying(&self) -> Error {
        let declared = self.declared;
        self.error(MeshErrorKind::NotVarying { declared })
    }

    fn layout_error(&self, advice: &'static str) -> Error {
        let problem = MeshErrorKind::Layout {
            declared: self.declared,
            varies: self.mesh.shape().names(self.varies),
            advice,
        };
        self.error(problem)
    }

    /// Returns the mesh axis along which the elements differ.
    fn mesh_axis(&self) -> Result<usize> {
        match self.varies.count_ones() {
            0 if self.mesh.shape().axes.len() == 1 => Ok(0),
            0 => Err(self.not_varying()),
            1 => Ok(self.varies.trailing_zeros() as usize),
            _ => Err(self.layout_error("reduce it along all axes but one")),
        }
    }

    /// Checks that the shapes are equal, except for the lengths of an axis of the array at
    /// different positions along an axis of the mesh.
    fn same_shapes(&self, except: Option<(usize, usize)>) -> Result<()> {
        let shape = self.mesh.shape();
        for (second, body) in self.bodies.iter().enumerate() {
            let differs = |first: usize, allowed: Option<usize>| {
                let other = self.bodies[first].shape().iter().zip(body.shape());
                let mut pairs = other.enumerate();
                pairs.any(|(axis, (one, other))| Some(axis) != allowed && one != other)
            };
            let copy = except.map_or(0, |(_, mesh_axis)| {
                shape.group(0, mesh_axis)[shape.position(second, mesh_axis)]
            });
            let axis = except.map(|(axis, _)| axis);
            let first = match (differs(0, axis), differs(copy, None)) {
                (true, _) => 0,
                (false, true) => copy,
                (false, false) => continue,
            };
            return Err(self.error(MeshErrorKind::Parts {
                first,
                second,
                shapes: Box::new([self.bodies[first].shape().into(), body.shape().into()]),
                allowed: match axis {
                    Some(axis) if first == 0 => format!("axis {axis} alone"),
                    _ => "no axis".to_owned(),
                },
            }));
        }
        Ok(())
    }
}

/// The result of a body that can fail.
impl<R: MeshOutput> MeshOutput for Result<R, Error> {
    type Body = Result<R::Body, Error>;
    type Value = R::Value;

    fn check(bodies: &[&Self::Body], mesh: &Mesh) -> Result<()> {
        let bodies = bodies
            .iter()
            .map(|body| body.as_ref().map_err(Error::clone));
        R::check(&bodies.collect::<Result<Vec<_>>>()?, mesh)
    }

    fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        R::visit_nodes(body.as_ref().map_err(Error::clone)?, visit)
    }

    fn assemble(bodies: Vec<Self::Body>, mesh: &Mesh) -> R::Value {
        let bodies: Result<Vec<R::Body>> = bodies.into_iter().collect();
        R::assemble(bodies.expect("the bodies were checked"), mesh)
    }
}

macro_rules! tuples {
    ($(($($name:ident . $place:tt),+);)*) => {$(
        impl<$($name: MeshOutput),+> MeshOutput for ($($name,)+) {
            type Body = ($($name::Body,)+);
            type Value = ($($name::Value,)+);

            fn check(bodies: &[&Self::Body], mesh: &Mesh) -> Result<()> {
                $({
                    let bodies: Vec<_> = bodies.iter().map(|body| &body.$place).collect();
                    $name::check(&bodies, mesh)?;
                })+
                Ok(())
            }

            fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
                $($name::visit_nodes(&body.$place, visit)?;)+
                Ok(())
            }

            #[allow(non_snake_case, reason = "a variable for each type")]
            fn assemble(bodies: Vec<Self::Body>, mesh: &Mesh) -> Self::Value {
                $(let mut $name = Vec::new();)+
                for body in bodies {
                    $($name.push(body.$place);)+
                }
                ($($name::assemble($name, mesh),)+)
            }
        }
    )*};
}

tuples! {
    (A.0);
    (A.0, B.1);
    (A.0, B.1, C.2);
    (A.0, B.1, C.2, E.3);
    (A.0, B.1, C.2, E.3, F.4);
    (A.0, B.1, C.2, E.3, F.4, G.5);
    (A.0, B.1, C.2, E.3, F.4, G.5, H.6);
    (A.0, B.1, C.2, E.3, F.4, G.5, H.6, I.7);
}
