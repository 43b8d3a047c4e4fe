//! The walk: from a node and a place to the register with the node's element there.

use rustc_hash::FxHashMap;

use super::{
    body::{KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line},
    elementwise,
    position::{Position, PositionInfo},
};
use crate::{
    element::{DType, Scalar},
    fuse::FusedKernel,
    graph::{Function, NodeRef, Op},
    shape::preserves_linear_index,
};

/// What is known of all nodes of a kernel before its first instruction.
#[derive(Clone, Copy)]
pub(super) struct IndexAnalysis {
    /// Whether indices need 64 bits.
    pub(super) wide: bool,
    /// Whether all nodes' elements up to the root have the numbers of the root's, or there is only
    /// one.
    pub(super) flat: bool,
}

/// The most elements for which 32 bits suffice, with the threads of the last block counted.
const ELEMENTS_32_MAX: usize = (i32::MAX as usize) - 4096;

impl IndexAnalysis {
    /// How large indices get in a kernel, and whether all nodes have the same.
    pub(super) fn of(kernel: &FusedKernel) -> Self {
        let calculated = kernel.nodes.iter().map(|fused| &fused.node);
        let written = kernel.outputs.iter().map(|output| &output.target);
        let mut nodes = calculated.chain(&kernel.inputs).chain(written);
        Self {
            wide: nodes.any(|node| node.elements > ELEMENTS_32_MAX),
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
pub(super) struct Lowering<'a> {
    pub(super) body: &'a mut KernelBody,
    kernel: &'a FusedKernel,
    pub(super) positions: Vec<PositionInfo>,
    /// Places behind views, by the view and the place in front of it.
    pub(super) views: FxHashMap<(u64, Position), Position>,
    /// Whether all nodes' elements have the numbers of the root's, or there is only one.
    pub(super) flat: bool,
    /// Places of other shapes with the same numbers, by the node of that shape and the place.
    pub(super) reshaped: FxHashMap<(u64, Position), Position>,
    /// How many neighbours are calculated together.
    pub(super) lanes: usize,
    /// The only place of arrays of one element.
    pub(super) scalar_position: Option<Position>,
    /// Elements that are in registers.
    values: FxHashMap<(u64, Position), Reg>,
}

impl<'a> Lowering<'a> {
    pub(super) fn new(body: &'a mut KernelBody, kernel: &'a FusedKernel, flat: bool) -> Self {
        Self {
            body,
            kernel,
            positions: Vec::new(),
            views: FxHashMap::default(),
            flat,
            reshaped: FxHashMap::default(),
            lanes: 1,
            scalar_position: None,
            values: FxHashMap::default(),
        }
    }

    /// The register with the node's element at a place.
    pub(super) fn lower(&mut self, node: &NodeRef, position: Position) -> Reg {
        if let Some(&known) = self.values.get(&(node.id, position)) {
            return known;
        }
        let reg = match self.kernel.op(node) {
            None => self.load(node, position),
            Some(op) => self.lower_op(node, op, position),
        };
        self.values.insert((node.id, position), reg);
        reg
    }

    /// The register that has the node's element at a place already.
    pub(super) fn define(&mut self, node: &NodeRef, position: Position, element: Reg) {
        self.values.insert((node.id, position), element);
        if node.elements == 1 {
            // Views of one element see it there.
            let scalar_position = self.scalar_position();
            self.values.insert((node.id, scalar_position), element);
        }
    }

    fn lower_op(&mut self, node: &NodeRef, op: &Op, position: Position) -> Reg {
        match op {
            Op::Constant(value) => self.constant(node.id, *value),
            Op::Iota => {
                let number = self.linear_index(position);
                self.body.index_as_i64(number)
            }
            Op::Apply(function, operands) => {
                let values: Vec<_> = operands
                    .iter()
                    .map(|operand| self.lower(operand, position))
                    .collect();
                let dtype = match function {
                    // The first operand chooses, from the others.
                    Function::Select => operands[1].dtype,
                    // Of the random functions, the operands are seed and number.
                    Function::Maths(function) if function.is_random() => node.dtype,
                    _ => operands[0].dtype,
                };
                self.body.name_part(function.name());
                elementwise::apply(self.body, *function, dtype, node.dtype, &values)
            }
            Op::View(source, map) => {
                let seen = self.source_position(node.id, position, map, (source.id, &source.shape));
                self.lower(source, seen)
            }
            Op::Reshape(source) => {
                let seen = match self.views.get(&(node.id, position)) {
                    Some(&seen) => seen,
                    None => self.reshaped(source.id, position, &source.shape),
                };
                self.views.insert((node.id, position), seen);
                self.lower(source, seen)
            }
            Op::Gather {
                source,
                index,
                axis,
            } => {
                let index = self.lower(index, position);
                let chosen = self.checked_index(node, index, *axis, source.shape[*axis]);
                let seen = self.with_axis_index(source.id, position, *axis, chosen, &source.shape);
                self.body.name_part("gather");
                self.lower(source, seen)
            }
            Op::Reduce { .. }
            | Op::MatrixProduct(..)
            | Op::Concatenate { .. }
            | Op::Update { .. }
            | Op::Scatter { .. }
            | Op::Scan { .. } => unreachable!("the plan stores these before they are used"),
        }
    }

    /// The register with a constant.
    fn constant(&mut self, node: u64, value: Scalar) -> Reg {
        let passed = self.body.constant(node, value);
        if value.dtype() != DType::Bool {
            return passed;
        }
        let truth = self.body.reg(RegClass::Predicate);
        line!(self.body, "setp.ne.u32 {truth}, {passed}, 0;");
        truth
    }

    /// The element that is in memory. Of neighbours, all are loaded at once.
    fn load(&mut self, node: &NodeRef, position: Position) -> Reg {
        let base = self.body.address(ParameterKey::Input(node.id), || {
            KernelParameter::Input(NodeRef::clone(node))
        });
        if node.elements == 1 {
            return self.body.load(node.dtype, base, 1)[0];
        }
        let bytes = node.dtype.bytes();
        let Some((first, lane)) = self.positions[position.0].group else {
            let number = self.linear_index(position);
            let address = self.body.element(base, number, bytes);
            return self.body.load(node.dtype, address, 1)[0];
        };
        let number = self.linear_index(first);
        let address = self.body.element(base, number, bytes);
        let loaded = self.body.load(node.dtype, address, self.lanes);
        for (other, &reg) in loaded.iter().enumerate() {
            self.values
                .insert((node.id, Position(first.0 + other)), reg);
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
        let code = self.body.check_code(node, axis, length);
        let length = self.body.scalar(
            ParameterKey::CheckedLength(node.id),
            Scalar::I64(length as i64),
        );
        let index = match index.class {
            RegClass::B64 => index,
            _ => {
                let wide = self.body.reg(RegClass::B64);
                line!(self.body, "cvt.s64.s32 {wide}, {index};");
                wide
            }
        };
        let (wrong, checked) = (
            self.body.reg(RegClass::Predicate),
            self.body.reg(RegClass::B64),
        );
        // As an unsigned number, a negative one is larger than every length.
        line!(self.body, "setp.ge.u64 {wrong}, {index}, {length};");
        let flag = self
            .body
            .address(ParameterKey::Flag, || KernelParameter::Flag);
        line!(self.body, "@{wrong} red.global.max.u32 [{flag}], {code};");
        line!(self.body, "selp.b64 {checked}, 0, {index}, {wrong};");
        if self.body.wide {
            return checked;
        }
        let narrow = self.body.reg(RegClass::B32);
        line!(self.body, "cvt.u32.u64 {narrow}, {checked};");
        narrow
    }
}
