//! What is enqueued for one node that is stored.

use std::sync::Arc;

use millstream::{Buffer, Stream};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::launch::{allocate, launch};
use crate::{
    codegen::{Pass, Scanned, Scatter, Target, keeps_numbers, map, reduce, scan, scatter},
    element::DType,
    error::Result,
    graph::{NodeRef, Op, Reduction, Session, State, Storage},
    product,
    shape::{Axes, AxisMap, AxisSource, RANK_MAX, Shape, dense_strides},
};

/// Enqueues the work for a node all of whose operands are enqueued, unless it is.
pub(super) fn enqueue(session: &Session, node: &NodeRef) -> Result<()> {
    let State::Planned(op) = node.state() else {
        return Ok(());
    };
    if let Some(storage) = same_elements(node, &op) {
        node.store(storage);
        return Ok(());
    }
    let below = stored_below(&op);
    let ids: Vec<u64> = below.iter().map(|node| node.id).collect();
    let stream = session.lanes().choose(&session.device, node.id, &ids)?;
    let mut target = allocate(&stream, node.bytes())?;
    if node.elements > 0 {
        let step = Step {
            session,
            stream: &stream,
            node,
        };
        step.fill(&op, &mut target)?;
    }
    node.store(Arc::new(Storage {
        buffer: target,
        doubts: session.doubts(&below),
    }));
    Ok(())
}

/// The memory of an operand that has the node's elements in the node's order.
fn same_elements(node: &NodeRef, op: &Op) -> Option<Arc<Storage>> {
    match op {
        Op::Reshape(source) => source.storage(),
        Op::View(source, map) if keeps_numbers(&node.shape, map, &source.shape) => source.storage(),
        _ => None,
    }
}

/// The reduction whose kernel calculates this operation of its results as well, if the plan has left one to it.
fn folded(op: &Op) -> Option<NodeRef> {
    if !matches!(op, Op::Apply(..)) {
        return None;
    }
    let (mut found, mut seen, mut open) = (None, FxHashSet::default(), Vec::new());
    op.operands(|operand| open.push(NodeRef::clone(operand)));
    while let Some(node) = open.pop() {
        if !seen.insert(node.id) {
            continue;
        }
        match node.state() {
            State::Planned(Op::Reduce { .. }) => found = Some(node),
            State::Planned(op) => op.operands(|operand| open.push(NodeRef::clone(operand))),
            State::Stored(_) | State::Failed(_) => {}
        }
    }
    found
}

/// The nodes in memory that an operation needs, those below what is calculated on the way included, oldest first.
fn stored_below(op: &Op) -> Vec<NodeRef> {
    let (mut found, mut seen) = (Vec::new(), FxHashSet::default());
    let mut open = Vec::new();
    op.operands(|operand| open.push(NodeRef::clone(operand)));
    while let Some(node) = open.pop() {
        if !seen.insert(node.id) {
            continue;
        }
        match node.state() {
            State::Planned(op) => op.operands(|operand| open.push(NodeRef::clone(operand))),
            State::Stored(_) | State::Failed(_) => found.push(node),
        }
    }
    found.sort_unstable_by_key(|node| node.id);
    found
}

/// What the kernels of one node have in common.
struct Step<'a> {
    session: &'a Session,
    stream: &'a Stream,
    node: &'a NodeRef,
}

impl Step<'_> {
    /// Enqueues what fills the target with the node's elements, of which there is one at least.
    fn fill(&self, op: &Op, target: &mut Buffer<u8>) -> Result<()> {
        if let Some(folded) = folded(op)
            && let State::Planned(Op::Reduce {
                reduction,
                source,
                axes,
            }) = folded.state()
        {
            return self.reduce(&folded, reduction, &source, &axes, target);
        }
        match op {
            Op::Constant(_)
            | Op::Iota
            | Op::Apply(..)
            | Op::View(..)
            | Op::Reshape(_)
            | Op::Gather { .. } => self.map(self.node, &Target::Dense, target),
            Op::Reduce {
                reduction,
                source,
                axes,
            } => self.reduce(self.node, *reduction, source, axes, target),
            Op::Join { parts, axis } => self.join(parts, *axis, target),
            Op::Update { base, map, value } => {
                self.map(base, &Target::Dense, target)?;
                self.map_into(value, map.clone(), target)
            }
            Op::Product(left, right) => self.product(left, right, target),
            Op::Scatter {
                base,
                index,
                value,
                axis,
                adds,
            } => {
                self.map(base, &Target::Dense, target)?;
                let what = Scatter {
                    node: self.node,
                    index,
                    value,
                    axis: *axis,
                };
                self.scatter(&what, *adds, target)
            }
            Op::Accumulate { reduction, source } => self.scan(*reduction, source, target),
        }
    }

    /// Calculates a node's elements, or some of this step's.
    fn map(&self, node: &NodeRef, place: &Target<'_>, target: &mut Buffer<u8>) -> Result<()> {
        if node.elements == 0 {
            return Ok(());
        }
        let kernel = map(node, place);
        launch(self.session, self.stream, self.node, &kernel, &mut [target], &[])
    }

    /// Calculates a node's elements, which become those of this step's that the map gives.
    fn map_into(&self, node: &NodeRef, map: AxisMap, target: &mut Buffer<u8>) -> Result<()> {
        let place = Target::Part {
            shape: &self.node.shape,
            map: &map,
        };
        self.map(node, &place, target)
    }

    /// Reduces the source to the elements of `reduced`, of which this step's are calculated.
    fn reduce(
        &self,
        reduced: &NodeRef,
        reduction: Reduction,
        source: &NodeRef,
        axes: &Axes,
        target: &mut Buffer<u8>,
    ) -> Result<()> {
        let kernels = reduce(self.node, reduced, reduction, source, axes);
        let Some(rest) = kernels.rest else {
            return launch(
                self.session,
                self.stream,
                self.node,
                &kernels.first,
                &mut [target],
                &[],
            );
        };
        let mut partials = self.partials(&rest.slots, rest.partials)?;
        launch(
            self.session,
            self.stream,
            self.node,
            &kernels.first,
            &mut each(&mut partials),
            &[],
        )?;
        launch(
            self.session,
            self.stream,
            self.node,
            &rest.kernel,
            &mut [target],
            &partials,
        )
    }

    /// Puts elements where indices say, in a target that has those of the base.
    fn scatter(&self, what: &Scatter<'_>, adds: bool, target: &mut Buffer<u8>) -> Result<()> {
        if what.index.elements == 0 {
            return Ok(());
        }
        let pass = |pass, target: &mut Buffer<u8>, partials: &[Buffer<u8>]| {
            let kernel = scatter(what, pass);
            launch(
                self.session,
                self.stream,
                self.node,
                &kernel,
                &mut [target],
                partials,
            )
        };
        if adds {
            return pass(Pass::Add, target, &[]);
        }
        let mark_bytes = if what.is_wide() { 8 } else { 4 };
        let mut marks = self.stream.zeros::<u8>(self.node.elements * mark_bytes)?;
        pass(Pass::Mark, &mut marks, &[])?;
        pass(Pass::Take, target, &[marks])
    }

    fn scan(&self, reduction: Reduction, source: &NodeRef, target: &mut Buffer<u8>) -> Result<()> {
        let run = |kernel, targets: &mut [&mut Buffer<u8>], partials: &[Buffer<u8>]| {
            launch(self.session, self.stream, self.node, kernel, targets, partials)
        };
        let segments = match scan(self.node, reduction, source) {
            Scanned::Whole(kernel) => return run(&kernel, &mut [target], &[]),
            Scanned::Split(segments) => segments,
        };
        let mut totals = self.partials(&segments.slots, segments.partials)?;
        let mut prefixes = self.partials(&segments.slots, segments.partials)?;
        run(&segments.totals, &mut each(&mut totals), &[])?;
        run(&segments.prefixes, &mut each(&mut prefixes), &totals)?;
        run(&segments.results, &mut [target], &prefixes)
    }

    /// Arrays for what one kernel leaves for the next.
    fn partials(&self, slots: &[DType], elements: usize) -> Result<SmallVec<[Buffer<u8>; 2]>> {
        let partial = |slot: &DType| allocate(self.stream, elements * slot.bytes());
        slots.iter().map(partial).collect()
    }

    fn join(&self, parts: &[NodeRef], axis: usize, target: &mut Buffer<u8>) -> Result<()> {
        let mut start = 0;
        for part in parts {
            let mut map: AxisMap = (0..self.node.shape.len()).map(AxisSource::same).collect();
            map[axis].start = start;
            self.map_into(part, map, target)?;
            start += part.shape[axis];
        }
        Ok(())
    }

    fn product(&self, left: &NodeRef, right: &NodeRef, target: &mut Buffer<u8>) -> Result<()> {
        let (left, right) = (Placed::of(left), Placed::of(right));
        let rank = self.node.shape.len();
        let (batch, matrix) = self.node.shape.split_at(rank - 2);
        let shape = product::Shape {
            batch,
            m: matrix[0],
            k: left.shape[rank - 1],
            n: matrix[1],
        };
        let factors = (left.factor(), right.factor());
        product::enqueue(
            self.stream,
            self.node.dtype,
            &shape,
            &factors.0,
            &factors.1,
            target,
            self.node.location,
        )?;
        Ok(())
    }
}

/// Each array, to be written.
fn each(buffers: &mut [Buffer<u8>]) -> SmallVec<[&mut Buffer<u8>; 2]> {
    buffers.iter_mut().collect()
}

/// A matrix, or a batch of them, in memory.
struct Placed {
    storage: Arc<Storage>,
    shape: Shape,
    offset: usize,
    strides: SmallVec<[isize; RANK_MAX]>,
}

impl Placed {
    /// Where the elements of a factor are: in its own memory, or in that which it is a view of.
    fn of(node: &NodeRef) -> Self {
        let (source, map) = match node.state() {
            State::Planned(Op::View(source, map)) => (source, map),
            _ => (
                NodeRef::clone(node),
                (0..node.shape.len()).map(AxisSource::same).collect(),
            ),
        };
        let dense = dense_strides(&source.shape);
        let mut offset = 0;
        let mut strides: SmallVec<[isize; RANK_MAX]> = SmallVec::from_elem(0, node.shape.len());
        for (from, &stride) in map.iter().zip(&dense) {
            offset += from.start * stride;
            if let Some(axis) = from.axis {
                strides[axis] += from.step * stride as isize;
            }
        }
        Self {
            storage: source
                .storage()
                .expect("factors are enqueued before their product"),
            shape: node.shape.clone(),
            offset,
            strides,
        }
    }

    fn factor(&self) -> product::Factor<'_> {
        let (batch, matrix) = self.strides.split_at(self.strides.len() - 2);
        product::Factor {
            buffer: &self.storage.buffer,
            offset: self.offset,
            row_stride: matrix[0],
            column_stride: matrix[1],
            batch_strides: batch,
        }
    }
}
