//! Prepared regions, whose body never runs again.

use std::{fmt, marker::PhantomData, sync::Arc};

use millstream::Device;
use smallvec::SmallVec;

use crate::{
    Array, Packed, Region,
    error::{Error, Line, Result, UsageError, UsageErrorKind},
    expr::{NodeRef, Session, Storage},
    run::{
        evaluate,
        plans::{Recalled, recall},
        replay::{PreparedGraph, RegionGraph, Results, SharedGraph, StoredResult},
    },
    shape::Shape,
};

/// Arguments and results of prepared regions: an array on the device, packed or not, or a tuple of
/// up to four.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument or a result of a prepared region",
    note = "these are arrays on the device, and tuples of up to four of them"
)]
pub trait Arrays: private::Sealed + Sized {
    /// Calls `visit` with the node of each array.
    #[doc(hidden)]
    fn visit(&self, visit: &mut dyn FnMut(ArrayNode<'_>));

    /// Returns arrays of these nodes.
    #[doc(hidden)]
    fn of_nodes(session: &SessionOfArrays, next: &mut dyn FnMut() -> OwnedNode) -> Self;
}

/// The node of an array.
#[doc(hidden)]
pub struct ArrayNode<'a>(&'a NodeRef);

/// The node of an array that is made.
#[doc(hidden)]
pub struct OwnedNode(NodeRef);

/// The session of arrays that are made.
#[doc(hidden)]
pub struct SessionOfArrays(Arc<Session>);

mod private {
    pub trait Sealed {}
    impl<T, D> Sealed for crate::Array<T, D> {}
    impl<T, D> Sealed for crate::Packed<T, D> {}
}

impl<T, D> Arrays for Array<T, D> {
    fn visit(&self, visit: &mut dyn FnMut(ArrayNode<'_>)) {
        visit(ArrayNode(self.node()));
    }

    fn of_nodes(session: &SessionOfArrays, next: &mut dyn FnMut() -> OwnedNode) -> Self {
        Self::of(&session.0, next().0)
    }
}

impl<T, D> Arrays for Packed<T, D> {
    fn visit(&self, visit: &mut dyn FnMut(ArrayNode<'_>)) {
        self.elements().visit(visit);
        self.len().visit(visit);
    }

    fn of_nodes(session: &SessionOfArrays, next: &mut dyn FnMut() -> OwnedNode) -> Self {
        let elements = Array::of_nodes(session, next);
        Self::of(elements, Array::of_nodes(session, next))
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        impl<$($name: Arrays),*> private::Sealed for ($($name,)*) {}

        impl<$($name: Arrays),*> Arrays for ($($name,)*) {
            #[allow(non_snake_case, reason = "the names of the types serve for the fields")]
            fn visit(&self, visit: &mut dyn FnMut(ArrayNode<'_>)) {
                let ($($name,)*) = self;
                $($name.visit(visit);)*
            }

            fn of_nodes(session: &SessionOfArrays, next: &mut dyn FnMut() -> OwnedNode) -> Self {
                ($($name::of_nodes(session, next),)*)
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C E;
}

/// A region whose body does not run again: see [`RegionExt::prepare`](crate::RegionExt::prepare).
pub struct Prepared<A, R> {
    session: SessionOfArrays,
    arguments: Vec<Shape>,
    inputs: Vec<PreparedInput>,
    graph: SharedGraph,
    results: usize,
    location: Line,
    kind: PhantomData<fn(&A) -> R>,
}

/// An array that the kernels of a prepared region read.
enum PreparedInput {
    /// The argument with this number.
    Argument(usize),
    /// The memory of another array, which no update takes while it is here.
    Fixed(Arc<Storage>),
}

impl<A: Arrays, R: Arrays> Prepared<A, R> {
    /// Runs the body once, and makes the graph of its kernels.
    pub(super) fn of(
        device: &Device,
        arguments: &A,
        body: impl FnOnce(&Region, &A) -> R,
        location: Line,
    ) -> Result<Self> {
        let session = Session::new(device.clone());
        let refused = |detail: &str| -> Error {
            UsageError::new("prepare", UsageErrorKind::argument(detail), location).into()
        };
        let mut given: Vec<NodeRef> = Vec::new();
        arguments.visit(&mut |node| given.push(NodeRef::clone(node.0)));
        evaluate::evaluate(&session, &given)?;
        let region = Region::of(&session);
        let session = SessionOfArrays(session);
        let mut nodes = given.iter();
        let within = A::of_nodes(&session, &mut || {
            OwnedNode(NodeRef::clone(nodes.next().expect("a node for each array")))
        });
        let body_results = body(&region, &within);
        drop(within);
        if let Some(failure) = session.0.failure() {
            return Err(failure);
        }
        let mut targets: Vec<NodeRef> = Vec::new();
        body_results.visit(&mut |node| targets.push(NodeRef::clone(node.0)));
        if let Some(failure) = targets.iter().find_map(|node| node.failure()) {
            return Err(failure);
        }
        let unplanned = "a result is an argument, or was computed while the body ran";
        if targets.iter().any(|target| !target.is_planned()) {
            return Err(refused(unplanned));
        }
        let Recalled { graph, plan, .. } = recall(&targets, u64::MAX);
        if !plan.is_repeatable {
            return Err(refused(
                "it updates arrays in place, or has more than 256 operations",
            ));
        }
        let mut numbers: Results = graph.targets.clone().into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let made = RegionGraph::make(device, &plan, &graph, &numbers);
        let mut made = made.ok_or_else(|| {
            refused(
                "its kernels cannot be a graph: it calls another library in a way that fixes the \
                 addresses of arrays, passes more numbers than a launch has parameters, has an \
                 array without elements, or an argument twice",
            )
        })?;
        let position = |node: &NodeRef| given.iter().position(|argument| argument.id == node.id);
        let input = |node: &NodeRef| match position(node) {
            Some(argument) => Some(PreparedInput::Argument(argument)),
            None => node.storage().map(PreparedInput::Fixed),
        };
        let inputs: Option<_> = graph.inputs.iter().map(input).collect();
        let inputs = inputs.ok_or_else(|| refused("an array was changed meanwhile"))?;
        let numbered = |number: &u32| numbers.partition_point(|before| before < number);
        let results: SmallVec<[usize; 4]> = graph.targets.iter().map(numbered).collect();
        let stored = numbers.iter().map(|&number| graph.node(number));
        let stored = stored.map(|node| StoredResult::of(node)).collect();
        let scalars = made.scalars(&session.0, &graph);
        made.set_scalars(&scalars);
        let stream = session.0.streams().first(device)?;
        Ok(Self {
            arguments: given.iter().map(|node| node.shape.clone()).collect(),
            inputs,
            results: results.len(),
            graph: PreparedGraph::share(made, stream, stored, results),
            session,
            location,
            kind: PhantomData,
        })
    }

    /// Enqueues the kernels with other arguments, as one launch, and returns the results, which
    /// stay on the device. Calls run one after the other on the device.
    ///
    /// # Errors
    ///
    /// If the shape of an argument differs, an argument has failed, there is not enough memory, or
    /// the device is lost. After an error of the driver the region must be prepared again.
    pub fn call(&self, arguments: &A) -> Result<R> {
        let session = &self.session.0;
        let mut given: SmallVec<[Arc<Storage>; 4]> = SmallVec::new();
        let mut outcome = Ok(());
        arguments.visit(&mut |ArrayNode(node)| {
            if outcome.is_ok() {
                let memory = self.memory_of(node, given.len());
                outcome = memory.map(|memory| given.push(memory));
            }
        });
        outcome?;
        // While this memory is held, it is not that of a result.
        let inputs = self.inputs.iter().map(|input| match input {
            PreparedInput::Argument(number) => &given[*number],
            PreparedInput::Fixed(memory) => memory,
        });
        let inputs: SmallVec<[&Arc<Storage>; 8]> = inputs.collect();
        let mut graph = self.graph.lock();
        let Some(prepared) = &mut *graph else {
            return Err(self.refused("an earlier call has failed"));
        };
        let mut is_broken = false;
        let called = prepared.call(session, &inputs, &mut is_broken);
        if is_broken {
            *graph = None;
        }
        drop(graph);
        let mut results = called?.into_iter();
        Ok(R::of_nodes(&self.session, &mut || {
            OwnedNode(results.next().expect("a result for each array"))
        }))
    }

    fn memory_of(&self, node: &NodeRef, number: usize) -> Result<Arc<Storage>> {
        let session = &self.session.0;
        let shape = &self.arguments[number];
        if node.shape != *shape || node.device != session.device {
            return Err(self.differs(node, shape));
        }
        if let Some(memory) = node.storage() {
            return Ok(memory);
        }
        evaluate::evaluate(session, std::slice::from_ref(node))?;
        node.storage()
            .ok_or_else(|| self.refused("an argument was changed meanwhile"))
    }

    #[cold]
    fn refused(&self, detail: &str) -> Error {
        self.wrong_call(UsageErrorKind::argument(detail))
    }

    #[cold]
    fn differs(&self, node: &NodeRef, shape: &Shape) -> Error {
        let device = &self.session.0.device;
        self.wrong_call(if node.device == *device {
            UsageErrorKind::shapes(shape, &node.shape)
        } else {
            UsageErrorKind::other_device(device, &node.device)
        })
    }

    fn wrong_call(&self, problem: UsageErrorKind) -> Error {
        UsageError::new("call of a prepared region", problem, self.location).into()
    }
}

impl<A, R> fmt::Debug for Prepared<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (arguments, results, line) = (self.arguments.len(), self.results, self.location);
        write!(
            f,
            "Prepared({arguments} arguments, {results} results, at {line})"
        )
    }
}
