//! Contiguous rows of arrays, and the values that belong to one row.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::limits::LONG_ROWS_MIN,
    shape::{Axes, AxisMap, AxisSource, RANK_MAX, element_count},
};

/// The number of threads of a block, which computes a long row.
pub(crate) const ROW_THREADS: usize = 256;
/// The number of threads of a block that computes a row that does not fit in its registers.
pub(crate) const LONG_ROW_THREADS: usize = 512;
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

impl RowShape {
    /// The maximum number of elements of a row that stays in registers.
    pub(crate) const LENGTH_MAX: usize = 8192;

    /// Returns whether the rows do not fit in the registers of a usual block.
    pub(crate) fn is_long(self) -> bool {
        self.length > Self::LENGTH_MAX
    }

    /// Returns the rows that a reduction reduces, if they are contiguous.
    pub(crate) fn of_reduction(op: &Op, node: &NodeRef) -> Option<Self> {
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
}
