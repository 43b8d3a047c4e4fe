//! Kernels that put elements where indices say, with a thread for each index.
//!
//! What is added is added atomically. Where the last of several counts, a first kernel finds for each element which one that
//! is, and a second puts that one there: each element is written once, so that nothing depends on who comes first.

use super::{
    body::{BLOCK, Body, Class, Kernel, Parameter, Use, line},
    survey::survey,
    value::Walk,
};
use crate::{element::DType, graph::NodeRef};

/// What a kernel does with each index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Adds the value to the element.
    Add,
    /// Raises what the element's place in the target holds to the index's own number, counted from 1.
    Mark,
    /// Puts the value there, if the partial holds the index's number for that place.
    Take,
}

/// What is put where.
pub(crate) struct Scatter<'a> {
    /// The node to be.
    pub(crate) node: &'a NodeRef,
    pub(crate) index: &'a NodeRef,
    /// Has the index's shape.
    pub(crate) value: &'a NodeRef,
    pub(crate) axis: usize,
}

impl Scatter<'_> {
    /// Whether indices need 64 bits, and with them what the first kernel leaves.
    pub(crate) fn is_wide(&self) -> bool {
        [self.index, self.value]
            .iter()
            .any(|root| survey(root, self.node.elements).wide)
    }
}

/// The kernel, and how many threads it needs. There is one index at least, and one element.
pub(crate) fn scatter(what: &Scatter<'_>, pass: Pass) -> (Kernel, usize) {
    let Scatter {
        node,
        index,
        value,
        axis,
    } = *what;
    let mut body = Body::new(what.is_wide());
    let thread = body.thread();
    let (bits, beyond) = (body.bits(), body.reg(Class::Predicate));
    let count = body.index_parameter(Use::Own("count"), index.elements as i64);
    line!(body, "setp.ge.u{bits} {beyond}, {thread}, {count};");
    line!(body, "@{beyond} bra DONE;");
    let mut walk = Walk::new(&mut body, false);
    let place = walk.numbered(index.id, &index.shape, thread);
    let chosen = walk.value(index, place);
    let chosen = walk.checked_index(node, chosen, axis, node.shape[axis]);
    let target = walk.with_axis(node.id, place, axis, chosen, &node.shape);
    let target = walk.number(target);
    let mark_bytes = if walk.body.wide { 8 } else { 4 };
    let mark = walk.body.index_reg();
    match pass {
        Pass::Add => {
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
        Pass::Mark => {
            line!(walk.body, "add.s{bits} {mark}, {thread}, 1;");
            let base = walk.body.address(Use::Target(0), || Parameter::Target(0));
            let address = walk.body.element(base, target, mark_bytes);
            line!(walk.body, "red.global.max.u{bits} [{address}], {mark};");
        }
        Pass::Take => {
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
    body.word(match pass {
        Pass::Add => "scatter_add",
        Pass::Mark => "scatter_mark",
        Pass::Take => "scatter",
    });
    body.label("DONE");
    (body.finish(""), index.elements.div_ceil(BLOCK) * BLOCK)
}
