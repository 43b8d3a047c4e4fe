//! When two operations are the same, so that it is done once.

use smallvec::SmallVec;

use super::{Function, NodeRef, Op, Reduction};
use crate::{
    element::DType,
    shape::{Axes, AxisMap, Shape},
};

/// The same for two nodes if they have the same elements, as far as can be seen.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    dtype: DType,
    shape: Shape,
    what: What,
}

/// An operation, with its operands by number.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Constant(DType, u64),
    Iota,
    Apply(Function, SmallVec<[u64; 3]>),
    View(u64, AxisMap),
    Reshape(u64),
    Gather([u64; 2], usize),
    Reduce(Reduction, u64, Axes),
    Product([u64; 2]),
    Join(SmallVec<[u64; 4]>, usize),
    Update([u64; 2], AxisMap),
    Scatter([u64; 3], usize, bool),
    Accumulate(Reduction, u64),
}

impl Key {
    pub(super) fn new(dtype: DType, shape: &Shape, op: &Op) -> Self {
        Self {
            dtype,
            shape: shape.clone(),
            what: What::of(op, |operand| operand.id),
        }
    }
}

impl What {
    /// The operation, with the numbers that its operands are given, in their order.
    pub(crate) fn of(op: &Op, mut number: impl FnMut(&NodeRef) -> u64) -> Self {
        match op {
            Op::Constant(value) => {
                let (dtype, bits) = value.key();
                What::Constant(dtype, bits)
            }
            Op::Iota => What::Iota,
            Op::Apply(function, operands) => {
                What::Apply(*function, operands.iter().map(number).collect())
            }
            Op::View(source, map) => What::View(number(source), map.clone()),
            Op::Reshape(source) => What::Reshape(number(source)),
            Op::Gather {
                source,
                index,
                axis,
            } => What::Gather([source, index].map(number), *axis),
            Op::Reduce {
                reduction,
                source,
                axes,
            } => What::Reduce(*reduction, number(source), axes.clone()),
            Op::Product(left, right) => What::Product([left, right].map(number)),
            Op::Join { parts, axis } => What::Join(parts.iter().map(number).collect(), *axis),
            Op::Update { base, map, value } => What::Update([base, value].map(number), map.clone()),
            Op::Scatter {
                base,
                index,
                value,
                axis,
                adds,
            } => What::Scatter([base, index, value].map(number), *axis, *adds),
            Op::Accumulate { reduction, source } => What::Accumulate(*reduction, number(source)),
        }
    }
}
