//! Scan kernels: inclusive prefix sums, products, minima and maxima along an axis.
//!
//! The parallelism follows from the shape alone, so that every device adds in the same order. Scans
//! along another axis than the last are in `columns.rs`. Along the last axis, a thread scans a
//! short row. A block scans a longer one in tiles: each thread scans four neighbours (more where
//! blocks share a row), and the block scans the totals of its threads. Where there are few rows
//! that are longer still, several blocks share each row (`look_back.rs`).

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{
            Accumulator, BLOCK, Kernel, KernelBody, Reducer, Reg, WARPS, WarpTotals, assign, copy,
            index, jump, line,
        },
        lower::{Lowering, Position},
        passes::GeneratedPasses,
        scan::neighbours::{if_inside, neighbours, replace_outside},
    },
    expr::{NodeRef, Op, Reduction},
    plan::{FusedKernel, IndexAnalysis, LANES, ScanOrder},
};

pub(crate) struct ScanGenerator<'a> {
    pub(crate) kernel: &'a FusedKernel,
    pub(crate) node: &'a NodeRef,
    pub(crate) source: &'a NodeRef,
    pub(crate) reducer: Reducer,
    reduction: Reduction,
    pub(crate) analysis: IndexAnalysis,
}

/// Returns how many neighbours of rows of a length are loaded at once.
pub(crate) fn lanes_of(length: usize) -> usize {
    match length.is_multiple_of(LANES) {
        true => LANES,
        false => 1,
    }
}

/// Generates the kernels that scan an array of some elements, in memory or computed.
pub(crate) fn scan(kernel: &FusedKernel, order: ScanOrder, blocks: usize) -> GeneratedPasses {
    let node = &kernel.root;
    let Some(&Op::Scan {
        reduction,
        ref source,
        axis,
    }) = kernel.op(node)
    else {
        unreachable!("the root is a scan");
    };
    let generator = ScanGenerator {
        kernel,
        node,
        source,
        reducer: Reducer::new(reduction, source.dtype),
        reduction,
        analysis: IndexAnalysis::of(kernel),
    };
    let count = node.shape[axis];
    let columns: usize = node.shape[axis + 1..].iter().product();
    let rows = node.elements / count;
    match order {
        ScanOrder::Row => GeneratedPasses::one(generator.thread_per_row(count), rows),
        ScanOrder::RowOfTiles => GeneratedPasses::one(generator.block_per_row(count), rows * BLOCK),
        ScanOrder::SharedRow { items } => generator.one_pass(count, rows, (items, blocks)),
        ScanOrder::Column => {
            GeneratedPasses::one(generator.thread_per_column(count, columns), rows)
        }
        ScanOrder::Columns { width, items } => {
            generator.columns((count, columns), (width, items), blocks)
        }
    }
}

impl ScanGenerator<'_> {
    fn thread_per_row(&self, count: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let row = body.thread();
        let beyond = body.predicate();
        let rows = body.named("rows", self.node.elements / count);
        let count = body.named("count", count);
        jump!(body, beyond; "DONE" if "ge.u# {row}, {rows}");
        let at = index!(body; "mul.lo.s# {row}, {count}");
        let end = index!(body; "add.s# {at}, {count}");
        let accumulator = self.reducer.identity(&mut body);
        body.label("LOOP");
        let element = &self.elements(&mut body, at, 1)[0];
        self.reducer.combine(&mut body, &accumulator, element);
        self.store_results(&mut body, std::slice::from_ref(&accumulator), at);
        line!(body; "add.s# {at}, {at}, 1;");
        jump!(body, beyond; "LOOP" if "lt.u# {at}, {end}");
        body.label("DONE");
        self.finish(body, "")
    }

    fn block_per_row(&self, length: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let (block, thread) = body.block_and_thread();
        let count = body.named("count", length);
        // The segment of a block is its row.
        let (segment, segments) = (body.named("segment", length), body.named("segments", 1));
        let row = index!(body; "div.u# {block}, {segments}");
        let number = index!(body; "mul.lo.s# {row}, {segments}");
        line!(body; "sub.s# {number}, {block}, {number};");
        let tile = index!(body; "mul.lo.s# {number}, {segment}");
        let end = index!(body; "add.s# {tile}, {segment}");
        line!(body; "min.u# {end}, {end}, {count};");
        // The linear index of the row's first element in the whole array; the tile and the end are
        // relative to it.
        let base = index!(body; "mul.lo.s# {row}, {count}");

        let identity = self.reducer.identity(&mut body);
        let carry = copy(&mut body, &identity);
        let totals = WarpTotals::new(&mut body, self.reducer, thread, 0);
        let running = copy(&mut body, &identity);
        let done = body.predicate();
        body.label("LOOP");
        jump!(body, done; "LEFT" if "ge.u# {tile}, {end}");
        assign(&mut body, &running, &identity);
        let first = index!(body; "mad.lo.s# {thread}, {LANES}, {tile}");
        let lanes = lanes_of(length);
        let (place, turns) = ((first, end, base), (LANES / lanes, lanes));
        let read = |body: &mut KernelBody, at, lanes| self.elements(body, at, lanes);
        let neighbours = neighbours(&mut body, place, turns, lanes, read);
        let mut steps = Vec::new();
        for of_thread in &neighbours {
            for element in &of_thread.elements {
                replace_outside(&mut body, element, &identity, of_thread.inside);
                self.reducer.combine(&mut body, &running, element);
                steps.push(copy(&mut body, &running));
            }
        }
        let (before, all) = totals.scan(&mut body, self.reducer, &running, &identity);
        self.reducer.combine(&mut body, &before, &carry);
        for (of_thread, own) in neighbours.iter().zip(steps.chunks(lanes)) {
            for step in own {
                self.reducer.combine(&mut body, step, &before);
            }
            if_inside(&mut body, of_thread.inside, |body| {
                self.store_results(body, own, of_thread.position);
            });
        }
        self.reducer.combine(&mut body, &carry, &all);
        line!(body; "add.s# {tile}, {tile}, {};", BLOCK * LANES);
        line!(body; "bra LOOP;");
        body.label("LEFT");
        self.finish(body, &self.reducer.shared_memory(0, WARPS))
    }

    fn elements(&self, body: &mut KernelBody, first: Reg, lanes: usize) -> Vec<Accumulator> {
        let values = self.values(body, first, lanes);
        let lift = |value| self.lifted(body, value);
        values.into_iter().map(lift).collect()
    }

    pub(crate) fn lifted(&self, body: &mut KernelBody, value: Reg) -> Accumulator {
        // Scans do not find positions.
        let only = self.reducer.lift(body, value, |body| body.index_reg());
        // The accumulator is changed in place, and the loaded registers must not be.
        copy(body, &only)
    }

    /// Returns the values of neighbouring elements.
    pub(crate) fn values(&self, body: &mut KernelBody, first: Reg, lanes: usize) -> Vec<Reg> {
        let mut lowering = Lowering::new(body, self.kernel, self.analysis.flat);
        let mut positions: SmallVec<[Position; LANES]> = SmallVec::new();
        for lane in 0..lanes {
            let at = index!(lowering.body; "add.s# {first}, {lane}");
            positions.push(lowering.at_linear_index(self.source.id, &self.source.shape, at));
        }
        if lanes > 1 {
            lowering.group(&positions);
        }
        let lower = |position| lowering.lower(self.source, position);
        positions.into_iter().map(lower).collect()
    }

    /// Returns the values of elements at any positions, whose arrays are all loaded first.
    pub(crate) fn values_at(&self, body: &mut KernelBody, places: &[Reg]) -> Vec<Reg> {
        let mut lowering = Lowering::new(body, self.kernel, self.analysis.flat);
        let (id, shape) = (self.source.id, &self.source.shape);
        let positions: SmallVec<[Position; 8]> = places
            .iter()
            .map(|&at| lowering.at_linear_index(id, shape, at))
            .collect();
        for array in self.kernel.arrays_of(std::iter::once(self.source)) {
            for &position in &positions {
                lowering.lower(array, position);
            }
        }
        let lower = |position| lowering.lower(self.source, position);
        positions.into_iter().map(lower).collect()
    }

    pub(crate) fn store_results(
        &self,
        body: &mut KernelBody,
        accumulators: &[Accumulator],
        at: Reg,
    ) {
        let address = self.result_address(body, at);
        self.store_results_to(body, accumulators, address);
    }

    pub(crate) fn result_address(&self, body: &mut KernelBody, at: Reg) -> Reg {
        let base = body.output(0);
        body.element(base, at, self.node.dtype.bytes())
    }

    pub(crate) fn store_results_to(
        &self,
        body: &mut KernelBody,
        accumulators: &[Accumulator],
        address: Reg,
    ) {
        let finish = |of_one| self.reducer.finish(body, of_one, self.node.dtype);
        let values: SmallVec<[Reg; LANES]> = accumulators.iter().map(finish).collect();
        body.store(self.node.dtype, address, &values);
    }

    pub(crate) fn finish(&self, mut body: KernelBody, shared: &str) -> Kernel {
        // Each function that is computed for the elements is named once.
        body.truncate_name(0);
        for fused in &self.kernel.nodes {
            if let Op::Apply(function, _) = &*fused.op {
                body.name_part(function.name());
            }
        }
        body.name_part(self.reduction.name());
        body.name_part("scan");
        body.finish(shared)
    }
}
