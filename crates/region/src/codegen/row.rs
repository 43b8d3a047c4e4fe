//! Row kernels: a block or a part of a warp computes a row, whose elements stay in registers
//! between its reductions.
//!
//! A thread has the same elements of the row as in a reduction of rows of this length, so that both
//! add in the same order and give the same bits.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{
    body::{BLOCK, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line},
    lowering::{IndexAnalysis, Lowering},
    passes::GeneratedPasses,
    position::Position,
    reducer::Reducer,
    warp::RowThread,
};
use crate::{
    fuse::{FusedKernel, FusedNode, ROW_THREADS, RowClass, RowShape, threads_of_row},
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

/// An element of the row in each thread.
struct RowElement {
    /// The index within the row: the last one for threads beyond the end.
    number: Reg,
    linear_index: Reg,
    /// True in threads beyond the end; `None` if there are none.
    beyond: Option<Reg>,
    /// The positions in arrays of each shape.
    positions: Vec<(Shape, Position)>,
}

impl RowElement {
    /// Returns the position in a node's array.
    fn position(&mut self, lowering: &mut Lowering<'_>, node: &NodeRef, row: Reg) -> Position {
        let known = self
            .positions
            .iter()
            .find(|(shape, _)| *shape == node.shape);
        if let Some(&(_, position)) = known {
            return position;
        }
        let long: SmallVec<[usize; RANK_MAX]> = (0..node.shape.len())
            .filter(|&axis| node.shape[axis] != 1)
            .collect();
        let position = if let [rows, along] = long[..]
            && lowering
                .row_nodes
                .as_ref()
                .is_some_and(|rows| rows.length == node.shape[along])
        {
            let mut axes = SmallVec::from_elem(None, node.shape.len());
            (axes[rows], axes[along]) = (Some(row), Some(self.number));
            lowering.at_indices(node.id, &node.shape, axes, Some(self.linear_index))
        } else {
            lowering.at_linear_index(node.id, &node.shape, self.linear_index)
        };
        self.positions.push((node.shape.clone(), position));
        position
    }
}

/// Generates a row kernel.
pub(super) fn row(kernel: &FusedKernel, rows: RowShape) -> GeneratedPasses {
    let nodes = kernel.nodes.iter().map(|fused| (&fused.node, &*fused.op));
    let classes = rows
        .classify(nodes)
        .expect("planning has checked that all nodes belong to rows");
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    let own = RowThread::new(&mut body, rows.rows, threads_of_row(rows.length));
    let length = body.index_parameter(ParameterKey::Named("length"), rows.length as i64);
    let mut elements: Vec<RowElement> = (0..rows.elements_per_thread())
        .map(|turn| row_element(&mut body, rows, own, length, turn))
        .collect();
    let mut lowering = Lowering::new(&mut body, kernel, false);
    let is_row = |class: &RowClass| *class == RowClass::Row;
    lowering.row_nodes = Some(RowNodes {
        ids: classes
            .iter()
            .filter(|(_, class)| is_row(class))
            .map(|(&id, _)| id)
            .collect(),
        row: own.row,
        length: rows.length,
        positions: Vec::new(),
    });
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
            for (turn, element) in elements.iter_mut().enumerate() {
                let position = element.position(&mut lowering, source, own.row);
                let words = lowering.body.name_parts();
                let value = lowering.lower(source, position);
                // The other elements repeat the operations of the first.
                if turn > 0 {
                    lowering.body.truncate_name(words);
                }
                let body = &mut *lowering.body;
                let other = reducer.lift(body, value, |_| element.number);
                let label = format!("BEYOND{reductions}");
                if let Some(beyond) = element.beyond {
                    line!(body, "@{beyond} bra {label};");
                }
                reducer.combine(body, &accumulator, &other);
                if element.beyond.is_some() {
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

/// Computes the indices of one of a thread's elements.
fn row_element(
    body: &mut KernelBody,
    rows: RowShape,
    RowThread {
        row,
        thread,
        threads,
        ..
    }: RowThread,
    length: Reg,
    turn: usize,
) -> RowElement {
    let bits = body.bits();
    let mut number = thread;
    if turn > 0 {
        number = body.index_reg();
        line!(body, "add.s{bits} {number}, {thread}, {};", turn * threads);
    }
    let mut beyond = None;
    if (turn + 1) * threads > rows.length {
        let (is_beyond, last, within) = (
            body.reg(RegClass::Predicate),
            body.index_reg(),
            body.index_reg(),
        );
        line!(body, "setp.ge.u{bits} {is_beyond}, {number}, {length};");
        line!(body, "sub.s{bits} {last}, {length}, 1;");
        line!(body, "min.u{bits} {within}, {number}, {last};");
        (number, beyond) = (within, Some(is_beyond));
    }
    let linear_index = body.index_reg();
    line!(
        body,
        "mad.lo.s{bits} {linear_index}, {row}, {length}, {number};"
    );
    RowElement {
        number,
        linear_index,
        beyond,
        positions: Vec::new(),
    }
}

/// Stores the elements of the row, or the element for the row.
fn store(
    lowering: &mut Lowering<'_>,
    kernel: &FusedKernel,
    elements: &mut [RowElement],
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
    for (turn, element) in elements.iter_mut().enumerate() {
        if let Some(beyond) = element.beyond {
            // No later element is within the row.
            line!(lowering.body, "@{beyond} bra DONE;");
        }
        let position = element.position(lowering, root, own.row);
        let words = lowering.body.name_parts();
        let value = lowering.lower(root, position);
        if turn > 0 {
            lowering.body.truncate_name(words);
        }
        let address = lowering
            .body
            .element(base, element.linear_index, root.dtype.bytes());
        lowering.body.store(root.dtype, address, &[value]);
    }
}
