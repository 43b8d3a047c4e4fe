//! Positions in arrays: indices along axes, linear indices, and the index maps of views.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{Reg, index},
        lower::lowering::Lowering,
    },
    shape::{AxisSource, RANK_MAX, Shape, last_axis, long_axes, preserves_linear_index},
};

/// The indices of a position along all axes; those along axes of length 1 may be missing.
pub(crate) type Indices = SmallVec<[Option<Reg>; RANK_MAX]>;

/// A position in an array of some shape, identified by its number in the lowering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Position(pub(crate) usize);

/// The known indices of a position. Others are computed at first use.
#[derive(Clone)]
pub(crate) struct PositionInfo {
    /// The node by whose number the lengths are passed.
    owner: u64,
    pub(super) shape: Shape,
    /// The row-major linear index.
    linear_index: Option<Reg>,
    axes: Indices,
    /// The first position of the group and this position's place in it, if neighbours are computed
    /// together. Their linear indices are consecutive.
    pub(crate) group: Option<(Position, usize)>,
    /// The axis along which all members of the group lie, if they do not cross the end of a row,
    /// and the first index along it modulo the group's size.
    group_axis: Option<(usize, usize)>,
    /// The first linear index of the group modulo its size, if it is the same for all groups.
    pub(crate) residue: Option<usize>,
    /// Another linear index, and the constant by which this one is greater.
    pub(crate) offset: Option<(Reg, usize)>,
}

impl Lowering<'_> {
    /// Adds a position given by its linear index.
    pub(crate) fn at_linear_index(&mut self, owner: u64, shape: &[usize], number: Reg) -> Position {
        let axes = SmallVec::from_elem(None, shape.len());
        self.at_indices(owner, shape, axes, Some(number))
    }

    /// Adds a position given by its indices, which may be missing for axes of length 1.
    pub(crate) fn at_indices(
        &mut self,
        owner: u64,
        shape: &[usize],
        axes: Indices,
        linear_index: Option<Reg>,
    ) -> Position {
        self.cache.positions.push(PositionInfo {
            owner,
            shape: Shape::from_slice(shape),
            linear_index,
            axes,
            group: None,
            group_axis: None,
            residue: None,
            offset: None,
        });
        Position(self.cache.positions.len() - 1)
    }

    /// Groups positions with consecutive linear indices, the first a multiple of their number.
    pub(crate) fn group(&mut self, positions: &[Position]) {
        let shape = &self.cache.positions[positions[0].0].shape;
        let group_axis =
            last_axis(shape).filter(|&axis| shape[axis].is_multiple_of(positions.len()));
        for (lane, position) in positions.iter().enumerate() {
            let indices = &mut self.cache.positions[position.0];
            indices.group = Some((positions[0], lane));
            indices.group_axis = group_axis.map(|axis| (axis, 0));
            indices.residue = Some(0);
        }
        self.lanes = positions.len();
    }

    /// Makes a group of positions with consecutive indices along the last axis. The first index has
    /// this residue modulo their number.
    pub(crate) fn group_along(&mut self, positions: &[Position], axis: usize, residue: usize) {
        for (lane, position) in positions.iter().enumerate() {
            let indices = &mut self.cache.positions[position.0];
            indices.group = Some((positions[0], lane));
            indices.group_axis = Some((axis, residue));
            let is_whole = indices.shape[axis].is_multiple_of(positions.len());
            indices.residue = is_whole.then_some(residue);
        }
    }

    pub(crate) fn group_members(&self, first: Position) -> impl Iterator<Item = Position> + use<> {
        (first.0..first.0 + self.lanes).map(Position)
    }

    /// Returns the first position of a position's group, the axis along which its members lie, and
    /// the first index along it modulo their number.
    pub(crate) fn group_of(&self, position: Position) -> Option<(Position, usize, usize)> {
        let indices = &self.cache.positions[position.0];
        let ((first, _), (axis, residue)) = (indices.group?, indices.group_axis?);
        Some((first, axis, residue))
    }

    pub(crate) fn axis_length(&mut self, position: Position, axis: usize) -> Reg {
        let indices = &self.cache.positions[position.0];
        let (owner, length) = (indices.owner, indices.shape[axis]);
        self.body.length(owner, axis, length)
    }

    pub(crate) fn linear_index(&mut self, position: Position) -> Reg {
        if let Some(number) = self.cache.positions[position.0].linear_index {
            return number;
        }
        let long = long_axes(&self.cache.positions[position.0].shape);
        let mut number = None;
        for axis in long {
            let index = self.axis_index(position, axis);
            number = Some(match number {
                None => index,
                Some(before) => {
                    let length = self.axis_length(position, axis);
                    match self.body.known_index(index) {
                        Some(0) => index!(self.body; "mul.lo.s# {before}, {length}"),
                        _ => index!(self.body; "mad.lo.s# {before}, {length}, {index}"),
                    }
                }
            });
        }
        let number = number.unwrap_or_else(|| self.body.zero_index());
        self.cache.positions[position.0].linear_index = Some(number);
        number
    }

    pub(crate) fn axis_index(&mut self, position: Position, axis: usize) -> Reg {
        if let Some(index) = self.cache.positions[position.0].axes[axis] {
            return index;
        }
        if self.cache.positions[position.0].shape[axis] == 1 {
            let zero = self.body.zero_index();
            self.cache.positions[position.0].axes[axis] = Some(zero);
            return zero;
        }
        let mut rest = self.cache.positions[position.0]
            .linear_index
            .expect("a position has a linear index or all indices");
        let long = long_axes(&self.cache.positions[position.0].shape);
        for &axis in long[1..].iter().rev() {
            let length = self.axis_length(position, axis);
            let (quotient, index) = self.body.quotient_and_rest(rest, length);
            self.cache.positions[position.0].axes[axis] = Some(index);
            rest = quotient;
        }
        self.cache.positions[position.0].axes[long[0]] = Some(rest);
        self.cache.positions[position.0].axes[axis]
            .expect("every axis that is longer than 1 has an index now")
    }

    /// Maps a position of `view` to the position in `source`, whose shape is `shape`.
    pub(crate) fn source_position(
        &mut self,
        view: u64,
        position: Position,
        map: &[AxisSource],
        (source, shape): (u64, &[usize]),
    ) -> Position {
        if let Some(&known) = self.cache.views.get(&(view, position)) {
            return known;
        }
        let seen = if shape.iter().all(|&length| length == 1) {
            self.scalar_position()
        } else if self.flat
            || preserves_linear_index(&self.cache.positions[position.0].shape, map, shape)
        {
            // If all nodes share linear indices, the position may have another shape than the view,
            // because reshapes keep it.
            self.reshaped(source, position, shape)
        } else if let PositionInfo {
            group: Some((first, lane)),
            group_axis: Some(group_axis),
            ..
        } = self.cache.positions[position.0]
        {
            return self.source_positions(view, first, map, (source, shape), group_axis)[lane];
        } else {
            self.shared_position(view, position, map, (source, shape))
        };
        self.cache.views.insert((view, position), seen);
        seen
    }

    /// Maps one position as [`mapped_position`](Self::mapped_position). Equal indices give the same
    /// position, so that an element that several others need is computed once.
    fn shared_position(
        &mut self,
        view: u64,
        position: Position,
        map: &[AxisSource],
        (source, shape): (u64, &[usize]),
    ) -> Position {
        let indices = self.mapped_indices(view, position, map, shape);
        self.position_at(source, shape, indices)
    }

    /// Returns the position at these indices, the same for equal ones.
    pub(crate) fn position_at(
        &mut self,
        source: u64,
        shape: &[usize],
        indices: Indices,
    ) -> Position {
        if let Some(&known) = self.cache.mapped.get(&(source, indices.clone())) {
            return known;
        }
        let position = self.at_indices(source, shape, indices.clone(), None);
        self.cache.mapped.insert((source, indices), position);
        position
    }

    /// Maps one position as [`source_position`](Self::source_position), regardless of its group.
    pub(super) fn mapped_position(
        &mut self,
        view: u64,
        position: Position,
        map: &[AxisSource],
        (source, shape): (u64, &[usize]),
    ) -> Position {
        let indices = self.mapped_indices(view, position, map, shape);
        self.at_indices(source, shape, indices, None)
    }

    fn mapped_indices(
        &mut self,
        view: u64,
        position: Position,
        map: &[AxisSource],
        shape: &[usize],
    ) -> Indices {
        let index = |(axis, from): (usize, &AxisSource)| {
            (shape[axis] != 1).then(|| self.mapped_index(view, position, axis, from))
        };
        map.iter().enumerate().map(index).collect()
    }

    /// Maps a whole group as [`source_position`](Self::source_position). The results are one
    /// position or a group again, where the map allows that.
    fn source_positions(
        &mut self,
        view: u64,
        first: Position,
        map: &[AxisSource],
        (source, shape): (u64, &[usize]),
        (group_axis, residue): (usize, usize),
    ) -> SmallVec<[Position; 4]> {
        let moving: SmallVec<[usize; RANK_MAX]> = (0..map.len())
            .filter(|&axis| map[axis].axis == Some(group_axis) && shape[axis] != 1)
            .collect();
        let seen: SmallVec<[Position; 4]> = if moving.is_empty() {
            let seen = self.shared_position(view, first, map, (source, shape));
            SmallVec::from_elem(seen, self.lanes)
        } else {
            let group_members = self.group_members(first);
            let seen = |position| self.mapped_position(view, position, map, (source, shape));
            let seen: SmallVec<[Position; 4]> = group_members.map(seen).collect();
            if let [axis] = moving[..]
                && last_axis(shape) == Some(axis)
                && map[axis].step == 1
            {
                let residue = (residue + map[axis].start) % self.lanes;
                self.group_along(&seen, axis, residue);
            }
            seen
        };
        for (position, &seen) in self.group_members(first).zip(&seen) {
            self.cache.views.insert((view, position), seen);
        }
        seen
    }

    /// Returns the position of the only element of an array.
    pub(crate) fn scalar_position(&mut self) -> Position {
        if let Some(position) = self.scalar_position {
            return position;
        }
        let zero = self.body.zero_index();
        let position = self.at_linear_index(0, &[1; RANK_MAX], zero);
        self.scalar_position = Some(position);
        position
    }

    /// Returns the position with the same linear index in an array of another shape.
    pub(crate) fn reshaped(&mut self, owner: u64, position: Position, shape: &[usize]) -> Position {
        // Only linear indices are used, so the shape does not matter, and the group stays one.
        if self.flat {
            return position;
        }
        let key = |position| (Shape::from_slice(shape), position);
        if let Some(&known) = self.cache.reshaped.get(&key(position)) {
            return known;
        }
        let PositionInfo {
            group: Some((first, lane)),
            residue: Some(0),
            ..
        } = self.cache.positions[position.0]
        else {
            let number = self.linear_index(position);
            let reshaped = self.at_linear_index(owner, shape, number);
            self.cache.reshaped.insert(key(position), reshaped);
            return reshaped;
        };
        // The positions of a group are consecutive.
        let numbers: SmallVec<[Reg; 4]> = self
            .group_members(first)
            .map(|position| self.linear_index(position))
            .collect();
        let positions: SmallVec<[Position; 4]> = numbers
            .iter()
            .map(|&number| self.at_linear_index(owner, shape, number))
            .collect();
        self.group(&positions);
        for (position, &reshaped) in self.group_members(first).zip(&positions) {
            self.cache.reshaped.insert(key(position), reshaped);
        }
        positions[lane]
    }

    /// Computes the index along one source axis for a position of a view.
    fn mapped_index(
        &mut self,
        view: u64,
        position: Position,
        axis: usize,
        from: &AxisSource,
    ) -> Reg {
        let Some(of_view) = from.axis else {
            return match from.start {
                0 => self.body.zero_index(),
                start => self.body.start(view, axis, start),
            };
        };
        let mut index = self.axis_index(position, of_view);
        if from.step == 1 && from.start == 0 {
            return index;
        }
        let (of_view, key) = (index, (index, from.step, from.start));
        if let Some(&known) = self.cache.mapped_indices.get(&key) {
            return known;
        }
        if from.step != 1 {
            let step = self.body.step(view, axis, from.step);
            index = index!(self.body; "mul.lo.s# {index}, {step}");
        }
        if from.start != 0 {
            let start = self.body.start(view, axis, from.start);
            index = index!(self.body; "add.s# {index}, {start}");
        }
        self.cache.mapped_indices.insert(key, index);
        if from.step == 1 {
            self.cache.origins.insert(index, (of_view, from.start));
        }
        index
    }

    /// Returns the indices of a position along all axes but the last, and for the last the index
    /// and the constant whose sum it is, if all are known.
    pub(crate) fn along_last(&self, position: Position) -> Option<(Indices, Reg, usize)> {
        let info = &self.cache.positions[position.0];
        let mut long = long_axes(&info.shape).into_iter();
        if !long.all(|axis| info.axes[axis].is_some()) {
            return None;
        }
        let (last, mut others) = (last_axis(&info.shape)?, info.axes.clone());
        let index = others[last].take()?;
        let (index, start) = *self.cache.origins.get(&index).unwrap_or(&(index, 0));
        Some((others, index, start))
    }

    /// Returns the linear index with 0 along the last axis, and the constant index along it of a
    /// position, if that is known and several elements of the row are read so.
    pub(crate) fn behind_front(&mut self, position: Position) -> Option<(Reg, usize)> {
        let info = &self.cache.positions[position.0];
        let (owner, shape) = (info.owner, info.shape.clone());
        let last = last_axis(&shape).filter(|_| info.linear_index.is_none())?;
        let known = self.body.known_index(info.axes[last]?)?;
        let mut indices = info.axes.clone();
        indices[last] = None;
        if let Some(&front) = self.cache.fronts.get(&(owner, indices.clone())) {
            return Some((front, known));
        }
        let mut at_front = indices.clone();
        at_front[last] = Some(self.body.zero_index());
        let first = self.at_indices(owner, &shape, at_front, None);
        let front = self.linear_index(first);
        self.cache.fronts.insert((owner, indices), front);
        Some((front, known))
    }

    /// Adds a position that differs from another in its index along one axis.
    pub(crate) fn with_axis_index(
        &mut self,
        owner: u64,
        position: Position,
        axis: usize,
        index: Reg,
        shape: &[usize],
    ) -> Position {
        let axes = (0..shape.len()).map(|each| match shape[each] {
            _ if each == axis => Some(index),
            1 => None,
            _ => Some(self.axis_index(position, each)),
        });
        let axes = axes.collect();
        self.position_at(owner, shape, axes)
    }
}
