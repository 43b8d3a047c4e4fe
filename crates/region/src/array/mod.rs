//! `Array`: the lazily evaluated device array.

mod assign;
mod attention;
mod compare;
mod concatenate;
mod constructors;
mod counting;
mod dimension;
mod einsum;
mod elementwise;
mod indexing;
mod iter;
mod linalg;
mod operators;
mod order;
mod packed;
mod rearrange;
mod reduce;
mod scan;
mod unique;
mod views;

pub use assign::ArrayViewMut;
pub use attention::AttentionMask;
pub use compare::{Operand, Selected, WhereOperand};
pub use indexing::{IndexElement, Indices};

use std::{fmt, marker::PhantomData, ops::Index, sync::Arc};

use ndarray::{DimMax, Dimension};
use smallvec::smallvec;

pub(crate) use concatenate::concatenated;
pub use concatenate::{concatenate, stack};
pub use einsum::einsum;
pub use iter::ElementIteration;
pub use linalg::Dot;
pub use operators::{
    BitwiseElement, ElementTypes, HostOperand, Integer, IntegerBesideFloats, SameElement,
};
pub use order::Side;
pub use packed::{Packed, PackedOperand};
pub use rearrange::PadMode;

use crate::{
    element::{DType, Element, Scalar},
    error::{Error, Line, Site, UsageErrorKind},
    expr::{Function, FunctionOperands, NodeRef, Op, Session, State},
    run::evaluate,
    shape::{self, AxisMap, AxisSource, Shape},
};

/// A lazily evaluated array on a device.
///
/// Its methods and operators are named as those of [`ndarray`]'s arrays. They record operations and
/// return at once; the operations are fused into as few kernels as possible and enqueued when a
/// region ends or the host requests values. A view (a slice, a transpose, a broadcast) copies
/// nothing. Cloning an array gives another handle of the same elements, which never change: an
/// assignment makes the handle refer to new elements.
///
/// Operands of different shapes broadcast as in NumPy. An operation on incompatible shapes fails,
/// and so does every operation that depends on it; the region then returns an error that names the
/// operation and its source line.
///
/// ```
/// use millstream_region::RegionExt;
/// use ndarray::array;
/// let device = millstream::Device::simulated()?;
/// let (x, y) = (array![[1.0_f32, 2.0], [3.0, 4.0]], array![10.0_f32, 20.0]);
/// let z = device.region(|g| (g.array(&x) + g.array(&y)).t() * 2.0)?.wait()?;
/// assert_eq!(z, array![[22.0, 26.0], [44.0, 48.0]]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[must_use]
pub struct Array<T, D> {
    node: NodeRef,
    session: Arc<Session>,
    kind: PhantomData<fn() -> (T, D)>,
}

impl<T, D> Array<T, D> {
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

    /// Returns a handle of the same node in another session.
    pub(crate) fn in_session(&self, session: &Arc<Session>) -> Self {
        Self::of(session, NodeRef::clone(&self.node))
    }

    /// Returns the lengths of the axes.
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

    /// Returns the number of axes.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.node.shape.len()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.node.elements
    }

    /// Returns whether the array has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the device that holds the elements.
    #[must_use]
    pub fn device(&self) -> &millstream::Device {
        &self.node.device
    }

    /// Records an operation whose operands include this array. The result has failed if an operand
    /// has failed or is on another device.
    fn plan<U, E>(&self, dtype: DType, shape: Shape, op: Op, site: Site) -> Array<U, E> {
        let mut is_usable = true;
        op.operands(|operand| {
            is_usable &= operand.failure().is_none() && operand.device == self.session.device;
        });
        let node = if is_usable {
            self.session
                .plan(dtype, shape, op, site.operation, site.line)
        } else {
            let failure = self.failure_of_operand(&op, site);
            self.session.fail(dtype, &shape, failure, site.line)
        };
        let array = Array::of(&self.session, node);
        if let Some(overdue) = self.session.take_overdue() {
            evaluate::evaluate_overdue(&self.session, &overdue);
        }
        array
    }

    /// Returns the error of the first operand that has failed or is on another device.
    #[cold]
    fn failure_of_operand(&self, op: &Op, site: Site) -> Error {
        let (mut failure, own) = (None, &self.session.device);
        op.operands(|operand| {
            if failure.is_some() {
                return;
            }
            failure = operand.failure();
            if failure.is_none() && operand.device != *own {
                let problem = UsageErrorKind::other_device(own, &operand.device);
                failure = Some(site.error(problem).into());
            }
        });
        failure.expect("an operand is on another device, or has failed, which is final")
    }

    /// Returns an array that has failed, with the error of this array if it has failed, too.
    pub(crate) fn failed<U, E>(
        &self,
        dtype: DType,
        shape: &[usize],
        problem: impl Into<UsageErrorKind>,
        site: Site,
    ) -> Array<U, E> {
        let failure = self.node.failure();
        let failure = failure.unwrap_or_else(|| site.error(problem).into());
        let node = self.session.fail(dtype, shape, failure, site.line);
        Array::of(&self.session, node)
    }

    /// Returns a view through an index map, which is composed with that of this array if it is a
    /// view.
    fn view_through<E>(&self, shape: Shape, map: AxisMap, site: Site) -> Array<T, E> {
        if shape::is_identity(&map, &shape, &self.node.shape) {
            return Array::of(&self.session, NodeRef::clone(&self.node));
        }
        // A view of a view is a view of the inner view's source.
        let state = self.node.state();
        let seen = match &state {
            State::Planned(op) => match &**op {
                Op::Constant(value) => {
                    let constant = Op::Constant(*value);
                    return self.plan(self.node.dtype, shape, constant, site);
                }
                Op::View(source, inner) => Some((source, shape::compose(&map, inner))),
                _ => None,
            },
            _ => None,
        };
        let (source, map) = seen.unwrap_or((&self.node, map));
        let op = Op::View(NodeRef::clone(source), map);
        self.plan(self.node.dtype, shape, op, site)
    }

    /// Returns a view of a line along one axis of a shape, repeated along the others.
    fn along<E>(&self, axis: usize, shape: Shape, site: Site) -> Array<T, E> {
        let map = AxisMap::from_slice(&[AxisSource::same(axis)]);
        self.view_through(shape, map, site)
    }

    /// Returns a broadcast view; the shapes must be compatible.
    fn broadcast_view<E>(&self, shape: &Shape, site: Site) -> Array<T, E> {
        let map = shape::broadcast_map(&self.node.shape, shape);
        self.view_through(Shape::from_slice(shape), map, site)
    }
}

impl<T: Element, D> Array<T, D> {
    /// Returns the node of a broadcast view; the shapes must be compatible.
    fn broadcast_node(&self, shape: &Shape, site: Site) -> NodeRef {
        if self.node.shape == *shape {
            return NodeRef::clone(&self.node);
        }
        let view: Array<T, D> = self.broadcast_view(shape, site);
        NodeRef::clone(&view.node)
    }

    pub(crate) fn failed_with(
        session: &Arc<Session>,
        shape: &[usize],
        error: impl Into<Error>,
        line: Line,
    ) -> Self {
        Self::of(session, session.fail(T::DTYPE, shape, error, line))
    }

    /// Applies an element-wise function to this array and others of its shape.
    #[track_caller]
    fn apply_here<U: Element>(
        &self,
        function: Function,
        operands: FunctionOperands,
    ) -> Array<U, D> {
        let op = Op::Apply(function, operands);
        let shape = Shape::from_slice(&self.node.shape);
        self.plan(U::DTYPE, shape, op, Site::of(function.name()))
    }

    #[track_caller]
    fn unary<U: Element>(&self, function: Function) -> Array<U, D> {
        self.apply_here(function, smallvec![NodeRef::clone(&self.node)])
    }

    fn constant<U, E>(&self, value: Scalar, shape: &[usize], line: Line) -> Array<U, E> {
        Array::of(&self.session, self.constant_node(value, shape, line))
    }

    fn constant_node(&self, value: Scalar, shape: &[usize], line: Line) -> NodeRef {
        let (shape, op) = (Shape::from_slice(shape), Op::Constant(value));
        self.session
            .plan(value.dtype(), shape, op, "constant", line)
    }

    #[track_caller]
    fn binary_scalar<U: Element>(
        &self,
        function: Function,
        value: T,
        is_left: bool,
    ) -> Array<U, D> {
        let line = std::panic::Location::caller();
        let right = self.constant_node(value.scalar(), &self.node.shape, line);
        let left = NodeRef::clone(&self.node);
        let operands = match is_left {
            true => smallvec![right, left],
            false => smallvec![left, right],
        };
        self.apply_here(function, operands)
    }

    /// Applies an element-wise function to two arrays after broadcasting them.
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
        let site = Site::of(function.name());
        let Some(shape) = shape::broadcast(self.shape(), other.shape()) else {
            return self.failed_pair(U::DTYPE, other, site);
        };
        let operands = smallvec![
            self.broadcast_node(&shape, site),
            other.broadcast_node(&shape, site),
        ];
        self.plan(U::DTYPE, shape, Op::Apply(function, operands), site)
    }

    /// Returns an array that has failed because the shapes of two operands do not fit together.
    fn failed_pair<U, E, F>(&self, dtype: DType, other: &Array<T, E>, site: Site) -> Array<U, F> {
        let (left, right) = (self.shape(), other.shape());
        let longer = if left.len() >= right.len() {
            left
        } else {
            right
        };
        self.failed(dtype, longer, UsageErrorKind::shapes(left, right), site)
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
        let element = std::any::type_name::<T>();
        write!(f, "Array({:?} of {element}", self.shape())?;
        match self.node.failure() {
            Some(error) => write!(f, ", {error})"),
            None => write!(f, " on {})", self.node.device),
        }
    }
}

/// A trait without implementations, whose diagnostic explains that `x > 0.0` has no single answer:
/// comparisons of device arrays give arrays.
#[diagnostic::on_unimplemented(
    message = "a comparison of an array on a device does not give a single `bool`",
    label = "compares the array as one value",
    note = "`less`, `less_equal`, `greater`, `greater_equal`, `equal` and `not_equal` compare \
            element by element and give an array of `bool`",
    note = "instead of `if`, `x.greater(0.0).where_cond(yes, no)` selects element by element; \
            to decide once, ask for a value: `if x.sum().item()? > 0.0`"
)]
pub trait ScalarComparison {}

impl<T: Element, D, O: ScalarComparison> PartialEq<O> for Array<T, D> {
    fn eq(&self, _other: &O) -> bool {
        unreachable!("the trait has no implementations")
    }
}

impl<T: Element, D, O: ScalarComparison> PartialOrd<O> for Array<T, D> {
    fn partial_cmp(&self, _other: &O) -> Option<std::cmp::Ordering> {
        unreachable!("the trait has no implementations")
    }
}

/// A trait without implementations, whose diagnostic explains that `x[i]` is not supported: each
/// access would be a round trip to the device.
#[diagnostic::on_unimplemented(
    message = "the elements of an array on a device cannot be read one by one",
    label = "reads a single element",
    note = "operate on whole arrays: `slice`, `index_axis`, `select` and `gather` take parts of an \
            array, and `sum`, `dot` and others compute with all of it",
    note = "to see values on the host, return them from the region, or call `to_host`"
)]
pub trait ElementIndex {}

impl<T, D, I: ElementIndex> Index<I> for Array<T, D> {
    type Output = T;

    fn index(&self, _index: I) -> &T {
        unreachable!("the trait has no implementations")
    }
}
