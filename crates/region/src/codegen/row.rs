//! Row kernels: a block or a part of a warp computes a row, whose elements stay in registers
//! between its reductions.
//!
//! A thread has the same elements of the row as in a reduction of rows of this length, so that both
//! add in the same order and give the same bits: every 256th group of four neighbours, which are
//! read and written at once, or every 256th element. Rows that do not fit in registers are read
//! again for each reduction that depends on another (`long_row.rs`).

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{
    body::{BLOCK, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line},
    long_row::long_row,
    lowering::{IndexAnalysis, Lowering},
    passes::GeneratedPasses,
    position::Position,
    reducer::{Accumulator, Reducer},
    warp::RowThread,
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
    /// True in threads beyond the end; `None` if there are none.
    beyond: Option<Reg>,
    /// The positions in arrays of each shape.
    positions: Vec<(Shape, RowPositions)>,
}

/// The positions of neighbouring elements.
type RowPositions = SmallVec<[Position; 4]>;

impl RowElements {
    /// Computes the indices of a thread's elements of one turn.
    fn new(
        body: &mut KernelBody,
        rows: RowShape,
        own: RowThread,
        length: Reg,
        turn: usize,
    ) -> Self {
        let (bits, neighbours) = (body.bits(), neighbours_of_row(rows.length));
        let mut first = own.thread;
        if neighbours > 1 {
            first = body.index_reg();
            line!(
                body,
                "mul.lo.s{bits} {first}, {}, {neighbours};",
                own.thread
            );
        }
        let at_once = own.threads * neighbours;
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
            ..Self::at(body, own.row, length, (first, neighbours))
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
    let own = RowThread::new(&mut body, rows.rows, threads_of_row(rows.length));
    let length = body.index_parameter(ParameterKey::Named("length"), rows.length as i64);
    let mut elements: Vec<RowElements> = (0..turns_of_row(rows.length))
        .map(|turn| RowElements::new(&mut body, rows, own, length, turn))
        .collect();
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
            let accumulator = reducer.identity(lowering.body);
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
                    reducer.combine(body, &accumulator, other);
                }
                if elements.beyond.is_some() {
                    body.label(&label);
                }
            }
            let body = &mut *lowering.body;
            reducer.combine_row(body, &accumulator, own, reductions);
            let all = reducer.broadcast_row(body, &accumulator, own);
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
    for (turn, elements) in elements.iter_mut().enumerate() {
        if let Some(beyond) = elements.beyond {
            // No later element is within the row.
            line!(lowering.body, "@{beyond} bra DONE;");
        }
        let values = elements.lower(lowering, root, own.row, turn);
        let address = lowering
            .body
            .element(base, elements.linear_indices[0], root.dtype.bytes());
        lowering.body.store(root.dtype, address, &values);
    }
}
