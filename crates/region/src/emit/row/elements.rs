//! The elements of a row in the registers of its threads, and the reductions of them.

use std::{iter, ops::Range};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    emit::{
        body::{Accumulator, KernelBody, Reducer, Reg, RowThread, WARP, index, line, test},
        lower::{Lowering, Position, RowNodes},
        passes::{GeneratedPasses, Threads},
    },
    expr::{NodeRef, Reduction},
    plan::{FusedKernel, IndexAnalysis, KernelOutput, RowClass, RowShape, RowSplit},
    shape::{Shape, long_axes},
};

/// Neighbouring elements of the row in each thread.
pub(crate) struct RowElements {
    /// The index of each within the row: those of the last elements for threads beyond the end.
    pub(crate) numbers: SmallVec<[Reg; 4]>,
    /// The linear index of each.
    pub(crate) linear_indices: SmallVec<[Reg; 4]>,
    /// Another linear index of the thread in the row, and the constant by which those of these
    /// elements are greater, unless some threads are beyond the end.
    pub(crate) offset: Option<(Reg, usize)>,
    /// True in threads beyond the end; `None` if there are none.
    beyond: Option<Reg>,
    /// The positions in arrays of each shape.
    positions: Vec<(Shape, RowPositions)>,
}

type RowPositions = SmallVec<[Position; 4]>;

/// The first of a thread's neighbours of one turn.
#[derive(Clone, Copy)]
pub(crate) struct FirstOfTurn {
    /// Its index within the row: that of the last neighbours for threads beyond the end.
    number: Reg,
    /// The number of elements of the row from the thread's first to it, unless it is beyond.
    ahead: usize,
    neighbours: usize,
    /// True in threads beyond the end; `None` if there are none.
    beyond: Option<Reg>,
}

impl FirstOfTurn {
    pub(crate) fn new(
        body: &mut KernelBody,
        split: RowSplit,
        (thread, threads): (Reg, Range<usize>),
        length: Reg,
        turn: usize,
    ) -> Self {
        let neighbours = split.neighbours;
        let mut number = thread;
        if neighbours > 1 {
            number = body.index_reg();
            line!(body; "mul.lo.s# {number}, {thread}, {neighbours};");
        }
        let at_once = split.threads * neighbours;
        // Of the threads of a turn, those of the first parts of a block may all be within the row.
        let end = turn * at_once + threads.end * neighbours;
        let is_full = threads.len() < split.threads && end <= split.length;
        if turn > 0 {
            let ahead = index!(body; "add.s# {number}, {}", turn * at_once);
            number = ahead;
        }
        let mut beyond = None;
        if split.has_beyond(turn) && !is_full {
            let is_beyond = test!(body; "ge.u# {number}, {length}");
            let last = index!(body; "sub.s# {length}, {neighbours}");
            let within = index!(body; "min.u# {number}, {last}");
            (number, beyond) = (within, Some(is_beyond));
        }
        Self {
            number,
            ahead: turn * at_once + threads.start * neighbours,
            neighbours,
            beyond,
        }
    }
}

impl RowElements {
    /// Computes the indices of a thread's elements of one turn in a row.
    pub(crate) fn of_turn(
        body: &mut KernelBody,
        row: Reg,
        length: Reg,
        of_turn: FirstOfTurn,
    ) -> Self {
        let first = (of_turn.number, of_turn.neighbours);
        Self {
            beyond: of_turn.beyond,
            ..Self::at(body, row, length, first)
        }
    }

    /// Computes the indices of neighbours, from this index within the row on.
    pub(crate) fn at(
        body: &mut KernelBody,
        row: Reg,
        length: Reg,
        (first, neighbours): (Reg, usize),
    ) -> Self {
        let linear_index = index!(body; "mad.lo.s# {row}, {length}, {first}");
        Self {
            numbers: body.neighbours(first, neighbours),
            linear_indices: body.neighbours(linear_index, neighbours),
            offset: None,
            beyond: None,
            positions: Vec::new(),
        }
    }

    /// Loads the elements of arrays with the shape of the rows. Returns their registers.
    pub(crate) fn load(
        &mut self,
        lowering: &mut Lowering<'_>,
        arrays: &[&NodeRef],
        row: Reg,
    ) -> SmallVec<[Reg; 8]> {
        let mut loaded = SmallVec::new();
        for &array in arrays {
            for position in self.positions(lowering, array, row) {
                loaded.push(lowering.lower(array, position));
            }
        }
        loaded
    }

    /// Returns the positions in a node's array.
    pub(crate) fn positions(
        &mut self,
        lowering: &mut Lowering<'_>,
        node: &NodeRef,
        row: Reg,
    ) -> RowPositions {
        let mut positions_by_shape = self.positions.iter();
        if let Some((_, positions)) = positions_by_shape.find(|(shape, _)| *shape == node.shape) {
            return positions.clone();
        }
        let long = long_axes(&node.shape);
        let length = lowering.row_nodes.as_ref().map(|rows| rows.length);
        let mut positions = RowPositions::new();
        for (&number, &linear_index) in self.numbers.iter().zip(&self.linear_indices) {
            positions.push(match long[..] {
                [rows, along] if length == Some(node.shape[along]) => {
                    let mut axes = SmallVec::from_elem(None, node.shape.len());
                    (axes[rows], axes[along]) = (Some(row), Some(number));
                    lowering.at_indices(node.id, &node.shape, axes, Some(linear_index))
                }
                _ => lowering.at_linear_index(node.id, &node.shape, linear_index),
            });
        }
        // The others of a group are loaded with its first.
        lowering.cache.positions[positions[0].0].offset = self.offset;
        if positions.len() > 1 {
            lowering.group(&positions);
        }
        self.positions.push((node.shape.clone(), positions.clone()));
        positions
    }

    /// Computes the elements of a node. Only those of the first turn add to the kernel's name.
    pub(crate) fn lower(
        &mut self,
        lowering: &mut Lowering<'_>,
        node: &NodeRef,
        row: Reg,
        turn: usize,
    ) -> SmallVec<[Reg; 4]> {
        let positions = self.positions(lowering, node, row);
        let lower = |(lane, position)| lowering.lower_in_turn(node, position, turn + lane);
        positions.into_iter().enumerate().map(lower).collect()
    }
}

/// Makes addresses constants behind that of the first, except where threads are beyond the end.
pub(crate) fn address_behind_first(elements: &mut [RowElements], turns: &[FirstOfTurn]) {
    if turns[0].beyond.is_some() {
        return;
    }
    let first = elements[0].linear_indices[0];
    for (elements, turn) in elements.iter_mut().zip(turns) {
        elements.offset = turn.beyond.is_none().then_some((first, turn.ahead));
    }
}

/// Begins a row kernel: returns the classes of its nodes and its empty body.
pub(crate) fn begin(
    kernel: &FusedKernel,
    rows: RowShape,
) -> (FxHashMap<u64, RowClass>, KernelBody) {
    let nodes = kernel.nodes.iter().map(|fused| (&fused.node, &*fused.op));
    let classes = rows
        .classify(nodes, iter::empty())
        .expect("planning has checked that all nodes belong to rows");
    (classes, KernelBody::new(IndexAnalysis::of(kernel).wide))
}

/// Generates the rest of a row kernel, which has these elements of a row in registers. A block may
/// do the work of a larger one in several parts. Then `elements` has the elements of all parts,
/// turn by turn.
pub(crate) fn finish_row(
    kernel: &FusedKernel,
    rows: RowShape,
    (classes, mut body): (FxHashMap<u64, RowClass>, KernelBody),
    elements: &mut [RowElements],
    own: RowThread,
    (parts, threads): (usize, usize),
) -> GeneratedPasses {
    let mut lowering = Lowering::new(&mut body, kernel, false);
    lowering.row_nodes = Some(RowNodes::new(&classes, rows, own.row));
    let shared = reduce_row(&mut lowering, elements, own, parts);
    store(&mut lowering, elements, own, rows);
    body.label("DONE");
    let elements = match classes[&kernel.root.id] {
        RowClass::Row => 1,
        RowClass::Element => rows.length,
    };
    GeneratedPasses::one(body.finish(&shared), Threads::ForRows { elements, threads })
}

/// Computes the reductions of a row. Returns the declarations of shared memory.
fn reduce_row(
    lowering: &mut Lowering<'_>,
    elements: &mut [RowElements],
    own: RowThread,
    parts: usize,
) -> String {
    let kernel = lowering.kernel;
    let mut shared = String::new();
    for (number, reduction) in kernel.reductions().enumerate() {
        let body = &mut *lowering.body;
        let of_row = RowReduction::new(body, reduction, own, (number, parts), &mut shared);
        let (source, reducer) = (of_row.source, of_row.reducer);
        let arrays = kernel.arrays_of(iter::once(source));
        for elements in elements.iter_mut() {
            elements.load(lowering, &arrays, own.row);
        }
        for turn in 0..elements.len() {
            lowering.divide(iter::once(source), elements, (own.row, turn));
            let elements = &mut elements[turn];
            let values = elements.lower(lowering, source, own.row, turn);
            let body = &mut *lowering.body;
            let numbers = elements.numbers.iter().zip(&values);
            let others: SmallVec<[Accumulator; 4]> = numbers
                .map(|(&number, &value)| reducer.lift(body, value, |_| number))
                .collect();
            let label = format!("BEYOND{number}_{turn}");
            if let Some(beyond) = elements.beyond {
                line!(body; "@{beyond} bra {label};");
            }
            for other in &others {
                reducer.combine(body, &of_row.accumulators[turn % parts], other);
            }
            if elements.beyond.is_some() {
                body.label(&label);
            }
        }
        of_row.finish(lowering, own);
    }
    shared
}

/// A reduction of a row, with the accumulators of a thread.
pub(crate) struct RowReduction<'a> {
    node: &'a NodeRef,
    pub(crate) source: &'a NodeRef,
    reduction: Reduction,
    pub(crate) reducer: Reducer,
    number: usize,
    /// An accumulator for each thread whose work this one does.
    pub(crate) accumulators: SmallVec<[Accumulator; 4]>,
}

impl<'a> RowReduction<'a> {
    /// Creates a reduction with this number of accumulators, and declares its shared memory.
    pub(crate) fn new(
        body: &mut KernelBody,
        (node, reduction, source): (&'a NodeRef, Reduction, &'a NodeRef),
        own: RowThread,
        (number, accumulators): (usize, usize),
        shared: &mut String,
    ) -> Self {
        let reducer = Reducer::new(reduction, source.dtype);
        if own.has_block() {
            shared.push_str(&reducer.shared_memory(number, own.threads / WARP));
        }
        Self {
            node,
            source,
            reduction,
            reducer,
            number,
            accumulators: (0..accumulators).map(|_| reducer.identity(body)).collect(),
        }
    }

    /// Combines the accumulators of the row's threads, and defines the result.
    pub(crate) fn finish(&self, lowering: &mut Lowering<'_>, own: RowThread) {
        let (body, reducer) = (&mut *lowering.body, self.reducer);
        reducer.combine_row(body, &self.accumulators, own, self.number);
        let all = reducer.broadcast_row(body, &self.accumulators[0], own);
        let result = reducer.finish(body, &all, self.node.dtype);
        body.name_part(self.reduction.name());
        let position = lowering.row_position(self.node);
        lowering.define(self.node, position, result);
    }
}

/// Returns the outputs of a row kernel that have this class, by number.
fn outputs_of(kernel: &FusedKernel, rows: RowShape, class: RowClass) -> SmallVec<[usize; 4]> {
    let outputs = kernel.outputs.iter().enumerate();
    let of_class = outputs.filter(|(_, output)| rows.class(&output.value) == Some(class));
    of_class.map(|(number, _)| number).collect()
}

/// Stores the outputs that have an element for the row. Its first thread does.
pub(crate) fn store_of_row(lowering: &mut Lowering<'_>, own: RowThread, rows: RowShape) {
    let kernel = lowering.kernel;
    let outputs = outputs_of(kernel, rows, RowClass::Row);
    if outputs.is_empty() {
        return;
    }
    // Others need the values that lead to these elements, too.
    let element = |&number: &usize| {
        let value = &kernel.outputs[number].value;
        let position = lowering.row_position(value);
        (position, lowering.lower(value, position))
    };
    let elements: SmallVec<[(Position, Reg); 4]> = outputs.iter().map(element).collect();
    own.first_only(lowering.body, "STORED");
    for (number, (position, element)) in outputs.into_iter().zip(elements) {
        let KernelOutput { value, slot, .. } = &kernel.outputs[number];
        let place = lowering.destination(number, position, own.row);
        (lowering.body).store_output((*slot, value.dtype), place, &[element]);
    }
    lowering.body.label("STORED");
}

/// Stores the outputs. Threads without any elements are done.
fn store(
    lowering: &mut Lowering<'_>,
    elements: &mut [RowElements],
    own: RowThread,
    rows: RowShape,
) {
    let kernel = lowering.kernel;
    store_of_row(lowering, own, rows);
    let outputs = outputs_of(kernel, rows, RowClass::Element);
    if outputs.is_empty() {
        return;
    }
    own.within_only(lowering.body, "DONE");
    let mut first_addresses: SmallVec<[Option<Reg>; 4]> = SmallVec::from_elem(None, outputs.len());
    for turn in 0..elements.len() {
        let values = outputs.iter().map(|&number| &kernel.outputs[number].value);
        lowering.divide(values, elements, (own.row, turn));
        let elements = &mut elements[turn];
        if let Some(beyond) = elements.beyond {
            // No later element is within the row.
            line!(lowering.body; "@{beyond} bra DONE;");
        }
        for (&number, first) in outputs.iter().zip(&mut first_addresses) {
            let KernelOutput { value, slot, .. } = &kernel.outputs[number];
            let values = elements.lower(lowering, value, own.row, turn);
            let (body, bytes) = (&mut *lowering.body, value.dtype.bytes());
            let base = body.output(*slot);
            let address = match elements.offset {
                None => body.element(base, elements.linear_indices[0], bytes),
                Some((index, constant)) => {
                    let first = *first.get_or_insert_with(|| body.element(base, index, bytes));
                    body.address_behind(first, constant * bytes)
                }
            };
            body.store(value.dtype, address, &values);
        }
    }
}
