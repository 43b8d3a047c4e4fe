//! The operations of nodes.

use smallvec::SmallVec;

use crate::{
    element::Scalar,
    expr::{Function, NodeRef},
    product::ProductPrecision,
    shape::{Axes, AxisMap, preserves_linear_index},
};

pub(crate) type FunctionOperands = SmallVec<[NodeRef; 3]>;

/// An operation that computes the elements of a node.
#[derive(Clone)]
pub(crate) enum Op {
    /// One value for all elements.
    Constant(Scalar),
    /// The row-major linear index of each element, as an `i64`.
    Iota,
    /// An element-wise function; all operands have the shape of the node.
    Apply(Function, FunctionOperands),
    /// A view of the source through an index map.
    View(NodeRef, AxisMap),
    /// The elements of the source in the same order, with another shape.
    Reshape(NodeRef),
    /// The source elements at the indices that `index`, which has the shape of the node, gives
    /// along the axis. The device checks them if they are not known to be within bounds.
    Gather {
        source: NodeRef,
        index: NodeRef,
        axis: usize,
        is_checked: bool,
    },
    /// A reduction along the axes, which the node does not have.
    Reduce {
        reduction: Reduction,
        source: NodeRef,
        axes: Axes,
    },
    /// Matrix products over the last two axes, one for each index along the others.
    MatrixProduct(NodeRef, NodeRef, ProductPrecision),
    /// Attention over the last two axes, once for each index along the others.
    Attention(Box<Attention>),
    /// The parts, concatenated along the axis.
    Concatenate {
        parts: SmallVec<[NodeRef; 4]>,
        axis: usize,
    },
    /// The base with the elements of a view replaced: `map` views the base, and `value` has the
    /// shape of the view.
    Update {
        base: NodeRef,
        map: AxisMap,
        value: NodeRef,
    },
    /// The base with elements replaced along the axis: `index` gives the position of each element
    /// of `value`, which has the shape of `index`.
    Scatter {
        base: NodeRef,
        index: NodeRef,
        value: NodeRef,
        axis: usize,
        mode: ScatterMode,
    },
    /// An inclusive scan along the axis.
    Scan {
        reduction: Reduction,
        source: NodeRef,
        axis: usize,
    },
    /// The sorted elements of the source along its last axis, or their positions: all, or as many
    /// of the first as the node has.
    Sort(NodeRef, Sorted),
    /// For each value, the number of the elements of a sorted array that are less, or that are not
    /// greater.
    Search {
        sorted: NodeRef,
        values: NodeRef,
        counts_equal: bool,
    },
}

/// The results of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sorted {
    Elements,
    /// The positions along the axis, as `i64`.
    Positions,
    /// The positions in descending order, those of equal elements in ascending order.
    PositionsDescending,
}

/// The effect of a scatter on an element of its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScatterMode {
    /// The last of the values for the element replaces it.
    Last,
    /// All values for the element are added to it.
    Add,
    /// The one value for the element replaces it. The indices are known to be a permutation, so
    /// that nothing of the base is left and the device does not check them.
    Permute,
}

/// The operands of attention, `softmax(q·kᵀ·scale + mask)·v`. All have the same batch axes.
#[derive(Clone)]
pub(crate) struct Attention {
    pub(crate) queries: NodeRef,
    pub(crate) keys: NodeRef,
    pub(crate) values: NodeRef,
    /// The numbers to add to the scores.
    pub(crate) mask: Option<NodeRef>,
    pub(crate) scale: Scalar,
    /// True if a query takes no key behind its own position.
    pub(crate) is_causal: bool,
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $reduction:ident $name:literal,)*) => {
        /// The reductions, also used by scans.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Reduction {
            $($(#[$doc])* $reduction,)*
        }

        impl Reduction {
            /// Returns the word for this reduction in the names of kernels.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$reduction => $name,)*
                }
            }
        }
    };
}

reductions! {
    Sum "sum",
    Product "product",
    /// The sum of the squares, which are `f64`. Not used by scans.
    Squares "squares",
    /// The sum of the squared deviations from the mean, as `f64`. Not used by scans.
    SquaredDeviations "deviations",
    Minimum "least",
    Maximum "greatest",
    /// The position of the first minimum, as a linear index along the reduced axes.
    ArgMinimum "argmin",
    /// The position of the first maximum, as a linear index along the reduced axes.
    ArgMaximum "argmax",
    Any "any",
    All "all",
}

/// Calls a function with each operand of an operation, in order.
macro_rules! each_operand {
    ($op:expr, $iter:ident, $attention:ident, $visit:expr) => {
        match $op {
            Op::Constant(_) | Op::Iota => {}
            Op::Apply(_, operands) => operands.$iter().for_each($visit),
            Op::View(source, _)
            | Op::Reshape(source)
            | Op::Sort(source, _)
            | Op::Scan { source, .. }
            | Op::Reduce { source, .. } => [source].into_iter().for_each($visit),
            Op::MatrixProduct(one, two, _)
            | Op::Gather {
                source: one,
                index: two,
                ..
            }
            | Op::Update {
                base: one,
                value: two,
                ..
            }
            | Op::Search {
                sorted: one,
                values: two,
                ..
            } => [one, two].into_iter().for_each($visit),
            Op::Attention(attention) => {
                let Attention {
                    queries,
                    keys,
                    values,
                    mask,
                    ..
                } = attention.$attention();
                let operands = [queries, keys, values].into_iter();
                operands.chain(mask.$iter()).for_each($visit);
            }
            Op::Concatenate { parts, .. } => parts.$iter().for_each($visit),
            Op::Scatter {
                base, index, value, ..
            } => [base, index, value].into_iter().for_each($visit),
        }
    };
}

impl Op {
    /// Returns the word for this operation in explanations.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Op::Constant(_) => "constant",
            Op::Iota => "iota",
            Op::Apply(function, _) => function.name(),
            Op::View(..) => "view",
            Op::Reshape(_) => "reshape",
            Op::Gather { .. } => "gather",
            Op::Reduce { reduction, .. } => reduction.name(),
            Op::MatrixProduct(_, _, ProductPrecision::Full) => "matrix product",
            Op::MatrixProduct(_, _, ProductPrecision::Tf32) => "matrix product in TF32",
            Op::Attention(_) => "attention",
            Op::Concatenate { .. } => "concatenate",
            Op::Update { .. } => "update",
            Op::Scatter { mode, .. } => match mode {
                ScatterMode::Last => "scatter",
                ScatterMode::Add => "scatter_add",
                ScatterMode::Permute => "permute",
            },
            Op::Scan { reduction, .. } => match reduction {
                Reduction::Product => "cumprod",
                Reduction::Minimum => "cummin",
                Reduction::Maximum => "cummax",
                _ => "cumsum",
            },
            Op::Sort(_, Sorted::Elements) => "sort",
            Op::Sort(..) => "argsort",
            Op::Search { .. } => "searchsorted",
        }
    }

    /// Returns the operand that has the elements of a node of this shape, in the same order.
    pub(crate) fn same_elements(&self, shape: &[usize]) -> Option<&NodeRef> {
        match self {
            Op::Reshape(source) => Some(source),
            Op::View(source, map) => {
                preserves_linear_index(shape, map, &source.shape).then_some(source)
            }
            _ => None,
        }
    }

    pub(crate) fn with_operands(&self, mut other: impl FnMut(&NodeRef) -> NodeRef) -> Self {
        let mut op = self.clone();
        each_operand!(&mut op, iter_mut, as_mut, |node: &mut NodeRef| *node =
            other(node));
        op
    }

    pub(crate) fn into_operands(self, list: &mut FunctionOperands) {
        match self {
            Op::Apply(_, operands) => list.extend(operands),
            // Others have operands of their own, which are dropped with them.
            other => other.operands(|operand| list.push(NodeRef::clone(operand))),
        }
    }

    pub(crate) fn operands(&self, visit: impl FnMut(&NodeRef)) {
        each_operand!(self, iter, as_ref, visit);
    }
}
