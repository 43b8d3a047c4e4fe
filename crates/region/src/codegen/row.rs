//! Row kernels: a block or a part of a warp computes a row, whose elements stay in registers
//! between its reductions.
//!
//! A thread has the same elements of the row as in a reduction of rows of this length, so that both
//! add in the same order and give the same bits: every 256th group of four neighbours, which are
//! read and written at once, or every 256th element. If there are many rows of at most 1,024
//! elements, a warp has the elements of a block, with an accumulator for each of its warps. Rows
//! that do not fit in registers are read again for each reduction that depends on another
//! (`long_row.rs`).

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{
    body::{BLOCK, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line},
    long_row::long_row,
    lowering::{IndexAnalysis, Lowering},
    passes::GeneratedPasses,
    position::Position,
    reduce::ROWS_MANY,
    reducer::{Accumulator, Reducer},
    warp::{RowThread, WARP, WARPS},
};
use crate::{
    fuse::{
        FusedKernel, FusedNode, ROW_THREADS, RowClass, RowShape, has_beyond, neighbours_of_row,
        threads_of_row, turns_of_row,
    },
    graph::{NodeRef, Op},
    shape::{RANK_MAX, Shape},
};

const _: () = assert!(ROW_THREADS == BLOCK, "a block computes a long row");

/// The maximum number of elements of a row in each thread where a warp computes it.
const WARP_ELEMENTS_MAX: usize = 32;
/// The maximum numbers of arrays and of functions of elements of such a row, so that all elements
/// are in registers.
const WARP_INPUTS_MAX: usize = 1;
const WARP_NODES_MAX: usize = 8;
/// The number of blocks of a multiprocessor whose warps compute such rows: with fewer, too few
/// loads are in flight, and with more, threads have too few registers.
const WARP_BLOCKS_MIN: usize = 3;

/// The nodes of a row kernel that have one element for each row.
pub(super) struct RowNodes {
    ids: FxHashSet<u64>,
    /// The index of the row.
    row: Reg,
    /// The number of elements of a row.
    length: usize,
    /// The position of the row's element in arrays of each shape.
    positions: Vec<(Shape, Position)>,
}

impl RowNodes {
    /// Returns the nodes of this class, for the row with an index.
    pub(super) fn new(classes: &FxHashMap<u64, RowClass>, rows: RowShape, row: Reg) -> Self {
        let of_row = classes.iter().filter(|(_, class)| **class == RowClass::Row);
        Self {
            ids: of_row.map(|(&id, _)| id).collect(),
            row,
            length: rows.length,
            positions: Vec::new(),
        }
    }
}

impl Lowering<'_> {
    /// Returns whether a node depends on a reduction and has one element for each row.
    pub(super) fn is_row_node(&self, node: &NodeRef) -> bool {
        let row_nodes = self.row_nodes.as_ref();
        row_nodes.is_some_and(|rows| rows.ids.contains(&node.id))
    }

    /// Returns the position at which such a node is computed, once for all elements of the row.
    pub(super) fn row_position_of(&mut self, node: &NodeRef) -> Option<Position> {
        let rows = self.row_nodes.as_ref()?;
        if !rows.ids.contains(&node.id) {
            return None;
        }
        let known = rows
            .positions
            .iter()
            .find(|(shape, _)| *shape == node.shape);
        if let Some(&(_, position)) = known {
            return Some(position);
        }
        let row = rows.row;
        let position = self.at_linear_index(node.id, &node.shape, row);
        let rows = self.row_nodes.as_mut()?;
        rows.positions.push((node.shape.clone(), position));
        Some(position)
    }
}

/// Neighbouring elements of the row in each thread.
pub(super) struct RowElements {
    /// The index of each within the row: those of the last elements for threads beyond the end.
    pub(super) numbers: SmallVec<[Reg; 4]>,
    /// The linear index of each.
    pub(super) linear_indices: SmallVec<[Reg; 4]>,
    /// The linear index of the row's first element that the thread has, and the distance of these
    /// elements from it, unless some threads are beyond the end.
    offset: Option<(Reg, usize)>,
    /// True in threads beyond the end; `None` if there are none.
    beyond: Option<Reg>,
    /// The positions in arrays of each shape.
    positions: Vec<(Shape, RowPositions)>,
}

/// The positions of neighbouring elements.
type RowPositions = SmallVec<[Position; 4]>;

impl RowElements {
    /// Computes the indices of the elements of one turn that a thread of the row with this number
    /// has.
    fn new(
        body: &mut KernelBody,
        rows: RowShape,
        (row, thread): (Reg, Reg),
        length: Reg,
        turn: usize,
    ) -> Self {
        let (bits, neighbours) = (body.bits(), neighbours_of_row(rows.length));
        let mut first = thread;
        if neighbours > 1 {
            first = body.index_reg();
            line!(body, "mul.lo.s{bits} {first}, {thread}, {neighbours};");
        }
        let at_once = threads_of_row(rows.length) * neighbours;
        if turn > 0 {
            let number = body.index_reg();
            line!(body, "add.s{bits} {number}, {first}, {};", turn * at_once);
            first = number;
        }
        let mut beyond = None;
        if has_beyond(rows.length, turn) {
            let is_beyond = body.reg(RegClass::Predicate);
            let (last, within) = (body.index_reg(), body.index_reg());
            line!(body, "setp.ge.u{bits} {is_beyond}, {first}, {length};");
            line!(body, "sub.s{bits} {last}, {length}, {neighbours};");
            line!(body, "min.u{bits} {within}, {first}, {last};");
            (first, beyond) = (within, Some(is_beyond));
        }
        Self {
            beyond,
            ..Self::at(body, row, length, (first, neighbours))
        }
    }

    /// Computes the indices of neighbours, the first of which has this index within the row.
    pub(super) fn at(
        body: &mut KernelBody,
        row: Reg,
        length: Reg,
        (first, neighbours): (Reg, usize),
    ) -> Self {
        let (bits, linear_index) = (body.bits(), body.index_reg());
        line!(
            body,
            "mad.lo.s{bits} {linear_index}, {row}, {length}, {first};"
        );
        let mut following = |first: Reg| -> SmallVec<[Reg; 4]> {
            let others = (1..neighbours).map(|lane| {
                let number = body.index_reg();
                line!(body, "add.s{bits} {number}, {first}, {lane};");
                number
            });
            std::iter::once(first).chain(others).collect()
        };
        Self {
            numbers: following(first),
            linear_indices: following(linear_index),
            offset: None,
            beyond: None,
            positions: Vec::new(),
        }
    }

    /// Loads the elements of arrays with the shape of the rows.
    pub(super) fn load(&mut self, lowering: &mut Lowering<'_>, arrays: &[&NodeRef], row: Reg) {
        for &array in arrays {
            for position in self.positions(lowering, array, row) {
                lowering.lower(array, position);
            }
        }
    }

    /// Returns the positions in a node's array.
    fn positions(&mut self, lowering: &mut Lowering<'_>, node: &NodeRef, row: Reg) -> RowPositions {
        let mut known = self.positions.iter();
        if let Some((_, positions)) = known.find(|(shape, _)| *shape == node.shape) {
            return positions.clone();
        }
        let long: SmallVec<[usize; RANK_MAX]> = (0..node.shape.len())
            .filter(|&axis| node.shape[axis] != 1)
            .collect();
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
        lowering.positions[positions[0].0].offset = self.offset;
        if positions.len() > 1 {
            lowering.group(&positions);
        }
        self.positions.push((node.shape.clone(), positions.clone()));
        positions
    }

    /// Computes the elements of a node. Only those of the first turn add to the kernel's name.
    pub(super) fn lower(
        &mut self,
        lowering: &mut Lowering<'_>,
        node: &NodeRef,
        row: Reg,
        turn: usize,
    ) -> SmallVec<[Reg; 4]> {
        let positions = self.positions(lowering, node, row);
        let lower = |(lane, position)| {
            let words = lowering.body.name_parts();
            let value = lowering.lower(node, position);
            // The other elements repeat the operations of the first.
            if turn + lane > 0 {
                lowering.body.truncate_name(words);
            }
            value
        };
        positions.into_iter().enumerate().map(lower).collect()
    }
}

/// Generates a row kernel.
pub(super) fn row(kernel: &FusedKernel, rows: RowShape) -> GeneratedPasses {
    if rows.is_long() {
        return long_row(kernel, rows);
    }
    let nodes = kernel.nodes.iter().map(|fused| (&fused.node, &*fused.op));
    let classes = rows
        .classify(nodes)
        .expect("planning has checked that all nodes belong to rows");
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    let warps = warps_per_thread(kernel, rows);
    if warps > 1 {
        body.blocks_min = Some(WARP_BLOCKS_MIN);
    }
    let threads = threads_of_row(rows.length) / warps;
    let own = RowThread::new(&mut body, rows.rows, threads);
    let length = body.index_parameter(ParameterKey::Named("length"), rows.length as i64);
    let of_warp = |warp: usize| {
        if warp == 0 {
            return own.thread;
        }
        let (bits, thread) = (body.bits(), body.index_reg());
        line!(
            body,
            "add.s{bits} {thread}, {}, {};",
            own.thread,
            warp * WARP
        );
        thread
    };
    let of_warps: SmallVec<[Reg; WARPS]> = (0..warps).map(of_warp).collect();
    // Those of one turn are those of all warps, in their order.
    let mut elements: Vec<RowElements> = (0..turns_of_row(rows.length) * warps)
        .map(|number| {
            let place = (own.row, of_warps[number % warps]);
            RowElements::new(&mut body, rows, place, length, number / warps)
        })
        .collect();
    let first = elements[0].linear_indices[0];
    let neighbours = neighbours_of_row(rows.length);
    for (number, elements) in elements.iter_mut().enumerate() {
        let before = number / warps * threads_of_row(rows.length) + number % warps * WARP;
        let is_clamped = elements.beyond.is_some();
        elements.offset = (!is_clamped).then_some((first, before * neighbours));
    }
    let mut lowering = Lowering::new(&mut body, kernel, false);
    lowering.row_nodes = Some(RowNodes::new(&classes, rows, own.row));
    let mut shared = String::new();
    let mut reductions = 0;
    for FusedNode { node, op } in &kernel.nodes {
        if let Op::Reduce {
            reduction, source, ..
        } = &**op
        {
            let reducer = Reducer::new(*reduction, source.dtype);
            shared.push_str(&reducer.row_memory(own, reductions));
            let accumulators: SmallVec<[Accumulator; WARPS]> = (0..warps)
                .map(|_| reducer.identity(lowering.body))
                .collect();
            let arrays = kernel.arrays_of(std::iter::once(source));
            for elements in &mut elements {
                elements.load(&mut lowering, &arrays, own.row);
            }
            for (turn, elements) in elements.iter_mut().enumerate() {
                let values = elements.lower(&mut lowering, source, own.row, turn);
                let body = &mut *lowering.body;
                let numbers = elements.numbers.iter().zip(&values);
                let others: SmallVec<[Accumulator; 4]> = numbers
                    .map(|(&number, &value)| reducer.lift(body, value, |_| number))
                    .collect();
                let label = format!("BEYOND{reductions}_{turn}");
                if let Some(beyond) = elements.beyond {
                    line!(body, "@{beyond} bra {label};");
                }
                for other in &others {
                    reducer.combine(body, &accumulators[turn % warps], other);
                }
                if elements.beyond.is_some() {
                    body.label(&label);
                }
            }
            let body = &mut *lowering.body;
            for accumulator in &accumulators {
                reducer.combine_row(body, accumulator, own, reductions);
            }
            for other in &accumulators[1..] {
                reducer.combine(body, &accumulators[0], other);
            }
            let all = reducer.broadcast_row(body, &accumulators[0], own);
            let result = reducer.finish(body, &all, node.dtype);
            body.name_part(reduction.name());
            let position = lowering
                .row_position_of(node)
                .expect("a reduction is of a row");
            lowering.define(node, position, result);
            reductions += 1;
        }
    }
    store(
        &mut lowering,
        kernel,
        &mut elements,
        own,
        classes[&kernel.root.id],
    );
    body.label("DONE");
    GeneratedPasses::one(body.finish(&shared), rows.rows * own.threads)
}

/// Returns the number of warps of a block whose work each thread of a row does. If there are many
/// rows of moderate length, one warp does the work of the block, as in reductions
/// (`row_per_warp.rs`): a block per row would mostly wait, and each of its threads would compute
/// all values for the row.
fn warps_per_thread(kernel: &FusedKernel, rows: RowShape) -> usize {
    let threads = threads_of_row(rows.length);
    let of_threads = turns_of_row(rows.length) * neighbours_of_row(rows.length);
    // Threads beyond the end compute the last element again.
    let computed = of_threads * threads;
    let is_large = |node: &&NodeRef| node.elements >= rows.rows * rows.length;
    let has_words = |node: &NodeRef| node.dtype.bytes() <= 4;
    let inputs = kernel.inputs.iter().filter(is_large);
    let applied = kernel.nodes.iter().filter_map(|fused| match &*fused.op {
        Op::Apply(..) => Some(&fused.node).filter(is_large),
        _ => None,
    });
    let has_registers = inputs.clone().count() <= WARP_INPUTS_MAX
        && applied.clone().count() <= WARP_NODES_MAX
        && inputs.chain(applied).all(has_words);
    let is_possible = threads == BLOCK
        && rows.rows >= ROWS_MANY
        && of_threads * WARPS <= WARP_ELEMENTS_MAX
        && computed <= rows.length + rows.length / 3
        && has_registers;
    if is_possible { WARPS } else { 1 }
}

/// Stores the elements of the row, or the element for the row.
fn store(
    lowering: &mut Lowering<'_>,
    kernel: &FusedKernel,
    elements: &mut [RowElements],
    own: RowThread,
    class: RowClass,
) {
    let root = &kernel.root;
    let base = lowering
        .body
        .address(ParameterKey::Output(0), || KernelParameter::Output(0));
    if class == RowClass::Row {
        own.first_only(lowering.body, "DONE");
        let position = lowering
            .row_position_of(root)
            .expect("the root is of a row");
        let value = lowering.lower(root, position);
        let address = lowering.body.element(base, own.row, root.dtype.bytes());
        lowering.body.store(root.dtype, address, &[value]);
        return;
    }
    own.within_only(lowering.body, "DONE");
    let mut first_address = None;
    for (turn, elements) in elements.iter_mut().enumerate() {
        if let Some(beyond) = elements.beyond {
            // No later element is within the row.
            line!(lowering.body, "@{beyond} bra DONE;");
        }
        let values = elements.lower(lowering, root, own.row, turn);
        let (body, bytes) = (&mut *lowering.body, root.dtype.bytes());
        let address = match elements.offset {
            None => body.element(base, elements.linear_indices[0], bytes),
            Some((index, constant)) => {
                let first = *first_address.get_or_insert_with(|| body.element(base, index, bytes));
                body.address_behind(first, constant * bytes)
            }
        };
        body.store(root.dtype, address, &values);
    }
}
