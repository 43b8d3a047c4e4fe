//! Destinations of outputs that are parts of larger arrays.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{ParameterKey, Reg, index},
        lower::{lowering::Lowering, position::Position},
    },
    plan::KernelOutput,
    shape::{RANK_MAX, Shape},
};

/// The first numbers of targets, of outputs, and of outputs that replace elements of others, in
/// parameter keys. No nodes have them.
const TARGETS: u64 = u64::MAX - (1 << 20);
const OUTPUTS: u64 = TARGETS + (1 << 10);
const REPLACED: u64 = OUTPUTS + (1 << 10);

impl Lowering<'_> {
    /// Returns the linear index in its target of an output's element at a position, which has this
    /// linear index in the value.
    pub(crate) fn destination(&mut self, output: usize, position: Position, number: Reg) -> Reg {
        let to = &self.kernel.outputs[output];
        match to.contiguous_offset() {
            Some(0) => number,
            Some(offset) => {
                let key = ParameterKey::Length(OUTPUTS + output as u64, 0);
                let start = self.body.index_parameter(key, offset as i64);
                index!(self.body; "add.s# {number}, {start}")
            }
            None => {
                let position = self.target_position(output, position, number);
                self.linear_index(position)
            }
        }
    }

    /// Returns the position in its target of an output's element.
    pub(crate) fn target_position(
        &mut self,
        output: usize,
        position: Position,
        number: Reg,
    ) -> Position {
        let to = &self.kernel.outputs[output];
        let Some((shape, map)) = to.destination() else {
            return self.in_shape(to.target.id, &to.target.shape, position, number);
        };
        let position = self.in_shape(to.value.id, &to.value.shape, position, number);
        let target = (TARGETS + to.slot as u64, &shape[..]);
        self.mapped_position(OUTPUTS + output as u64, position, map, target)
    }

    /// Returns a predicate that is true if another output writes the element at a position in its
    /// target, unless it writes all of them.
    pub(crate) fn is_replaced(&mut self, by: usize, position: Position) -> Option<Reg> {
        let KernelOutput { value, .. } = &self.kernel.outputs[by];
        let (shape, map) = self.kernel.outputs[by].destination()?;
        let mut conditions: SmallVec<[Reg; RANK_MAX]> = SmallVec::new();
        for (axis, from) in map.iter().enumerate() {
            let is_whole =
                |along: usize| (from.start, from.step, value.shape[along]) == (0, 1, shape[axis]);
            if shape[axis] != 1 && !from.axis.is_some_and(is_whole) {
                let owner = REPLACED + by as u64;
                self.in_slice(owner, (position, axis), from, value, &mut conditions);
            }
        }
        self.all_of(conditions)
    }

    /// Returns a position, or one of the same linear index in another shape.
    fn in_shape(&mut self, owner: u64, shape: &Shape, position: Position, number: Reg) -> Position {
        match self.cache.positions[position.0].shape == *shape {
            true => position,
            false => self.at_linear_index(owner, shape, number),
        }
    }
}
