//! Positions of the values that replace elements of a part: the inverse of an index map.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::kernel::{ParameterKey, Reg, index, line, test},
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
        for (axis, from) in map.iter().enumerate() {
            let length = node.shape[axis];
            if length == 1 {
                continue;
            }
            let index = self.axis_index(position, axis);
            match from.axis {
                Some(along)
                    if from.start == 0 && from.step == 1 && value.shape[along] == length =>
                {
                    axes[along] = Some(index);
                }
                Some(along) => {
                    let count = self.body.index_parameter(
                        ParameterKey::Length(value.id, along),
                        value.shape[along] as i64,
                    );
                    let number = self.number_in_slice(node, axis, from, index, &mut conditions);
                    conditions.push(self.compare("lt", number, count));
                    axes[along] = Some(number);
                    bounded.push(along);
                }
                None => {
                    let start = self
                        .body
                        .index_parameter(ParameterKey::Start(node.id, axis), from.start as i64);
                    conditions.push(self.compare("eq", index, start));
                }
            }
        }
        let is_replaced = self.all_of(conditions);
        if let Some(is_replaced) = is_replaced {
            let bits = self.body.bits();
            for along in bounded {
                let within = self.body.index_reg();
                let number = axes[along].expect("a bounded axis has an index");
                line!(self.body; "selp.b{bits} {within}, {number}, 0, {is_replaced};");
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
                let index = self.axis_index(position, axis);
                let Some(along) = from.axis else {
                    let key = ParameterKey::Start(node.id, axis);
                    let start = self.body.index_parameter(key, from.start as i64);
                    conditions.push(self.compare("eq", index, start));
                    continue;
                };
                let key = ParameterKey::Length(value.id, along);
                let count = self.body.index_parameter(key, value.shape[along] as i64);
                let number = self.number_in_slice(node, axis, from, index, &mut conditions);
                conditions.push(self.compare("lt", number, count));
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
        if let Some(&known) = self.views.get(&(node.id, position)) {
            return known;
        }
        let (first, _) = self.positions[position.0]
            .group
            .expect("an update replaces all elements of a group");
        let members: SmallVec<[Position; 4]> = self.group_members(first).collect();
        let mut seen: SmallVec<[Position; 4]> = SmallVec::new();
        for &member in &members {
            let mut axes: SmallVec<[Option<Reg>; RANK_MAX]> =
                SmallVec::from_elem(None, value.shape.len());
            for (axis, from) in map.iter().enumerate() {
                if let Some(along) = from.axis.filter(|_| node.shape[axis] != 1) {
                    let index = self.axis_index(member, axis);
                    let mut none = SmallVec::new();
                    let number = self.number_in_slice(node, axis, from, index, &mut none);
                    axes[along] = Some(number);
                }
            }
            let moved = self.at_indices(value.id, &value.shape, axes, None);
            seen.push(moved);
        }
        let last = last_axis(&node.shape).expect("the array of a group has a long axis");
        if map[last].axis.is_some() && map[last].axis == last_axis(&value.shape) {
            let residue = (self.lanes - map[last].start % self.lanes) % self.lanes;
            self.group_along(&seen, map[last].axis.unwrap_or(last), residue);
        }
        for (&member, &seen) in members.iter().zip(&seen) {
            self.views.insert((node.id, member), seen);
        }
        self.views[&(node.id, position)]
    }

    /// Combines conditions; `None` if there are none.
    fn all_of(&mut self, conditions: SmallVec<[Reg; RANK_MAX]>) -> Option<Reg> {
        let both = |all, condition| self.body.both(all, condition);
        conditions.into_iter().reduce(both)
    }

    /// Returns the number in a slice of an index of its source, which is meaningful if the added
    /// conditions hold and it is less than the length of the slice. It is unsigned: an index before
    /// the slice gets a number that is larger than every length.
    fn number_in_slice(
        &mut self,
        node: &NodeRef,
        axis: usize,
        from: &AxisSource,
        index: Reg,
        conditions: &mut SmallVec<[Reg; RANK_MAX]>,
    ) -> Reg {
        let bits = self.body.bits();
        let mut number = index;
        if from.step < 0 || from.start != 0 {
            let start = self
                .body
                .index_parameter(ParameterKey::Start(node.id, axis), from.start as i64);
            let (left, right) = if from.step < 0 {
                (start, index)
            } else {
                (index, start)
            };
            number = self.body.index_reg();
            line!(self.body; "sub.s{bits} {number}, {left}, {right};");
        }
        if from.step.unsigned_abs() <= 1 {
            return number;
        }
        let step = self.body.index_parameter(
            ParameterKey::Step(node.id, axis),
            from.step.unsigned_abs() as i64,
        );
        let quotient = index!(self.body; "div.u {number}, {step}");
        let product = index!(self.body; "mul.lo.s {quotient}, {step}");
        conditions.push(self.compare("eq", product, number));
        quotient
    }

    /// Compares two unsigned indices.
    fn compare(&mut self, how: &str, left: Reg, right: Reg) -> Reg {
        test!(self.body; "{how}.u {left}, {right}")
    }
}
