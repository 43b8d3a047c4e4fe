//! The schedules there are, and the choice among them.

use crate::{
    element::DType,
    expr::{NodeRef, Op, Reduction, ScatterMode},
    plan::{
        FusedKernel, IndexAnalysis, KernelOutput, ROW_THREADS, ReducedRows, ReductionOrder,
        RowOrder, RowShape, RowSplit, ScanOrder, arrays_of_simple,
    },
    product::{LaunchPlan, ProductLayout, ProductShape},
    schedule::{
        Machine,
        machine::{
            self, RESULTS_OF_WARP, ROW_PARTS, ROW_PARTS_ELEMENTS_MAX, SCATTER_ELEMENTS_MAX,
            SCATTER_VALUES_MIN, SCATTER_VALUES_PER_SUM, WARP_ROW_LENGTH_MAX,
        },
        views::{JoinedArrays, TransposedViews},
    },
    shape::last_axis,
};

/// The kernel that computes a fused kernel, and the numbers on which its text depends. Kernels with
/// equal words and equal schedules have the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Schedule {
    /// Functions of elements.
    Map(MapSchedule),
    /// Reads transposed views through shared memory.
    Transposed,
    /// Computes functions that a stencil reads in shared memory.
    Stencil,
    /// Computes parts of an array, each by blocks of its own.
    Sections,
    /// Joins arrays in memory. A thread copies `lanes` neighbours at once.
    Join {
        lanes: usize,
        blocks: usize,
    },
    /// Several reductions of rows, and what follows from them.
    Row(RowSplit, RowSchedule),
    Reduce(ReduceSchedule),
    /// A scan. A multiprocessor has registers for `blocks` blocks.
    Scan {
        order: ScanOrder,
        blocks: usize,
    },
    Scatter(ScatterSchedule),
    Product(LaunchPlan),
    Attention,
}

/// The elements of a thread of an element-wise kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MapSchedule {
    /// `lanes` neighbours at any place, and the rest one by one.
    Vectors {
        lanes: usize,
    },
    /// `lanes` neighbours along the last axis, whose length is a multiple of that.
    Groups {
        lanes: usize,
    },
    Single,
}

impl MapSchedule {
    /// Returns whether threads with these elements can compute a kernel.
    pub(crate) fn serves(self, kernel: &FusedKernel) -> bool {
        let mut outputs = kernel.outputs.iter();
        match self {
            Self::Single => true,
            // A vector could contain elements that another thread replaces.
            _ if kernel.overwrites.is_some() => false,
            Self::Vectors { lanes } => {
                let mut offsets = outputs.map(KernelOutput::contiguous_offset);
                IndexAnalysis::of(kernel).flat
                    && offsets.all(|offset| offset.is_some_and(|it| it.is_multiple_of(lanes)))
            }
            Self::Groups { lanes } => {
                last_length(&kernel.root).is_multiple_of(lanes)
                    && outputs.all(|output| output.keeps_neighbours(lanes))
            }
        }
    }
}

/// The threads of a row, whose accumulators a plan determines ([`RowSplit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowSchedule {
    /// A part of a warp, with a thread for each accumulator.
    PartOfWarp,
    /// A block, with a thread for each accumulator.
    Block,
    /// A block of fewer threads, each with the accumulators of several. A multiprocessor has
    /// registers for `blocks` blocks.
    ManyRows { parts: usize, blocks: usize },
    /// A block of more threads than usual, with a thread for each accumulator.
    LargerBlock,
    /// Blocks that compute row by row, and read a row again for each stage. A thread has `groups`
    /// groups of neighbours in flight.
    LongRow { blocks: usize, groups: usize },
}

/// The threads of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReduceSchedule {
    /// A thread for each accumulator.
    Accumulators(ReductionOrder),
    /// A warp for so many results, with the accumulators of a block.
    Warp(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ScatterSchedule {
    /// Adds each value to its element.
    Add,
    /// Adds the values of each block in shared memory first.
    AddInShared { blocks: usize },
    /// Marks the last value of each element, and stores those that are marked.
    MarkAndStore,
    /// Stores each value, the only one for its element.
    Permute,
}

/// What a schedule depends on besides the number of elements of the kernel's root and the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Fixed(Schedule),
    /// A kernel that can have many rows. Its root has `elements` elements for each row.
    Rows {
        split: RowSplit,
        elements: usize,
    },
    Reduced(ReducedRows),
}

/// Chooses the schedule of a kernel that has elements to write.
pub(crate) fn schedule(kernel: &FusedKernel, machine: &Machine) -> Schedule {
    Choice::of(kernel, machine).schedule(kernel.root.elements, machine)
}

impl Choice {
    pub(crate) fn of(kernel: &FusedKernel, machine: &Machine) -> Self {
        if let Some(rows) = kernel.rows {
            return Self::of_rows(kernel, rows, machine);
        }
        let root = &kernel.root;
        Self::Fixed(match kernel.op(root) {
            Some(Op::Reduce { .. }) => {
                return Self::Reduced(ReducedRows::of(kernel).expect("the root is a reduction"));
            }
            Some(Op::Scan {
                reduction,
                source,
                axis,
            }) => {
                let order = ScanOrder::of(root, source, *axis);
                let blocks = match order {
                    ScanOrder::SharedRow { .. } => {
                        let is_pair = *reduction == Reduction::Sum && source.dtype == DType::F64;
                        machine.scan_row_blocks(is_pair)
                    }
                    ScanOrder::Columns { .. } => machine.scan_column_blocks(),
                    _ => 0,
                };
                Schedule::Scan { order, blocks }
            }
            Some(Op::Scatter { index, mode, .. }) => Schedule::Scatter(match mode {
                ScatterMode::Last => ScatterSchedule::MarkAndStore,
                ScatterMode::Permute => ScatterSchedule::Permute,
                ScatterMode::Add => match blocks_that_add(index.elements, root.elements) {
                    None => ScatterSchedule::Add,
                    Some(blocks) => ScatterSchedule::AddInShared {
                        blocks: blocks.min(machine.scatter_blocks_max()),
                    },
                },
            }),
            Some(Op::MatrixProduct(left, right, _)) => {
                let (layout, _) = product_layout(kernel, left, right);
                Schedule::Product(LaunchPlan::of(&layout, root.dtype, machine.capability))
            }
            Some(Op::Attention(_)) => Schedule::Attention,
            _ => of_elements(kernel, machine),
        })
    }

    fn of_rows(kernel: &FusedKernel, rows: RowShape, machine: &Machine) -> Self {
        let RowOrder { split, is_kept } = RowOrder::of(kernel, rows);
        let of_row = match is_kept {
            true if split.threads < ROW_THREADS => RowSchedule::PartOfWarp,
            true if split.threads > ROW_THREADS => RowSchedule::LargerBlock,
            true if fits_in_parts(kernel, rows) => {
                return Self::Rows {
                    split,
                    elements: kernel.root.elements / rows.rows,
                };
            }
            true => RowSchedule::Block,
            false => {
                let inputs = kernel.inputs.iter();
                let whole = inputs.filter(|input| input.elements == rows.rows * rows.length);
                let bytes: usize = whole.map(|input| input.dtype.bytes()).sum();
                RowSchedule::LongRow {
                    blocks: (machine.long_row_blocks(rows.length * bytes.max(1))).min(rows.rows),
                    groups: machine::long_row_groups(kernel.inputs.len(), kernel.nodes.len()),
                }
            }
        };
        Self::Fixed(Schedule::Row(split, of_row))
    }

    pub(crate) fn schedule(self, root: usize, machine: &Machine) -> Schedule {
        match self {
            Self::Fixed(schedule) => schedule,
            Self::Rows { split, elements } => {
                let of_row = match root / elements < machine.many_rows_min() {
                    true => RowSchedule::Block,
                    false => RowSchedule::ManyRows {
                        parts: ROW_PARTS,
                        blocks: machine.many_rows_blocks(),
                    },
                };
                Schedule::Row(split, of_row)
            }
            Self::Reduced(rows) => {
                let order = rows.order(root);
                let is_by_warp = fits_in_warp(rows, order) && root >= machine.warp_rows_min();
                Schedule::Reduce(match is_by_warp {
                    true if rows.is_shared && root >= machine.shared_by_warps_min() => {
                        ReduceSchedule::Warp(RESULTS_OF_WARP)
                    }
                    true => ReduceSchedule::Warp(1),
                    false => ReduceSchedule::Accumulators(order),
                })
            }
        }
    }
}

impl Schedule {
    /// Returns whether a row has its threads, however many rows there are.
    pub(crate) fn has_threads_for_each_row(self) -> bool {
        match self {
            Self::Row(_, RowSchedule::LongRow { .. }) => false,
            Self::Row(..) | Self::Reduce(ReduceSchedule::Warp(_)) => true,
            Self::Reduce(ReduceSchedule::Accumulators(order)) => matches!(
                order,
                ReductionOrder::Row { .. } | ReductionOrder::Thread | ReductionOrder::Block
            ),
            _ => false,
        }
    }
}

/// Returns whether a block of fewer threads, each with the elements of several, can compute a row.
pub(crate) fn fits_in_parts(kernel: &FusedKernel, rows: RowShape) -> bool {
    let fits =
        |arrays: usize| ROW_PARTS * arrays * rows.elements_per_thread() <= ROW_PARTS_ELEMENTS_MAX;
    arrays_of_simple(kernel, rows).is_some_and(|arrays| fits(arrays.len()))
}

/// Returns whether a warp can compute a result that accumulators of a block combine.
pub(crate) fn fits_in_warp(rows: ReducedRows, order: ReductionOrder) -> bool {
    order == ReductionOrder::Block
        && rows.is_contiguous
        && rows.is_simple
        && rows.length <= WARP_ROW_LENGTH_MAX
}

/// Chooses the schedule of element-wise functions, copies, stencils and joins.
fn of_elements(kernel: &FusedKernel, machine: &Machine) -> Schedule {
    if kernel.is_sectioned {
        return Schedule::Sections;
    }
    let root = &kernel.root;
    if let Some(joined) = JoinedArrays::of(kernel) {
        let lanes = joined.lanes(root);
        let blocks = (root.elements / lanes).div_ceil(ROW_THREADS);
        let blocks = blocks.min(machine.join_blocks_max());
        return Schedule::Join { lanes, blocks };
    }
    if !kernel.tiled.is_empty() {
        return Schedule::Stencil;
    }
    if TransposedViews::of(kernel).is_some() {
        return Schedule::Transposed;
    }
    let widths = kernel.values().map(|value| value.dtype.vector_width());
    let lanes = widths.min().expect("a kernel has an output");
    let vectors = [
        MapSchedule::Vectors { lanes },
        MapSchedule::Groups { lanes },
    ];
    let possible = vectors
        .into_iter()
        .find(|of_thread| of_thread.serves(kernel));
    Schedule::Map(possible.unwrap_or(MapSchedule::Single))
}

/// Returns the layout of a product, which has several rows or a single element, and the nodes in
/// memory of its factors.
pub(crate) fn product_layout<'a>(
    kernel: &'a FusedKernel,
    left: &'a NodeRef,
    right: &'a NodeRef,
) -> (ProductLayout, [&'a NodeRef; 2]) {
    let shape = ProductShape::of(&kernel.root.shape, &left.shape);
    let (a, b) = (kernel.strided(left), kernel.strided(right));
    let layout = ProductLayout::new(&shape, a.factor(), b.factor());
    match layout.m {
        1 => (layout.transposed(), [b.source, a.source]),
        _ => (layout, [a.source, b.source]),
    }
}

pub(crate) fn last_length(node: &NodeRef) -> usize {
    last_axis(&node.shape).map_or(1, |axis| node.shape[axis])
}

/// Returns whether the values are many and the elements few, so that blocks add in shared memory
/// first.
pub(crate) fn adds_to_few(values: usize, elements: usize) -> bool {
    blocks_that_add(values, elements).is_some()
}

/// Returns the number of blocks that add in shared memory first. `None` if that would take longer.
fn blocks_that_add(values: usize, elements: usize) -> Option<usize> {
    let blocks = values / SCATTER_VALUES_MIN.max(SCATTER_VALUES_PER_SUM * elements);
    (elements <= SCATTER_ELEMENTS_MAX && blocks > 1).then_some(blocks)
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array2, Axis, s};

    use super::*;
    use crate::{Array, plan::only_kernel};

    const fn vectors(lanes: usize) -> Schedule {
        Schedule::Map(MapSchedule::Vectors { lanes })
    }

    const fn blocks(splits: usize) -> Schedule {
        reduce(ReductionOrder::Blocks { splits })
    }

    const fn reduce(order: ReductionOrder) -> Schedule {
        Schedule::Reduce(ReduceSchedule::Accumulators(order))
    }

    /// Returns the schedule of a row, and the number of its accumulators.
    fn of_row(schedule: Schedule) -> (usize, RowSchedule) {
        match schedule {
            Schedule::Row(split, of_row) => (split.threads, of_row),
            other => panic!("{other:?} is no row"),
        }
    }

    /// Returns the schedules on an H200 and on an L4.
    fn schedules(node: &NodeRef) -> [Schedule; 2] {
        let kernel = only_kernel(node);
        [Machine::H200, Machine::L4].map(|machine| schedule(&kernel, &machine))
    }

    fn array(rows: usize, columns: usize) -> Array<f32, ndarray::Ix2> {
        let device = Device::simulated().unwrap();
        Array::from_host(&device, &Array2::zeros((rows, columns))).unwrap()
    }

    #[test]
    fn element_wise_kernels_are_scheduled_by_types_and_views() {
        let x = array(64, 96);
        let table = [
            ((&x + 1.0).node().clone(), vectors(4)),
            ((&x.cast::<f64>() + 1.0).node().clone(), vectors(2)),
            ((&x.cast::<u8>() + 1).node().clone(), vectors(4)),
            (
                (&x.slice(s![.., ..;-1]) + 1.0).node().clone(),
                Schedule::Map(MapSchedule::Groups { lanes: 4 }),
            ),
            (
                (&x.slice(s![.., 1..]) + 1.0).node().clone(),
                Schedule::Map(MapSchedule::Single),
            ),
            ((x.t() + 1.0).node().clone(), Schedule::Transposed),
        ];
        for (node, expected) in table {
            assert_eq!(schedules(&node), [expected; 2], "{}", node.shape.len());
        }
    }

    #[test]
    fn rows_are_scheduled_by_their_length_and_number() {
        let of = |rows, columns| {
            let x = array(rows, columns);
            let largest = x.max_axis(Axis(1)).insert_axis(Axis(1));
            schedules((&x / &largest).node()).map(of_row)
        };
        let many = RowSchedule::ManyRows {
            parts: 4,
            blocks: 20,
        };
        let long = |blocks| RowSchedule::LongRow { blocks, groups: 2 };
        let table = [
            ((6, 64), (8, [RowSchedule::PartOfWarp; 2])),
            ((6, 300), (256, [RowSchedule::Block; 2])),
            (
                (Machine::L4.many_rows_min() - 1, 300),
                (256, [RowSchedule::Block; 2]),
            ),
            (
                (Machine::L4.many_rows_min(), 300),
                (256, [RowSchedule::Block, many]),
            ),
            ((Machine::H200.many_rows_min(), 300), (256, [many; 2])),
            ((128, 8_196), (512, [RowSchedule::LargerBlock; 2])),
            ((128, 16_388), (1024, [RowSchedule::LargerBlock; 2])),
            ((130, 16_385), (512, [long(130), long(130)])),
        ];
        for ((rows, columns), (accumulators, expected)) in table {
            let expected = expected.map(|of_row| (accumulators, of_row));
            assert_eq!(of(rows, columns), expected, "{rows} x {columns}");
        }
    }

    #[test]
    fn reductions_are_scheduled_by_their_shape() {
        let of = |rows, columns, axis| {
            let x = array(rows, columns);
            schedules((&x * 2.0).sum_axis(Axis(axis)).node())
        };
        let block = reduce(ReductionOrder::Block);
        let warp = Schedule::Reduce(ReduceSchedule::Warp(1));
        let table = [
            ((6, 64, 1), [reduce(ReductionOrder::Row { threads: 8 }); 2]),
            ((6, 2_000, 1), [block; 2]),
            ((3_599, 300, 1), [block, warp]),
            ((8_192, 300, 1), [warp; 2]),
            ((8_192, 2_052, 1), [block; 2]),
            ((2, 40_000, 1), [blocks(3); 2]),
            ((32, 300, 0), [reduce(ReductionOrder::Thread); 2]),
            (
                (1_000, 300, 0),
                [reduce(ReductionOrder::Threads { splits: 32 }); 2],
            ),
            (
                (1_025, 300, 0),
                [reduce(ReductionOrder::ManyThreads { splits: 33 }); 2],
            ),
        ];
        for ((rows, columns, axis), expected) in table {
            assert_eq!(
                of(rows, columns, axis),
                expected,
                "{rows} x {columns}, {axis}"
            );
        }
    }

    #[test]
    fn scans_and_scatters_are_scheduled_by_their_shape() {
        let scan = |rows, columns, axis| {
            let x = array(rows, columns);
            schedules(x.cumsum(Axis(axis)).node())
        };
        let of = |order, blocks| Schedule::Scan { order, blocks };
        let shared = ScanOrder::SharedRow { items: 32 };
        let tiles = ScanOrder::Columns {
            width: 32,
            items: 16,
        };
        let table = [
            ((6, 64, 1), [of(ScanOrder::Row, 0); 2]),
            ((6, 4_096, 1), [of(ScanOrder::RowOfTiles, 0); 2]),
            ((6, 4_097, 1), [of(shared, 6), of(shared, 2)]),
            ((64, 300, 0), [of(ScanOrder::Column, 0); 2]),
            ((65, 300, 0), [of(tiles, 4), of(tiles, 2)]),
        ];
        for ((rows, columns, axis), expected) in table {
            assert_eq!(
                scan(rows, columns, axis),
                expected,
                "{rows} x {columns}, {axis}"
            );
        }
        assert!(adds_to_few(4_096, 100) && !adds_to_few(4_095, 100));
        assert!(!adds_to_few(1 << 20, 4_097));
    }
}
