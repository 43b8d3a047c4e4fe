//! Where in an array: indices along axes, the number of an element, and how views turn one into
//! another.

use smallvec::SmallVec;

use super::{
    body::{Body, Class, Reg, Use, line},
    value::Walk,
};
use crate::shape::{AxisSource, RANK_MAX, Shape, preserves_linear_index};

/// A place in an array of some shape, by its number in the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place(pub(super) usize);

/// What is known of a place. The rest is calculated when it is asked for.
pub(super) struct Indices {
    /// The node by whose number the lengths are passed.
    owner: u64,
    shape: Shape,
    /// The number of the element in the order of a dense array.
    number: Option<Reg>,
    axes: SmallVec<[Option<Reg>; RANK_MAX]>,
    /// The first of the neighbouring places that are calculated together, and which of them this
    /// is. Their numbers follow each other, and the first is a multiple of how many there are.
    pub(super) group: Option<(Place, usize)>,
    /// The axis along which neighbours are neighbours, if no end of it lies between them.
    along: Option<usize>,
}

impl Walk<'_> {
    /// A place that is known by its number.
    pub(super) fn numbered(&mut self, owner: u64, shape: &[usize], number: Reg) -> Place {
        self.place(Indices {
            owner,
            shape: Shape::from_slice(shape),
            number: Some(number),
            axes: SmallVec::from_elem(None, shape.len()),
            group: None,
            along: None,
        })
    }

    /// A place that is known by its indices; those of axes of length 1 need not be given.
    pub(super) fn indexed(
        &mut self,
        owner: u64,
        shape: &[usize],
        axes: SmallVec<[Option<Reg>; RANK_MAX]>,
        number: Option<Reg>,
    ) -> Place {
        self.place(Indices {
            owner,
            shape: Shape::from_slice(shape),
            number,
            axes,
            group: None,
            along: None,
        })
    }

    fn place(&mut self, indices: Indices) -> Place {
        self.places.push(indices);
        Place(self.places.len() - 1)
    }

    /// Makes neighbours of places whose numbers follow each other, the first of which is a multiple
    /// of how many there are.
    pub(super) fn group(&mut self, places: &[Place]) {
        let shape = &self.places[places[0].0].shape;
        let last = (0..shape.len()).rev().find(|&axis| shape[axis] != 1);
        let along = last.filter(|&axis| shape[axis].is_multiple_of(places.len()));
        for (lane, place) in places.iter().enumerate() {
            let indices = &mut self.places[place.0];
            indices.group = Some((places[0], lane));
            indices.along = along;
        }
        self.lanes = places.len();
    }

    /// The places of a group.
    fn neighbours(&self, first: Place) -> impl Iterator<Item = Place> + use<> {
        (first.0..first.0 + self.lanes).map(Place)
    }

    /// The length of an axis at a place.
    pub(super) fn length(&mut self, place: Place, axis: usize) -> Reg {
        let indices = &self.places[place.0];
        let (owner, length) = (indices.owner, indices.shape[axis]);
        self.body
            .index_parameter(Use::Length(owner, axis), length as i64)
    }

    /// The number of the element at a place.
    pub(super) fn number(&mut self, place: Place) -> Reg {
        if let Some(number) = self.places[place.0].number {
            return number;
        }
        let long = self.long_axes(place);
        let mut number = None;
        for axis in long {
            let index = self.axis(place, axis);
            number = Some(match number {
                None => index,
                Some(before) => {
                    let length = self.length(place, axis);
                    let sum = self.body.index_reg();
                    let bits = self.body.bits();
                    line!(
                        self.body,
                        "mad.lo.s{bits} {sum}, {before}, {length}, {index};"
                    );
                    sum
                }
            });
        }
        let number = number.unwrap_or_else(|| self.body.zero_index());
        self.places[place.0].number = Some(number);
        number
    }

    /// The index along an axis at a place.
    pub(super) fn axis(&mut self, place: Place, axis: usize) -> Reg {
        if let Some(index) = self.places[place.0].axes[axis] {
            return index;
        }
        if self.places[place.0].shape[axis] == 1 {
            let zero = self.body.zero_index();
            self.places[place.0].axes[axis] = Some(zero);
            return zero;
        }
        let mut rest = self.places[place.0]
            .number
            .expect("a place is known by its number or its indices");
        let long = self.long_axes(place);
        let bits = self.body.bits();
        for &axis in long[1..].iter().rev() {
            let length = self.length(place, axis);
            let (quotient, product, index) = (
                self.body.index_reg(),
                self.body.index_reg(),
                self.body.index_reg(),
            );
            line!(self.body, "div.u{bits} {quotient}, {rest}, {length};");
            line!(self.body, "mul.lo.s{bits} {product}, {quotient}, {length};");
            line!(self.body, "sub.s{bits} {index}, {rest}, {product};");
            self.places[place.0].axes[axis] = Some(index);
            rest = quotient;
        }
        self.places[place.0].axes[long[0]] = Some(rest);
        self.places[place.0].axes[axis].expect("every axis that is longer than 1 has an index now")
    }

    /// The axes along which there is more than one index.
    fn long_axes(&self, place: Place) -> SmallVec<[usize; RANK_MAX]> {
        let shape = &self.places[place.0].shape;
        (0..shape.len()).filter(|&axis| shape[axis] != 1).collect()
    }

    /// The place in the node `source`, of shape `shape`, that the node `view` shows at `place`.
    pub(super) fn through(
        &mut self,
        view: u64,
        place: Place,
        map: &[AxisSource],
        (source, shape): (u64, &[usize]),
    ) -> Place {
        if let Some(&known) = self.views.get(&(view, place)) {
            return known;
        }
        let seen = if shape.iter().all(|&length| length == 1) {
            self.only_place()
        } else if self.flat || preserves_linear_index(&self.places[place.0].shape, map, shape) {
            // Where all is flat, the place may have another shape than the view: a reshape leaves
            // it as it is.
            self.renumbered(source, place, shape)
        } else if let Indices {
            group: Some((first, lane)),
            along: Some(along),
            ..
        } = self.places[place.0]
        {
            return self.through_together(view, first, map, (source, shape), along)[lane];
        } else {
            self.seen(view, place, map, (source, shape))
        };
        self.views.insert((view, place), seen);
        seen
    }

    /// As [`through`](Self::through), for one place whatever its neighbours are.
    fn seen(
        &mut self,
        view: u64,
        place: Place,
        map: &[AxisSource],
        (source, shape): (u64, &[usize]),
    ) -> Place {
        let axes = map.iter().enumerate().map(|(axis, from)| {
            if shape[axis] == 1 {
                return None;
            }
            Some(self.mapped(view, place, axis, from))
        });
        let axes = axes.collect();
        self.indexed(source, shape, axes, None)
    }

    /// As [`through`](Self::through), for neighbours along an axis: they may see one place, or
    /// neighbours again.
    fn through_together(
        &mut self,
        view: u64,
        first: Place,
        map: &[AxisSource],
        (source, shape): (u64, &[usize]),
        along: usize,
    ) -> SmallVec<[Place; 4]> {
        let moving: SmallVec<[usize; RANK_MAX]> = (0..map.len())
            .filter(|&axis| map[axis].axis == Some(along) && shape[axis] != 1)
            .collect();
        let seen: SmallVec<[Place; 4]> = if moving.is_empty() {
            SmallVec::from_elem(self.seen(view, first, map, (source, shape)), self.lanes)
        } else {
            let neighbours = self.neighbours(first);
            let seen: SmallVec<[Place; 4]> = neighbours
                .map(|place| self.seen(view, place, map, (source, shape)))
                .collect();
            let last = (0..shape.len()).rev().find(|&axis| shape[axis] != 1);
            let stays_dense = moving.len() == 1 && moving.first().copied() == last && {
                let from = &map[moving[0]];
                let whole = |length: usize| length.is_multiple_of(self.lanes);
                from.step == 1 && whole(from.start) && whole(shape[moving[0]])
            };
            if stays_dense {
                self.group(&seen);
            }
            seen
        };
        for (place, &seen) in self.neighbours(first).zip(&seen) {
            self.views.insert((view, place), seen);
        }
        seen
    }

    /// The place of the only element of an array.
    pub(super) fn only_place(&mut self) -> Place {
        if let Some(place) = self.single {
            return place;
        }
        let zero = self.body.zero_index();
        let place = self.numbered(0, &[1; RANK_MAX], zero);
        self.single = Some(place);
        place
    }

    /// The place with the same number in an array of another shape.
    pub(super) fn renumbered(&mut self, owner: u64, place: Place, shape: &[usize]) -> Place {
        // Where only numbers are asked for, the shape does not matter, and neighbours stay
        // neighbours.
        if self.flat {
            return place;
        }
        if let Some(&known) = self.renumbered.get(&(owner, place)) {
            return known;
        }
        let Some((first, lane)) = self.places[place.0].group else {
            let number = self.number(place);
            return self.numbered(owner, shape, number);
        };
        // One behind the other, for neighbours' places are.
        let numbers: SmallVec<[Reg; 4]> = self
            .neighbours(first)
            .map(|place| self.number(place))
            .collect();
        let places: SmallVec<[Place; 4]> = numbers
            .iter()
            .map(|&number| self.numbered(owner, shape, number))
            .collect();
        self.group(&places);
        for (place, &renumbered) in self.neighbours(first).zip(&places) {
            self.renumbered.insert((owner, place), renumbered);
        }
        places[lane]
    }

    /// The index along one axis of what a view shows.
    fn mapped(&mut self, view: u64, place: Place, axis: usize, from: &AxisSource) -> Reg {
        let bits = self.body.bits();
        let Some(of_view) = from.axis else {
            return if from.start == 0 {
                self.body.zero_index()
            } else {
                self.body
                    .index_parameter(Use::Start(view, axis), from.start as i64)
            };
        };
        let mut index = self.axis(place, of_view);
        if from.step != 1 {
            let step = self
                .body
                .index_parameter(Use::Step(view, axis), from.step as i64);
            let scaled = self.body.index_reg();
            line!(self.body, "mul.lo.s{bits} {scaled}, {index}, {step};");
            index = scaled;
        }
        if from.start != 0 {
            let start = self
                .body
                .index_parameter(Use::Start(view, axis), from.start as i64);
            let moved = self.body.index_reg();
            line!(self.body, "add.s{bits} {moved}, {index}, {start};");
            index = moved;
        }
        index
    }

    /// The place whose index along one axis is another.
    pub(super) fn with_axis(
        &mut self,
        owner: u64,
        place: Place,
        axis: usize,
        index: Reg,
        shape: &[usize],
    ) -> Place {
        let axes = (0..shape.len()).map(|each| {
            if each == axis {
                Some(index)
            } else if shape[each] == 1 {
                None
            } else {
                Some(self.axis(place, each))
            }
        });
        let axes = axes.collect();
        self.indexed(owner, shape, axes, None)
    }
}

impl Body {
    /// A register with the index 0, which it has everywhere in the kernel.
    pub(super) fn zero_index(&mut self) -> Reg {
        let reg = self.index_reg();
        let bits = self.bits();
        self.head_line(format_args!("mov.u{bits} {reg}, 0;"));
        reg
    }

    /// The number of the thread in the whole grid.
    pub(super) fn thread(&mut self) -> Reg {
        let (block, within) = (self.reg(Class::B32), self.reg(Class::B32));
        line!(self, "mov.u32 {block}, %ctaid.x;");
        line!(self, "mov.u32 {within}, %tid.x;");
        let thread = self.index_reg();
        if self.wide {
            let wide = self.reg(Class::B64);
            line!(self, "cvt.u64.u32 {wide}, {within};");
            line!(
                self,
                "mad.wide.u32 {thread}, {block}, {}, {wide};",
                super::body::BLOCK
            );
        } else {
            line!(
                self,
                "mad.lo.u32 {thread}, {block}, {}, {within};",
                super::body::BLOCK
            );
        }
        thread
    }

    /// The address of an element: `base` plus the index times the element's bytes.
    pub(super) fn element(&mut self, base: Reg, index: Reg, bytes: usize) -> Reg {
        let address = self.reg(Class::B64);
        if self.wide {
            line!(self, "mad.lo.u64 {address}, {index}, {bytes}, {base};");
        } else {
            line!(self, "mad.wide.u32 {address}, {index}, {bytes}, {base};");
        }
        address
    }
}
