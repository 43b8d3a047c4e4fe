//! Lowering of graph nodes: computes the register that holds a node's element at a position.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    element::{DType, Scalar},
    emit::{
        body::{
            KernelBody, KernelParameter, ParameterKey, Reg, RegClass, elementwise, line, value,
        },
        lower::{
            position::{Indices, Position, PositionInfo},
            row_nodes::RowNodes,
        },
    },
    error::{INDEX_MAX, INDEX_MIN},
    expr::{Function, NodeRef, Op},
    plan::{FusedKernel, KernelOutput},
    shape::Shape,
};

/// The registers of neighbours.
type Neighbours = SmallVec<[Reg; 4]>;

/// The registers that a lowering has computed so far.
#[derive(Clone, Default)]
pub(crate) struct RegisterCache {
    pub(crate) positions: Vec<PositionInfo>,
    /// The positions that views map to, by view and position.
    pub(crate) views: FxHashMap<(u64, Position), Position>,
    /// The positions with the same linear index in another shape, by shape and position.
    pub(crate) reshaped: FxHashMap<(Shape, Position), Position>,
    /// The elements that are in registers.
    values: FxHashMap<(u64, Position), Reg>,
    /// The addresses of elements of nodes at linear indices to which others add a constant.
    addresses: FxHashMap<(u64, Reg), Reg>,
    /// The positions in sources of views, by source and indices.
    pub(crate) mapped: FxHashMap<(u64, Indices), Position>,
    /// The index to which views with a step and a start map another.
    pub(crate) mapped_indices: FxHashMap<(Reg, isize, usize), Reg>,
    /// The index and the constant of which an index is the sum.
    pub(crate) origins: FxHashMap<Reg, (Reg, usize)>,
    /// The vectors that are in registers, by node, indices along all axes but the last, and that
    /// along it as a sum.
    vectors: FxHashMap<(u64, Indices, Reg, usize), Neighbours>,
    /// The linear indices in front of a constant index along the last axis, by source and the
    /// indices along the others.
    pub(crate) fronts: FxHashMap<(u64, Indices), Reg>,
    /// The indices that were read, each checked once.
    checked: FxHashMap<(u64, Reg), Reg>,
}

/// The lowering of one kernel's nodes.
pub(crate) struct Lowering<'a> {
    pub(crate) body: &'a mut KernelBody,
    pub(crate) kernel: &'a FusedKernel,
    pub(crate) cache: RegisterCache,
    /// True if every node has its elements at the root's linear indices, or has only one element.
    pub(crate) flat: bool,
    /// The number of neighbours that are computed together.
    pub(crate) lanes: usize,
    /// The position of the only element of an array.
    pub(crate) scalar_position: Option<Position>,
    /// The nodes of a row kernel that have one element for each row.
    pub(crate) row_nodes: Option<RowNodes>,
    /// The update that replaces all elements of the group that is computed.
    pub(crate) replaced: Option<u64>,
    /// A node that is read at the root's linear index alone, and the register with its element.
    pub(crate) given: Option<(u64, Reg)>,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(body: &'a mut KernelBody, kernel: &'a FusedKernel, flat: bool) -> Self {
        Self {
            body,
            kernel,
            cache: RegisterCache::default(),
            flat,
            lanes: 1,
            scalar_position: None,
            row_nodes: None,
            replaced: None,
            given: None,
        }
    }

    /// Returns the register of a node's element at a position, computed at first use.
    pub(crate) fn lower(&mut self, node: &NodeRef, position: Position) -> Reg {
        if let Some((_, element)) = self.given.filter(|&(id, _)| id == node.id) {
            return element;
        }
        let position = self.row_position_of(node).unwrap_or(position);
        if let Some(&known) = self.cache.values.get(&(node.id, position)) {
            return known;
        }
        let reg = match self.kernel.op(node) {
            None => self.load(node, position),
            Some(op) => self.lower_op(node, op, position),
        };
        self.cache.values.insert((node.id, position), reg);
        reg
    }

    /// As [`lower`](Self::lower), in one of several turns that repeat the operations of the first:
    /// only that one adds to the kernel's name.
    pub(crate) fn lower_in_turn(&mut self, node: &NodeRef, position: Position, turn: usize) -> Reg {
        let words = self.body.name_parts();
        let element = self.lower(node, position);
        if turn > 0 {
            self.body.truncate_name(words);
        }
        element
    }

    /// Computes the elements of all outputs at a position, which has this linear index, and stores
    /// each in its place.
    pub(crate) fn store_values(&mut self, position: Position, number: Reg) {
        let kernel = self.kernel;
        for (number_of_output, KernelOutput { value, slot, .. }) in
            kernel.outputs.iter().enumerate()
        {
            let element = self.lower(value, position);
            let number = self.destination(number_of_output, position, number);
            self.body
                .store_output((*slot, value.dtype), number, &[element]);
        }
    }

    /// Declares that a register holds a node's element at a position.
    pub(crate) fn define(&mut self, node: &NodeRef, position: Position, element: Reg) {
        self.cache.values.insert((node.id, position), element);
        if node.elements == 1 {
            // Views of a single element look it up at this position.
            let scalar_position = self.scalar_position();
            self.cache
                .values
                .insert((node.id, scalar_position), element);
        }
    }

    fn lower_op(&mut self, node: &NodeRef, op: &Op, position: Position) -> Reg {
        match op {
            Op::Constant(value) => {
                let passed = self.body.constant(node.id, *value);
                match value.dtype() {
                    DType::Bool => self.body.is_not_zero(passed),
                    _ => passed,
                }
            }
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
                    // The first operand of a selection is the condition.
                    Function::Select => operands[1].dtype,
                    // The operands of random functions are seed and linear index.
                    Function::Maths(function) if function.is_random() => node.dtype,
                    _ => operands[0].dtype,
                };
                self.body.name_part(function.name());
                elementwise::apply(self.body, *function, dtype, node.dtype, &values)
            }
            // The element of the row, for each of its elements.
            Op::View(source, _) | Op::Reshape(source) if self.is_row_node(source) => {
                self.lower(source, position)
            }
            Op::View(source, map) => {
                let seen = self.source_position(node.id, position, map, (source.id, &source.shape));
                self.lower(source, seen)
            }
            Op::Reshape(source) => {
                let seen = match self.cache.views.get(&(node.id, position)) {
                    Some(&seen) => seen,
                    None => self.reshaped(source.id, position, &source.shape),
                };
                self.cache.views.insert((node.id, position), seen);
                self.lower(source, seen)
            }
            Op::Gather {
                source,
                index,
                axis,
                is_checked,
            } => {
                let index = self.lower(index, position);
                let chosen = match is_checked {
                    true => self.checked_index(node, index, *axis, source.shape[*axis]),
                    false => self.known_index(index),
                };
                let seen = self.with_axis_index(source.id, position, *axis, chosen, &source.shape);
                self.body.name_part("gather");
                self.lower(source, seen)
            }
            Op::Update { base, map, value } => {
                self.body.name_part("update");
                if self.replaced == Some(node.id) {
                    let seen = self.value_position(node, position, map, value);
                    return self.lower(value, seen);
                }
                let (is_replaced, seen) = self.updated(node, position, map, value);
                let new = self.lower(value, seen);
                let Some(is_replaced) = is_replaced else {
                    return new;
                };
                let old = self.lower(base, position);
                let values = [is_replaced, new, old];
                elementwise::apply(self.body, Function::Select, node.dtype, node.dtype, &values)
            }
            Op::Concatenate { parts, axis } => self.joined(node, position, parts, *axis),
            Op::Reduce {
                reduction,
                source,
                axes,
            } => self.nested(node, *reduction, (source, axes), position),
            Op::MatrixProduct(..)
            | Op::Attention(_)
            | Op::Scatter { .. }
            | Op::Scan { .. }
            | Op::Sort(..)
            | Op::Search { .. } => {
                unreachable!("planning stores the results of these operations")
            }
        }
    }

    /// Loads an element of an input; of a group of positions, all elements at once.
    fn load(&mut self, node: &NodeRef, position: Position) -> Reg {
        let base = if self.kernel.overwrites == Some(node.id) {
            self.body.output(0)
        } else {
            self.body.input(node)
        };
        if node.elements == 1 {
            return self.body.load(node.dtype, base, 1)[0];
        }
        let PositionInfo { group, residue, .. } = self.cache.positions[position.0];
        let (Some((first, lane)), Some(residue)) = (group, residue) else {
            let address = self.address(node, base, position);
            return self.body.load(node.dtype, address, 1)[0];
        };
        let mut loaded = self.vector(node, base, first, (residue, 0));
        if residue > 0 {
            // The group lies in two vectors. Each contains an element of it, and so is within the
            // row. No kernel with groups overwrites its input, so that no thread writes the others.
            debug_assert!(self.kernel.overwrites.is_none(), "an update has no groups");
            loaded.extend(self.vector(node, base, first, (residue, self.lanes)));
            loaded = loaded[residue..residue + self.lanes].into();
        }
        for (other, &reg) in loaded.iter().enumerate() {
            self.cache
                .values
                .insert((node.id, Position(first.0 + other)), reg);
        }
        loaded[lane]
    }

    /// Loads the vector that begins so many elements in front of the first of a group, or one that
    /// follows it. Views that are shifted along the last axis often need the same.
    fn vector(
        &mut self,
        node: &NodeRef,
        base: Reg,
        first: Position,
        (front, behind): (usize, usize),
    ) -> Neighbours {
        let key = self.along_last(first).and_then(|(others, index, start)| {
            Some((node.id, others, index, (start + behind).checked_sub(front)?))
        });
        if let Some(known) = key.as_ref().and_then(|key| self.cache.vectors.get(key)) {
            return known.clone();
        }
        let bytes = node.dtype.bytes();
        let mut address = self.address(node, base, first);
        if front != behind {
            let offset = behind as isize - front as isize;
            address = value!(self.body, B64; "add.s64 {address}, {}", offset * bytes as isize);
        }
        let loaded = self.body.load(node.dtype, address, self.lanes);
        if let Some(key) = key {
            self.cache.vectors.insert(key, loaded.clone());
        }
        loaded
    }

    /// Computes the address of an element of an array. A constant is added to the address, so that
    /// it is part of the instruction that loads, and not to the linear index, which could wrap.
    fn address(&mut self, node: &NodeRef, base: Reg, position: Position) -> Reg {
        let bytes = node.dtype.bytes();
        let offset = self.cache.positions[position.0].offset;
        let Some((index, constant)) = offset.or_else(|| self.behind_front(position)) else {
            let number = self.linear_index(position);
            return self.body.element(base, number, bytes);
        };
        let first = match self.cache.addresses.get(&(node.id, index)) {
            Some(&known) => known,
            None => self.body.element(base, index, bytes),
        };
        self.cache.addresses.insert((node.id, index), first);
        self.body.address_behind(first, constant * bytes)
    }

    /// Converts an index that is known to be within bounds.
    pub(crate) fn known_index(&mut self, index: Reg) -> Reg {
        match (index.class, self.body.wide) {
            (RegClass::B64, false) => value!(self.body, B32; "cvt.u32.u64 {index}"),
            (RegClass::B32, true) => value!(self.body, B64; "cvt.s64.s32 {index}"),
            _ => index,
        }
    }

    /// Checks an index that was read. Out of bounds, returns 0 and raises the flag.
    pub(crate) fn checked_index(
        &mut self,
        node: &NodeRef,
        index: Reg,
        axis: usize,
        length: usize,
    ) -> Reg {
        if let Some(&checked) = self.cache.checked.get(&(node.id, index)) {
            return checked;
        }
        let checked = self.check_index(node, index, axis, length);
        self.cache.checked.insert((node.id, index), checked);
        checked
    }

    fn check_index(&mut self, node: &NodeRef, index: Reg, axis: usize, length: usize) -> Reg {
        let code = self.body.check_code(node, axis, length);
        let key = ParameterKey::CheckedLength(node.id);
        let length = self.body.scalar(key, Scalar::I64(length as i64));
        let (index, reported) = match index.class {
            RegClass::B64 => {
                let reported = value!(self.body, B64; "max.s64 {index}, {INDEX_MIN}");
                line!(self.body; "min.s64 {reported}, {reported}, {INDEX_MAX};");
                (index, reported)
            }
            _ => {
                let index = value!(self.body, B64; "cvt.s64.s32 {index}");
                (index, index)
            }
        };
        let (wrong, checked) = (self.body.predicate(), self.body.reg(RegClass::B64));
        // As an unsigned number, a negative index is larger than every length.
        line!(self.body; "setp.ge.u64 {wrong}, {index}, {length};");
        let flag = (self.body).address(ParameterKey::Flag, KernelParameter::Flag);
        let word = value!(self.body, B64; "add.s64 {reported}, {code}");
        line!(self.body; "@{wrong} red.global.max.u64 [{flag}], {word};");
        line!(self.body; "selp.b64 {checked}, 0, {index}, {wrong};");
        if self.body.wide {
            return checked;
        }
        value!(self.body, B32; "cvt.u32.u64 {checked}")
    }
}
