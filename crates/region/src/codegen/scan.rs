//! Kernels that keep every step on the way to one element of many: along the last axis, each
//! element is put together with all in front of it.
//!
//! A thread takes a short line. A block takes a longer one, 1,024 elements at a time: each thread
//! puts together four neighbours, and the block what its threads have. Where few lines are longer
//! still, several blocks share each: the first kernel puts together each block's segment, the
//! second the segments, and the third goes through the elements with what the segments in front
//! have left. Which it is follows from the shape alone, so that every device adds in the same
//! order.

use smallvec::{SmallVec, smallvec};

use super::{
    accumulate::{Accumulator, Kept},
    body::{BLOCK, Body, Class, Kernel, Parameter, Reg, Use, line},
    generated::{Generated, Pass, Temporary, Written},
    reduce::numbers,
    value::Extent,
};
use crate::{
    element::DType,
    fuse::FusedKernel,
    graph::{NodeRef, Op, Reduction},
};

/// Elements of a line up to which a thread takes it alone.
const ALONE_MAX: usize = 64;
/// The same where there are many lines.
const ALONE_OF_MANY_MAX: usize = 512;
/// Lines from which on there are many.
const LINES_MANY: usize = 1 << 14;
/// Neighbours of a thread.
const ITEMS: usize = 4;
/// Elements that a block takes at a time.
const TILE: usize = BLOCK * ITEMS;
/// Elements of a segment where several blocks share a line, at least.
const SEGMENT: usize = 4 * TILE;
/// Blocks of a grid where several share a line, about.
const BLOCKS_MAX: usize = 1 << 10;

/// What a kernel of blocks goes through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Elements,
    /// What an earlier kernel has left for each segment.
    Partials,
}

/// What a kernel of blocks writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// What each segment comes to.
    Totals,
    /// For each, what it comes to with all in front of it.
    Prefixes,
    /// The results.
    Results,
}

/// How lines are cut for one kernel of blocks.
#[derive(Clone, Copy)]
struct Cut {
    /// Elements of a line.
    count: usize,
    /// Elements of a segment, a multiple of a tile if there are several.
    segment: usize,
    /// Segments of a line.
    segments: usize,
}

/// A scan to generate kernels for.
struct Plan<'a> {
    node: &'a NodeRef,
    source: &'a NodeRef,
    accumulator: Accumulator,
    reduction: Reduction,
    wide: bool,
}

/// The kernels that put together the elements of an array in memory along its last axis. There is
/// one element at least.
pub(super) fn scan(kernel: &FusedKernel) -> Generated {
    let node = &kernel.root;
    let Some(&Op::Accumulate {
        reduction,
        ref source,
    }) = kernel.op(node)
    else {
        unreachable!("the root is a scan");
    };
    let plan = Plan {
        node,
        source,
        accumulator: Accumulator::new(reduction, source.dtype),
        reduction,
        wide: Extent::of(kernel).wide,
    };
    let count = *node.shape.last().expect("there is an axis to go along");
    let lines = node.elements / count;
    let is_short = count <= ALONE_MAX || (count <= ALONE_OF_MANY_MAX && lines >= LINES_MANY);
    if is_short {
        return Generated::one(plan.alone(count), lines);
    }
    let segments = count.div_ceil(SEGMENT).min(BLOCKS_MAX.div_ceil(lines));
    let segment = count.div_ceil(segments).next_multiple_of(TILE);
    let segments = count.div_ceil(segment);
    let whole = |count| Cut {
        count,
        segment: count,
        segments: 1,
    };
    if segments == 1 {
        let kernel = plan.in_blocks(Input::Elements, Output::Results, whole(count));
        return Generated::one(kernel, lines * BLOCK);
    }
    let cut = Cut {
        count,
        segment,
        segments,
    };
    let partials = lines * segments;
    // What each segment comes to, and what each comes to with all in front of it.
    let slots = plan.accumulator.slots();
    let (totals, prefixes) = (0..slots.len(), slots.len()..2 * slots.len());
    let temporaries = slots.iter().chain(&slots);
    Generated {
        temporaries: temporaries
            .map(|slot| Temporary::of(partials, *slot))
            .collect(),
        passes: smallvec![
            Pass {
                kernel: plan.in_blocks(Input::Elements, Output::Totals, cut),
                threads: partials * BLOCK,
                writes: Written::Temporaries(totals.clone()),
                reads: 0..0,
            },
            Pass {
                kernel: plan.in_blocks(Input::Partials, Output::Prefixes, whole(segments)),
                threads: lines * BLOCK,
                writes: Written::Temporaries(prefixes.clone()),
                reads: totals,
            },
            Pass {
                kernel: plan.in_blocks(Input::Elements, Output::Results, cut),
                threads: partials * BLOCK,
                writes: Written::Outputs,
                reads: prefixes,
            },
        ],
    }
}

impl Plan<'_> {
    /// A thread for each line.
    fn alone(&self, count: usize) -> Kernel {
        let mut body = Body::new(self.wide);
        let line = body.thread();
        let (bits, beyond) = (body.bits(), body.reg(Class::Predicate));
        let lines = body.index_parameter(Use::Own("lines"), (self.node.elements / count) as i64);
        let count = body.index_parameter(Use::Own("count"), count as i64);
        line!(body, "setp.ge.u{bits} {beyond}, {line}, {lines};");
        line!(body, "@{beyond} bra DONE;");
        let (at, end) = (body.index_reg(), body.index_reg());
        line!(body, "mul.lo.s{bits} {at}, {line}, {count};");
        line!(body, "add.s{bits} {end}, {at}, {count};");
        let kept = self.accumulator.nothing(&mut body);
        body.label("LOOP");
        let element = self.element(&mut body, Input::Elements, at);
        self.accumulator.combine(&mut body, &kept, &element);
        self.write(&mut body, &kept, at);
        line!(body, "add.s{bits} {at}, {at}, 1;");
        line!(body, "setp.lt.u{bits} {beyond}, {at}, {end};");
        line!(body, "@{beyond} bra LOOP;");
        body.label("DONE");
        self.finish(body, "")
    }

    /// A block for each segment of each line.
    fn in_blocks(&self, input: Input, output: Output, cut: Cut) -> Kernel {
        let mut body = Body::new(self.wide);
        let bits = body.bits();
        let (block, thread) = numbers(&mut body);
        let count = body.index_parameter(Use::Own("count"), cut.count as i64);
        let segment = body.index_parameter(Use::Own("segment"), cut.segment as i64);
        let segments = body.index_parameter(Use::Own("segments"), cut.segments as i64);
        let mut new = || body.index_reg();
        let (line, number, tile, end) = (new(), new(), new(), new());
        // Of the whole array, the first element of the line; the tile and the end are counted from
        // there.
        let base = new();
        line!(body, "div.u{bits} {line}, {block}, {segments};");
        line!(body, "mul.lo.s{bits} {number}, {line}, {segments};");
        line!(body, "sub.s{bits} {number}, {block}, {number};");
        line!(body, "mul.lo.s{bits} {tile}, {number}, {segment};");
        line!(body, "add.s{bits} {end}, {tile}, {segment};");
        line!(body, "min.u{bits} {end}, {end}, {count};");
        line!(body, "mul.lo.s{bits} {base}, {line}, {count};");

        let nothing = self.accumulator.nothing(&mut body);
        let carry = copy(&mut body, &nothing);
        if output == Output::Results && cut.segments > 1 {
            self.take_over(&mut body, &carry, block, number);
        }
        let shared = Shared::new(&mut body, self.accumulator, thread);
        let running = copy(&mut body, &nothing);
        let done = body.reg(Class::Predicate);
        body.label("LOOP");
        line!(body, "setp.ge.u{bits} {done}, {tile}, {end};");
        line!(body, "@{done} bra LEFT;");
        if output != Output::Totals {
            set(&mut body, &running, &nothing);
        }
        let (mut steps, mut places) = (Vec::new(), Vec::new());
        let (first, last) = (body.index_reg(), body.index_reg());
        line!(body, "mad.lo.s{bits} {first}, {thread}, {ITEMS}, {tile};");
        line!(body, "sub.s{bits} {last}, {end}, 1;");
        for item in 0..ITEMS {
            let (at, place, inside) = (
                body.index_reg(),
                body.index_reg(),
                body.reg(Class::Predicate),
            );
            line!(body, "add.s{bits} {at}, {first}, {item};");
            line!(body, "setp.lt.u{bits} {inside}, {at}, {end};");
            // Beyond the end, the last element is read, and does not count.
            line!(body, "min.u{bits} {place}, {at}, {last};");
            line!(body, "add.s{bits} {place}, {place}, {base};");
            let element = self.element(&mut body, input, place);
            for ((&reg, &none), &dtype) in
                element.iter().zip(&nothing).zip(&self.accumulator.slots())
            {
                line!(
                    body,
                    "selp.{} {reg}, {reg}, {none}, {inside};",
                    Class::of(dtype).moved()
                );
            }
            self.accumulator.combine(&mut body, &running, &element);
            if output != Output::Totals {
                steps.push(copy(&mut body, &running));
                places.push((place, inside));
            }
        }
        if output != Output::Totals {
            let (before, all) = shared.scan(&mut body, &running, &nothing);
            self.accumulator.combine(&mut body, &before, &carry);
            for (item, (step, (place, inside))) in steps.iter().zip(places).enumerate() {
                self.accumulator.combine(&mut body, step, &before);
                line!(body, "@!{inside} bra SKIP{item};");
                match output {
                    Output::Results => self.write(&mut body, step, place),
                    _ => self.leave(&mut body, step, place),
                }
                body.label(&format!("SKIP{item}"));
            }
            self.accumulator.combine(&mut body, &carry, &all);
        }
        line!(body, "add.s{bits} {tile}, {tile}, {TILE};");
        line!(body, "bra LOOP;");
        body.label("LEFT");
        if output == Output::Totals {
            let (_, all) = shared.scan(&mut body, &running, &nothing);
            line!(body, "setp.ne.u{bits} {done}, {thread}, 0;");
            line!(body, "@{done} bra DONE;");
            self.leave(&mut body, &all, block);
            body.label("DONE");
        }
        self.finish(body, &shared.declaration)
    }

    /// What is kept of one element alone, or was left for it.
    fn element(&self, body: &mut Body, input: Input, at: Reg) -> Kept {
        match input {
            Input::Elements => {
                let base = body.address(Use::Elements(self.source.id), || {
                    Parameter::Elements(NodeRef::clone(self.source))
                });
                let address = body.element(base, at, self.source.dtype.bytes());
                let element = body.load(self.source.dtype, address, 1)[0];
                let only = self.accumulator.only(body, element, |_| at);
                // What is kept is changed in place, and what was loaded is not.
                copy(body, &only)
            }
            Input::Partials => {
                let slots = self.accumulator.slots();
                let load = |(slot, &dtype): (usize, &DType)| {
                    let base = body.address(Use::Partial(slot), || Parameter::Partial(slot));
                    let address = body.element(base, at, dtype.bytes());
                    body.load(dtype, address, 1)[0]
                };
                slots.iter().enumerate().map(load).collect()
            }
        }
    }

    /// Takes over what the segments in front have left, if there are any in this line.
    fn take_over(&self, body: &mut Body, carry: &Kept, block: Reg, number: Reg) {
        let bits = body.bits();
        let (is_later, before) = (body.reg(Class::Predicate), body.index_reg());
        line!(body, "setp.ne.u{bits} {is_later}, {number}, 0;");
        line!(body, "sub.s{bits} {before}, {block}, 1;");
        for (slot, (&reg, &dtype)) in carry.iter().zip(&self.accumulator.slots()).enumerate() {
            let base = body.address(Use::Partial(slot), || Parameter::Partial(slot));
            let address = body.element(base, before, dtype.bytes());
            line!(
                body,
                "@{is_later} ld.global.{} {reg}, [{address}];",
                Class::of(dtype).moved()
            );
        }
    }

    /// Writes a result.
    fn write(&self, body: &mut Body, kept: &Kept, at: Reg) {
        let value = self.accumulator.result(body, kept, self.node.dtype);
        let base = body.address(Use::Target(0), || Parameter::Target(0));
        let address = body.element(base, at, self.node.dtype.bytes());
        body.store(self.node.dtype, address, &[value]);
    }

    /// Leaves what is kept for the next kernel.
    fn leave(&self, body: &mut Body, kept: &Kept, at: Reg) {
        for (slot, (&reg, &dtype)) in kept.iter().zip(&self.accumulator.slots()).enumerate() {
            let base = body.address(Use::Target(slot), || Parameter::Target(slot));
            let address = body.element(base, at, dtype.bytes());
            body.store(dtype, address, &[reg]);
        }
    }

    fn finish(&self, mut body: Body, shared: &str) -> Kernel {
        body.word(self.reduction.word());
        body.word("scan");
        body.finish(shared)
    }
}

/// The shared memory in which the threads of a block see what the others have.
struct Shared {
    accumulator: Accumulator,
    thread: Reg,
    /// Of each slot, the beginning and this thread's place.
    places: SmallVec<[(Reg, Reg); 2]>,
    declaration: String,
}

impl Shared {
    fn new(body: &mut Body, accumulator: Accumulator, thread: Reg) -> Self {
        let place = |(slot, dtype): (usize, &DType)| {
            let base = body.reg(Class::B64);
            line!(body, "mov.u64 {base}, kept{slot};");
            (base, body.element(base, thread, dtype.bytes()))
        };
        let places = accumulator.slots().iter().enumerate().map(place).collect();
        Self {
            accumulator,
            thread,
            places,
            declaration: accumulator.shared(),
        }
    }

    /// Of what all threads have: what those in front of this one have together, and what all have.
    /// All threads get here.
    fn scan(&self, body: &mut Body, kept: &Kept, nothing: &Kept) -> (Kept, Kept) {
        let slots = self.accumulator.slots();
        let with_front = copy(body, kept);
        let front = copy(body, nothing);
        let mut distance = 1;
        self.store(body, &with_front);
        while distance < BLOCK {
            line!(body, "bar.sync 0;");
            self.load_from(body, &front, nothing, distance);
            line!(body, "bar.sync 0;");
            self.accumulator.combine(body, &with_front, &front);
            self.store(body, &with_front);
            distance *= 2;
        }
        line!(body, "bar.sync 0;");
        self.load_from(body, &front, nothing, 1);
        let mut all = Kept::new();
        for (&(base, _), &dtype) in self.places.iter().zip(&slots) {
            let reg = body.reg(Class::of(dtype));
            let offset = (BLOCK - 1) * dtype.bytes();
            line!(
                body,
                "ld.shared.{} {reg}, [{base}+{offset}];",
                Class::of(dtype).moved()
            );
            all.push(reg);
        }
        // Nobody writes for the next tile before everybody has read.
        line!(body, "bar.sync 0;");
        (front, all)
    }

    fn store(&self, body: &mut Body, kept: &Kept) {
        let slots = self.accumulator.slots();
        for ((&(_, own), &reg), &dtype) in self.places.iter().zip(kept).zip(&slots) {
            line!(
                body,
                "st.shared.{} [{own}], {reg};",
                Class::of(dtype).moved()
            );
        }
    }

    /// What the thread so far in front has stored; nothing if there is none.
    fn load_from(&self, body: &mut Body, into: &Kept, nothing: &Kept, distance: usize) {
        let bits = body.bits();
        let is_there = body.reg(Class::Predicate);
        line!(
            body,
            "setp.ge.u{bits} {is_there}, {}, {distance};",
            self.thread
        );
        set(body, into, nothing);
        let slots = self.accumulator.slots();
        for ((&(_, own), &reg), &dtype) in self.places.iter().zip(into).zip(&slots) {
            let offset = distance * dtype.bytes();
            line!(
                body,
                "@{is_there} ld.shared.{} {reg}, [{own}+-{offset}];",
                Class::of(dtype).moved()
            );
        }
    }
}

/// The same in other registers.
fn copy(body: &mut Body, kept: &Kept) -> Kept {
    let new: Kept = kept.iter().map(|reg| body.reg(reg.class)).collect();
    set(body, &new, kept);
    new
}

/// Makes the first what the second is.
fn set(body: &mut Body, kept: &Kept, to: &Kept) {
    for (reg, to) in kept.iter().zip(to) {
        line!(body, "mov.{} {reg}, {to};", reg.class.moved());
    }
}
