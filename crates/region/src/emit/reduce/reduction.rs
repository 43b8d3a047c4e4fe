//! Reduction kernels.
//!
//! The order of the additions follows from the shapes alone. A part of a warp computes each result
//! of short contiguous rows. With many elements per result, a block computes each: a thread
//! accumulates every 256th element or group of four, and the block combines its accumulators by
//! shuffles and in shared memory. If there are many such rows, of moderate length, one warp does
//! the work of the block (`row_per_warp.rs`). Few results are shared by several blocks each. Many
//! results, or results of few elements, have a thread each, or several threads of different blocks.
//! The block that finishes last combines few partial results, and a second kernel many
//! (`partial.rs`).
//!
//! A kernel may compute several reductions of arrays of one shape along the same axes.

use smallvec::SmallVec;

use crate::{
    emit::{
        body::{
            Accumulator, BLOCK, Kernel, KernelBody, ParameterKey, Reducer, Reg, RowThread, WARP,
            WARPS, index, jump,
        },
        lower::Lowering,
        passes::{GeneratedPasses, Threads},
    },
    expr::{NodeRef, Op, Reduction},
    plan::{FusedKernel, IndexAnalysis, ReducedRows, ReductionOrder},
    schedule::ReduceSchedule,
    shape::{Axes, Shape},
};

pub(crate) struct ReductionGenerator<'a> {
    pub(crate) kernel: &'a FusedKernel,
    pub(crate) reductions: SmallVec<[Reduced<'a>; 1]>,
    pub(crate) axes: &'a Axes,
    /// The shape of the reduced arrays.
    pub(crate) shape: &'a Shape,
    pub(crate) analysis: IndexAnalysis,
    pub(crate) rows: ReducedRows,
}

pub(crate) struct Reduced<'a> {
    pub(crate) node: &'a NodeRef,
    pub(crate) source: &'a NodeRef,
    reduction: Reduction,
    pub(crate) reducer: Reducer,
}

pub(crate) type Accumulators = SmallVec<[Accumulator; 1]>;

/// Generates the kernels of reductions with at least one result, and of their epilogues.
pub(crate) fn reduce(kernel: &FusedKernel, of_result: ReduceSchedule) -> GeneratedPasses {
    let generator = ReductionGenerator::of(kernel);
    let of_results = |kernel, threads| {
        let elements = 1;
        GeneratedPasses::one(kernel, Threads::ForRows { elements, threads })
    };
    let threads_of = |splits| generator.results().div_ceil(BLOCK) * splits * BLOCK;
    let order = match of_result {
        ReduceSchedule::Warp(results) => {
            return of_results(generator.results_per_warp(results), WARP.div_ceil(results));
        }
        ReduceSchedule::Accumulators(order) => order,
    };
    match order {
        ReductionOrder::Row { threads } => of_results(generator.row_per_result(threads), threads),
        ReductionOrder::Thread => of_results(generator.thread_per_result(), 1),
        ReductionOrder::Block => of_results(generator.block_per_result(), BLOCK),
        ReductionOrder::Blocks { splits } => {
            let kernel = generator.split_blocks_per_result(splits);
            let threads = generator.results() * splits * BLOCK;
            GeneratedPasses::one_with(generator.partials(splits), kernel, threads)
        }
        ReductionOrder::Threads { splits } => {
            let kernel = generator.split_and_combine_threads(splits);
            GeneratedPasses::one_with(generator.partials(splits), kernel, threads_of(splits))
        }
        ReductionOrder::ManyThreads { splits } => {
            let first = (
                generator.split_threads_per_result(splits),
                threads_of(splits),
            );
            let last = (
                generator.combine_partials(splits),
                generator.results() * BLOCK,
            );
            GeneratedPasses::chain(generator.partials(splits), [first, last])
        }
    }
}

impl<'a> ReductionGenerator<'a> {
    fn of(kernel: &'a FusedKernel) -> Self {
        let Some(Op::Reduce { source, axes, .. }) = kernel.op(&kernel.root) else {
            unreachable!("the root is a reduction");
        };
        let reductions = kernel
            .reductions()
            .map(|(node, reduction, source)| Reduced {
                node,
                source,
                reduction,
                reducer: Reducer::new(reduction, source.dtype),
            });
        Self {
            kernel,
            reductions: reductions.collect(),
            axes,
            shape: &source.shape,
            analysis: IndexAnalysis::of(kernel),
            rows: ReducedRows::of(kernel).expect("the root is a reduction"),
        }
    }
}

impl ReductionGenerator<'_> {
    pub(crate) fn results(&self) -> usize {
        self.reductions[0].node.elements
    }

    fn thread_per_result(&self) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let result = body.thread();
        let results = body.elements_of(ParameterKey::Named("results"), self.reductions[0].node);
        jump!(body; "DONE" if "ge.u# {result}, {results}");
        let first = body.zero_index();
        let step = index!(body; "mov.u# 1");
        let accumulators = self.accumulate(&mut body, result, first, step);
        self.store_results(&mut body, &accumulators, result);
        body.label("DONE");
        self.finish(body, "")
    }

    /// Generates a kernel with a part of a warp per result.
    fn row_per_result(&self, threads: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let own = RowThread::new(&mut body, self.reductions[0].node, threads);
        let accumulators = self.accumulate_row(&mut body, own);
        for (number, reduced) in self.reductions.iter().enumerate() {
            let accumulator = std::slice::from_ref(&accumulators[number]);
            (reduced.reducer).combine_row(&mut body, accumulator, own, number);
        }
        own.first_only(&mut body, "DONE");
        self.store_results(&mut body, &accumulators, own.row);
        body.label("DONE");
        self.finish(body, "")
    }

    fn block_per_result(&self) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let (block, thread) = body.block_and_thread();
        let step = index!(body; "mov.u# {BLOCK}");
        let accumulators = self.accumulate(&mut body, block, thread, step);
        self.combine_block(&mut body, &accumulators, thread);
        jump!(body; "DONE" if "ne.u# {thread}, 0");
        self.store_results(&mut body, &accumulators, block);
        body.label("DONE");
        self.finish(body, &self.shared_memory())
    }

    /// Returns new accumulators of no elements.
    pub(crate) fn identities(&self, body: &mut KernelBody) -> Accumulators {
        let identity = |reduced: &Reduced<'_>| reduced.reducer.identity(body);
        self.reductions.iter().map(identity).collect()
    }

    /// Declares the shared memory in which a block combines its accumulators.
    pub(crate) fn shared_memory(&self) -> String {
        let reductions = self.reductions.iter().enumerate();
        reductions
            .map(|(number, reduced)| reduced.reducer.shared_memory(number, WARPS))
            .collect()
    }

    /// Combines the accumulators of a block. Every thread has the results.
    pub(crate) fn combine_block(
        &self,
        body: &mut KernelBody,
        accumulators: &Accumulators,
        thread: Reg,
    ) {
        for (number, reduced) in self.reductions.iter().enumerate() {
            let accumulator = std::slice::from_ref(&accumulators[number]);
            (reduced.reducer).combine_parts(body, accumulator, thread, number);
        }
    }

    /// Stores results, after computing the epilogue.
    pub(crate) fn store_results(
        &self,
        body: &mut KernelBody,
        accumulators: &Accumulators,
        result: Reg,
    ) {
        let mut lowering = Lowering::new(body, self.kernel, true);
        let value = &self.kernel.output().value;
        // All outputs have the same linear indices.
        let position = lowering.at_linear_index(value.id, &value.shape, result);
        for (reduced, accumulator) in self.reductions.iter().zip(accumulators) {
            let (reducer, node) = (reduced.reducer, reduced.node);
            let element = reducer.finish(lowering.body, accumulator, node.dtype);
            lowering.define(node, position, element);
        }
        lowering.store_values(position, result);
    }

    pub(crate) fn finish(&self, mut body: KernelBody, shared: &str) -> Kernel {
        for reduced in &self.reductions {
            body.name_part(reduced.reduction.name());
        }
        body.finish(shared)
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::Array1;

    use crate::{Array, plan::only_kernel, run::texts::generate};

    #[test]
    fn long_rows_are_read_16_bytes_at_once_if_their_length_allows_it() {
        let device = Device::simulated().unwrap();
        for (length, wide) in [(8191, false), (8192, true), (8197, false), (100_000, true)] {
            let x = Array::from_host(&device, &Array1::<f32>::zeros(length)).unwrap();
            let code = generate(&only_kernel((&x * 2.0).sum().node()));
            let kernel = &code.passes[0].kernel;
            let count = |what: &str| kernel.ptx.matches(what).count();
            let (vectors, single) = (count("ld.global.v4.f32"), count("ld.global.f32"));
            assert_eq!(
                (vectors, single),
                if wide { (5, 0) } else { (0, 5) },
                "{length}"
            );
            assert_eq!(&*kernel.name, "mul+sum");
        }
    }
}
