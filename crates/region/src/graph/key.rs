//! When two operations are the same, so that it is done once.

use smallvec::SmallVec;

use super::{Function, Op, Reduction};
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
enum What {
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
        let what = match op {
            Op::Constant(value) => {
                let (dtype, bits) = value.key();
                What::Constant(dtype, bits)
            }
            Op::Iota => What::Iota,
            Op::Apply(function, operands) => {
                What::Apply(*function, operands.iter().map(|operand| operand.id).collect())
            }
            Op::View(source, map) => What::View(source.id, map.clone()),
            Op::Reshape(source) => What::Reshape(source.id),
            Op::Gather { source, index, axis } => What::Gather([source.id, index.id], *axis),
            Op::Reduce {
                reduction,
                source,
                axes,
            } => What::Reduce(*reduction, source.id, axes.clone()),
            Op::Product(left, right) => What::Product([left.id, right.id]),
            Op::Join { parts, axis } => What::Join(parts.iter().map(|part| part.id).collect(), *axis),
            Op::Update { base, map, value } => What::Update([base.id, value.id], map.clone()),
            Op::Scatter {
                base,
                index,
                value,
                axis,
                adds,
            } => What::Scatter([base.id, index.id, value.id], *axis, *adds),
            Op::Accumulate { reduction, source } => What::Accumulate(*reduction, source.id),
        };
        Self {
            dtype,
            shape: shape.clone(),
            what,
        }
    }
}
