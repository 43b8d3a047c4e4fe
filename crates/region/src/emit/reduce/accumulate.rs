//! The loop in which a thread of a reduction accumulates elements.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{KernelBody, Reg, RowThread, index, jump, line, test},
        lower::{Indices, Lowering, Position, RegisterCache},
        reduce::reduction::{Accumulators, ReductionGenerator},
    },
    plan::{AxisSet, RowSplit},
    shape::Shape,
};

/// The usual number of neighbours, and of groups of them at once.
const UNROLL: usize = 4;

/// Neighbours that a thread computes together.
pub(crate) struct Neighbours {
    /// The number of each within the result.
    numbers: SmallVec<[Reg; UNROLL]>,
    positions: SmallVec<[Position; UNROLL]>,
}

/// A result, and the indices of its elements along the axes that it keeps.
pub(crate) struct Place {
    result: Reg,
    kept_axes: Indices,
}

pub(crate) struct Element {
    /// The number within the result.
    number: Reg,
    values: SmallVec<[Reg; 1]>,
}

impl ReductionGenerator<'_> {
    /// Accumulates every `step`th element of a result, from `first` on.
    pub(crate) fn accumulate(
        &self,
        body: &mut KernelBody,
        result: Reg,
        first: Reg,
        step: Reg,
    ) -> Accumulators {
        let mut all = self.accumulate_results(body, &[result], first, step);
        all.swap_remove(0)
    }

    /// Accumulates every `step`th element of several results, from `first` on. Values that are the
    /// same for all of them are computed once.
    pub(crate) fn accumulate_results(
        &self,
        body: &mut KernelBody,
        results: &[Reg],
        first: Reg,
        step: Reg,
    ) -> SmallVec<[Accumulators; 1]> {
        let all: SmallVec<[Accumulators; 1]> =
            results.iter().map(|_| self.identities(body)).collect();
        let places = self.places(body, results);
        let lanes = self.rows.lanes;
        // Groups of elements are combined together where that decides bits.
        let is_grouped = self
            .reductions
            .iter()
            .any(|reduced| reduced.reducer.prefers_many());
        let unroll = match results.len() {
            2.. if !is_grouped => 1,
            _ => self.rows.at_once,
        };
        let length = self.groups(body);
        let at = index!(body; "mov.b# {first}");
        let number = index!(body; "mul.lo.s# {first}, {lanes}");
        for accumulators in &all {
            self.begin_at(body, accumulators, number);
        }
        let known = self.before_loop(body, &places, number);
        let beyond = body.predicate();

        body.label("LOOP");
        let numbers = body.steps(at, step, unroll);
        jump!(body, beyond; "REST" if "ge.u# {}, {length}", numbers[unroll - 1]);
        let words = body.name_parts();
        let mut first_words = None;
        let mut lowering = self.lowering(body, &known);
        for (place, accumulators) in places.iter().zip(&all) {
            let mut elements: SmallVec<[Element; UNROLL]> = SmallVec::new();
            for neighbours in &self.neighbours(&mut lowering, place, &numbers, lanes) {
                elements.extend(self.elements(&mut lowering, neighbours, &mut first_words));
            }
            self.combine_elements(lowering.body, accumulators, &elements);
        }
        line!(body; "add.s# {at}, {}, {step};", numbers[unroll - 1]);
        line!(body; "bra LOOP;");

        body.label("REST");
        jump!(body, beyond; "LEFT" if "ge.u# {at}, {length}");
        let mut lowering = self.lowering(body, &known);
        for (place, accumulators) in places.iter().zip(&all) {
            for neighbours in self.neighbours(&mut lowering, place, &[at], lanes) {
                let elements = self.elements(&mut lowering, &neighbours, &mut None);
                self.combine_elements(lowering.body, accumulators, &elements);
            }
        }
        line!(body; "add.s# {at}, {at}, {step};");
        line!(body; "bra REST;");
        body.label("LEFT");
        body.truncate_name(first_words.unwrap_or(words));
        all
    }

    /// Returns where the elements of results are.
    pub(crate) fn places(&self, body: &mut KernelBody, results: &[Reg]) -> SmallVec<[Place; 1]> {
        let place = |&result: &Reg| Place {
            result,
            kept_axes: self.kept_axes(body, result),
        };
        results.iter().map(place).collect()
    }

    /// Computes the values that do not depend on the number of an element. Any number serves.
    pub(crate) fn before_loop(
        &self,
        body: &mut KernelBody,
        places: &[Place],
        number: Reg,
    ) -> RegisterCache {
        let mut lowering = Lowering::new(body, self.kernel, self.is_flat());
        if !self.is_flat() && self.rows.length > 0 {
            let varying = AxisSet::long(self.shape, self.axes.iter().copied());
            for place in places {
                let position = self.element_positions(&mut lowering, place, &[number])[0];
                for reduced in &self.reductions {
                    lowering.lower_invariants(reduced.source, position, varying);
                }
            }
        }
        lowering.cache
    }

    /// Returns a lowering that knows the values that were computed in front of the loop.
    pub(crate) fn lowering<'a>(
        &'a self,
        body: &'a mut KernelBody,
        known: &RegisterCache,
    ) -> Lowering<'a> {
        let mut lowering = Lowering::new(body, self.kernel, self.is_flat());
        lowering.cache = known.clone();
        lowering
    }

    /// Accumulates a thread's elements of a short row. Those of few arrays are all loaded first.
    pub(crate) fn accumulate_row(&self, body: &mut KernelBody, own: RowThread) -> Accumulators {
        let accumulators = self.identities(body);
        let places = self.places(body, &[own.row]);
        let lanes = self.rows.lanes;
        let length = self.groups(body);
        let mut numbers: SmallVec<[Reg; UNROLL]> = SmallVec::new();
        let mut beyond: SmallVec<[Option<Reg>; UNROLL]> = SmallVec::new();
        let split = RowSplit::of(self.rows.length);
        for turn in 0..split.turns() {
            let mut number = own.thread;
            if turn > 0 {
                number = index!(body; "add.s# {number}, {}", turn * own.threads);
            }
            beyond.push(split.has_beyond(turn).then(|| {
                let is_beyond = test!(body; "ge.u# {number}, {length}");
                let last = index!(body; "sub.s# {length}, 1");
                let within = index!(body; "min.u# {number}, {last}");
                number = within;
                is_beyond
            }));
            numbers.push(number);
        }
        let first = index!(body; "mul.lo.s# {}, {lanes}", own.thread);
        self.begin_at(body, &accumulators, first);
        let mut first_words = None;
        let mut lowering = Lowering::new(body, self.kernel, self.is_flat());
        let at_once = if self.rows.is_simple {
            numbers.len()
        } else {
            1
        };
        let mut beyond = beyond.into_iter();
        for numbers in numbers.chunks(at_once) {
            for neighbours in self.neighbours(&mut lowering, &places[0], numbers, lanes) {
                let elements = self.elements(&mut lowering, &neighbours, &mut first_words);
                let body = &mut *lowering.body;
                let label = format!("BEYOND{}", body.label_number());
                let is_beyond = beyond.next().flatten();
                if let Some(is_beyond) = is_beyond {
                    line!(body; "@{is_beyond} bra {label};");
                }
                self.combine_elements(body, &accumulators, &elements);
                if is_beyond.is_some() {
                    body.label(&label);
                }
            }
        }
        accumulators
    }

    /// Returns the number of groups of neighbours of a result.
    pub(crate) fn groups(&self, body: &mut KernelBody) -> Reg {
        match self.rows.lanes {
            1 => body.named("length", self.rows.length),
            lanes => body.named("vectors", self.rows.length / lanes),
        }
    }

    /// Computes the positions of neighbours with these numbers, and loads their elements of arrays.
    pub(crate) fn neighbours(
        &self,
        lowering: &mut Lowering<'_>,
        place: &Place,
        numbers: &[Reg],
        lanes: usize,
    ) -> SmallVec<[Neighbours; UNROLL]> {
        let all: SmallVec<[Neighbours; UNROLL]> = numbers
            .iter()
            .map(|&at| self.neighbours_at(lowering, place, at, lanes))
            .collect();
        let sources = self.reductions.iter().map(|reduced| reduced.source);
        let arrays = self.kernel.arrays_of(sources);
        for neighbours in &all {
            for array in &arrays {
                for &position in &neighbours.positions {
                    lowering.lower(array, position);
                }
            }
        }
        all
    }

    /// Computes the positions of the neighbours with a number.
    fn neighbours_at(
        &self,
        lowering: &mut Lowering<'_>,
        place: &Place,
        at: Reg,
        lanes: usize,
    ) -> Neighbours {
        let mut first = at;
        if lanes > 1 {
            first = index!(lowering.body; "shl.b# {at}, {}", lanes.trailing_zeros());
        }
        let numbers = lowering.body.neighbours(first, lanes);
        let positions = self.element_positions(lowering, place, &numbers);
        if lanes > 1 {
            lowering.group(&positions);
        }
        Neighbours { numbers, positions }
    }

    /// Computes the elements of each reduction's array at neighbours. Only the first add to the
    /// kernel's name, whose number of words is then known.
    pub(crate) fn elements(
        &self,
        lowering: &mut Lowering<'_>,
        neighbours: &Neighbours,
        words: &mut Option<usize>,
    ) -> SmallVec<[Element; UNROLL]> {
        let mut elements = SmallVec::new();
        for (&number, &position) in neighbours.numbers.iter().zip(&neighbours.positions) {
            let sources = self.reductions.iter().map(|reduced| reduced.source);
            let values = sources.map(|source| lowering.lower(source, position));
            let values = values.collect();
            elements.push(Element { number, values });
            let words = *words.get_or_insert(lowering.body.name_parts());
            lowering.body.truncate_name(words);
        }
        elements
    }

    /// Prepares accumulators for threads whose first elements have this number.
    pub(crate) fn begin_at(&self, body: &mut KernelBody, accumulators: &Accumulators, number: Reg) {
        for (reduced, accumulator) in self.reductions.iter().zip(accumulators) {
            reduced.reducer.begin_at(body, accumulator, number);
        }
    }

    /// Combines elements into the accumulators, after all elements with lower numbers.
    pub(crate) fn combine_elements(
        &self,
        body: &mut KernelBody,
        accumulators: &Accumulators,
        elements: &[Element],
    ) {
        for (at, reduced) in self.reductions.iter().enumerate() {
            let elements = elements.iter();
            let elements = elements.map(|element| (element.values[at], element.number));
            (reduced.reducer).combine_elements(body, &accumulators[at], elements);
        }
    }

    pub(crate) fn is_flat(&self) -> bool {
        self.analysis.flat && self.rows.is_contiguous
    }

    /// Returns the source indices along the axes that the result keeps.
    fn kept_axes(&self, body: &mut KernelBody, result: Reg) -> Indices {
        let mut axes = SmallVec::from_elem(None, self.shape.len());
        if self.is_flat() {
            return axes;
        }
        let node = self.reductions[0].node;
        let mut lowering = Lowering::new(body, self.kernel, false);
        let position = lowering.at_linear_index(node.id, &node.shape, result);
        let accumulator = (0..self.shape.len()).filter(|axis| !self.axes.contains(axis));
        for (of_result, axis) in accumulator.enumerate() {
            axes[axis] = Some(lowering.axis_index(position, of_result));
        }
        axes
    }

    /// Returns the positions of elements, given the linear index of each within the result.
    fn element_positions(
        &self,
        lowering: &mut Lowering<'_>,
        Place { result, kept_axes }: &Place,
        numbers: &[Reg],
    ) -> SmallVec<[Position; UNROLL]> {
        let known = |&number: &Reg| {
            let mut linear_index = None;
            if self.rows.is_contiguous {
                let length = lowering.body.named("length", self.rows.length);
                let of_all = index!(lowering.body; "mad.lo.s# {result}, {length}, {number}");
                linear_index = Some(of_all);
            }
            let mut axes = kept_axes.clone();
            if !self.is_flat() {
                let shape: Shape = self.axes.iter().map(|&axis| self.shape[axis]).collect();
                // No node has this number; it stands for the reduced axes.
                let within = lowering.at_linear_index(u64::MAX, &shape, number);
                for (of_number, &axis) in self.axes.iter().enumerate() {
                    axes[axis] = Some(lowering.axis_index(within, of_number));
                }
            }
            (axes, linear_index)
        };
        let known: SmallVec<[_; UNROLL]> = numbers.iter().map(known).collect();
        // Positions of a group have consecutive numbers.
        let source = self.reductions[0].source.id;
        let position =
            |(axes, linear_index)| lowering.at_indices(source, self.shape, axes, linear_index);
        known.into_iter().map(position).collect()
    }
}
