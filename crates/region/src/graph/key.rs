//! Interning keys, which identify equal operations so that they are computed once.

use smallvec::SmallVec;

use super::{Function, NodeRef, Op, Reduction};
use crate::{
    element::DType,
    product::ProductPrecision,
    shape::{Axes, AxisMap, Shape},
};

/// The key of a node in the interning table: nodes with equal keys have the same elements.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeKey {
    dtype: DType,
    /// The shape, unless the operation implies it.
    shape: Shape,
    op: OpKey,
}

/// A number that is not that of an operand.
const NO_OPERAND: u64 = u64::MAX - 1;

/// An operation with its operands replaced by numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum OpKey {
    Constant(DType, u64),
    Iota,
    /// A function, and its operands in front of [`NO_OPERAND`].
    Apply(Function, [u64; 3]),
    View(u64, AxisMap),
    Reshape(u64),
    Gather([u64; 2], usize),
    Reduce(Reduction, u64, Axes),
    MatrixProduct([u64; 2], ProductPrecision),
    /// The operands, the mask or [`NO_OPERAND`] last, the scale, and whether it is causal.
    Attention(Box<([u64; 4], (DType, u64), bool)>),
    Concatenate(SmallVec<[u64; 4]>, usize),
    Update([u64; 2], AxisMap),
    Scatter([u64; 3], usize, bool),
    Scan(Reduction, u64, usize),
}

impl NodeKey {
    pub(super) fn new(dtype: DType, shape: &Shape, op: &Op) -> Self {
        // The shape of the operands determines that of the result.
        let is_implied = matches!(op, Op::Apply(..));
        Self {
            dtype,
            shape: if is_implied {
                Shape::new()
            } else {
                Shape::from_slice(shape)
            },
            op: OpKey::of(op, |operand| operand.id),
        }
    }
}

impl OpKey {
    /// Builds the key of an operation, with `number` called for each operand in order.
    pub(crate) fn of(op: &Op, mut number: impl FnMut(&NodeRef) -> u64) -> Self {
        match op {
            Op::Constant(value) => {
                let (dtype, bits) = value.key();
                OpKey::Constant(dtype, bits)
            }
            Op::Iota => OpKey::Iota,
            Op::Apply(function, operands) => {
                let mut numbers = [NO_OPERAND; 3];
                for (place, operand) in numbers.iter_mut().zip(operands) {
                    *place = number(operand);
                }
                debug_assert!(operands.len() <= numbers.len(), "{function:?}");
                OpKey::Apply(*function, numbers)
            }
            Op::View(source, map) => OpKey::View(number(source), AxisMap::from_slice(map)),
            Op::Reshape(source) => OpKey::Reshape(number(source)),
            Op::Gather {
                source,
                index,
                axis,
            } => OpKey::Gather([source, index].map(number), *axis),
            Op::Reduce {
                reduction,
                source,
                axes,
            } => OpKey::Reduce(*reduction, number(source), axes.clone()),
            Op::MatrixProduct(left, right, precision) => {
                OpKey::MatrixProduct([left, right].map(number), *precision)
            }
            Op::Attention(attention) => {
                let mut numbers = [NO_OPERAND; 4];
                for (place, operand) in numbers.iter_mut().zip(attention.operands()) {
                    *place = number(operand);
                }
                let key = (numbers, attention.scale.key(), attention.is_causal);
                OpKey::Attention(Box::new(key))
            }
            Op::Concatenate { parts, axis } => {
                OpKey::Concatenate(parts.iter().map(number).collect(), *axis)
            }
            Op::Update { base, map, value } => {
                OpKey::Update([base, value].map(number), map.clone())
            }
            Op::Scatter {
                base,
                index,
                value,
                axis,
                adds,
            } => OpKey::Scatter([base, index, value].map(number), *axis, *adds),
            Op::Scan {
                reduction,
                source,
                axis,
            } => OpKey::Scan(*reduction, number(source), *axis),
        }
    }
}
