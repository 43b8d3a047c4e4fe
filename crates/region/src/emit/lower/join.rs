//! Joined arrays within other kernels: each thread computes its element from the part that it lies
//! in, under a branch, since the others may not be read beyond their ends. A register that is first
//! computed there has no value after it: what the lowering knows is restored behind each branch.
//!
//! The parts are tried in their order, except that the middle one of three is tried first: it has
//! nearly all elements of an array with its halo or padding.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::{
        body::{Reg, RegClass, index, line},
        lower::{lowering::Lowering, position::Position},
    },
    expr::NodeRef,
    shape::{RANK_MAX, last_axis, long_axes},
};

impl Lowering<'_> {
    /// Returns the register that holds an element of parts that are joined along an axis. Computes
    /// the elements of a group together if they are in one part.
    pub(crate) fn joined(
        &mut self,
        node: &NodeRef,
        position: Position,
        parts: &[NodeRef],
        axis: usize,
    ) -> Reg {
        let members = self.in_one_part(position, parts, axis);
        let long = long_axes(&node.shape);
        let of_member = |&member| {
            let mut of_member = SmallVec::from_elem(None, node.shape.len());
            for &each in &long {
                of_member[each] = Some(self.axis_index(member, each));
            }
            of_member
        };
        let indices: Vec<SmallVec<[_; RANK_MAX]>> = members.iter().map(of_member).collect();
        let class = RegClass::of(node.dtype).word();
        let results: SmallVec<[Reg; 4]> = members.iter().map(|_| self.body.reg(class)).collect();
        self.scalar_position();
        let (label, words) = (self.body.label_number(), self.body.name_parts());
        let cache = self.cache.clone();
        let parts: SmallVec<[(&NodeRef, usize); 4]> = parts
            .iter()
            .filter(|part| part.shape[axis] > 0)
            .scan(0, |start, part| {
                *start += part.shape[axis];
                Some((part, *start - part.shape[axis]))
            })
            .collect();
        let order: SmallVec<[usize; 4]> = match parts.len() {
            3 => SmallVec::from_slice(&[1, 0, 2]),
            count => (0..count).collect(),
        };
        let last = order.len().saturating_sub(1);
        for (turn, &number) in order.iter().enumerate() {
            let (part, start) = parts[number];
            let first = (number > 0).then(|| self.body.start(node.id, number, start));
            if turn < last {
                let end = start + part.shape[axis];
                let mut end = self.body.start(node.id, number + 1, end);
                let beyond = self.body.predicate();
                let mut index = indices[0][axis].expect("an axis of several parts is long");
                if let Some(first) = first.filter(|_| turn == 0) {
                    // Unsigned, so that an index in front of the part is beyond its end, too.
                    let within = index!(self.body; "sub.s# {index}, {first}");
                    let length = index!(self.body; "sub.s# {end}, {first}");
                    (index, end) = (within, length);
                }
                line!(self.body; "setp.ge.u# {beyond}, {index}, {end};");
                line!(self.body; "@{beyond} bra PART{label}_{};", turn + 1);
            }
            let positions = self.positions_in_part(&indices, part, axis, first);
            if positions.len() > 1
                && let Some((_, along, residue)) = self.group_of(members[0])
                && last_axis(&part.shape) == Some(along)
            {
                self.group_along(&positions, along, residue);
            }
            for (&result, &position) in results.iter().zip(&positions) {
                let element = self.lower(part, position);
                let word = self.body.as_word(element);
                line!(self.body; "mov.{} {result}, {word};", class.move_type());
            }
            self.cache = cache.clone();
            if turn < last {
                line!(self.body; "bra JOINED{label};");
                self.body.label(&format!("PART{label}_{}", turn + 1));
            }
        }
        self.body.label(&format!("JOINED{label}"));
        self.body.truncate_name(words);
        self.body.name_part("concatenate");
        let elements: SmallVec<[Reg; 4]> = results
            .iter()
            .map(|&result| match node.dtype {
                DType::Bool => self.body.is_not_zero(result),
                _ => result,
            })
            .collect();
        let mut own = elements[0];
        for (&member, &element) in members.iter().zip(&elements) {
            self.define(node, member, element);
            if member == position {
                own = element;
            }
        }
        own
    }

    /// Returns the group of a position if it always lies in one part, else the position alone.
    fn in_one_part(
        &self,
        position: Position,
        parts: &[NodeRef],
        axis: usize,
    ) -> SmallVec<[Position; 4]> {
        let alone = SmallVec::from_elem(position, 1);
        let Some((first, along, residue)) = self.group_of(position) else {
            return alone;
        };
        let is_whole = |part: &NodeRef| part.shape[axis].is_multiple_of(self.lanes);
        let (_, before_last) = parts.split_last().expect("there is a part");
        if along == axis && (residue != 0 || !before_last.iter().all(is_whole)) {
            return alone;
        }
        self.group_members(first).collect()
    }

    /// Returns the positions of elements in a part that begins at this index.
    fn positions_in_part(
        &mut self,
        indices: &[SmallVec<[Option<Reg>; RANK_MAX]>],
        part: &NodeRef,
        axis: usize,
        first: Option<Reg>,
    ) -> SmallVec<[Position; 4]> {
        let mut moved: SmallVec<[_; 4]> = indices.iter().cloned().collect();
        for of_member in &mut moved {
            if part.shape[axis] == 1 {
                of_member[axis] = None;
            } else if let (Some(index), Some(first)) = (of_member[axis], first) {
                let within = index!(self.body; "sub.s# {index}, {first}");
                of_member[axis] = Some(within);
            }
        }
        moved
            .into_iter()
            .map(|axes| self.at_indices(part.id, &part.shape, axes, None))
            .collect()
    }
}
