//! Generation of random steps that fit the arrays so far.

use crate::differential::{
    host::whole,
    host_arranging::arranged_shape,
    prelude::*,
    program::{AXES_MAX, ProgramGenerator},
    step::{Arrange, Padding, Slot},
};

impl ProgramGenerator {
    /// Appends a step of this kind, or returns `None` if no array fits it.
    pub(crate) fn step(&mut self, kind: u32) -> Option<Slot> {
        let is_number = |host: &Host| host.kind().is_number();
        match kind {
            0 | 1 => {
                let a = self.some(is_number)?;
                let b = self.partner(a, self.kind_of(a))?;
                let function = self.binary();
                Some(self.push(Step::Binary(function, a, b)))
            }
            2 => {
                let a = self.some(is_number)?;
                let (function, value) = (self.binary(), self.below(19) as i8 - 9);
                let is_left = self.chance(2);
                Some(self.push(Step::WithValue(function, a, value, is_left)))
            }
            3 | 4 => {
                let a = self.some(is_number)?;
                let count = if self.kind_of(a).is_float() { 13 } else { 5 };
                let function = Unary::ALL[self.below(count)];
                Some(self.push(Step::Unary(function, a)))
            }
            5 => {
                let a = self.some(|host| host.kind().has_bits())?;
                let b = self.partner(a, self.kind_of(a))?;
                let function = self.bitwise(self.kind_of(a).is_number());
                let b = if function == Bitwise::Not { a } else { b };
                Some(self.push(Step::Bitwise(function, a, b)))
            }
            6 => {
                let a = self.below(self.slots.len());
                let b = self.partner(a, self.kind_of(a))?;
                let count = if self.kind_of(a).is_number() { 6 } else { 2 };
                let comparison = Compare::ALL[self.below(count)];
                Some(self.push(Step::Compare(comparison, a, b)))
            }
            7 => {
                let which = self.some(|host| host.kind() == Kind::Bool)?;
                let kind = self.kind(self.kinds.len());
                let (a, b) = (self.partner(which, kind)?, self.partner(which, kind)?);
                let shape = broadcast(&self.shape_of(a), &self.shape_of(b))?;
                broadcast(&shape, &self.shape_of(which))?;
                Some(self.push(Step::Select(which, a, b)))
            }
            8 => {
                let a = self.some(is_number)?;
                let least = self.below(6) as i8;
                let greatest = least + self.below(4) as i8;
                Some(self.push(Step::Clamp(a, least, greatest)))
            }
            9 => {
                let a = self.some(|host| host.kind().is_float())?;
                Some(self.push(Step::IsNan(a)))
            }
            10 => {
                let a = self.below(self.slots.len());
                let kind = self.kind(self.kinds.len());
                Some(self.push(Step::Cast(a, kind)))
            }
            11..=14 => {
                let a = self.below(self.slots.len());
                let view = self.view(a)?;
                Some(self.push(Step::View(a, view)))
            }
            15 | 16 => self.reduction(),
            17 => {
                let a = self.some(|host| is_number(host) && !host.shape().is_empty())?;
                let reduce = Reduce::ALL[self.below(4)];
                let a = self.exact(a, reduce);
                let axis = self.below(self.slots[a].shape().len());
                Some(self.push(Step::Cumulate(reduce, a, axis)))
            }
            18 => self.taking(),
            19 => self.scattering(),
            20 | 21 => self.updating(),
            22 => self.joining(),
            23 => self.multiplying(),
            24 => {
                let which = self.some(|host| host.kind() == Kind::Bool)?;
                let value = self.below(19) as i8 - 9;
                if self.chance(4) {
                    let other = self.below(19) as i8 - 9;
                    return Some(self.push(Step::SelectValues(which, value, other)));
                }
                let kind = self.kind(self.kinds.len() - 1);
                let a = self.partner(which, kind)?;
                let is_yes = self.chance(2);
                Some(self.push(Step::SelectValue(which, a, value, is_yes)))
            }
            25 => {
                let a = self.some(|host| !host.shape().is_empty())?;
                let axis = self.below(self.slots[a].shape().len());
                let k = self.below(self.slots[a].shape()[axis] + 1);
                let ordered = [
                    Ordered::Sort,
                    Ordered::Positions,
                    Ordered::Greatest(k),
                    Ordered::GreatestPositions(k),
                ];
                let ordered = ordered[self.below(4)];
                Some(self.push(Step::Order(ordered, a, axis)))
            }
            26 => self.arranging(),
            27 => {
                let a = self.some(is_number)?;
                let shape = self.shape_of(a);
                let mask = self.fresh(Kind::Bool, &shape);
                let value = self.below(19) as i8 - 9;
                Some(self.push(Step::Compress(a, mask, value)))
            }
            _ => {
                let a = self.some(|host| is_number(host) && !host.kind().is_float())?;
                let exponent = [0, 1, 2, 3, 7, 31, -1, -2, i32::MAX, i32::MIN][self.below(10)];
                Some(self.push(Step::Power(a, exponent)))
            }
        }
    }

    fn bitwise(&mut self, shifts: bool) -> Bitwise {
        Bitwise::ALL[self.below(if shifts { 6 } else { 4 })]
    }

    fn binary(&mut self) -> Binary {
        Binary::ALL[self.below(7)]
    }

    /// Returns a random slice: reversed, with steps, empty, or with single indices.
    fn part(&mut self, shape: &[usize], indices: bool) -> Vec<SliceInfoElem> {
        let mut part = whole(shape.len());
        for (element, &length) in part.iter_mut().zip(shape) {
            if indices && length > 0 && self.chance(6) {
                let index = self.below(length) as isize;
                let back = if self.chance(3) { length as isize } else { 0 };
                *element = SliceInfoElem::Index(index - back);
            } else if !self.chance(3) {
                let start = self.below(length + 1);
                let end = start + self.below(length - start + 1);
                let step = [1, 1, 2, 3, -1, -2][self.below(6)];
                *element = Slice::new(start as isize, Some(end as isize), step).into();
            }
        }
        if indices && shape.len() < AXES_MAX && self.chance(8) {
            let axis = self.below(shape.len() + 1);
            part.insert(axis, SliceInfoElem::NewAxis);
        }
        part
    }

    fn view(&mut self, a: Slot) -> Option<View> {
        let shape = self.shape_of(a);
        let rank = shape.len();
        Some(match self.below(8) {
            0 | 1 => View::Slice(self.part(&shape, true)),
            2 => {
                let mut order: Vec<_> = (0..rank).collect();
                for at in (1..rank).rev() {
                    let other = self.below(at + 1);
                    order.swap(at, other);
                }
                View::Permute(order)
            }
            3 if rank < AXES_MAX => View::Insert(self.below(rank + 1)),
            4 if rank > 0 => {
                let axis = self.below(rank);
                if shape[axis] == 0 {
                    return None;
                }
                View::Index(axis, self.below(shape[axis]))
            }
            5 => {
                let mut target = shape;
                for length in &mut target {
                    if *length == 1 && self.chance(2) {
                        *length = [0, 1, 2, 5][self.below(4)];
                    }
                }
                if target.len() < AXES_MAX && self.chance(3) {
                    target.insert(0, 1 + self.below(3));
                }
                if target.iter().product::<usize>() > self.elements_max {
                    return None;
                }
                View::Broadcast(target)
            }
            6 => View::Reshape(self.reshape(&shape)),
            _ if rank > 0 => View::Invert(self.below(rank)),
            _ => return None,
        })
    }

    /// Returns another shape with the same number of elements.
    fn reshape(&mut self, shape: &[usize]) -> Vec<usize> {
        let mut rest: usize = shape.iter().product();
        let mut target = Vec::new();
        for factor in [2, 3, 5, 1, 7, 11] {
            if target.len() + 1 < AXES_MAX && rest.is_multiple_of(factor) && self.chance(2) {
                target.push(factor);
                rest /= factor;
            }
        }
        let axis = self.below(target.len() + 1);
        target.insert(axis, rest);
        target
    }

    fn reduction(&mut self) -> Option<Slot> {
        let a = self.below(self.slots.len());
        let reduce = match self.kind_of(a) {
            Kind::Bool => [Reduce::Any, Reduce::All, Reduce::Sum][self.below(3)],
            _ => Reduce::ALL[self.below(6)],
        };
        let rank = self.slots[a].shape().len();
        let (axes, keep): (Vec<usize>, bool) = match self.below(3) {
            0 => ((0..rank).collect(), false),
            1 if rank > 0 => (vec![self.below(rank)], false),
            _ => ((0..rank).filter(|_| self.chance(2)).collect(), true),
        };
        let needs_one = !matches!(
            reduce,
            Reduce::Sum | Reduce::Product | Reduce::Any | Reduce::All
        );
        if needs_one && axes.iter().any(|&axis| self.slots[a].shape()[axis] == 0) {
            return None;
        }
        let a = self.exact(a, reduce);
        Some(self.push(Step::Reduce(reduce, a, axes, keep)))
    }

    /// Appends an array of random indices of an axis.
    fn indices(&mut self, shape: &[usize], length: usize) -> Slot {
        let index = || self.below(length) as i64;
        let indices = ArrayD::from_shape_simple_fn(shape, index);
        let indices = if self.chance(2) {
            Host::I64(indices)
        } else {
            Host::I32(indices.mapv(|index| index as i32))
        };
        self.push(Step::Fresh(indices))
    }

    fn taking(&mut self) -> Option<Slot> {
        let a = self.some(|host| !host.shape().is_empty() && !host.shape().contains(&0))?;
        let mut shape = self.shape_of(a);
        let axis = self.below(shape.len());
        let (length, count) = (shape[axis], self.below(9));
        if shape.iter().product::<usize>() / length * count > self.elements_max {
            return None;
        }
        match self.below(4) {
            0 => {
                let indices = (0..count).map(|_| self.below(length)).collect();
                Some(self.push(Step::TakeListed(a, axis, indices)))
            }
            1 => {
                let index = self.indices(&[count], length);
                Some(self.push(Step::Take(a, axis, index)))
            }
            2 => {
                shape[axis] = count;
                let index = self.indices(&shape, length);
                Some(self.push(Step::Gather(a, axis, index)))
            }
            _ => {
                // One array of indices, used along two axes, must give two different gathers.
                let least = shape.iter().copied().min()?;
                let index = self.indices(&shape, least);
                let other = self.below(shape.len());
                let first = self.push(Step::Gather(a, other, index));
                let second = self.push(Step::Gather(a, axis, index));
                Some(self.push(Step::Compare(Compare::Equal, first, second)))
            }
        }
    }

    /// Appends a step that moves elements, by distances longer than the array at times.
    fn arranging(&mut self) -> Option<Slot> {
        let a = self.below(self.slots.len());
        let (shape, is_number) = (self.shape_of(a), self.kind_of(a).is_number());
        let rank = shape.len();
        let axis = self.below(rank);
        let how = match self.below(8) {
            0 if rank > 0 => {
                let shift = [0, 1, -1, 3, -7, 100, isize::MAX, isize::MIN][self.below(8)];
                Arrange::Roll(shift, axis)
            }
            1..=3 => {
                let padding = match self.below(4) {
                    0 if is_number => Padding::Constant(self.below(19) as i8 - 9),
                    1 => Padding::Edge,
                    2 => Padding::Reflect,
                    _ => Padding::Wrap,
                };
                let is_constant = matches!(padding, Padding::Constant(_));
                let mut width = |length: usize| match length {
                    0 if !is_constant => 0,
                    _ => [0, 0, 1, 2, 5, 9, 17][self.below(7)],
                };
                let widths = shape.iter().map(|&length| (width(length), width(length)));
                Arrange::Pad(widths.collect(), padding)
            }
            4 => Arrange::Tile((0..rank).map(|_| [1, 1, 2, 3, 0][self.below(5)]).collect()),
            5 if rank > 0 => Arrange::Repeat([0, 1, 2, 3, 5][self.below(5)], axis),
            6 if is_number => Arrange::Triangle(self.below(9) as isize - 4, self.chance(2)),
            _ if (1..=3).contains(&rank) => {
                Arrange::Windows((0..rank).map(|_| [1, 2, 3, 5][self.below(4)]).collect())
            }
            _ => return None,
        };
        if arranged_shape(&shape, &how).iter().product::<usize>() > self.elements_max {
            return None;
        }
        Some(self.push(Step::Arrange(a, how)))
    }

    fn scattering(&mut self) -> Option<Slot> {
        let base = self.some(|host| !host.shape().is_empty() && !host.shape().contains(&0))?;
        let mut shape = self.shape_of(base);
        let axis = self.below(shape.len());
        let (length, kind) = (shape[axis], self.kind_of(base));
        shape[axis] = self.below(12);
        if shape.iter().product::<usize>() > self.elements_max {
            return None;
        }
        let values = self.related(&shape);
        let values = self.fresh(kind, &values);
        let of_index: Vec<_> = (0..shape.len())
            .map(|each| {
                if each != axis && self.chance(4) {
                    1
                } else {
                    shape[each]
                }
            })
            .collect();
        let index = self.indices(&of_index, length);
        let adds = kind.is_number() && self.chance(2);
        let (base, values) = if adds {
            (
                self.exact(base, Reduce::Sum),
                self.exact(values, Reduce::Sum),
            )
        } else {
            (base, values)
        };
        Some(self.push(Step::Scatter(base, axis, index, values, adds)))
    }

    fn updating(&mut self) -> Option<Slot> {
        let base = self.below(self.slots.len());
        let kind = self.kind_of(base);
        let shape = self.shape_of(base);
        let part = self.part(&shape, true);
        if kind.is_number() && self.chance(3) {
            let value = self.below(19) as i8 - 9;
            if self.chance(2) {
                let function = self.binary();
                return Some(self.push(Step::UpdateValue(function, base, part, value)));
            }
            return Some(self.push(Step::Fill(base, part, value)));
        }
        let seen = self.push(Step::View(base, View::Slice(part.clone())));
        let shape = self.shape_of(seen);
        let fits = |host: &Host| {
            host.kind() == kind && broadcast(&shape, host.shape()).is_some_and(|both| both == shape)
        };
        let values = self.some(fits)?;
        let assign = match self.below(3) {
            0 if kind.is_number() => Assign::Arithmetic(self.binary()),
            1 if kind.has_bits() => Assign::Bits(self.bitwise(kind.is_number())),
            _ => Assign::Set,
        };
        Some(self.push(Step::Update(assign, base, part, values)))
    }

    fn joining(&mut self) -> Option<Slot> {
        let a = self.below(self.slots.len());
        let (shape, kind) = (self.shape_of(a), self.kind_of(a));
        let same = |host: &Host| host.kind() == kind && host.shape() == shape;
        let mut parts = vec![a];
        for _ in 0..1 + self.below(3) {
            parts.push(self.some(same)?);
        }
        if shape.iter().product::<usize>() * parts.len() > self.elements_max {
            return None;
        }
        if shape.len() < AXES_MAX && self.chance(2) {
            let axis = self.below(shape.len() + 1);
            return Some(self.push(Step::Stack(axis, parts)));
        }
        if shape.is_empty() {
            return None;
        }
        let axis = self.below(shape.len());
        Some(self.push(Step::Concatenate(axis, parts)))
    }

    fn multiplying(&mut self) -> Option<Slot> {
        let is_matrix = |host: &Host| {
            let shape = host.shape();
            shape.len() >= 2 && host.kind().is_number() && shape.iter().product::<usize>() < 4000
        };
        let a = self.some(is_matrix)?;
        let (shape, kind) = (self.shape_of(a), self.kind_of(a));
        let inner = shape[shape.len() - 1];
        let b = [inner, [0, 1, 3, 17][self.below(4)]];
        let b = self.fresh(kind, &b);
        let (a, b) = (self.exact(a, Reduce::Sum), self.exact(b, Reduce::Sum));
        // A transpose has another order in memory.
        let b = if self.chance(2) {
            let shape = [self.shape_of(b)[1], inner];
            let other = self.fresh(kind, &shape);
            let other = self.exact(other, Reduce::Sum);
            self.push(Step::View(other, View::Permute(vec![1, 0])))
        } else {
            b
        };
        let product = self.push(Step::Multiply(a, b));
        self.epilogue(product)
    }

    /// Appends functions of a product's elements, or none. The kernel of the product computes them.
    fn epilogue(&mut self, product: Slot) -> Option<Slot> {
        let mut last = product;
        for _ in 0..self.below(4) {
            let kind = self.kind_of(last);
            last = match self.below(5) {
                0 | 1 if kind.is_number() => {
                    let shape = self.shape_of(last);
                    let related = self.related(&shape);
                    let other = self.fresh(kind, &related);
                    let function = self.binary();
                    self.push(Step::Binary(function, last, other))
                }
                2 if kind.is_number() => {
                    let (function, value) = (self.binary(), self.below(19) as i8 - 9);
                    self.push(Step::WithValue(function, last, value, true))
                }
                3 if kind.is_number() => self.push(Step::Unary(Unary::Relu, last)),
                _ => {
                    let kind = self.kind(self.kinds.len());
                    self.push(Step::Cast(last, kind))
                }
            };
        }
        Some(last)
    }
}
