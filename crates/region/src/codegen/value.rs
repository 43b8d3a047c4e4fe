//! The walk: from a node and a place to the register with the node's element there.

use rustc_hash::FxHashMap;

use super::{
    apply,
    body::{Body, Class, Parameter, Reg, Use, line},
    index::{Indices, Place},
};
use crate::{
    element::{DType, Scalar},
    fuse::FusedKernel,
    graph::{Function, NodeRef, Op},
    shape::preserves_linear_index,
};

/// What is known of all nodes of a kernel before its first instruction.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Whether indices need 64 bits.
    pub(super) wide: bool,
    /// Whether all nodes' elements up to the root have the numbers of the root's, or there is only
    /// one.
    pub(super) flat: bool,
}

/// The most elements for which 32 bits suffice, with the threads of the last block counted.
const NARROW_MAX: usize = (i32::MAX as usize) - 4096;

impl Extent {
    /// How large indices get in a kernel, and whether all nodes have the same.
    pub(super) fn of(kernel: &FusedKernel) -> Self {
        let calculated = kernel.nodes.iter().map(|fused| &fused.node);
        let written = kernel.outputs.iter().map(|output| &output.target);
        let mut nodes = calculated.chain(&kernel.inputs).chain(written);
        Self {
            wide: nodes.any(|node| node.elements > NARROW_MAX),
            flat: kernel.nodes.iter().all(|fused| match &*fused.op {
                Op::View(source, map) => {
                    source.elements == 1
                        || preserves_linear_index(&fused.node.shape, map, &source.shape)
                }
                Op::Gather { .. } => false,
                _ => true,
            }),
        }
    }
}

/// The walk over the nodes of one kernel.
pub(super) struct Walk<'a> {
    pub(super) body: &'a mut Body,
    kernel: &'a FusedKernel,
    pub(super) places: Vec<Indices>,
    /// Places behind views, by the view and the place in front of it.
    pub(super) views: FxHashMap<(u64, Place), Place>,
    /// Whether all nodes' elements have the numbers of the root's, or there is only one.
    pub(super) flat: bool,
    /// Places of other shapes with the same numbers, by the node of that shape and the place.
    pub(super) renumbered: FxHashMap<(u64, Place), Place>,
    /// How many neighbours are calculated together.
    pub(super) lanes: usize,
    /// The only place of arrays of one element.
    pub(super) single: Option<Place>,
    /// Elements that are in registers.
    values: FxHashMap<(u64, Place), Reg>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(body: &'a mut Body, kernel: &'a FusedKernel, flat: bool) -> Self {
        Self {
            body,
            kernel,
            places: Vec::new(),
            views: FxHashMap::default(),
            flat,
            renumbered: FxHashMap::default(),
            lanes: 1,
            single: None,
            values: FxHashMap::default(),
        }
    }

    /// The register with the node's element at a place.
    pub(super) fn value(&mut self, node: &NodeRef, place: Place) -> Reg {
        if let Some(&known) = self.values.get(&(node.id, place)) {
            return known;
        }
        let reg = match self.kernel.op(node) {
            None => self.load(node, place),
            Some(op) => self.calculate(node, op, place),
        };
        self.values.insert((node.id, place), reg);
        reg
    }

    /// The register that has the node's element at a place already.
    pub(super) fn know(&mut self, node: &NodeRef, place: Place, element: Reg) {
        self.values.insert((node.id, place), element);
        if node.elements == 1 {
            // Views of one element see it there.
            let single = self.only_place();
            self.values.insert((node.id, single), element);
        }
    }

    fn calculate(&mut self, node: &NodeRef, op: &Op, place: Place) -> Reg {
        match op {
            Op::Constant(value) => self.constant(node.id, *value),
            Op::Iota => {
                let number = self.number(place);
                self.body.index_as_i64(number)
            }
            Op::Apply(function, operands) => {
                let values: Vec<_> = operands
                    .iter()
                    .map(|operand| self.value(operand, place))
                    .collect();
                let dtype = match function {
                    // The first operand chooses, from the others.
                    Function::Select => operands[1].dtype,
                    // Of the random functions, the operands are seed and number.
                    Function::Maths(function) if function.is_random() => node.dtype,
                    _ => operands[0].dtype,
                };
                self.body.word(function.word());
                apply::apply(self.body, *function, dtype, node.dtype, &values)
            }
            Op::View(source, map) => {
                let seen = self.through(node.id, place, map, (source.id, &source.shape));
                self.value(source, seen)
            }
            Op::Reshape(source) => {
                let seen = match self.views.get(&(node.id, place)) {
                    Some(&seen) => seen,
                    None => self.renumbered(source.id, place, &source.shape),
                };
                self.views.insert((node.id, place), seen);
                self.value(source, seen)
            }
            Op::Gather {
                source,
                index,
                axis,
            } => {
                let index = self.value(index, place);
                let chosen = self.checked_index(node, index, *axis, source.shape[*axis]);
                let seen = self.with_axis(source.id, place, *axis, chosen, &source.shape);
                self.body.word("gather");
                self.value(source, seen)
            }
            Op::Reduce { .. }
            | Op::Product(..)
            | Op::Join { .. }
            | Op::Update { .. }
            | Op::Scatter { .. }
            | Op::Accumulate { .. } => unreachable!("the plan stores these before they are used"),
        }
    }

    /// The register with a constant.
    fn constant(&mut self, node: u64, value: Scalar) -> Reg {
        let passed = self.body.constant(node, value);
        if value.dtype() != DType::Bool {
            return passed;
        }
        let truth = self.body.reg(Class::Predicate);
        line!(self.body, "setp.ne.u32 {truth}, {passed}, 0;");
        truth
    }

    /// The element that is in memory. Of neighbours, all are loaded at once.
    fn load(&mut self, node: &NodeRef, place: Place) -> Reg {
        let base = self.body.address(Use::Elements(node.id), || {
            Parameter::Elements(NodeRef::clone(node))
        });
        if node.elements == 1 {
            return self.body.load(node.dtype, base, 1)[0];
        }
        let bytes = node.dtype.bytes();
        let Some((first, lane)) = self.places[place.0].group else {
            let number = self.number(place);
            let address = self.body.element(base, number, bytes);
            return self.body.load(node.dtype, address, 1)[0];
        };
        let number = self.number(first);
        let address = self.body.element(base, number, bytes);
        let loaded = self.body.load(node.dtype, address, self.lanes);
        for (other, &reg) in loaded.iter().enumerate() {
            self.values.insert((node.id, Place(first.0 + other)), reg);
        }
        loaded[lane]
    }

    /// An index that was read from an array, or 0 if it is none of an axis of this length, which is
    /// noted.
    pub(super) fn checked_index(
        &mut self,
        node: &NodeRef,
        index: Reg,
        axis: usize,
        length: usize,
    ) -> Reg {
        let code = self.body.check(node, axis, length);
        let length = self
            .body
            .scalar(Use::CheckedLength(node.id), Scalar::I64(length as i64));
        let index = match index.class {
            Class::B64 => index,
            _ => {
                let wide = self.body.reg(Class::B64);
                line!(self.body, "cvt.s64.s32 {wide}, {index};");
                wide
            }
        };
        let (wrong, checked) = (self.body.reg(Class::Predicate), self.body.reg(Class::B64));
        // As an unsigned number, a negative one is larger than every length.
        line!(self.body, "setp.ge.u64 {wrong}, {index}, {length};");
        let flag = self.body.address(Use::Flag, || Parameter::Flag);
        line!(self.body, "@{wrong} red.global.max.u32 [{flag}], {code};");
        line!(self.body, "selp.b64 {checked}, 0, {index}, {wrong};");
        if self.body.wide {
            return checked;
        }
        let narrow = self.body.reg(Class::B32);
        line!(self.body, "cvt.u32.u64 {narrow}, {checked};");
        narrow
    }
}
