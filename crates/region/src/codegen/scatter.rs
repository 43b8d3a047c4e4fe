//! Kernels that put elements where indices say, with a thread for each index.
//!
//! What is added is added atomically. Where the last of several counts, a first kernel finds for
//! each element which one that is, and a second puts that one there: each element is written once,
//! so that nothing depends on who comes first.

use smallvec::smallvec;

use super::{
    body::{BLOCK, Body, Class, Kernel, Parameter, Use, line},
    generated::{Generated, Pass, Temporary, Written},
    value::{Extent, Walk},
};
use crate::{element::DType, fuse::FusedKernel, graph::Op};

/// What a kernel does with each index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Adds the value to the element.
    Add,
    /// Raises what the element's place in the target holds to the index's own number, counted from
    /// 1.
    Mark,
    /// Puts the value there, if the partial holds the index's number for that place.
    Take,
}

/// The kernels of a scatter into a target that has the base's elements. There is one index at
/// least, and one element.
pub(super) fn scatter(kernel: &FusedKernel) -> Generated {
    let Some(Op::Scatter { index, adds, .. }) = kernel.op(&kernel.root) else {
        unreachable!("the root is a scatter");
    };
    let wide = Extent::of(kernel).wide;
    let threads = index.elements.div_ceil(BLOCK) * BLOCK;
    if *adds {
        return Generated::one(of_each_index(kernel, wide, Act::Add), threads);
    }
    Generated {
        temporaries: smallvec![Temporary {
            bytes: kernel.root.elements * mark_bytes(wide),
            is_zeroed: true,
        }],
        passes: smallvec![
            Pass {
                kernel: of_each_index(kernel, wide, Act::Mark),
                threads,
                writes: Written::Temporaries(0..1),
                reads: 0..0,
            },
            Pass {
                kernel: of_each_index(kernel, wide, Act::Take),
                threads,
                writes: Written::Outputs,
                reads: 0..1,
            },
        ],
    }
}

/// Bytes of a mark: it has the width of indices.
fn mark_bytes(wide: bool) -> usize {
    if wide { 8 } else { 4 }
}

/// A kernel with a thread for each index.
fn of_each_index(kernel: &FusedKernel, wide: bool, act: Act) -> Kernel {
    let node = &kernel.root;
    let Some(Op::Scatter {
        index, value, axis, ..
    }) = kernel.op(node)
    else {
        unreachable!("the root is a scatter");
    };
    let axis = *axis;
    let mut body = Body::new(wide);
    let thread = body.thread();
    let (bits, beyond) = (body.bits(), body.reg(Class::Predicate));
    let count = body.index_parameter(Use::Own("count"), index.elements as i64);
    line!(body, "setp.ge.u{bits} {beyond}, {thread}, {count};");
    line!(body, "@{beyond} bra DONE;");
    let mut walk = Walk::new(&mut body, kernel, false);
    let place = walk.numbered(index.id, &index.shape, thread);
    let chosen = walk.value(index, place);
    let chosen = walk.checked_index(node, chosen, axis, node.shape[axis]);
    let target = walk.with_axis(node.id, place, axis, chosen, &node.shape);
    let target = walk.number(target);
    let mark_bytes = mark_bytes(wide);
    let mark = walk.body.index_reg();
    match act {
        Act::Add => {
            let value = walk.value(value, place);
            let kind = match node.dtype {
                DType::F64 => "f64",
                DType::I64 => "u64",
                DType::I32 => "u32",
                other => unreachable!("{other:?} is added as a wider type"),
            };
            let base = walk.body.address(Use::Target(0), || Parameter::Target(0));
            let address = walk.body.element(base, target, node.dtype.bytes());
            line!(walk.body, "red.global.add.{kind} [{address}], {value};");
        }
        Act::Mark => {
            line!(walk.body, "add.s{bits} {mark}, {thread}, 1;");
            let base = walk.body.address(Use::Target(0), || Parameter::Target(0));
            let address = walk.body.element(base, target, mark_bytes);
            line!(walk.body, "red.global.max.u{bits} [{address}], {mark};");
        }
        Act::Take => {
            let is_other = walk.body.reg(Class::Predicate);
            let base = walk.body.address(Use::Partial(0), || Parameter::Partial(0));
            let address = walk.body.element(base, target, mark_bytes);
            line!(walk.body, "ld.global.u{bits} {mark}, [{address}];");
            line!(walk.body, "sub.s{bits} {mark}, {mark}, 1;");
            line!(walk.body, "setp.ne.u{bits} {is_other}, {mark}, {thread};");
            line!(walk.body, "@{is_other} bra DONE;");
            let value = walk.value(value, place);
            let base = walk.body.address(Use::Target(0), || Parameter::Target(0));
            let address = walk.body.element(base, target, node.dtype.bytes());
            walk.body.store(node.dtype, address, &[value]);
        }
    }
    body.word(match act {
        Act::Add => "scatter_add",
        Act::Mark => "scatter_mark",
        Act::Take => "scatter",
    });
    body.label("DONE");
    body.finish("")
}
