//! Reductions whose results are shared by several blocks: the partial results of each block, and
//! their combination by the last block or by a second kernel.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::{
        body::{
            Accumulator, BLOCK, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass,
            index, jump, line, test, value,
        },
        passes::Temporary,
        reduce::reduction::{Accumulators, ReductionGenerator},
    },
    schedule::machine::{COMPONENTS_AT_ONCE, PARTIALS_AT_ONCE},
};

impl ReductionGenerator<'_> {
    /// Returns the types of the accumulators' components, of one reduction after another.
    fn slots(&self) -> SmallVec<[DType; 4]> {
        let types = (self.reductions.iter()).flat_map(|reduced| reduced.reducer.state_types());
        types.collect()
    }

    /// Returns the arrays of `splits` partial results of each result.
    pub(crate) fn partials(&self, splits: usize) -> SmallVec<[Temporary; 2]> {
        let slots = self.slots();
        let of_slot = |slot: &DType| Temporary::of(self.results() * splits, *slot);
        slots.iter().map(of_slot).collect()
    }

    /// Generates a kernel with several threads of different blocks per result, for a second kernel.
    pub(crate) fn split_threads_per_result(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let partial = body.index_reg();
        let own = self.split_thread(&mut body, splits);
        let (result, split, splits) = (own.result, own.split, own.splits);
        line!(body; "@{} bra DONE;", own.beyond);
        let accumulators = self.accumulate(&mut body, result, split, splits);
        line!(body; "mad.lo.s# {partial}, {result}, {splits}, {split};");
        self.store_partials(&mut body, &accumulators, partial, 0);
        body.label("DONE");
        self.finish(body, "")
    }

    /// Computes the result of a thread, and which of its elements the thread has.
    fn split_thread(&self, body: &mut KernelBody, splits: usize) -> SplitThread {
        let (block, thread) = body.block_and_thread();
        let splits = body.named("splits", splits);
        let results = body.named("results", self.results());
        let (group, split) = body.quotient_and_rest(block, splits);
        let result = index!(body; "mad.lo.s# {group}, {BLOCK}, {thread}");
        let beyond = test!(body; "ge.u# {result}, {results}");
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

    /// Generates such a kernel in which the last of these threads combine the partial results.
    pub(crate) fn split_and_combine_threads(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let partial = body.index_reg();
        let own = self.split_thread(&mut body, splits);
        let (result, split, splits) = (own.result, own.split, own.splits);
        let results = own.results;
        line!(body; "@{} bra STORED;", own.beyond);
        let accumulators = self.accumulate(&mut body, result, split, splits);
        // Neighbouring threads write and read neighbouring partial results.
        line!(body; "mad.lo.s# {partial}, {split}, {results}, {result};");
        let outputs = self.kernel.targets();
        self.store_partials(&mut body, &accumulators, partial, outputs);
        body.label("STORED");
        line!(body; "bar.sync 0;");
        jump!(body; "COUNTED" if "ne.u# {}, 0", own.thread);
        count_block(&mut body, own.group, splits);
        body.label("COUNTED");
        continue_in_last_block(&mut body);
        line!(body; "@{} bra DONE;", own.beyond);

        let all = self.identities(&mut body);
        let at = index!(body; "mov.b# {result}");
        let number = index!(body; "mov.b# 0");
        let beyond = body.predicate();
        let most = COMPONENTS_AT_ONCE / self.slots().len();
        for (label, next, at_once) in [
            ("PARTIALS", "PARTIALS_LEFT", most.clamp(1, PARTIALS_AT_ONCE)),
            ("PARTIALS_LEFT", "COMBINED", 1),
        ] {
            body.label(label);
            let last = index!(body; "add.s# {number}, {}", at_once - 1);
            jump!(body, beyond; "{next}" if "ge.u# {last}, {splits}");
            let mut loaded: SmallVec<[Accumulators; PARTIALS_AT_ONCE]> = SmallVec::new();
            for _ in 0..at_once {
                let array = |body: &mut KernelBody, slot| body.output(outputs + slot);
                loaded.push(self.load_partials(&mut body, at, array));
                line!(body; "add.s# {at}, {at}, {results};");
            }
            for others in &loaded {
                self.combine_partial(&mut body, &all, others);
            }
            line!(body; "add.s# {number}, {number}, {at_once};");
            line!(body; "bra {label};");
        }
        body.label("COMBINED");
        self.store_results(&mut body, &all, result);
        body.label("DONE");
        self.finish(body, LAST_BLOCK)
    }

    fn load_partials(
        &self,
        body: &mut KernelBody,
        at: Reg,
        array: impl Fn(&mut KernelBody, usize) -> Reg,
    ) -> Accumulators {
        let mut slot = 0;
        let of_reduction = self.reductions.iter().map(|reduced| {
            let mut other = Accumulator::new();
            for &dtype in &reduced.reducer.state_types() {
                let base = array(body, slot);
                other.push(body.load_at(dtype, base, at));
                slot += 1;
            }
            other
        });
        of_reduction.collect()
    }

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
            body.store_output((first + slot, dtype), position, &[reg]);
        }
    }

    /// Generates a kernel with several blocks per result. The last to finish combines the partial
    /// results, and sets the counter back to 0 for the next kernel.
    pub(crate) fn split_blocks_per_result(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let (block, thread) = body.block_and_thread();
        let splits = body.named("splits", splits);
        let (result, split) = body.quotient_and_rest(block, splits);
        let first = index!(body; "mad.lo.s# {split}, {BLOCK}, {thread}");
        let step = index!(body; "mul.lo.s# {splits}, {BLOCK}");
        let accumulators = self.accumulate(&mut body, result, first, step);
        self.combine_block(&mut body, &accumulators, thread);
        jump!(body; "STORED" if "ne.u# {thread}, 0");
        self.store_partials(&mut body, &accumulators, block, self.kernel.targets());
        count_block(&mut body, result, splits);
        body.label("STORED");
        continue_in_last_block(&mut body);
        let outputs = self.kernel.targets();
        let array = |body: &mut KernelBody, slot| body.output(outputs + slot);
        self.store_combined(&mut body, (result, thread), splits, array);
        body.label("DONE");
        let mut shared = self.shared_memory();
        shared.push_str(LAST_BLOCK);
        self.finish(body, &shared)
    }

    /// Generates a kernel that combines the partial results, with one block per result.
    pub(crate) fn combine_partials(&self, splits: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let (block, thread) = body.block_and_thread();
        let splits = body.named("splits", splits);
        self.store_combined(&mut body, (block, thread), splits, KernelBody::temporary);
        body.label("DONE");
        self.finish(body, &self.shared_memory())
    }

    /// Combines and stores a result's partial results, which are an array for each component.
    fn store_combined(
        &self,
        body: &mut KernelBody,
        (result, thread): (Reg, Reg),
        splits: Reg,
        array: impl Fn(&mut KernelBody, usize) -> Reg,
    ) {
        let first = index!(body; "mul.lo.s# {result}, {splits}");
        let end = index!(body; "add.s# {first}, {splits}");
        let at = index!(body; "add.s# {first}, {thread}");
        let accumulators = self.identities(body);
        body.label("PARTIALS");
        jump!(body; "COMBINED" if "ge.u# {at}, {end}");
        let others = self.load_partials(body, at, array);
        self.combine_partial(body, &accumulators, &others);
        line!(body; "add.s# {at}, {at}, {BLOCK};");
        line!(body; "bra PARTIALS;");
        body.label("COMBINED");
        self.combine_block(body, &accumulators, thread);
        jump!(body; "DONE" if "ne.u# {thread}, 0");
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
    results: Reg,
    /// True in threads without a result.
    beyond: Reg,
}

/// The word of shared memory that tells the threads of a block whether it is the last.
const LAST_BLOCK: &str = "\t.shared .align 4 .b32 last_block;\n";

/// Counts this block among `blocks` with a common counter, which the last sets back to 0 for the
/// next kernel. One thread of the block does it, after the block has stored.
fn count_block(body: &mut KernelBody, counter: Reg, blocks: Reg) {
    let counters = body.address(ParameterKey::Counters, KernelParameter::Counters);
    let counter = body.element(counters, counter, size_of::<u32>());
    let [last, before, is_last] = body.regs(RegClass::B32);
    line!(body; "cvt.u32.u# {last}, {blocks};");
    line!(body; "sub.u32 {last}, {last}, 1;");
    // What this block has stored is visible to the last block, and what the others have stored to
    // this one, if it is the last.
    line!(body; "atom.acq_rel.gpu.global.inc.u32 {before}, [{counter}], {last};");
    let truth = value!(body, Predicate; "setp.eq.u32 {before}, {last}");
    line!(body; "selp.u32 {is_last}, 1, 0, {truth};");
    line!(body; "st.shared.u32 [last_block], {is_last};");
}

/// Continues with the threads of the last block only; those of others jump to the end.
fn continue_in_last_block(body: &mut KernelBody) {
    line!(body; "bar.sync 0;");
    let is_last = value!(body, B32; "ld.shared.u32 [last_block]");
    jump!(body; "DONE" if "eq.u32 {is_last}, 0");
}
