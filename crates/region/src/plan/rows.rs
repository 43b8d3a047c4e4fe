//! Row kernels: reductions of contiguous rows together with what leads to them and what follows.
//!
//! A block, or a part of a warp, keeps a row in registers, so that a softmax reads its array once
//! and writes once. A longer row is read again, from a cache, if there are enough rows to keep a
//! device busy. Every value that depends on a reduction must belong to one row: to an element, or
//! to the whole row.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::{partition::Candidate, size},
    shape::{Axes, AxisMap, AxisSource, RANK_MAX, element_count},
};

/// The number of threads of a block, which computes a long row.
pub(crate) const ROW_THREADS: usize = 256;
/// The number of threads of a block that computes a row that does not fit in its registers.
pub(crate) const LONG_ROW_THREADS: usize = 512;
/// The minimum number of such rows: a block for each multiprocessor of a large device.
const LONG_ROWS_MIN: usize = 128;
/// The maximum number of elements of a row that a part of a warp computes.
const WARP_LENGTH_MAX: usize = 256;
/// The number of threads of a warp.
const WARP: usize = 32;

/// The number of neighbours of a row that a thread computes together, and reads and writes at once
/// where it can, if that leaves few threads without elements.
const NEIGHBOURS: usize = 4;
/// The number of elements of a thread of a short row, all of which it loads before it waits for
/// them. The fewer threads a row has, the fewer steps combine them.
const ELEMENTS_OF_SHORT: usize = 8;
/// The minimum number of threads of a short row that do not compute neighbours together, so that
/// they read 32 bytes at once.
const SINGLE_THREADS_MIN: usize = 8;

/// The division of a row among the threads that compute it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSplit {
    pub(crate) length: usize,
    /// The number of threads, a power of two.
    pub(crate) threads: usize,
    /// The number of neighbours that a thread computes together.
    pub(crate) neighbours: usize,
}

impl RowSplit {
    /// Returns the division of a row of this many elements, in row kernels and in reductions of
    /// contiguous rows.
    pub(crate) fn of(length: usize) -> Self {
        let is_short = length <= WARP_LENGTH_MAX;
        let of_neighbours = if is_short {
            let threads = length.div_ceil(ELEMENTS_OF_SHORT);
            threads.next_power_of_two().min(WARP)
        } else {
            ROW_THREADS
        };
        let of_threads = length.next_multiple_of(NEIGHBOURS * of_neighbours);
        let (threads, neighbours) =
            if length.is_multiple_of(NEIGHBOURS) && of_threads <= length + length / 4 {
                (of_neighbours, NEIGHBOURS)
            } else if is_short {
                let threads = of_neighbours.max(SINGLE_THREADS_MIN);
                (threads.min(length.next_power_of_two()), 1)
            } else {
                (ROW_THREADS, 1)
            };
        Self {
            length,
            threads,
            neighbours,
        }
    }

    /// Returns the division of a row among the threads of a larger block.
    pub(crate) fn of_block(length: usize, threads: usize) -> Self {
        Self {
            length,
            threads,
            neighbours: if length.is_multiple_of(NEIGHBOURS) {
                NEIGHBOURS
            } else {
                1
            },
        }
    }

    /// Returns the number of groups of neighbours of each thread. For short rows it is a power of
    /// two, so that rows of other lengths have the same kernels.
    pub(crate) fn turns(self) -> usize {
        let turns = self.length.div_ceil(self.threads * self.neighbours);
        if self.length <= WARP_LENGTH_MAX {
            turns.next_power_of_two()
        } else {
            turns
        }
    }

    /// Returns whether threads may be beyond the end of the row in a turn: in the last one, or in
    /// the second half of those of a short row.
    pub(crate) fn has_beyond(self, turn: usize) -> bool {
        let turns = self.turns();
        let first = if self.length <= WARP_LENGTH_MAX {
            turns / 2
        } else {
            turns - 1
        };
        turn >= first && self.length < turns * self.threads * self.neighbours
    }
}

/// The maximum number of values in the registers of a thread, each of 32 bits.
const REGISTERS_MAX: usize = 128;
/// The maximum number of operations for all elements of a thread.
const OPERATIONS_MAX: usize = 2048;
/// The maximum number of operations of rows that do not fit in registers, most of which are
/// computed again whenever the row is read again.
const LONG_OPERATIONS_MAX: usize = 48;
/// The maximum number of reductions, each of which takes shared memory.
const REDUCTIONS_MAX: usize = 8;
/// The number of nodes before the last of a row kernel among which its others are searched, so that
/// planning stays linear.
const REACH: usize = 256;

/// Contiguous rows of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowShape {
    pub(crate) rows: usize,
    /// The number of elements of a row.
    pub(crate) length: usize,
}

/// The part of an array that a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowClass {
    /// One value for each row.
    Row,
    /// One value for each element of each row.
    Element,
}

/// Fuses reductions into the kernels that use them, where all work belongs to the same rows.
pub(crate) fn fuse_rows(candidates: &mut [Candidate]) {
    let is_reduction = |candidate: &Candidate| matches!(&*candidate.op, Op::Reduce { .. });
    if !candidates.iter().any(is_reduction) {
        return;
    }
    for root in (0..candidates.len()).rev() {
        let candidate = &candidates[root];
        if candidate.is_stored && matches!(&*candidate.op, Op::Apply(..) | Op::Reduce { .. }) {
            fuse_into(candidates, root);
        }
    }
}

/// Fuses stored nodes into the kernel of `root` that nothing else uses, if they make a row kernel.
fn fuse_into(candidates: &mut [Candidate], root: usize) {
    let of_reduction = |at: usize| RowShape::of_reduction(&candidates[at].op, &candidates[at].node);
    let of_any = |at: usize| match &*candidates[at].op {
        Op::Reduce { .. } => of_reduction(at).is_some(),
        op => matches!(op, Op::Apply(..)),
    };
    let any = used_only_in(candidates, root, of_any);
    let Some(rows) = of_reduction(root).or_else(|| any.iter().copied().find_map(of_reduction))
    else {
        return;
    };
    let Some(class) = rows.class(&candidates[root].node) else {
        return;
    };
    let fused = used_only_in(candidates, root, |at| match &*candidates[at].op {
        Op::Reduce { .. } => of_reduction(at) == Some(rows),
        Op::Apply(..) => rows.class(&candidates[at].node).is_some(),
        _ => false,
    });
    let all = fused.iter().chain([&root]);
    let reductions = all.filter(|&&at| of_reduction(at).is_some()).count();
    // A function of the results of one reduction is its epilogue.
    let is_epilogue = reductions == 1 && class == RowClass::Row;
    if is_epilogue || reductions > REDUCTIONS_MAX || fused.is_empty() {
        return;
    }
    for &at in &fused {
        candidates[at].is_stored = false;
    }
    if is_row_kernel(candidates, root, rows) {
        candidates[root].rows = Some(rows);
    } else {
        for &at in &fused {
            candidates[at].is_stored = true;
        }
    }
}

/// Returns the stored nodes that fit and that nothing but the kernel of `root` uses, directly or
/// through others of them, from the last on.
fn used_only_in(
    candidates: &[Candidate],
    root: usize,
    fits: impl Fn(usize) -> bool,
) -> SmallVec<[usize; 8]> {
    let mut kernels: SmallVec<[u64; 8]> = SmallVec::new();
    kernels.push(candidates[root].node.id);
    let mut found: SmallVec<[usize; 8]> = SmallVec::new();
    for at in (root.saturating_sub(REACH)..root).rev() {
        let candidate = &candidates[at];
        if candidate.is_stored
            && !candidate.is_requested
            && candidate.has_all_consumers_in(&kernels)
            && fits(at)
        {
            kernels.push(candidate.node.id);
            found.push(at);
        }
    }
    found
}

/// Returns whether the kernel of a candidate can be a row kernel.
fn is_row_kernel(candidates: &[Candidate], root: usize, rows: RowShape) -> bool {
    // One value for a row takes little, and views take nothing.
    let is_in_each_thread = |at: usize| {
        let Candidate { node, op, .. } = &candidates[at];
        matches!(&**op, Op::Apply(..) | Op::Gather { .. } | Op::Iota)
            && rows.class(node) != Some(RowClass::Row)
    };
    let (order, size) = size::kernel_of(candidates, root, is_in_each_thread);
    let per_thread = rows.elements_per_thread();
    let is_wide = |&at: &usize| is_in_each_thread(at) && candidates[at].node.dtype.bytes() > 4;
    let words = if order.iter().any(is_wide) { 2 } else { 1 };
    if size.is_too_large()
        || per_thread * size.live() * words > REGISTERS_MAX
        || per_thread * size.operations() > OPERATIONS_MAX
        || (rows.is_long() && size.operations() > LONG_OPERATIONS_MAX)
    {
        return false;
    }
    let nodes = order
        .iter()
        .map(|&at| (&candidates[at].node, &*candidates[at].op));
    rows.classify(nodes).is_some_and(|classes| {
        // Without a reduction inside, there would be nothing to gain.
        classes.contains_key(&candidates[root].node.id)
    })
}

impl RowShape {
    /// The maximum number of elements of a row that stays in registers.
    pub(crate) const LENGTH_MAX: usize = 8192;

    /// Returns whether the rows do not fit in the registers of a usual block.
    pub(crate) fn is_long(self) -> bool {
        self.length > Self::LENGTH_MAX
    }

    /// Returns the rows that a reduction reduces, if they are contiguous.
    fn of_reduction(op: &Op, node: &NodeRef) -> Option<Self> {
        let Op::Reduce { source, axes, .. } = op else {
            return None;
        };
        Self::of_axes(&source.shape, axes, node.elements)
    }

    /// Returns the rows along these axes of an array, if they are contiguous and a row kernel can
    /// compute several reductions of them.
    pub(crate) fn of_axes(shape: &[usize], axes: &Axes, rows: usize) -> Option<Self> {
        let mut long = (0..shape.len()).filter(|&axis| shape[axis] != 1);
        long.by_ref().find(|axis| axes.contains(axis));
        let is_contiguous = long.all(|axis| axes.contains(&axis));
        if !is_contiguous || rows == 0 || i32::try_from(rows).is_err() {
            return None;
        }
        let length = element_count(shape)? / rows;
        let is_fused = length >= 2 && (length <= Self::LENGTH_MAX || rows >= LONG_ROWS_MIN);
        is_fused.then_some(Self { rows, length })
    }

    /// Returns the rows of this length of a row kernel whose root has a class.
    pub(crate) fn of_root(length: usize, class: RowClass, root: &NodeRef) -> Self {
        let rows = match class {
            RowClass::Row => root.elements,
            RowClass::Element => root.elements / length,
        };
        Self { rows, length }
    }

    /// Returns the class of a node by its number of elements.
    pub(crate) fn class(self, node: &NodeRef) -> Option<RowClass> {
        if node.elements == self.rows {
            Some(RowClass::Row)
        } else if node.elements == self.rows * self.length {
            Some(RowClass::Element)
        } else {
            None
        }
    }

    /// Returns the classes of the nodes that depend on a reduction, operands first, or `None` if
    /// one of them depends on the reduction of another row than its own.
    pub(crate) fn classify<'a>(
        self,
        nodes: impl Iterator<Item = (&'a NodeRef, &'a Op)>,
    ) -> Option<FxHashMap<u64, RowClass>> {
        let mut classes: FxHashMap<u64, RowClass> = FxHashMap::default();
        for (node, op) in nodes {
            let class_of = |operand: &NodeRef| classes.get(&operand.id).copied();
            if let Op::Reduce { source, .. } = op {
                let is_of_rows = Self::of_reduction(op, node) == Some(self);
                if !is_of_rows || class_of(source) == Some(RowClass::Row) {
                    return None;
                }
                classes.insert(node.id, RowClass::Row);
                continue;
            }
            let (mut depends, mut operand_class) = (false, None);
            op.operands(|operand| {
                if let Some(class) = class_of(operand) {
                    depends = true;
                    operand_class = Some(class);
                }
            });
            let Some(operand_class) = operand_class.filter(|_| depends) else {
                continue;
            };
            let class = self.class(node)?;
            let is_aligned = match op {
                // All operands have the shape of the node.
                Op::Apply(..) => true,
                Op::Reshape(_) => class == operand_class,
                Op::View(source, map) => self.is_aligned(node, map, source, operand_class),
                _ => false,
            };
            if !is_aligned {
                return None;
            }
            classes.insert(node.id, class);
        }
        Some(classes)
    }

    /// Returns whether each element of a view shows an element of its own row.
    fn is_aligned(
        self,
        node: &NodeRef,
        map: &AxisMap,
        source: &NodeRef,
        source_class: RowClass,
    ) -> bool {
        let axes = |shape: &[usize]| -> SmallVec<[usize; RANK_MAX]> {
            (0..shape.len()).filter(|&axis| shape[axis] != 1).collect()
        };
        let (of_view, of_source) = (axes(&node.shape), axes(&source.shape));
        let repeats: usize = match of_view.get(of_source.len()..) {
            Some(repeated) => repeated.iter().map(|&axis| node.shape[axis]).product(),
            None => return false,
        };
        let is_expected = match (source_class, self.class(node)) {
            (RowClass::Row, Some(RowClass::Element)) => repeats == self.length,
            (class, Some(other)) => class == other && repeats == 1,
            (_, None) => false,
        };
        let same = |(&seen, &axis): (&usize, &usize)| {
            map[axis] == AxisSource::same(seen) && node.shape[seen] == source.shape[axis]
        };
        is_expected && of_view.iter().zip(&of_source).all(same)
    }

    /// Returns the number of elements of a row that each of its threads has in registers.
    pub(crate) fn elements_per_thread(self) -> usize {
        let split = RowSplit::of(self.length);
        if self.is_long() {
            return split.neighbours;
        }
        split.turns() * split.neighbours
    }
}
