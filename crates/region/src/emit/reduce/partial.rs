//! Reductions whose results are shared by several blocks: the partial results of each block, and
//! their combination by the last block or by a second kernel.

use smallvec::{SmallVec, smallvec};

use crate::{
    element::DType,
    emit::{
        body::{
            kernel::{
                BLOCK, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line,
            },
            reducer::Accumulator,
        },
        passes::{GeneratedPasses, Pass, PassOutput, Temporary},
        reduce::reduction::{Accumulators, ReductionGenerator},
    },
};

/// The maximum number of partial results in flight per thread where a thread combines those of a
/// result, and the maximum number of their components.
const PARTIALS_AT_ONCE: usize = 8;
const COMPONENTS_AT_ONCE: usize = 2 * PARTIALS_AT_ONCE;

impl ReductionGenerator<'_> {
    /// Returns the types of the accumulators' components, of one reduction after another.
    fn slots(&self) -> SmallVec<[DType; 4]> {
        let types = (self.reductions.iter()).flat_map(|reduced| reduced.reducer.state_types());
        types.collect()
    }

    /// Returns the arrays of `splits` partial results of each result.
    fn partials(&self, splits: usize) -> SmallVec<[Temporary; 2]> {
        let slots = self.slots();
        let of_slot = |slot: &DType| Temporary::of(self.results() * splits, *slot);
        slots.iter().map(of_slot).collect()
    }

    /// Returns two passes: `first` stores `splits` partial results of each result, and a second
    /// kernel combines them.
    pub(crate) fn two_passes(
        &self,
        first: Kernel,
        threads: usize,
        splits: usize,
    ) -> GeneratedPasses {
        let temporaries = self.partials(splits);
        let partials = 0..temporaries.len();
        GeneratedPasses {
            temporaries,
            passes: smallvec![
                Pass {
                    kernel: first,
                    threads: threads.into(),
                    writes: PassOutput::Temporaries(partials.clone()),
                    reads: 0..0,
                },
                Pass {
                    kernel: self.combine_partials(splits),
                    threads: (self.results() * BLOCK).into(),
                    writes: PassOutput::Outputs,
                    reads: partials,
                },
            ],
        }
    }

    /// Returns one pass with several blocks per result, the last of which combines their partial
    /// results.
    pub(crate) fn last_block(&self, splits: usize) -> GeneratedPasses {
        let temporaries = self.partials(splits);
        let partials = 0..temporaries.len();
        GeneratedPasses {
            temporaries,
            passes: smallvec![Pass {
                kernel: self.split_blocks_per_result(splits),
                threads: (self.results() * splits * BLOCK).into(),
                writes: PassOutput::OutputsAndTemporaries(partials),
                reads: 0..0,
            }],
        }
    }

    /// Returns one pass with several threads of different blocks per result. The last block of each
    /// group of results combines their partial results, with one thread per result.
    pub(crate) fn last_block_of_threads(&self, splits: usize) -> GeneratedPasses {
        let temporaries = self.partials(splits);
        let partials = 0..temporaries.len();
        GeneratedPasses {
            temporaries,
            passes: smallvec![Pass {
                kernel: self.split_and_combine_threads(splits),
                threads: (self.results().div_ceil(BLOCK) * splits * BLOCK).into(),
                writes: PassOutput::OutputsAndTemporaries(partials),
                reads: 0..0,
            }],
        }
    }

    /// Generates a kernel with several threads of different blocks per result; the threads of a
    /// block take neighbouring results.
    pub(crate) fn split_threads_per_result(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let (bits, partial) = (body.bits(), body.index_reg());
        let SplitThread {
            result,
            split,
            splits,
            beyond,
            ..
        } = self.split_thread(&mut body, splits);
        line!(body; "@{beyond} bra DONE;");
        let accumulators = self.accumulate(&mut body, result, split, splits);
        line!(body; "mad.lo.s{bits} {partial}, {result}, {splits}, {split};");
        self.store_partials(&mut body, &accumulators, partial, 0);
        body.label("DONE");
        self.finish(body, "")
    }

    /// Computes the result of a thread, and which of its elements the thread has.
    fn split_thread(&self, body: &mut KernelBody, splits: usize) -> SplitThread {
        let bits = body.bits();
        let (block, thread) = body.block_and_thread();
        let splits = body.named("splits", splits);
        let results = body.named("results", self.results());
        let [group, product, split, result] = body.index_regs();
        line!(body; "div.u{bits} {group}, {block}, {splits};");
        line!(body; "mul.lo.s{bits} {product}, {group}, {splits};");
        line!(body; "sub.s{bits} {split}, {block}, {product};");
        line!(body; "mad.lo.s{bits} {result}, {group}, {BLOCK}, {thread};");
        let beyond = body.predicate();
        line!(body; "setp.ge.u{bits} {beyond}, {result}, {results};");
        SplitThread {
            thread,
            group,
            result,
            split,
            splits,
            results,
            beyond,
        }
    }

    /// Generates a kernel with several threads of different blocks per result, the last of which
    /// combine the partial results.
    fn split_and_combine_threads(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let (bits, partial) = (body.bits(), body.index_reg());
        let own = self.split_thread(&mut body, splits);
        let SplitThread {
            result,
            split,
            splits,
            results,
            ..
        } = own;
        line!(body; "@{} bra STORED;", own.beyond);
        let accumulators = self.accumulate(&mut body, result, split, splits);
        // Neighbouring threads write and read neighbouring partial results.
        line!(body; "mad.lo.s{bits} {partial}, {split}, {results}, {result};");
        let outputs = self.kernel.outputs.len();
        self.store_partials(&mut body, &accumulators, partial, outputs);
        body.label("STORED");
        line!(body; "bar.sync 0;");
        body.first_thread(own.thread, "COUNTED");
        count_block(&mut body, own.group, splits);
        body.label("COUNTED");
        continue_in_last_block(&mut body);
        line!(body; "@{} bra DONE;", own.beyond);

        let all = self.identities(&mut body);
        let [at, number] = body.index_regs();
        line!(body; "mov.b{bits} {at}, {result};");
        line!(body; "mov.b{bits} {number}, 0;");
        let beyond = body.predicate();
        let most = COMPONENTS_AT_ONCE / self.slots().len();
        for (label, next, at_once) in [
            ("PARTIALS", "PARTIALS_LEFT", most.clamp(1, PARTIALS_AT_ONCE)),
            ("PARTIALS_LEFT", "COMBINED", 1),
        ] {
            body.label(label);
            let last = body.index_reg();
            line!(body; "add.s{bits} {last}, {number}, {};", at_once - 1);
            line!(body; "setp.ge.u{bits} {beyond}, {last}, {splits};");
            line!(body; "@{beyond} bra {next};");
            let mut loaded: SmallVec<[Accumulators; PARTIALS_AT_ONCE]> = SmallVec::new();
            for _ in 0..at_once {
                loaded.push(self.load_partials(&mut body, at, |slot| {
                    let output = outputs + slot;
                    (
                        ParameterKey::Output(output),
                        KernelParameter::Output(output),
                    )
                }));
                line!(body; "add.s{bits} {at}, {at}, {results};");
            }
            for others in &loaded {
                self.combine_partial(&mut body, &all, others);
            }
            line!(body; "add.s{bits} {number}, {number}, {at_once};");
            line!(body; "bra {label};");
        }
        body.label("COMBINED");
        self.store_results(&mut body, &all, result);
        body.label("DONE");
        self.finish(body, LAST_BLOCK)
    }

    /// Loads the partial results at a position.
    fn load_partials(
        &self,
        body: &mut KernelBody,
        at: Reg,
        partials: impl Fn(usize) -> (ParameterKey, KernelParameter),
    ) -> Accumulators {
        let mut slot = 0;
        let of_reduction = self.reductions.iter().map(|reduced| {
            let mut other = Accumulator::new();
            for &dtype in &reduced.reducer.state_types() {
                let (key, parameter) = partials(slot);
                let base = body.address(key, || parameter);
                let address = body.element(base, at, dtype.bytes());
                other.push(body.load(dtype, address, 1)[0]);
                slot += 1;
            }
            other
        });
        of_reduction.collect()
    }

    /// Combines partial results into the accumulators.
    fn combine_partial(
        &self,
        body: &mut KernelBody,
        accumulators: &Accumulators,
        others: &Accumulators,
    ) {
        let pairs = accumulators.iter().zip(others);
        for (reduced, (accumulator, other)) in self.reductions.iter().zip(pairs) {
            reduced.reducer.combine(body, accumulator, other);
        }
    }

    /// Stores accumulators as partial results, at this position of the outputs from `first` on.
    fn store_partials(
        &self,
        body: &mut KernelBody,
        accumulators: &Accumulators,
        position: Reg,
        first: usize,
    ) {
        let registers = accumulators.iter().flatten();
        for (slot, (&reg, &dtype)) in registers.zip(&self.slots()).enumerate() {
            let output = first + slot;
            let base = body.output(output);
            let address = body.element(base, position, dtype.bytes());
            body.store(dtype, address, &[reg]);
        }
    }

    /// Generates a kernel with several blocks per result. The last to finish combines the partial
    /// results, and sets the counter back to 0 for the next kernel.
    fn split_blocks_per_result(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let bits = body.bits();
        let (block, thread) = body.block_and_thread();
        let splits = body.named("splits", splits);
        let [result, product, split, first, step] = body.index_regs();
        line!(body; "div.u{bits} {result}, {block}, {splits};");
        line!(body; "mul.lo.s{bits} {product}, {result}, {splits};");
        line!(body; "sub.s{bits} {split}, {block}, {product};");
        line!(body; "mad.lo.s{bits} {first}, {split}, {BLOCK}, {thread};");
        line!(body; "mul.lo.s{bits} {step}, {splits}, {BLOCK};");
        let accumulators = self.accumulate(&mut body, result, first, step);
        self.combine_block(&mut body, &accumulators, thread);
        body.first_thread(thread, "STORED");
        self.store_partials(&mut body, &accumulators, block, self.kernel.outputs.len());
        count_block(&mut body, result, splits);
        body.label("STORED");
        continue_in_last_block(&mut body);
        let outputs = self.kernel.outputs.len();
        self.store_combined(&mut body, (result, thread), splits, |slot| {
            let output = outputs + slot;
            (
                ParameterKey::Output(output),
                KernelParameter::Output(output),
            )
        });
        body.label("DONE");
        let mut shared = self.shared_memory();
        shared.push_str(LAST_BLOCK);
        self.finish(body, &shared)
    }

    /// Generates a kernel that combines the partial results, with one block per result.
    fn combine_partials(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let (block, thread) = body.block_and_thread();
        let splits = body.named("splits", splits);
        self.store_combined(&mut body, (block, thread), splits, |slot| {
            (
                ParameterKey::Temporary(slot),
                KernelParameter::Temporary(slot),
            )
        });
        body.label("DONE");
        self.finish(body, &self.shared_memory())
    }

    /// Combines and stores a result's partial results, which all threads of a block read from the
    /// array for each component of the accumulators.
    fn store_combined(
        &self,
        body: &mut KernelBody,
        (result, thread): (Reg, Reg),
        splits: Reg,
        partials: impl Fn(usize) -> (ParameterKey, KernelParameter),
    ) {
        let bits = body.bits();
        let [first, end, at] = body.index_regs();
        line!(body; "mul.lo.s{bits} {first}, {result}, {splits};");
        line!(body; "add.s{bits} {end}, {first}, {splits};");
        line!(body; "add.s{bits} {at}, {first}, {thread};");
        let accumulators = self.identities(body);
        let beyond = body.predicate();
        body.label("PARTIALS");
        line!(body; "setp.ge.u{bits} {beyond}, {at}, {end};");
        line!(body; "@{beyond} bra COMBINED;");
        let others = self.load_partials(body, at, partials);
        self.combine_partial(body, &accumulators, &others);
        line!(body; "add.s{bits} {at}, {at}, {BLOCK};");
        line!(body; "bra PARTIALS;");
        body.label("COMBINED");
        self.combine_block(body, &accumulators, thread);
        body.first_thread(thread, "DONE");
        self.store_results(body, &accumulators, result);
    }
}

/// A thread that accumulates some elements of a result.
struct SplitThread {
    thread: Reg,
    /// The group of neighbouring results that the threads of its block have.
    group: Reg,
    result: Reg,
    /// The number of the thread among those of the result.
    split: Reg,
    /// The number of threads of a result.
    splits: Reg,
    /// The number of results.
    results: Reg,
    /// True in threads without a result.
    beyond: Reg,
}

/// The word of shared memory that tells the threads of a block whether it is the last.
const LAST_BLOCK: &str = "\t.shared .align 4 .b32 last_block;\n";

/// Counts this block among `blocks` with a common counter, which the last sets back to 0 for the
/// next kernel. One thread of the block does it, after the block has stored.
fn count_block(body: &mut KernelBody, counter: Reg, blocks: Reg) {
    let bits = body.bits();
    let counters = body.address(ParameterKey::Counters, || KernelParameter::Counters);
    let counter = body.element(counters, counter, size_of::<u32>());
    let [last, before, is_last] = body.regs(RegClass::B32);
    let truth = body.predicate();
    line!(body; "cvt.u32.u{bits} {last}, {blocks};");
    line!(body; "sub.u32 {last}, {last}, 1;");
    // What this block has stored is visible to the last block, and what the others have stored to
    // this one, if it is the last.
    line!(body; "atom.acq_rel.gpu.global.inc.u32 {before}, [{counter}], {last};");
    line!(body; "setp.eq.u32 {truth}, {before}, {last};");
    line!(body; "selp.u32 {is_last}, 1, 0, {truth};");
    line!(body; "st.shared.u32 [last_block], {is_last};");
}

/// Continues with the threads of the last block only; those of others jump to the end.
fn continue_in_last_block(body: &mut KernelBody) {
    let (is_last, truth) = (body.reg(RegClass::B32), body.predicate());
    line!(body; "bar.sync 0;");
    line!(body; "ld.shared.u32 {is_last}, [last_block];");
    line!(body; "setp.eq.u32 {truth}, {is_last}, 0;");
    line!(body; "@{truth} bra DONE;");
}
