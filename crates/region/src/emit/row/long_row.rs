//! Row kernels of rows that do not fit in the registers of any block. A block computes row by row.
//! It visits its row once for the reductions of each stage, and once to write.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    emit::{
        body::{KernelBody, Reg, RowThread, index, jump, line},
        lower::{Lowering, RowNodes},
        passes::GeneratedPasses,
        row::elements::{RowElements, RowReduction, begin, store_of_row},
    },
    expr::{NodeRef, Op},
    plan::{FusedKernel, FusedNode, RowClass, RowShape, RowSplit},
};

/// The maximum number of groups of neighbours in flight per thread.
const GROUPS_MAX: usize = 4;

/// The row of a block, and the elements of each thread.
struct LongRow {
    own: RowThread,
    length: Reg,
    /// The number of neighbours in a group.
    neighbours: usize,
    groups: Reg,
    /// The number of groups in flight.
    unroll: usize,
}

/// Generates the kernel for this number of blocks. A thread has `groups` groups in flight.
pub(crate) fn long_row(
    kernel: &FusedKernel,
    rows: RowShape,
    split: RowSplit,
    (blocks, unroll): (usize, usize),
) -> GeneratedPasses {
    let (classes, mut body) = begin(kernel, rows);
    let stages = Stages::of(kernel, &classes);
    body.block = split.threads;
    let own = RowThread::of_block(&mut body, split.threads);
    let row = own.row;
    let neighbours = split.neighbours;
    let (all, step) = (body.named("rows", rows.rows), body.named("blocks", blocks));
    let length = body.named("length", rows.length);
    let groups = match neighbours {
        1 => length,
        _ => body.named("groups", rows.length / neighbours),
    };
    let long_row = LongRow {
        own,
        length,
        neighbours,
        groups,
        unroll,
    };
    let beyond = body.predicate();
    body.label("ROW");
    let mut lowering = Lowering::new(&mut body, kernel, false);
    lowering.row_nodes = Some(RowNodes::new(&classes, rows, row));
    // Positions that are first needed within a loop would be forgotten behind it.
    lowering.scalar_position();
    for FusedNode { node, .. } in &kernel.nodes {
        lowering.row_position_of(node);
    }
    let shared = stages.reduce(&mut lowering, &long_row);
    long_row.store(&mut lowering, rows);
    // All threads have read the accumulators before any of them writes those of the next row.
    line!(body; "bar.sync 0;");
    line!(body; "add.s# {row}, {row}, {step};");
    jump!(body, beyond; "ROW" if "lt.u# {row}, {all}");
    GeneratedPasses::one(body.finish(&shared), blocks * split.threads)
}

/// The stages of a kernel: reductions that depend on no other, those that depend on these, and so
/// on. The values for the row that follow from a reduction belong to its stage.
struct Stages {
    /// The stage of each node that depends on a reduction, from 1 on.
    of_nodes: FxHashMap<u64, usize>,
    count: usize,
}

impl Stages {
    fn of(kernel: &FusedKernel, classes: &FxHashMap<u64, RowClass>) -> Self {
        let mut of_nodes: FxHashMap<u64, usize> = FxHashMap::default();
        for FusedNode { node, op } in &kernel.nodes {
            if !classes.contains_key(&node.id) {
                continue;
            }
            let mut stage = 0;
            op.operands(|operand| {
                stage = stage.max(of_nodes.get(&operand.id).copied().unwrap_or(0));
            });
            let own = usize::from(matches!(&**op, Op::Reduce { .. }));
            of_nodes.insert(node.id, stage + own);
        }
        let count = of_nodes.values().copied().max().unwrap_or(0);
        Self { of_nodes, count }
    }

    /// Computes all reductions and values for the row. Returns declarations of shared memory.
    fn reduce(&self, lowering: &mut Lowering<'_>, row: &LongRow) -> String {
        let kernel = lowering.kernel;
        let mut shared = String::new();
        let mut number = 0;
        for stage in 1..=self.count {
            let mut reductions: SmallVec<[RowReduction<'_>; 4]> = SmallVec::new();
            for reduction in kernel.reductions() {
                if self.of_nodes.get(&reduction.0.id) == Some(&stage) {
                    let (body, place) = (&mut *lowering.body, (number, 1));
                    let of_row = RowReduction::new(body, reduction, row.own, place, &mut shared);
                    reductions.push(of_row);
                    number += 1;
                }
            }
            row.accumulate(lowering, &reductions, stage);
            for reduction in &reductions {
                reduction.finish(lowering, row.own);
            }
            // Loops must not compute these first, because they are needed behind them, too.
            for FusedNode { node, .. } in &kernel.nodes {
                if self.of_nodes.get(&node.id) == Some(&stage)
                    && let Some(position) = lowering.row_position_of(node)
                {
                    lowering.lower(node, position);
                }
            }
        }
        shared
    }
}

impl LongRow {
    /// Accumulates the elements for these reductions, which do not depend on each other.
    fn accumulate<'a>(
        &self,
        lowering: &mut Lowering<'a>,
        reductions: &[RowReduction<'a>],
        stage: usize,
    ) {
        let label = format!("STAGE{stage}");
        let sources = reductions.iter().map(|reduction| reduction.source);
        let arrays = lowering.kernel.arrays_of(sources.clone());
        lowering.prepare_divisors(sources.clone());
        self.visit(lowering, (&label, &arrays), |lowering, groups| {
            let mut values: Vec<(usize, Reg, Reg)> = Vec::new();
            for turn in 0..groups.len() {
                lowering.divide(sources.clone(), groups, (self.own.row, turn));
                let elements = &mut groups[turn];
                for (number, reduction) in reductions.iter().enumerate() {
                    let of_group = elements.lower(lowering, reduction.source, self.own.row, turn);
                    let positions = elements.numbers.iter().zip(of_group);
                    values.extend(positions.map(|(&at, value)| (number, at, value)));
                }
            }
            for (number, at, value) in values {
                let RowReduction {
                    reducer,
                    accumulators,
                    ..
                } = &reductions[number];
                let other = reducer.lift(lowering.body, value, |_| at);
                reducer.combine(lowering.body, &accumulators[0], &other);
            }
        });
    }

    /// Stores the elements of the row, or the element for the row.
    fn store(&self, lowering: &mut Lowering<'_>, rows: RowShape) {
        let root = &lowering.kernel.root;
        // The parameter is loaded first, also where loops follow.
        lowering.body.output(0);
        let row = self.own.row;
        if rows.class(root) == Some(RowClass::Element) {
            let arrays = lowering.kernel.arrays_of(std::iter::once(root));
            lowering.prepare_divisors(std::iter::once(root));
            self.visit(lowering, ("WRITE", &arrays), |lowering, groups| {
                for turn in 0..groups.len() {
                    lowering.divide(std::iter::once(root), groups, (row, turn));
                    let elements = &mut groups[turn];
                    let values = elements.lower(lowering, root, row, turn);
                    let output = (0, root.dtype);
                    lowering
                        .body
                        .store_output(output, elements.linear_indices[0], &values);
                }
            });
            return;
        }
        store_of_row(lowering, self.own, rows);
    }

    /// Emits a loop over the groups of each thread, several in flight, and one over the rest. Each
    /// turn loads these arrays first, so that no called function delays loads.
    fn visit<'a>(
        &self,
        lowering: &mut Lowering<'a>,
        (label, arrays): (&str, &[&NodeRef]),
        mut instructions: impl FnMut(&mut Lowering<'a>, &mut [RowElements]),
    ) {
        let cache = lowering.cache.clone();
        let body = &mut *lowering.body;
        let (at, beyond) = (body.index_reg(), body.predicate());
        line!(body; "mov.b# {at}, {};", self.own.thread);
        let mut words = None;
        let all = (format!("{label}_ALL"), format!("{label}_REST"), self.unroll);
        let rest = (format!("{label}_REST"), format!("{label}_END"), 1);
        for (label, end, at_once) in [all, rest] {
            if label.ends_with("_ALL") && at_once == 1 {
                continue;
            }
            let body = &mut *lowering.body;
            body.label(&label);
            let ahead = (at_once - 1) * self.own.threads;
            let last = index!(body; "add.s# {at}, {ahead}");
            jump!(body, beyond; "{end}" if "ge.u# {last}, {}", self.groups);
            let mut groups: SmallVec<[RowElements; GROUPS_MAX]> = (0..at_once)
                .map(|turn| self.elements(body, at, turn))
                .collect();
            for elements in &mut groups {
                elements.load(lowering, arrays, self.own.row);
            }
            instructions(lowering, &mut groups);
            lowering.cache = cache.clone();
            let body = &mut *lowering.body;
            let words = *words.get_or_insert(body.name_parts());
            body.truncate_name(words);
            line!(body; "add.s# {at}, {at}, {};", at_once * self.own.threads);
            line!(body; "bra {label};");
        }
        lowering.body.label(&format!("{label}_END"));
    }

    /// Computes the indices of the group of neighbours `turn` turns behind group `at`.
    fn elements(&self, body: &mut KernelBody, at: Reg, turn: usize) -> RowElements {
        let neighbours = self.neighbours;
        let first = index!(body; "add.s# {at}, {}", turn * self.own.threads);
        if neighbours > 1 {
            line!(body; "mul.lo.s# {first}, {first}, {neighbours};");
        }
        RowElements::at(body, self.own.row, self.length, (first, neighbours))
    }
}
