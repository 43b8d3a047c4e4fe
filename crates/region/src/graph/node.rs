//! One value to be: its type, its shape, and the operation that gives it.

use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use millstream::{Buffer, Device};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Function;
use crate::{
    checks::DeferredChecks,
    element::{DType, Scalar},
    error::Error,
    shape::{Axes, AxisMap, Shape},
};

/// A node as its users hold it.
pub(crate) type NodeRef = Arc<Node>;

/// The operands of a function.
pub(crate) type FunctionOperands = SmallVec<[NodeRef; 3]>;

/// One value to be.
pub(crate) struct Node {
    /// Unlike that of any other node of the process; later than those of its operands.
    pub(crate) id: u64,
    pub(crate) device: Device,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    /// Elements, which are known to fit a word.
    pub(crate) elements: usize,
    /// The line that asked for it.
    pub(crate) location: &'static Location<'static>,
    /// Arrays that stand for this node.
    handles: AtomicUsize,
    state: Mutex<State>,
}

/// What is known of a node's elements.
#[derive(Clone)]
pub(crate) enum State {
    /// Nothing but how they are calculated.
    Planned(Arc<Op>),
    /// Where they are, or will be once the work that is enqueued is done.
    Stored(Arc<Storage>),
    /// That they will never be, and why.
    Failed(Error),
}

/// Memory with all elements of a node, the last axis dense.
pub(crate) struct Storage {
    pub(crate) buffer: Buffer<u8>,
    /// The checks of indices that the elements depend on.
    pub(crate) checks: DeferredChecks,
}

/// How a node's elements are calculated.
#[derive(Clone)]
pub(crate) enum Op {
    /// The same everywhere.
    Constant(Scalar),
    /// The number of the element, as an `i64`.
    Iota,
    /// A function of the operands' elements at the same index; all have the node's shape.
    Apply(Function, FunctionOperands),
    /// The elements of the source that the map gives.
    View(NodeRef, AxisMap),
    /// The elements of the source in the same order.
    Reshape(NodeRef),
    /// Those elements of the source that `index`, which has the node's shape, gives along the axis.
    Gather {
        source: NodeRef,
        index: NodeRef,
        axis: usize,
    },
    /// One element of all those along the axes, which the node does not have any more.
    Reduce {
        reduction: Reduction,
        source: NodeRef,
        axes: Axes,
    },
    /// Matrix products over the last two axes, one for each index along the others.
    MatrixProduct(NodeRef, NodeRef),
    /// The parts one behind the other along the axis.
    Concatenate {
        parts: SmallVec<[NodeRef; 4]>,
        axis: usize,
    },
    /// The base, but the elements that the map gives are those of the value, which has the shape of
    /// the view.
    Update {
        base: NodeRef,
        map: AxisMap,
        value: NodeRef,
    },
    /// The base, but along the axis, the elements that `index` gives are those of the value, which
    /// has the index's shape. Of several for one element, the last counts; or the sum of all is
    /// added, if `adds`.
    Scatter {
        base: NodeRef,
        index: NodeRef,
        value: NodeRef,
        axis: usize,
        adds: bool,
    },
    /// Along the last axis, one element of all those up to each.
    Scan {
        reduction: Reduction,
        source: NodeRef,
    },
}

/// Ways to make one element of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reduction {
    Sum,
    Product,
    Minimum,
    Maximum,
    /// The number, along the axes together, of the first element that is the least.
    ArgMinimum,
    /// The number, along the axes together, of the first element that is the greatest.
    ArgMaximum,
    Any,
    All,
}

impl Reduction {
    /// A word for kernels' names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Product => "product",
            Reduction::Minimum => "least",
            Reduction::Maximum => "greatest",
            Reduction::ArgMinimum => "argmin",
            Reduction::ArgMaximum => "argmax",
            Reduction::Any => "any",
            Reduction::All => "all",
        }
    }
}

/// The number of the next node.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Node {
    pub(crate) fn new(
        device: Device,
        dtype: DType,
        shape: Shape,
        state: State,
        location: &'static Location<'static>,
    ) -> Self {
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            elements: crate::shape::element_count(&shape).unwrap_or(0),
            device,
            dtype,
            shape,
            location,
            handles: AtomicUsize::new(0),
            state: Mutex::new(state),
        }
    }

    /// What is known now.
    pub(crate) fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// Why there will be no elements, if that is so.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &*self.state.lock() {
            State::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// The memory with the elements, if the work for them is enqueued.
    pub(crate) fn storage(&self) -> Option<Arc<Storage>> {
        match &*self.state.lock() {
            State::Stored(storage) => Some(Arc::clone(storage)),
            _ => None,
        }
    }

    /// The work for the elements is enqueued. Gives the memory back that they are in: another
    /// thread may have been first.
    pub(crate) fn store(&self, storage: Arc<Storage>) {
        let mut state = self.state.lock();
        let before = match &*state {
            State::Planned(_) => Some(std::mem::replace(&mut *state, State::Stored(storage))),
            State::Stored(_) | State::Failed(_) => None,
        };
        drop(state);
        // Operands may be dropped here, and theirs: not with a lock held.
        drop(before);
    }

    /// Whether nothing is known but how the elements are calculated.
    pub(crate) fn is_planned(&self) -> bool {
        matches!(&*self.state.lock(), State::Planned(_))
    }

    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> usize {
        self.elements * self.dtype.bytes()
    }

    /// One more array stands for this node.
    pub(crate) fn hold(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// One array less stands for this node.
    pub(crate) fn release(&self) {
        self.handles.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether an array stands for this node.
    pub(crate) fn is_held(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > 0
    }
}

impl Op {
    /// Calls `visit` with each operand.
    pub(crate) fn operands(&self, mut visit: impl FnMut(&NodeRef)) {
        match self {
            Op::Constant(_) | Op::Iota => {}
            Op::Apply(_, operands) => operands.iter().for_each(visit),
            Op::View(source, _)
            | Op::Reshape(source)
            | Op::Scan { source, .. }
            | Op::Reduce { source, .. } => {
                visit(source);
            }
            Op::Gather { source, index, .. } => {
                visit(source);
                visit(index);
            }
            Op::MatrixProduct(left, right) => {
                visit(left);
                visit(right);
            }
            Op::Concatenate { parts, .. } => parts.iter().for_each(visit),
            Op::Update { base, value, .. } => {
                visit(base);
                visit(value);
            }
            Op::Scatter {
                base, index, value, ..
            } => {
                visit(base);
                visit(index);
                visit(value);
            }
        }
    }
}
