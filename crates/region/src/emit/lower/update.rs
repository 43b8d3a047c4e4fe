//! Positions of the values that replace elements of a part: the inverse of an index map.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{ParameterKey, Reg, index, test},
        lower::{lowering::Lowering, position::Position},
    },
    expr::NodeRef,
    shape::{AxisSource, RANK_MAX, last_axis},
};

impl Lowering<'_> {
    /// Maps a position of an updated array to the value that replaces the element there. Returns a
    /// predicate that is true if there is one, unless there is one for each element, and the
    /// position of the value, or of the first value if there is none.
    pub(crate) fn updated(
        &mut self,
        node: &NodeRef,
        position: Position,
        map: &[AxisSource],
        value: &NodeRef,
    ) -> (Option<Reg>, Position) {
        let mut axes: SmallVec<[Option<Reg>; RANK_MAX]> =
            SmallVec::from_elem(None, value.shape.len());
        let mut conditions: SmallVec<[Reg; RANK_MAX]> = SmallVec::new();
        let mut bounded: SmallVec<[usize; RANK_MAX]> = SmallVec::new();
        for (axis, from) in (map.iter().enumerate()).filter(|&(axis, _)| node.shape[axis] != 1) {
            if let Some(along) = from.axis
                && (from.start, from.step) == (0, 1)
                && value.shape[along] == node.shape[axis]
            {
                axes[along] = Some(self.axis_index(position, axis));
            } else if let Some((along, number)) =
                self.in_slice(node.id, (position, axis), from, value, &mut conditions)
            {
                axes[along] = Some(number);
                bounded.push(along);
            }
        }
        let is_replaced = self.all_of(conditions);
        if let Some(is_replaced) = is_replaced {
            for along in bounded {
                let number = axes[along].expect("a bounded axis has an index");
                let within = index!(self.body; "selp.b# {number}, 0, {is_replaced}");
                axes[along] = Some(within);
            }
        }
        let seen = self.at_indices(value.id, &value.shape, axes, None);
        (is_replaced, seen)
    }

    /// Returns a predicate that is true if an update replaces all elements of a group, or `None` if
    /// that is not known from the first and the last of them.
    pub(crate) fn replaces_all(
        &mut self,
        node: &NodeRef,
        group: &[Position],
        map: &[AxisSource],
        value: &NodeRef,
    ) -> Option<Reg> {
        let last = last_axis(&node.shape)?;
        if map[last].axis.is_none() || map.iter().any(|from| from.axis.is_some() && from.step != 1)
        {
            return None;
        }
        let mut conditions: SmallVec<[Reg; RANK_MAX]> = SmallVec::new();
        for (axis, from) in map.iter().enumerate() {
            let ends = if axis == last {
                &[group[0], group[group.len() - 1]][..]
            } else {
                &group[..1]
            };
            for &position in ends.iter().filter(|_| node.shape[axis] != 1) {
                self.in_slice(node.id, (position, axis), from, value, &mut conditions);
            }
        }
        self.all_of(conditions)
    }

    /// Maps a position, whose group an update replaces, to that of the value.
    pub(crate) fn value_position(
        &mut self,
        node: &NodeRef,
        position: Position,
        map: &[AxisSource],
        value: &NodeRef,
    ) -> Position {
        if let Some(&known) = self.cache.views.get(&(node.id, position)) {
            return known;
        }
        let (first, _) = self.cache.positions[position.0]
            .group
            .expect("an update replaces all elements of a group");
        let members: SmallVec<[Position; 4]> = self.group_members(first).collect();
        let moved = |&member: &Position| {
            let mut axes = SmallVec::from_elem(None, value.shape.len());
            for (axis, from) in map.iter().enumerate() {
                if let Some(along) = from.axis.filter(|_| node.shape[axis] != 1) {
                    let index = self.axis_index(member, axis);
                    let mut none = SmallVec::new();
                    axes[along] = Some(self.number_in_slice(node.id, axis, from, index, &mut none));
                }
            }
            self.at_indices(value.id, &value.shape, axes, None)
        };
        let seen: SmallVec<[Position; 4]> = members.iter().map(moved).collect();
        let last = last_axis(&node.shape).expect("the array of a group has a long axis");
        if map[last].axis.is_some() && map[last].axis == last_axis(&value.shape) {
            let residue = (self.lanes - map[last].start % self.lanes) % self.lanes;
            self.group_along(&seen, map[last].axis.unwrap_or(last), residue);
        }
        for (&member, &seen) in members.iter().zip(&seen) {
            self.cache.views.insert((node.id, member), seen);
        }
        self.cache.views[&(node.id, position)]
    }

    /// Combines conditions; `None` if there are none.
    pub(super) fn all_of(&mut self, conditions: SmallVec<[Reg; RANK_MAX]>) -> Option<Reg> {
        let both = |all, condition| self.body.both(all, condition);
        conditions.into_iter().reduce(both)
    }

    /// Adds the conditions along an axis under which a slice has a position of its source. Returns
    /// the value's axis and the index along it, unless the slice has one index.
    pub(super) fn in_slice(
        &mut self,
        owner: u64,
        (position, axis): (Position, usize),
        from: &AxisSource,
        value: &NodeRef,
        conditions: &mut SmallVec<[Reg; RANK_MAX]>,
    ) -> Option<(usize, Reg)> {
        let index = self.axis_index(position, axis);
        let Some(along) = from.axis else {
            let start = self.body.start(owner, axis, from.start);
            conditions.push(test!(self.body; "eq.u# {index}, {start}"));
            return None;
        };
        let key = ParameterKey::Length(value.id, along);
        let count = self.body.index_parameter(key, value.shape[along] as i64);
        let number = self.number_in_slice(owner, axis, from, index, conditions);
        conditions.push(test!(self.body; "lt.u# {number}, {count}"));
        Some((along, number))
    }

    /// Returns the number in a slice of an index of its source, which is meaningful if the added
    /// conditions hold and it is less than the length of the slice. It is unsigned: an index before
    /// the slice gets a number that is larger than every length.
    fn number_in_slice(
        &mut self,
        owner: u64,
        axis: usize,
        from: &AxisSource,
        index: Reg,
        conditions: &mut SmallVec<[Reg; RANK_MAX]>,
    ) -> Reg {
        let mut number = index;
        if from.step < 0 || from.start != 0 {
            let start = self.body.start(owner, axis, from.start);
            number = if from.step < 0 {
                index!(self.body; "sub.s# {start}, {index}")
            } else {
                index!(self.body; "sub.s# {index}, {start}")
            };
        }
        if from.step.unsigned_abs() <= 1 {
            return number;
        }
        let step = self.body.step(owner, axis, from.step.abs());
        let quotient = index!(self.body; "div.u# {number}, {step}");
        let product = index!(self.body; "mul.lo.s# {quotient}, {step}");
        conditions.push(test!(self.body; "eq.u# {product}, {number}"));
        quotient
    }
}
