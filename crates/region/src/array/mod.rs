//! `Array`: what the body of a region calculates with.

mod assign;
mod compare;
mod concatenate;
mod constructors;
mod dimension;
mod elementwise;
mod indexing;
mod iter;
mod linalg;
mod operators;
mod reduce;
mod scan;
mod views;

pub use assign::ArrayViewMut;
pub use compare::{Operand, Selected, WhereOperand};
pub use indexing::{IndexElement, Indices};

use std::{fmt, marker::PhantomData, ops::Index, panic::Location, sync::Arc};

use ndarray::{DimMax, Dimension};

pub use concatenate::{concatenate, stack};
pub use linalg::Dot;
pub use operators::{BitwiseElement, HostOperand, Integer};

use crate::{
    element::{DType, Element, Scalar},
    error::{UsageError, UsageErrorKind},
    evaluate,
    graph::{Function, NodeRef, Op, Session, State},
    shape::{self, AxisMap, Shape},
};

/// An array on a device, of which it is known how its elements are calculated, and perhaps nothing
/// more yet.
///
/// Its methods and operators are named as those of [`ndarray`]'s arrays. They note down what to do
/// and return at once; the work is done, in as few kernels as possible, when a region ends or the
/// host asks for values. A view (a slice, a transpose, a broadcast) copies nothing. Cloning an
/// array gives another handle of the same elements, which never change: an assignment makes the
/// handle stand for new ones.
///
/// Two shapes that differ are stretched as NumPy does it. If they cannot be, the operation's result
/// stands for that mistake, and so does everything that is calculated from it; the region then has
/// no result but the error, which names the operation and its line.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
///
/// let device = millstream::Device::simulated()?;
/// let (x, y) = (array![[1.0_f32, 2.0], [3.0, 4.0]], array![10.0_f32, 20.0]);
/// let z = device.region(|g| (g.array(&x) + g.array(&y)).t() * 2.0)?.wait()?;
/// assert_eq!(z, array![[22.0, 26.0], [44.0, 48.0]]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
pub struct Array<T, D> {
    node: NodeRef,
    session: Arc<Session>,
    kind: PhantomData<fn() -> (T, D)>,
}

impl<T, D> Array<T, D> {
    /// The array of a node.
    pub(crate) fn of(session: &Arc<Session>, node: NodeRef) -> Self {
        node.hold();
        Self {
            node,
            session: Arc::clone(session),
            kind: PhantomData,
        }
    }

    pub(crate) fn node(&self) -> &NodeRef {
        &self.node
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The same elements in another region.
    pub(crate) fn in_session(&self, session: &Arc<Session>) -> Self {
        Self::of(session, NodeRef::clone(&self.node))
    }

    /// The lengths of the axes.
    ///
    /// ```
    /// # use millstream_region::RegionExt;
    /// let device = millstream::Device::simulated()?;
    /// device.region(|g| {
    ///     let x = g.zeros::<f32, _>((2, 3));
    ///     assert_eq!((x.shape(), x.ndim(), x.len()), (&[2, 3][..], 2, 6));
    ///     x
    /// })?;
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.node.shape
    }

    /// How many axes there are.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.node.shape.len()
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.node.elements
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device that the elements are on.
    #[must_use]
    pub fn device(&self) -> &millstream::Device {
        &self.node.device
    }

    /// A new array: of an operation on this one's elements and perhaps others.
    fn plan<U, E>(
        &self,
        dtype: DType,
        shape: Shape,
        op: Op,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<U, E> {
        let mut failure = None;
        op.operands(|operand| {
            if failure.is_some() {
                return;
            }
            failure = operand.failure();
            if failure.is_none() && operand.device != self.session.device {
                let (left, right) = self.session.device.told_apart(&operand.device);
                let problem = UsageErrorKind::OtherDevice { left, right };
                failure = Some(UsageError::new(operation, problem, location).into());
            }
        });
        let node = match failure {
            Some(failure) => self.session.fail(dtype, &shape, failure, location),
            None => self.session.plan(dtype, shape, op, operation, location),
        };
        let array = Array::of(&self.session, node);
        if let Some(overdue) = self.session.take_overdue() {
            evaluate::evaluate_early(&self.session, &overdue);
        }
        array
    }

    /// An array that stands for a mistake.
    fn failed<U, E>(
        &self,
        dtype: DType,
        shape: &[usize],
        operation: &'static str,
        problem: UsageErrorKind,
        location: &'static Location<'static>,
    ) -> Array<U, E> {
        let failure = self
            .node
            .failure()
            .unwrap_or_else(|| UsageError::new(operation, problem, location).into());
        Array::of(
            &self.session,
            self.session.fail(dtype, shape, failure, location),
        )
    }

    /// A view of the elements that the map gives.
    fn view_through<E>(
        &self,
        shape: Shape,
        map: AxisMap,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<T, E> {
        if shape::is_identity(&map, &shape, &self.node.shape) {
            return Array::of(&self.session, NodeRef::clone(&self.node));
        }
        // A view of a view is a view of what that shows.
        let state = self.node.state();
        let seen = match &state {
            State::Planned(op) => match &**op {
                Op::View(source, inner) => Some((source, shape::compose(&map, inner))),
                _ => None,
            },
            _ => None,
        };
        let (source, map) = seen.unwrap_or((&self.node, map));
        let source = NodeRef::clone(source);
        self.plan(
            self.node.dtype,
            shape,
            Op::View(source, map),
            operation,
            location,
        )
    }

    /// The elements stretched to a shape, which has been found to be possible.
    fn broadcast_view<E>(
        &self,
        shape: &Shape,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Array<T, E> {
        self.view_through(
            shape.clone(),
            shape::broadcast_map(&self.node.shape, shape),
            operation,
            location,
        )
    }
}

impl<T: Element, D> Array<T, D> {
    /// A function of each element.
    #[track_caller]
    fn unary<U: Element>(&self, function: Function) -> Array<U, D> {
        let op = Op::Apply(function, smallvec::smallvec![NodeRef::clone(&self.node)]);
        let location = Location::caller();
        self.plan(
            U::DTYPE,
            self.node.shape.clone(),
            op,
            function.name(),
            location,
        )
    }

    /// An array of one value, to be stretched.
    fn constant(
        &self,
        value: Scalar,
        location: &'static Location<'static>,
    ) -> Array<T, ndarray::Ix0> {
        self.plan(
            value.dtype(),
            Shape::new(),
            Op::Constant(value),
            "constant",
            location,
        )
    }

    /// A function of each element and a value.
    #[track_caller]
    fn binary_scalar<U: Element>(
        &self,
        function: Function,
        value: T,
        is_left: bool,
    ) -> Array<U, D> {
        let location = Location::caller();
        let value: Array<T, D> = self.constant(value.scalar(), location).broadcast_view(
            &self.node.shape,
            function.name(),
            location,
        );
        let (left, right) = (NodeRef::clone(&self.node), NodeRef::clone(&value.node));
        let operands = if is_left {
            [right, left]
        } else {
            [left, right]
        };
        let op = Op::Apply(function, operands.into_iter().collect());
        self.plan(
            U::DTYPE,
            self.node.shape.clone(),
            op,
            function.name(),
            location,
        )
    }

    /// A function of the elements of two arrays at the same place, once they have one shape.
    #[track_caller]
    fn binary<U: Element, E>(
        &self,
        function: Function,
        other: &Array<T, E>,
    ) -> Array<U, <D as DimMax<E>>::Output>
    where
        D: Dimension + DimMax<E>,
        E: Dimension,
    {
        let location = Location::caller();
        let Some(shape) = shape::broadcast(self.shape(), other.shape()) else {
            let problem = UsageErrorKind::Shapes {
                left: self.shape().into(),
                right: other.shape().into(),
            };
            let longer = if self.ndim() >= other.ndim() {
                self.shape()
            } else {
                other.shape()
            };
            return self.failed(U::DTYPE, longer, function.name(), problem, location);
        };
        let left: Array<T, D> = self.broadcast_view(&shape, function.name(), location);
        let right: Array<T, D> = other.broadcast_view(&shape, function.name(), location);
        let operands = [left.node.clone(), right.node.clone()]
            .into_iter()
            .collect();
        self.plan(
            U::DTYPE,
            shape,
            Op::Apply(function, operands),
            function.name(),
            location,
        )
    }
}

impl<T, D> Clone for Array<T, D> {
    fn clone(&self) -> Self {
        self.in_session(&self.session)
    }
}

impl<T, D> Drop for Array<T, D> {
    fn drop(&mut self) {
        self.node.release();
    }
}

impl<T, D> fmt::Debug for Array<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Array({:?} of {}",
            self.shape(),
            std::any::type_name::<T>()
        )?;
        match self.node.failure() {
            Some(error) => write!(f, ", {error})"),
            None => write!(f, " on {})", self.node.device),
        }
    }
}

/// What would make `x > 0.0` a single truth, and nothing is: every comparison of a device's
/// elements is an array.
#[diagnostic::on_unimplemented(
    message = "an array on a device is not compared as one value",
    label = "a comparison with one answer",
    note = "`less`, `less_equal`, `greater`, `greater_equal`, `equal` and `not_equal` compare element by element, and give an \
            array of `bool`",
    note = "in the place of `if`, `x.greater(0.0).where_cond(yes, no)` chooses element by element; to decide once, ask for a value: \
            `if x.sum().item()? > 0.0`"
)]
pub trait ScalarComparison {}

impl<T: Element, D, O: ScalarComparison> PartialEq<O> for Array<T, D> {
    fn eq(&self, _other: &O) -> bool {
        unreachable!("nothing implements the bound")
    }
}

impl<T: Element, D, O: ScalarComparison> PartialOrd<O> for Array<T, D> {
    fn partial_cmp(&self, _other: &O) -> Option<std::cmp::Ordering> {
        unreachable!("nothing implements the bound")
    }
}

/// What would make `x[i]` work, and nothing is: each element read by itself would be a round trip
/// to the device.
#[diagnostic::on_unimplemented(
    message = "the elements of an array on a device cannot be read one by one",
    label = "an index with a single element",
    note = "operate on whole arrays: `slice`, `index_axis`, `select` and `gather` take parts of an array, and `sum`, `dot` and \
            others calculate with all of it",
    note = "to see values on the host, return them from the region, or call `to_host`"
)]
pub trait ElementIndex {}

impl<T, D, I: ElementIndex> Index<I> for Array<T, D> {
    type Output = T;

    fn index(&self, _index: I) -> &T {
        unreachable!("nothing implements the bound")
    }
}
