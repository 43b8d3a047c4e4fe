//! Kernels that make one element of many.
//!
//! Where there are many elements for each result, a block takes each result and its threads every
//! 256th element; what they keep is put together in shared memory, in a fixed order. If there are
//! few results, several blocks share each, and a second kernel puts together what they have left.
//! Where there are many results, or few elements for each, a thread takes each result, or several
//! threads of several blocks, if neighbouring threads then read neighbouring elements. Which it is
//! follows from the shapes alone, so that every device adds in the same order.

use smallvec::{SmallVec, smallvec};

use super::{
    accumulate::{Accumulator, Kept},
    body::{BLOCK, Body, Class, Kernel, Parameter, Reg, Use, line},
    generated::{Generated, Pass, Temporary, Written},
    index::Place,
    value::{Extent, Walk},
};
use crate::{
    fuse::FusedKernel,
    graph::{NodeRef, Op, Reduction},
    shape::{Axes, RANK_MAX, Shape},
};

/// Elements for each result up to which a thread takes them alone.
const ALONE_MAX: usize = 32;
/// Results from which on a thread takes each, if neighbouring threads then read neighbouring
/// elements.
const RESULTS_MANY: usize = 1 << 14;
/// Results from which on several threads take each, if neighbouring threads then read neighbouring
/// elements.
const RESULTS_SOME: usize = 32;
/// Elements for each block where several share a result.
const SHARE: usize = 1 << 14;
/// Blocks of a grid where several share a result, about.
const BLOCKS_MAX: usize = 1 << 10;
/// Elements that are on their way at once in each thread.
const UNROLL: usize = 4;

/// A reduction to generate kernels for.
struct Plan<'a> {
    kernel: &'a FusedKernel,
    /// What is written: the reduction's node, or what is calculated from its elements, number by
    /// number.
    value: &'a NodeRef,
    /// The reduction's.
    node: &'a NodeRef,
    source: &'a NodeRef,
    axes: &'a Axes,
    accumulator: Accumulator,
    reduction: Reduction,
    extent: Extent,
    /// Elements for each result.
    each: usize,
}

/// The kernels that reduce an array to elements, of which there is one at least, and write those or
/// what the epilogue makes of them.
pub(super) fn reduce(kernel: &FusedKernel) -> Generated {
    let node = &kernel.root;
    let Some(&Op::Reduce {
        reduction,
        ref source,
        ref axes,
    }) = kernel.op(node)
    else {
        unreachable!("the root is a reduction");
    };
    let each: usize = axes.iter().map(|&axis| source.shape[axis]).product();
    let plan = Plan {
        kernel,
        value: &kernel.output().value,
        node,
        source,
        axes,
        accumulator: Accumulator::new(reduction, source.dtype),
        reduction,
        extent: Extent::of(kernel),
        each,
    };
    let results = node.elements;
    let last_is_kept = (0..source.shape.len())
        .rev()
        .find(|&axis| source.shape[axis] != 1)
        .is_some_and(|axis| !axes.contains(&axis));
    let splits = each
        .div_ceil(SHARE)
        .min(BLOCKS_MAX.div_ceil(results))
        .max(1);
    let alone = || Generated::one(plan.alone(), results);
    if each <= ALONE_MAX || results > i32::MAX as usize {
        return alone();
    }
    if last_is_kept && results >= RESULTS_MANY {
        return alone();
    }
    if last_is_kept && results >= RESULTS_SOME {
        let blocks = results.div_ceil(BLOCK);
        let splits = each.div_ceil(ALONE_MAX).min(BLOCKS_MAX.div_ceil(blocks));
        return plan.in_two(plan.alone_shared(splits), blocks * splits * BLOCK, splits);
    }
    if splits == 1 {
        return Generated::one(plan.in_blocks(), results * BLOCK);
    }
    plan.in_two(
        plan.in_blocks_shared(splits),
        results * splits * BLOCK,
        splits,
    )
}

impl Plan<'_> {
    /// A kernel that leaves `splits` parts of each result for a second one.
    fn in_two(&self, first: Kernel, threads: usize, splits: usize) -> Generated {
        let results = self.node.elements;
        let slots = self.accumulator.slots();
        let partials = 0..slots.len();
        Generated {
            temporaries: slots
                .iter()
                .map(|slot| Temporary::of(results * splits, *slot))
                .collect(),
            passes: smallvec![
                Pass {
                    kernel: first,
                    threads,
                    writes: Written::Temporaries(partials.clone()),
                    reads: 0..0,
                },
                Pass {
                    kernel: self.of_partials(splits),
                    threads: results * BLOCK,
                    writes: Written::Outputs,
                    reads: partials,
                },
            ],
        }
    }

    /// A thread for each result.
    fn alone(&self) -> Kernel {
        let mut body = Body::new(self.extent.wide);
        let result = body.thread();
        let (bits, beyond) = (body.bits(), body.reg(Class::Predicate));
        let results = body.index_parameter(Use::Own("results"), self.node.elements as i64);
        line!(body, "setp.ge.u{bits} {beyond}, {result}, {results};");
        line!(body, "@{beyond} bra DONE;");
        let first = body.zero_index();
        let step = body.index_reg();
        line!(body, "mov.u{bits} {step}, 1;");
        let kept = self.gather(&mut body, result, first, step);
        self.write(&mut body, &kept, result);
        body.label("DONE");
        self.finish(body, "")
    }

    /// Several threads, in different blocks, for each result; those of a block take neighbouring
    /// results.
    fn alone_shared(&self, splits: usize) -> Kernel {
        let mut body = Body::new(self.extent.wide);
        let bits = body.bits();
        let (block, thread) = numbers(&mut body);
        let splits = body.index_parameter(Use::Own("splits"), splits as i64);
        let results = body.index_parameter(Use::Own("results"), self.node.elements as i64);
        let mut new = || body.index_reg();
        let (group, product, split, result, partial) = (new(), new(), new(), new(), new());
        line!(body, "div.u{bits} {group}, {block}, {splits};");
        line!(body, "mul.lo.s{bits} {product}, {group}, {splits};");
        line!(body, "sub.s{bits} {split}, {block}, {product};");
        line!(body, "mad.lo.s{bits} {result}, {group}, {BLOCK}, {thread};");
        let beyond = body.reg(Class::Predicate);
        line!(body, "setp.ge.u{bits} {beyond}, {result}, {results};");
        line!(body, "@{beyond} bra DONE;");
        let kept = self.gather(&mut body, result, split, splits);
        line!(
            body,
            "mad.lo.s{bits} {partial}, {result}, {splits}, {split};"
        );
        self.leave(&mut body, &kept, partial);
        body.label("DONE");
        self.finish(body, "")
    }

    /// Leaves what is kept for a second kernel, at this place.
    fn leave(&self, body: &mut Body, kept: &Kept, place: Reg) {
        for (slot, (&reg, &dtype)) in kept.iter().zip(&self.accumulator.slots()).enumerate() {
            let base = body.address(Use::Target(slot), || Parameter::Target(slot));
            let address = body.element(base, place, dtype.bytes());
            body.store(dtype, address, &[reg]);
        }
    }

    /// A block for each result.
    fn in_blocks(&self) -> Kernel {
        let mut body = Body::new(self.extent.wide);
        let (block, thread) = numbers(&mut body);
        let step = body.index_reg();
        let bits = body.bits();
        line!(body, "mov.u{bits} {step}, {BLOCK};");
        let kept = self.gather(&mut body, block, thread, step);
        self.together(&mut body, &kept, thread);
        self.write(&mut body, &kept, block);
        body.label("DONE");
        self.finish(body, &self.accumulator.shared())
    }

    /// Several blocks for each result.
    fn in_blocks_shared(&self, splits: usize) -> Kernel {
        let mut body = Body::new(self.extent.wide);
        let bits = body.bits();
        let (block, thread) = numbers(&mut body);
        let splits = body.index_parameter(Use::Own("splits"), splits as i64);
        let mut new = || body.index_reg();
        let (result, product, split, first, step) = (new(), new(), new(), new(), new());
        line!(body, "div.u{bits} {result}, {block}, {splits};");
        line!(body, "mul.lo.s{bits} {product}, {result}, {splits};");
        line!(body, "sub.s{bits} {split}, {block}, {product};");
        line!(body, "mad.lo.s{bits} {first}, {split}, {BLOCK}, {thread};");
        line!(body, "mul.lo.s{bits} {step}, {splits}, {BLOCK};");
        let kept = self.gather(&mut body, result, first, step);
        self.together(&mut body, &kept, thread);
        self.leave(&mut body, &kept, block);
        body.label("DONE");
        self.finish(body, &self.accumulator.shared())
    }

    /// A block for each result, of what several blocks have left for it.
    fn of_partials(&self, splits: usize) -> Kernel {
        let mut body = Body::new(self.extent.wide);
        let bits = body.bits();
        let (block, thread) = numbers(&mut body);
        let splits = body.index_parameter(Use::Own("splits"), splits as i64);
        let (first, end, at) = (body.index_reg(), body.index_reg(), body.index_reg());
        line!(body, "mul.lo.s{bits} {first}, {block}, {splits};");
        line!(body, "add.s{bits} {end}, {first}, {splits};");
        line!(body, "add.s{bits} {at}, {first}, {thread};");
        let kept = self.accumulator.nothing(&mut body);
        let beyond = body.reg(Class::Predicate);
        body.label("LOOP");
        line!(body, "setp.ge.u{bits} {beyond}, {at}, {end};");
        line!(body, "@{beyond} bra LEFT;");
        let mut other = Kept::new();
        for (slot, &dtype) in self.accumulator.slots().iter().enumerate() {
            let base = body.address(Use::Partial(slot), || Parameter::Partial(slot));
            let address = body.element(base, at, dtype.bytes());
            other.push(body.load(dtype, address, 1)[0]);
        }
        self.accumulator.combine(&mut body, &kept, &other);
        line!(body, "add.s{bits} {at}, {at}, {BLOCK};");
        line!(body, "bra LOOP;");
        body.label("LEFT");
        self.together(&mut body, &kept, thread);
        self.write(&mut body, &kept, block);
        body.label("DONE");
        self.finish(body, &self.accumulator.shared())
    }

    /// What is kept of every `step`th element of a result, from `first` on.
    fn gather(&self, body: &mut Body, result: Reg, first: Reg, step: Reg) -> Kept {
        let bits = body.bits();
        let kept = self.accumulator.nothing(body);
        let kept_axes = self.kept_axes(body, result);
        let each = body.index_parameter(Use::Own("each"), self.each as i64);
        let at = body.index_reg();
        line!(body, "mov.b{bits} {at}, {first};");
        let beyond = body.reg(Class::Predicate);

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
            "setp.ge.u{bits} {beyond}, {}, {each};",
            numbers[UNROLL - 1]
        );
        line!(body, "@{beyond} bra REST;");
        let mut words = None;
        let mut walk = Walk::new(body, self.kernel, self.is_flat());
        let mut elements: SmallVec<[Reg; UNROLL]> = SmallVec::new();
        for &number in &numbers {
            let place = self.place(&mut walk, result, &kept_axes, number);
            elements.push(walk.value(self.source, place));
            words.get_or_insert(walk.body.words());
        }
        for (&element, &number) in elements.iter().zip(&numbers) {
            let other = self.accumulator.only(body, element, |_| number);
            self.accumulator.combine(body, &kept, &other);
        }
        line!(body, "add.s{bits} {at}, {}, {step};", numbers[UNROLL - 1]);
        line!(body, "bra LOOP;");

        body.label("REST");
        line!(body, "setp.ge.u{bits} {beyond}, {at}, {each};");
        line!(body, "@{beyond} bra LEFT;");
        let mut walk = Walk::new(body, self.kernel, self.is_flat());
        let place = self.place(&mut walk, result, &kept_axes, at);
        let element = walk.value(self.source, place);
        let other = self.accumulator.only(body, element, |_| at);
        self.accumulator.combine(body, &kept, &other);
        line!(body, "add.s{bits} {at}, {at}, {step};");
        line!(body, "bra REST;");
        body.label("LEFT");
        body.forget_words(words.expect("there is a first element"));
        kept
    }

    /// Whether the elements of one result follow each other, and those of the next behind them.
    fn is_trailing(&self) -> bool {
        let shape = &self.source.shape;
        let mut long = (0..shape.len()).filter(|&axis| shape[axis] != 1);
        long.by_ref().find(|axis| self.axes.contains(axis));
        long.all(|axis| self.axes.contains(&axis))
    }

    fn is_flat(&self) -> bool {
        self.extent.flat && self.is_trailing()
    }

    /// The indices along the axes that are kept, of the source.
    fn kept_axes(&self, body: &mut Body, result: Reg) -> SmallVec<[Option<Reg>; RANK_MAX]> {
        let mut axes = SmallVec::from_elem(None, self.source.shape.len());
        if self.is_trailing() {
            return axes;
        }
        let mut walk = Walk::new(body, self.kernel, false);
        let place = walk.numbered(self.node.id, &self.node.shape, result);
        let kept = (0..self.source.shape.len()).filter(|axis| !self.axes.contains(axis));
        for (of_result, axis) in kept.enumerate() {
            axes[axis] = Some(walk.axis(place, of_result));
        }
        axes
    }

    /// The place of the element with a number among those of a result.
    fn place(
        &self,
        walk: &mut Walk<'_>,
        result: Reg,
        kept_axes: &SmallVec<[Option<Reg>; RANK_MAX]>,
        number: Reg,
    ) -> Place {
        if self.is_trailing() {
            let each = walk
                .body
                .index_parameter(Use::Own("each"), self.each as i64);
            let of_all = walk.body.index_reg();
            let bits = walk.body.bits();
            line!(
                walk.body,
                "mad.lo.s{bits} {of_all}, {result}, {each}, {number};"
            );
            return walk.numbered(self.source.id, &self.source.shape, of_all);
        }
        let shape: Shape = self
            .axes
            .iter()
            .map(|&axis| self.source.shape[axis])
            .collect();
        // The number that no node has stands for the axes that are reduced.
        let within = walk.numbered(u64::MAX, &shape, number);
        let mut axes = kept_axes.clone();
        for (of_number, &axis) in self.axes.iter().enumerate() {
            axes[axis] = Some(walk.axis(within, of_number));
        }
        walk.indexed(self.source.id, &self.source.shape, axes, None)
    }

    /// Puts together what the threads of a block keep. Only the first goes on behind it.
    fn together(&self, body: &mut Body, kept: &Kept, thread: Reg) {
        let slots = self.accumulator.slots();
        let addresses: SmallVec<[Reg; 2]> = slots
            .iter()
            .enumerate()
            .map(|(slot, dtype)| {
                let base = body.reg(Class::B64);
                line!(body, "mov.u64 {base}, kept{slot};");
                body.element(base, thread, dtype.bytes())
            })
            .collect();
        let bits = body.bits();
        let idle = body.reg(Class::Predicate);
        for (slot, &dtype) in slots.iter().enumerate() {
            line!(
                body,
                "st.shared.{} [{}], {};",
                Class::of(dtype).moved(),
                addresses[slot],
                kept[slot]
            );
        }
        let mut distance = BLOCK / 2;
        while distance > 0 {
            line!(body, "bar.sync 0;");
            line!(body, "setp.ge.u{bits} {idle}, {thread}, {distance};");
            line!(body, "@{idle} bra NEXT{distance};");
            let mut other = Kept::new();
            for (slot, &dtype) in slots.iter().enumerate() {
                let reg = body.reg(Class::of(dtype));
                let offset = distance * dtype.bytes();
                line!(
                    body,
                    "ld.shared.{} {reg}, [{}+{offset}];",
                    Class::of(dtype).moved(),
                    addresses[slot]
                );
                other.push(reg);
            }
            self.accumulator.combine(body, kept, &other);
            for (slot, &dtype) in slots.iter().enumerate() {
                line!(
                    body,
                    "st.shared.{} [{}], {};",
                    Class::of(dtype).moved(),
                    addresses[slot],
                    kept[slot]
                );
            }
            body.label(&format!("NEXT{distance}"));
            distance /= 2;
        }
        line!(body, "setp.ne.u{bits} {idle}, {thread}, 0;");
        line!(body, "@{idle} bra DONE;");
    }

    /// Writes a result.
    fn write(&self, body: &mut Body, kept: &Kept, result: Reg) {
        let mut value = self.accumulator.result(body, kept, self.node.dtype);
        if !self.kernel.epilogue.is_empty() {
            let mut walk = Walk::new(body, self.kernel, true);
            let place = walk.numbered(self.value.id, &self.value.shape, result);
            walk.know(self.node, place, value);
            value = walk.value(self.value, place);
        }
        let base = body.address(Use::Target(0), || Parameter::Target(0));
        let address = body.element(base, result, self.value.dtype.bytes());
        body.store(self.value.dtype, address, &[value]);
    }

    fn finish(&self, mut body: Body, shared: &str) -> Kernel {
        body.word(self.reduction.word());
        body.finish(shared)
    }
}

/// The number of the block in its grid, and of the thread in its block.
pub(super) fn numbers(body: &mut Body) -> (Reg, Reg) {
    let (block, thread) = (body.reg(Class::B32), body.reg(Class::B32));
    line!(body, "mov.u32 {block}, %ctaid.x;");
    line!(body, "mov.u32 {thread}, %tid.x;");
    if !body.wide {
        return (block, thread);
    }
    let (wide_block, wide_thread) = (body.reg(Class::B64), body.reg(Class::B64));
    line!(body, "cvt.u64.u32 {wide_block}, {block};");
    line!(body, "cvt.u64.u32 {wide_thread}, {thread};");
    (wide_block, wide_thread)
}
