//! Reductions of few elements within the kernel of another operation: a thread computes each, in
//! the order of a kernel of their own (`plan/order/nested.rs`).
//!
//! Also the values that do not depend on the element of a reduction: a thread computes them in
//! front of the loop over the elements.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::{
        body::{Accumulator, Reducer, Reg, copy, line, value, zero_literal},
        lower::{
            lowering::Lowering,
            position::{Indices, Position},
        },
    },
    expr::{NodeRef, Op, Reduction},
    plan::{AxisSet, nested_order},
    shape::Axes,
};

impl Lowering<'_> {
    /// Reduces the elements of a result at a position. An accumulator begins with its first
    /// element. From the identity, as the others do, it would have the same bits, except for zeros.
    pub(crate) fn nested(
        &mut self,
        node: &NodeRef,
        reduction: Reduction,
        (source, axes): (&NodeRef, &Axes),
        position: Position,
    ) -> Reg {
        let reducer = Reducer::new(reduction, source.dtype);
        let mut accumulators: SmallVec<[Option<Accumulator>; 8]> = SmallVec::new();
        for numbers in nested_order(&source.shape, axes, node.elements) {
            let mut accumulator: Option<Accumulator> = None;
            for number in numbers {
                let seen = self.nested_position((source, axes), position, number);
                let element = self.lower(source, seen);
                let other = reducer.lift(self.body, element, |body| body.constant_index(number));
                match &accumulator {
                    // The element itself may be needed again.
                    None => accumulator = Some(copy(self.body, &other)),
                    Some(before) => reducer.combine_later(self.body, before, &other),
                }
            }
            accumulators.push(accumulator);
        }
        let mut distance = accumulators.len() / 2;
        while distance > 0 {
            for number in 0..distance {
                if let (Some(own), Some(other)) =
                    (&accumulators[number], &accumulators[number + distance])
                {
                    reducer.combine(self.body, own, other);
                }
            }
            distance /= 2;
        }
        let first = accumulators.swap_remove(0);
        let first = first.expect("a nested reduction has elements");
        self.body.name_part(reduction.name());
        // No sum that begins with +0 is −0.
        let is_sum = reduction == Reduction::Sum && node.dtype.is_float() && first.len() == 1;
        if is_sum && node.dtype.is_half() {
            let (sum, zero) = (first[0], zero_literal(DType::F32));
            line!(self.body; "add.rn.f32 {sum}, {sum}, {zero};");
        }
        let result = reducer.finish(self.body, &first, node.dtype);
        if is_sum && node.dtype.is_wide_float() {
            let (kind, zero) = (result.class.move_type(), zero_literal(node.dtype));
            return value!(self.body, of result.class; "add.rn.{kind} {result}, {zero}");
        }
        result
    }

    /// Returns the position of an element of a result, by its number among them.
    fn nested_position(
        &mut self,
        (source, axes): (&NodeRef, &Axes),
        position: Position,
        mut number: usize,
    ) -> Position {
        let mut indices: Indices = SmallVec::from_elem(None, source.shape.len());
        for &axis in axes.iter().rev() {
            let length = source.shape[axis];
            indices[axis] = (length > 1).then(|| self.body.constant_index(number % length));
            number /= length;
        }
        let kept = (0..source.shape.len()).filter(|axis| !axes.contains(axis));
        for (of_result, axis) in kept.enumerate() {
            if source.shape[axis] > 1 {
                indices[axis] = Some(self.axis_index(position, of_result));
            }
        }
        self.position_at(source.id, &source.shape, indices)
    }

    /// Computes the values that a node at a position needs and that do not depend on the indices
    /// along `varying` axes.
    pub(crate) fn lower_invariants(
        &mut self,
        node: &NodeRef,
        position: Position,
        varying: AxisSet,
    ) {
        if varying.is_empty() || node.elements == 1 {
            self.lower(node, position);
            return;
        }
        let op = self.kernel.op(node);
        let Some((op, varying)) = op.and_then(|op| Some((op, varying.of_operands(op)?))) else {
            return;
        };
        match op {
            Op::Apply(_, operands) => {
                for operand in operands {
                    self.lower_invariants(operand, position, varying);
                }
            }
            Op::View(source, map) => {
                let source_of = (source.id, &source.shape[..]);
                let seen = self.source_position(node.id, position, map, source_of);
                self.lower_invariants(source, seen, varying);
            }
            Op::Gather { index, .. } => self.lower_invariants(index, position, varying),
            Op::Reduce { source, axes, .. } => {
                for number in 0..source.elements / node.elements {
                    let seen = self.nested_position((source, axes), position, number);
                    self.lower_invariants(source, seen, varying);
                }
            }
            _ => {}
        }
    }
}
