//! Reduction kernels.
//!
//! The parallelism follows from the shapes alone, so that every device adds in the same order. With
//! many elements per result, a block computes each result: a thread accumulates every 256th
//! element, and the block combines its accumulators in shared memory, in a fixed order. With few
//! such results, several blocks share each, and a second kernel combines their partial results.
//! With many results, or few elements for each, a thread computes each result, or several threads
//! of different blocks do, if neighbouring threads then read neighbouring elements.

use smallvec::{SmallVec, smallvec};

use super::{
    body::{BLOCK, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line},
    lowering::{IndexAnalysis, Lowering},
    passes::{GeneratedPasses, Pass, PassOutput, Temporary},
    position::Position,
    reducer::{Accumulator, Reducer},
};
use crate::{
    fuse::FusedKernel,
    graph::{NodeRef, Op, Reduction},
    shape::{Axes, RANK_MAX, Shape},
};

/// The number of elements per result up to which one thread computes a result.
const PER_THREAD_MAX: usize = 32;
/// The number of results from which on one thread computes each, if neighbouring threads then read
/// neighbouring elements.
const RESULTS_MANY: usize = 1 << 14;
/// The number of results from which on several threads compute each, if neighbouring threads then
/// read neighbouring elements.
const RESULTS_SOME: usize = 32;
/// The number of elements per block where several blocks share a result.
const SPLIT_LENGTH: usize = 1 << 14;
/// The approximate number of blocks of a grid where several blocks share a result.
const BLOCKS_MAX: usize = 1 << 10;
/// The number of loads in flight per thread.
const UNROLL: usize = 4;

/// A reduction, for which kernels are generated.
struct ReductionGenerator<'a> {
    kernel: &'a FusedKernel,
    /// The node that is written: the reduction, or the end of its epilogue, which has the same
    /// linear indices.
    value: &'a NodeRef,
    /// The node of the reduction.
    node: &'a NodeRef,
    source: &'a NodeRef,
    axes: &'a Axes,
    reducer: Reducer,
    reduction: Reduction,
    analysis: IndexAnalysis,
    /// The number of elements per result.
    length: usize,
}

/// Generates the kernels of a reduction with at least one result, and of its epilogue.
pub(super) fn reduce(kernel: &FusedKernel) -> GeneratedPasses {
    let node = &kernel.root;
    let Some(&Op::Reduce {
        reduction,
        ref source,
        ref axes,
    }) = kernel.op(node)
    else {
        unreachable!("the root is a reduction");
    };
    let length: usize = axes.iter().map(|&axis| source.shape[axis]).product();
    let generator = ReductionGenerator {
        kernel,
        value: &kernel.output().value,
        node,
        source,
        axes,
        reducer: Reducer::new(reduction, source.dtype),
        reduction,
        analysis: IndexAnalysis::of(kernel),
        length,
    };
    let results = node.elements;
    let last_is_kept = (0..source.shape.len())
        .rev()
        .find(|&axis| source.shape[axis] != 1)
        .is_some_and(|axis| !axes.contains(&axis));
    let splits = length
        .div_ceil(SPLIT_LENGTH)
        .min(BLOCKS_MAX.div_ceil(results))
        .max(1);
    let thread_per_result = || GeneratedPasses::one(generator.thread_per_result(), results);
    if length <= PER_THREAD_MAX || results > i32::MAX as usize {
        return thread_per_result();
    }
    if last_is_kept && results >= RESULTS_MANY {
        return thread_per_result();
    }
    if last_is_kept && results >= RESULTS_SOME {
        let blocks = results.div_ceil(BLOCK);
        let splits = length
            .div_ceil(PER_THREAD_MAX)
            .min(BLOCKS_MAX.div_ceil(blocks));
        return generator.two_passes(
            generator.split_threads_per_result(splits),
            blocks * splits * BLOCK,
            splits,
        );
    }
    if splits == 1 {
        return GeneratedPasses::one(generator.block_per_result(), results * BLOCK);
    }
    generator.two_passes(
        generator.split_blocks_per_result(splits),
        results * splits * BLOCK,
        splits,
    )
}

impl ReductionGenerator<'_> {
    /// Returns two passes: `first` stores `splits` partial results of each result, and a second
    /// kernel combines them.
    fn two_passes(&self, first: Kernel, threads: usize, splits: usize) -> GeneratedPasses {
        let results = self.node.elements;
        let slots = self.reducer.state_types();
        let partials = 0..slots.len();
        GeneratedPasses {
            temporaries: slots
                .iter()
                .map(|slot| Temporary::of(results * splits, *slot))
                .collect(),
            passes: smallvec![
                Pass {
                    kernel: first,
                    threads,
                    writes: PassOutput::Temporaries(partials.clone()),
                    reads: 0..0,
                },
                Pass {
                    kernel: self.combine_partials(splits),
                    threads: results * BLOCK,
                    writes: PassOutput::Outputs,
                    reads: partials,
                },
            ],
        }
    }

    /// Generates a kernel with one thread per result.
    fn thread_per_result(&self) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let result = body.thread();
        let (bits, beyond) = (body.bits(), body.reg(RegClass::Predicate));
        let results =
            body.index_parameter(ParameterKey::Named("results"), self.node.elements as i64);
        line!(body, "setp.ge.u{bits} {beyond}, {result}, {results};");
        line!(body, "@{beyond} bra DONE;");
        let first = body.zero_index();
        let step = body.index_reg();
        line!(body, "mov.u{bits} {step}, 1;");
        let accumulator = self.accumulate(&mut body, result, first, step);
        self.store_result(&mut body, &accumulator, result);
        body.label("DONE");
        self.finish(body, "")
    }

    /// Generates a kernel with several threads of different blocks per result; the threads of a
    /// block take neighbouring results.
    fn split_threads_per_result(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let bits = body.bits();
        let (block, thread) = block_and_thread(&mut body);
        let splits = body.index_parameter(ParameterKey::Named("splits"), splits as i64);
        let results =
            body.index_parameter(ParameterKey::Named("results"), self.node.elements as i64);
        let mut new = || body.index_reg();
        let (group, product, split, result, partial) = (new(), new(), new(), new(), new());
        line!(body, "div.u{bits} {group}, {block}, {splits};");
        line!(body, "mul.lo.s{bits} {product}, {group}, {splits};");
        line!(body, "sub.s{bits} {split}, {block}, {product};");
        line!(body, "mad.lo.s{bits} {result}, {group}, {BLOCK}, {thread};");
        let beyond = body.reg(RegClass::Predicate);
        line!(body, "setp.ge.u{bits} {beyond}, {result}, {results};");
        line!(body, "@{beyond} bra DONE;");
        let accumulator = self.accumulate(&mut body, result, split, splits);
        line!(
            body,
            "mad.lo.s{bits} {partial}, {result}, {splits}, {split};"
        );
        self.store_partial(&mut body, &accumulator, partial);
        body.label("DONE");
        self.finish(body, "")
    }

    /// Stores an accumulator as a partial result, at this position.
    fn store_partial(&self, body: &mut KernelBody, accumulator: &Accumulator, position: Reg) {
        for (slot, (&reg, &dtype)) in accumulator
            .iter()
            .zip(&self.reducer.state_types())
            .enumerate()
        {
            let base = body.address(ParameterKey::Output(slot), || KernelParameter::Output(slot));
            let address = body.element(base, position, dtype.bytes());
            body.store(dtype, address, &[reg]);
        }
    }

    /// Generates a kernel with one block per result.
    fn block_per_result(&self) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let (block, thread) = block_and_thread(&mut body);
        let step = body.index_reg();
        let bits = body.bits();
        line!(body, "mov.u{bits} {step}, {BLOCK};");
        let accumulator = self.accumulate(&mut body, block, thread, step);
        self.reduce_block(&mut body, &accumulator, thread);
        self.store_result(&mut body, &accumulator, block);
        body.label("DONE");
        self.finish(body, &self.reducer.shared_memory(0))
    }

    /// Generates a kernel with several blocks per result.
    fn split_blocks_per_result(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let bits = body.bits();
        let (block, thread) = block_and_thread(&mut body);
        let splits = body.index_parameter(ParameterKey::Named("splits"), splits as i64);
        let mut new = || body.index_reg();
        let (result, product, split, first, step) = (new(), new(), new(), new(), new());
        line!(body, "div.u{bits} {result}, {block}, {splits};");
        line!(body, "mul.lo.s{bits} {product}, {result}, {splits};");
        line!(body, "sub.s{bits} {split}, {block}, {product};");
        line!(body, "mad.lo.s{bits} {first}, {split}, {BLOCK}, {thread};");
        line!(body, "mul.lo.s{bits} {step}, {splits}, {BLOCK};");
        let accumulator = self.accumulate(&mut body, result, first, step);
        self.reduce_block(&mut body, &accumulator, thread);
        self.store_partial(&mut body, &accumulator, block);
        body.label("DONE");
        self.finish(body, &self.reducer.shared_memory(0))
    }

    /// Generates a kernel that combines the partial results, with one block per result.
    fn combine_partials(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let bits = body.bits();
        let (block, thread) = block_and_thread(&mut body);
        let splits = body.index_parameter(ParameterKey::Named("splits"), splits as i64);
        let (first, end, at) = (body.index_reg(), body.index_reg(), body.index_reg());
        line!(body, "mul.lo.s{bits} {first}, {block}, {splits};");
        line!(body, "add.s{bits} {end}, {first}, {splits};");
        line!(body, "add.s{bits} {at}, {first}, {thread};");
        let accumulator = self.reducer.identity(&mut body);
        let beyond = body.reg(RegClass::Predicate);
        body.label("LOOP");
        line!(body, "setp.ge.u{bits} {beyond}, {at}, {end};");
        line!(body, "@{beyond} bra LEFT;");
        let mut other = Accumulator::new();
        for (slot, &dtype) in self.reducer.state_types().iter().enumerate() {
            let base = body.address(ParameterKey::Temporary(slot), || {
                KernelParameter::Temporary(slot)
            });
            let address = body.element(base, at, dtype.bytes());
            other.push(body.load(dtype, address, 1)[0]);
        }
        self.reducer.combine(&mut body, &accumulator, &other);
        line!(body, "add.s{bits} {at}, {at}, {BLOCK};");
        line!(body, "bra LOOP;");
        body.label("LEFT");
        self.reduce_block(&mut body, &accumulator, thread);
        self.store_result(&mut body, &accumulator, block);
        body.label("DONE");
        self.finish(body, &self.reducer.shared_memory(0))
    }

    /// Accumulates every `step`th element of a result, from `first` on.
    fn accumulate(&self, body: &mut KernelBody, result: Reg, first: Reg, step: Reg) -> Accumulator {
        let bits = body.bits();
        let accumulator = self.reducer.identity(body);
        let kept_axes = self.kept_axes(body, result);
        let length = body.index_parameter(ParameterKey::Named("length"), self.length as i64);
        let at = body.index_reg();
        line!(body, "mov.b{bits} {at}, {first};");
        let beyond = body.reg(RegClass::Predicate);

        body.label("LOOP");
        let mut numbers: SmallVec<[Reg; UNROLL]> = SmallVec::new();
        numbers.push(at);
        for lane in 1..UNROLL {
            let number = body.index_reg();
            line!(body, "add.s{bits} {number}, {}, {step};", numbers[lane - 1]);
            numbers.push(number);
        }
        line!(
            body,
            "setp.ge.u{bits} {beyond}, {}, {length};",
            numbers[UNROLL - 1]
        );
        line!(body, "@{beyond} bra REST;");
        let mut words = None;
        let mut lowering = Lowering::new(body, self.kernel, self.is_flat());
        let mut elements: SmallVec<[Reg; UNROLL]> = SmallVec::new();
        for &number in &numbers {
            let position = self.element_position(&mut lowering, result, &kept_axes, number);
            elements.push(lowering.lower(self.source, position));
            words.get_or_insert(lowering.body.name_parts());
        }
        for (&element, &number) in elements.iter().zip(&numbers) {
            let other = self.reducer.lift(body, element, |_| number);
            self.reducer.combine(body, &accumulator, &other);
        }
        line!(body, "add.s{bits} {at}, {}, {step};", numbers[UNROLL - 1]);
        line!(body, "bra LOOP;");

        body.label("REST");
        line!(body, "setp.ge.u{bits} {beyond}, {at}, {length};");
        line!(body, "@{beyond} bra LEFT;");
        let mut lowering = Lowering::new(body, self.kernel, self.is_flat());
        let position = self.element_position(&mut lowering, result, &kept_axes, at);
        let element = lowering.lower(self.source, position);
        let other = self.reducer.lift(body, element, |_| at);
        self.reducer.combine(body, &accumulator, &other);
        line!(body, "add.s{bits} {at}, {at}, {step};");
        line!(body, "bra REST;");
        body.label("LEFT");
        body.truncate_name(words.expect("there is a first element"));
        accumulator
    }

    /// Returns whether the elements of each result are contiguous, in the order of the results.
    fn is_contiguous(&self) -> bool {
        let shape = &self.source.shape;
        let mut long = (0..shape.len()).filter(|&axis| shape[axis] != 1);
        long.by_ref().find(|axis| self.axes.contains(axis));
        long.all(|axis| self.axes.contains(&axis))
    }

    fn is_flat(&self) -> bool {
        self.analysis.flat && self.is_contiguous()
    }

    /// Returns the source indices along the axes that the result keeps.
    fn kept_axes(&self, body: &mut KernelBody, result: Reg) -> SmallVec<[Option<Reg>; RANK_MAX]> {
        let mut axes = SmallVec::from_elem(None, self.source.shape.len());
        if self.is_contiguous() {
            return axes;
        }
        let mut lowering = Lowering::new(body, self.kernel, false);
        let position = lowering.at_linear_index(self.node.id, &self.node.shape, result);
        let accumulator = (0..self.source.shape.len()).filter(|axis| !self.axes.contains(axis));
        for (of_result, axis) in accumulator.enumerate() {
            axes[axis] = Some(lowering.axis_index(position, of_result));
        }
        axes
    }

    /// Returns the position of an element, given its linear index within the result.
    fn element_position(
        &self,
        lowering: &mut Lowering<'_>,
        result: Reg,
        kept_axes: &SmallVec<[Option<Reg>; RANK_MAX]>,
        number: Reg,
    ) -> Position {
        if self.is_contiguous() {
            let length = lowering
                .body
                .index_parameter(ParameterKey::Named("length"), self.length as i64);
            let of_all = lowering.body.index_reg();
            let bits = lowering.body.bits();
            line!(
                lowering.body,
                "mad.lo.s{bits} {of_all}, {result}, {length}, {number};"
            );
            return lowering.at_linear_index(self.source.id, &self.source.shape, of_all);
        }
        let shape: Shape = self
            .axes
            .iter()
            .map(|&axis| self.source.shape[axis])
            .collect();
        // No node has this number; it stands for the reduced axes.
        let within = lowering.at_linear_index(u64::MAX, &shape, number);
        let mut axes = kept_axes.clone();
        for (of_number, &axis) in self.axes.iter().enumerate() {
            axes[axis] = Some(lowering.axis_index(within, of_number));
        }
        lowering.at_indices(self.source.id, &self.source.shape, axes, None)
    }

    /// Combines the accumulators of a block. Only the first thread continues.
    fn reduce_block(&self, body: &mut KernelBody, accumulator: &Accumulator, thread: Reg) {
        self.reducer.combine_block(body, accumulator, thread, 0);
        let (bits, idle) = (body.bits(), body.reg(RegClass::Predicate));
        line!(body, "setp.ne.u{bits} {idle}, {thread}, 0;");
        line!(body, "@{idle} bra DONE;");
    }

    /// Stores a result, after computing the epilogue.
    fn store_result(&self, body: &mut KernelBody, accumulator: &Accumulator, result: Reg) {
        let mut value = self.reducer.finish(body, accumulator, self.node.dtype);
        if !self.kernel.epilogue.is_empty() {
            let mut lowering = Lowering::new(body, self.kernel, true);
            let position = lowering.at_linear_index(self.value.id, &self.value.shape, result);
            lowering.define(self.node, position, value);
            value = lowering.lower(self.value, position);
        }
        let base = body.address(ParameterKey::Output(0), || KernelParameter::Output(0));
        let address = body.element(base, result, self.value.dtype.bytes());
        body.store(self.value.dtype, address, &[value]);
    }

    fn finish(&self, mut body: KernelBody, shared: &str) -> Kernel {
        body.name_part(self.reduction.name());
        body.finish(shared)
    }
}

/// Returns the index of the block in its grid and that of the thread in its block.
pub(super) fn block_and_thread(body: &mut KernelBody) -> (Reg, Reg) {
    let (block, thread) = (body.reg(RegClass::B32), body.reg(RegClass::B32));
    line!(body, "mov.u32 {block}, %ctaid.x;");
    line!(body, "mov.u32 {thread}, %tid.x;");
    if !body.wide {
        return (block, thread);
    }
    let (wide_block, wide_thread) = (body.reg(RegClass::B64), body.reg(RegClass::B64));
    line!(body, "cvt.u64.u32 {wide_block}, {block};");
    line!(body, "cvt.u64.u32 {wide_thread}, {thread};");
    (wide_block, wide_thread)
}
