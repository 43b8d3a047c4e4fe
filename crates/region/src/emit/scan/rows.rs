//! Scan kernels: inclusive prefix sums, products, minima and maxima along an axis.
//!
//! The parallelism follows from the shape alone, so that every device adds in the same order. Scans
//! along another axis than the last are in `columns.rs`. Along the last axis, a thread scans a
//! short row. A block scans a longer one in tiles: each thread scans four neighbours (more where
//! blocks share a row), and the block scans the totals of its threads. Where there are few rows
//! that are longer still, several blocks share each row (`look_back.rs`).
//!
//! Instead, [`ScanOrder::of`] can select two passes, for comparison. Three kernels run then:
//! the first computes the total of each block's segment, the second scans these totals, and the
//! third scans the elements of each segment, starting from the total of all segments before it.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::{
        body::{
            kernel::{
                BLOCK, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, index,
                line, test,
            },
            reducer::{Accumulator, Reducer, assign},
            warp::{WARPS, WarpTotals, copy},
        },
        lower::{lowering::Lowering, position::Position},
        passes::{GeneratedPasses, Temporary},
        scan::neighbours::{Neighbours, if_inside, neighbours, replace_outside},
    },
    expr::{NodeRef, Op, Reduction},
    plan::{FusedKernel, IndexAnalysis, LANES, ScanOrder},
};

/// The input of a kernel with one block per segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanInput {
    Elements,
    /// The totals of the segments, from an earlier kernel.
    Partials,
}

/// The output of a kernel with one block per segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanOutput {
    /// The total of each segment.
    Totals,
    /// The total of each segment and all segments before it.
    Prefixes,
    /// The scanned elements.
    Results,
}

/// The division of rows into segments for one kernel.
#[derive(Clone, Copy)]
pub(crate) struct Segmentation {
    /// The number of elements of a row.
    pub(crate) count: usize,
    /// The number of elements of a segment, a multiple of a tile if a row has several.
    pub(crate) segment: usize,
    /// The number of segments of a row.
    pub(crate) segments: usize,
    /// The number of neighbours per thread.
    pub(crate) items: usize,
}

impl Segmentation {
    /// Returns the number of elements that a block scans at a time.
    pub(crate) fn tile(self) -> usize {
        BLOCK * self.items
    }
}

/// A scan, for which kernels are generated.
pub(crate) struct ScanGenerator<'a> {
    pub(crate) kernel: &'a FusedKernel,
    pub(crate) node: &'a NodeRef,
    pub(crate) source: &'a NodeRef,
    pub(crate) reducer: Reducer,
    reduction: Reduction,
    pub(crate) analysis: IndexAnalysis,
}

/// Generates the kernels that scan an array with at least one element. They compute functions of
/// elements that are not in memory.
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
    let whole = |count| Segmentation {
        count,
        segment: count,
        segments: 1,
        items: LANES,
    };
    let (segment, items) = match order {
        ScanOrder::Row => return GeneratedPasses::one(generator.thread_per_row(count), rows),
        ScanOrder::RowOfTiles => {
            let kernel =
                generator.block_per_segment(ScanInput::Elements, ScanOutput::Results, whole(count));
            return GeneratedPasses::one(kernel, rows * BLOCK);
        }
        ScanOrder::SharedRow { items } => return generator.one_pass(count, rows, (items, blocks)),
        ScanOrder::TwoPasses { segment, items } => (segment, items),
        ScanOrder::Column => {
            return GeneratedPasses::one(generator.thread_per_column(count, columns), rows);
        }
        ScanOrder::Columns { width, items } => {
            return generator.columns((count, columns), (width, items), blocks);
        }
    };
    let segments = count.div_ceil(segment);
    let segmentation = Segmentation {
        count,
        segment,
        segments,
        items,
    };
    // The total of each segment, and that of each segment with all before it.
    let partials = rows * segments;
    let slots = generator.reducer.state_types();
    let temporaries = slots.iter().chain(&slots);
    let temporaries = temporaries.map(|slot| Temporary::of(partials, *slot));
    let of_blocks = |input, output, segmentation, blocks| {
        let kernel = generator.block_per_segment(input, output, segmentation);
        (kernel, blocks * BLOCK)
    };
    let (elements, totals) = (ScanInput::Elements, ScanInput::Partials);
    GeneratedPasses::chain(
        temporaries.collect(),
        [
            of_blocks(elements, ScanOutput::Totals, segmentation, partials),
            of_blocks(totals, ScanOutput::Prefixes, whole(segments), rows),
            of_blocks(elements, ScanOutput::Results, segmentation, partials),
        ],
    )
}

impl ScanGenerator<'_> {
    /// Generates a kernel with one thread per row.
    fn thread_per_row(&self, count: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let row = body.thread();
        let (bits, beyond) = (body.bits(), body.predicate());
        let rows = body.named("rows", self.node.elements / count);
        let count = body.named("count", count);
        line!(body; "setp.ge.u{bits} {beyond}, {row}, {rows};");
        line!(body; "@{beyond} bra DONE;");
        let at = index!(body; "mul.lo.s {row}, {count}");
        let end = index!(body; "add.s {at}, {count}");
        let accumulator = self.reducer.identity(&mut body);
        body.label("LOOP");
        let element = &self.elements(&mut body, at, 1)[0];
        self.reducer.combine(&mut body, &accumulator, element);
        self.store_results(&mut body, std::slice::from_ref(&accumulator), at);
        line!(body; "add.s{bits} {at}, {at}, 1;");
        line!(body; "setp.lt.u{bits} {beyond}, {at}, {end};");
        line!(body; "@{beyond} bra LOOP;");
        body.label("DONE");
        self.finish(body, "")
    }

    /// Generates a kernel with one block per segment.
    fn block_per_segment(
        &self,
        input: ScanInput,
        output: ScanOutput,
        segmentation: Segmentation,
    ) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let bits = body.bits();
        let (block, thread) = body.block_and_thread();
        let count = body.named("count", segmentation.count);
        let segment = body.named("segment", segmentation.segment);
        let segments = body.named("segments", segmentation.segments);
        let row = index!(body; "div.u {block}, {segments}");
        let number = index!(body; "mul.lo.s {row}, {segments}");
        line!(body; "sub.s{bits} {number}, {block}, {number};");
        let tile = index!(body; "mul.lo.s {number}, {segment}");
        let end = index!(body; "add.s {tile}, {segment}");
        line!(body; "min.u{bits} {end}, {end}, {count};");
        // The linear index of the row's first element in the whole array; the tile and the end are
        // relative to it.
        let base = index!(body; "mul.lo.s {row}, {count}");

        let identity = self.reducer.identity(&mut body);
        let carry = copy(&mut body, &identity);
        if output == ScanOutput::Results && segmentation.segments > 1 {
            self.load_carry(&mut body, &carry, block, number);
        }
        let totals = WarpTotals::new(&mut body, self.reducer, thread, 0);
        let running = copy(&mut body, &identity);
        let done = body.predicate();
        body.label("LOOP");
        line!(body; "setp.ge.u{bits} {done}, {tile}, {end};");
        line!(body; "@{done} bra LEFT;");
        if output != ScanOutput::Totals {
            assign(&mut body, &running, &identity);
        }
        let first = body.index_reg();
        let items = segmentation.items;
        line!(body; "mad.lo.s{bits} {first}, {thread}, {items}, {tile};");
        let is_whole = input == ScanInput::Elements && segmentation.count.is_multiple_of(LANES);
        let read = |body: &mut KernelBody, at, lanes| match input {
            ScanInput::Elements => self.elements(body, at, lanes),
            ScanInput::Partials => vec![self.partial(body, at)],
        };
        let lanes = if is_whole { LANES } else { 1 };
        let place = (first, end, base);
        let neighbours = neighbours(&mut body, place, (items / lanes, lanes), lanes, read);
        let is_kept = output != ScanOutput::Totals;
        let steps = self.steps(&mut body, &neighbours, &running, &identity, is_kept);
        if output != ScanOutput::Totals {
            let (before, all) = totals.scan(&mut body, self.reducer, &running, &identity);
            self.reducer.combine(&mut body, &before, &carry);
            self.store_steps(&mut body, &neighbours, &steps, &before, output);
            self.reducer.combine(&mut body, &carry, &all);
        }
        line!(body; "add.s{bits} {tile}, {tile}, {};", segmentation.tile());
        line!(body; "bra LOOP;");
        body.label("LEFT");
        if output == ScanOutput::Totals {
            let (_, all) = totals.scan(&mut body, self.reducer, &running, &identity);
            line!(body; "setp.ne.u{bits} {done}, {thread}, 0;");
            line!(body; "@{done} bra DONE;");
            self.store_partial(&mut body, &all, block);
            body.label("DONE");
        }
        self.finish(body, &self.reducer.shared_memory(0, WARPS))
    }

    /// Combines a thread's neighbours into `running`, one after the other. Returns the combination
    /// after each if they are kept.
    fn steps(
        &self,
        body: &mut KernelBody,
        neighbours: &[Neighbours<Accumulator>],
        running: &Accumulator,
        identity: &Accumulator,
        is_kept: bool,
    ) -> Vec<Accumulator> {
        let mut steps = Vec::new();
        for Neighbours {
            elements, inside, ..
        } in neighbours
        {
            for element in elements {
                replace_outside(body, element, identity, *inside);
                self.reducer.combine(body, running, element);
                if is_kept {
                    steps.push(copy(body, running));
                }
            }
        }
        steps
    }

    /// Combines what precedes a thread's neighbours into each, and stores them.
    fn store_steps(
        &self,
        body: &mut KernelBody,
        neighbours: &[Neighbours<Accumulator>],
        mut steps: &[Accumulator],
        before: &Accumulator,
        output: ScanOutput,
    ) {
        for of_thread in neighbours {
            let (own, rest) = steps.split_at(of_thread.elements.len());
            steps = rest;
            for step in own {
                self.reducer.combine(body, step, before);
            }
            if_inside(body, of_thread.inside, |body| match output {
                ScanOutput::Results => self.store_results(body, own, of_thread.position),
                _ => self.store_partial(body, &own[0], of_thread.position),
            });
        }
    }

    /// Returns the accumulators of neighbouring elements.
    fn elements(&self, body: &mut KernelBody, first: Reg, lanes: usize) -> Vec<Accumulator> {
        let values = self.values(body, first, lanes);
        let lift = |value| self.lifted(body, value);
        values.into_iter().map(lift).collect()
    }

    /// Returns a new accumulator of one element.
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
            let at = index!(lowering.body; "add.s {first}, {lane}");
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

    /// Loads a partial result of an earlier kernel.
    fn partial(&self, body: &mut KernelBody, at: Reg) -> Accumulator {
        let load = |(slot, &dtype): (usize, &DType)| {
            let base = body.address(ParameterKey::Temporary(slot), || {
                KernelParameter::Temporary(slot)
            });
            let address = body.element(base, at, dtype.bytes());
            body.load(dtype, address, 1)[0]
        };
        let slots = self.reducer.state_types();
        slots.iter().enumerate().map(load).collect()
    }

    /// Loads the total of the segments before this one, unless it is the first of its row.
    fn load_carry(&self, body: &mut KernelBody, carry: &Accumulator, block: Reg, number: Reg) {
        let is_later = test!(body; "ne.u {number}, 0");
        let before = index!(body; "sub.s {block}, 1");
        for (slot, (&reg, &dtype)) in carry.iter().zip(&self.reducer.state_types()).enumerate() {
            let base = body.address(ParameterKey::Temporary(slot), || {
                KernelParameter::Temporary(slot)
            });
            let address = body.element(base, before, dtype.bytes());
            line!(body; "@{is_later} ld.global.{} {reg}, [{address}];",
                RegClass::of(dtype).move_type());
        }
    }

    /// Stores neighbouring results.
    pub(crate) fn store_results(
        &self,
        body: &mut KernelBody,
        accumulators: &[Accumulator],
        at: Reg,
    ) {
        let address = self.result_address(body, at);
        self.store_results_to(body, accumulators, address);
    }

    /// Returns the address of a result.
    pub(crate) fn result_address(&self, body: &mut KernelBody, at: Reg) -> Reg {
        let base = body.output(0);
        body.element(base, at, self.node.dtype.bytes())
    }

    /// Stores neighbouring results, the first of which has this address.
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

    /// Stores an accumulator as a partial result.
    fn store_partial(&self, body: &mut KernelBody, accumulator: &Accumulator, at: Reg) {
        for (slot, (&reg, &dtype)) in accumulator
            .iter()
            .zip(&self.reducer.state_types())
            .enumerate()
        {
            let base = body.output(slot);
            let address = body.element(base, at, dtype.bytes());
            body.store(dtype, address, &[reg]);
        }
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
