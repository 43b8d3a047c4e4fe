//! Tiles of a result, computed by one block each, and arrays in shared memory.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::{
        body::{KernelBody, ParameterKey, Reg, RegClass, line, test, value},
        lower::{Lowering, Position},
    },
    expr::NodeRef,
    plan::TileAxes,
    shape::{RANK_MAX, Shape},
};

/// The number of the batch of tiles in parameter keys, which no node has.
const BATCH: u64 = u64::MAX - 1;

pub(crate) struct BlockTile {
    /// The indices of the tile's first element along both axes of the result.
    pub(crate) first_along: Reg,
    pub(crate) first_across: Option<Reg>,
    /// The indices of all other axes.
    pub(crate) batch: SmallVec<[Option<Reg>; RANK_MAX]>,
}

impl TileAxes {
    /// Computes which tile of the result a block computes.
    pub(crate) fn of_block(
        self,
        lowering: &mut Lowering<'_>,
        root: &NodeRef,
        block: Reg,
    ) -> BlockTile {
        let body = &mut *lowering.body;
        let mut first = |name: &'static str, (axis, size): (usize, usize), block: Reg| {
            let tiles = root.shape[axis].div_ceil(size);
            let tiles = body.named(name, tiles);
            let (rest, first) = body.quotient_and_rest(block, tiles);
            let shift = size.trailing_zeros();
            line!(body; "shl.b# {first}, {first}, {shift};");
            (rest, first)
        };
        let (rest, first_along) = first("tiles_along", self.along, block);
        let (batch, first_across) = match self.across {
            None => (rest, None),
            Some(across) => {
                let (batch, first_across) = first("tiles_across", across, rest);
                (batch, Some(first_across))
            }
        };
        let mut shape = Shape::from_slice(&root.shape);
        self.each().for_each(|(axis, _)| shape[axis] = 1);
        let position = lowering.at_linear_index(BATCH, &shape, batch);
        let index = |axis: usize| (shape[axis] != 1).then(|| lowering.axis_index(position, axis));
        BlockTile {
            first_along,
            first_across,
            batch: (0..shape.len()).map(index).collect(),
        }
    }

    /// Returns the position of the element of the result with these indices along both axes, or of
    /// the last ones if they are outside of the result, and whether they are.
    pub(crate) fn position(
        self,
        lowering: &mut Lowering<'_>,
        root: &NodeRef,
        tile: &BlockTile,
        (along, across): (Reg, Option<Reg>),
    ) -> (Position, Reg) {
        let mut axes = tile.batch.clone();
        let body = &mut *lowering.body;
        axes[self.along.0] = Some(clamped(body, root, self.along.0, along));
        let outside = is_beyond(body, root, self.along.0, along);
        if let (Some((axis, _)), Some(across)) = (self.across, across) {
            axes[axis] = Some(clamped(body, root, axis, across));
            let beyond = is_beyond(body, root, axis, across);
            line!(body; "or.pred {outside}, {outside}, {beyond};");
        }
        let position = lowering.at_indices(root.id, &root.shape, axes, None);
        (position, outside)
    }
}

/// Computes all outputs at a position, and stores them if it is inside the result.
pub(crate) fn store_inside(
    lowering: &mut Lowering<'_>,
    (turn, position, outside): (usize, Position, Reg),
) {
    let kernel = lowering.kernel;
    let linear_index = lowering.linear_index(position);
    let element = |value| lowering.lower_in_turn(value, position, turn);
    let elements: SmallVec<[Reg; 2]> = kernel.values().map(element).collect();
    let body = &mut *lowering.body;
    line!(body; "@{outside} bra OUTSIDE{turn};");
    for ((output, value), element) in kernel.values().enumerate().zip(elements) {
        body.store_output((output, value.dtype), linear_index, &[element]);
    }
    body.label(&format!("OUTSIDE{turn}"));
}

/// Computes the minimum of an index and the last one along an axis.
pub(crate) fn clamped(body: &mut KernelBody, node: &NodeRef, axis: usize, index: Reg) -> Reg {
    let [last, within] = body.index_regs();
    let length = length(body, node, axis);
    line!(body; "sub.s# {last}, {length}, 1;");
    line!(body; "min.u# {within}, {index}, {last};");
    within
}

/// Computes whether an index is beyond the end of an axis.
fn is_beyond(body: &mut KernelBody, node: &NodeRef, axis: usize, index: Reg) -> Reg {
    let length = length(body, node, axis);
    test!(body; "ge.u# {index}, {length}")
}

fn length(body: &mut KernelBody, node: &NodeRef, axis: usize) -> Reg {
    body.index_parameter(ParameterKey::Length(node.id, axis), node.shape[axis] as i64)
}

/// Returns the size of an element in shared memory.
pub(crate) fn shared_bytes(dtype: DType) -> usize {
    dtype.bytes().max(4)
}

/// Computes the address of an element of an array in shared memory.
pub(crate) fn shared_address(
    body: &mut KernelBody,
    array: usize,
    dtype: DType,
    number: Reg,
) -> Reg {
    let base = value!(body, B64; "mov.u64 tile{array}");
    body.element(base, number, shared_bytes(dtype))
}

pub(crate) fn declare_shared(shared: &mut String, array: usize, dtype: DType, elements: usize) {
    let bytes = elements * shared_bytes(dtype);
    shared.push_str(&format!("\t.shared .align 8 .b8 tile{array}[{bytes}];\n"));
}

pub(crate) fn store_shared(body: &mut KernelBody, address: Reg, behind: usize, element: Reg) {
    let word = body.as_word(element);
    let kind = word.class.move_type();
    line!(body; "st.shared.{kind} [{address}+{behind}], {word};");
}

/// Loads an element at an offset from an address in shared memory.
pub(crate) fn load_shared(body: &mut KernelBody, dtype: DType, address: Reg, behind: usize) -> Reg {
    let class = RegClass::of(dtype).word();
    let (reg, kind) = (body.reg(class), class.move_type());
    line!(body; "ld.shared.{kind} {reg}, [{address}+{behind}];");
    if dtype == DType::Bool {
        body.is_not_zero(reg)
    } else {
        reg
    }
}
