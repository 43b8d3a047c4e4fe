//! Transposed reads through shared memory.
//!
//! Neighbouring threads compute neighbours along the last axis. If they read an array through a
//! transposed view, their elements lie a whole row apart, and each of them costs a transaction of
//! its own. A block therefore computes a square tile of the result: it reads the tile of each
//! transposed array in the order of that array, stores it in shared memory, and reads it from there
//! in the order of the result.

use smallvec::SmallVec;

use super::{
    body::{BLOCK, KernelBody, ParameterKey, Reg, RegClass, line},
    lowering::{IndexAnalysis, Lowering},
    map::{last_axis, store, values},
    passes::GeneratedPasses,
    position::Position,
    reduce::block_and_thread,
};
use crate::{
    element::DType,
    fuse::FusedKernel,
    graph::{NodeRef, Op},
    shape::{AxisMap, RANK_MAX, Shape},
};

/// The number of elements of a tile along both axes, which a warp reads or writes at once.
pub(super) const TILE: usize = 32;
/// The distance of the lines of a tile in shared memory in elements, which avoids that the elements
/// of a column are in one bank.
const PITCH: usize = TILE + 1;
/// The number of lines of a tile that a block reads or writes at once.
const LINES: usize = BLOCK / TILE;
/// The maximum number of transposed arrays of a kernel, each of which takes shared memory.
const VIEWS_MAX: usize = 4;
/// The number of the batch of tiles in parameter keys, which no node has.
const BATCH: u64 = u64::MAX - 1;

/// The transposed views of a kernel, and the axes of its tiles.
pub(super) struct TransposedViews<'a> {
    /// The last axis of the result.
    along: usize,
    /// The axis of the result that is the last one of the views' sources.
    across: usize,
    views: SmallVec<[&'a NodeRef; VIEWS_MAX]>,
    /// The inputs that are read in the order of the result.
    inputs: SmallVec<[&'a NodeRef; 4]>,
}

impl<'a> TransposedViews<'a> {
    /// Returns the transposed views that a kernel reads at the position of its result, if there are
    /// any.
    pub(super) fn of(kernel: &'a FusedKernel) -> Option<Self> {
        let along = last_axis(&kernel.root.shape)?;
        let mut found: Option<Self> = None;
        let mut inputs: SmallVec<[&NodeRef; 4]> = SmallVec::new();
        let mut visited: SmallVec<[&NodeRef; 16]> = values(kernel).collect();
        let mut next = 0;
        while let Some(&node) = visited.get(next) {
            next += 1;
            match kernel.op(node) {
                None => inputs.push(node),
                Some(Op::Apply(_, operands)) => {
                    for operand in operands {
                        if !visited.iter().any(|known| known.id == operand.id) {
                            visited.push(operand);
                        }
                    }
                }
                Some(Op::View(source, map)) => {
                    let Some(across) = across(kernel, along, source, map) else {
                        continue;
                    };
                    let found = found.get_or_insert_with(|| Self {
                        along,
                        across,
                        views: SmallVec::new(),
                        inputs: SmallVec::new(),
                    });
                    if found.across == across && found.views.len() < VIEWS_MAX {
                        found.views.push(node);
                    }
                }
                Some(_) => {}
            }
        }
        found.map(|found| Self { inputs, ..found })
    }
}

/// Returns the axis of the result along which a view shows neighbours of its source, if that is not
/// the last one.
fn across(kernel: &FusedKernel, along: usize, source: &NodeRef, map: &AxisMap) -> Option<usize> {
    let shape = &kernel.root.shape;
    let last = last_axis(&source.shape)?;
    let across = map[last].axis?;
    let is_read = matches!(kernel.op(source), None | Some(Op::Apply(..)));
    let has_lines = (0..map.len())
        .any(|axis| axis != last && source.shape[axis] != 1 && map[axis].axis == Some(along));
    let is_large = shape[along] >= TILE && shape[across] >= TILE;
    let is_transposed = across != along && map[last].step.unsigned_abs() == 1;
    (is_read && has_lines && is_large && is_transposed).then_some(across)
}

/// A thread's place in a tile.
struct TileThread {
    /// The number within a line.
    lane: Reg,
    /// The first of its lines.
    line: Reg,
    /// The indices of the tile's first element along both axes of the result.
    first_along: Reg,
    first_across: Reg,
    /// The indices of all other axes.
    batch: SmallVec<[Option<Reg>; RANK_MAX]>,
}

/// Generates the kernel with one block for each tile.
pub(super) fn tiles(kernel: &FusedKernel, transposed: &TransposedViews<'_>) -> GeneratedPasses {
    let root = &kernel.root;
    let (along, across) = (transposed.along, transposed.across);
    let tiles_of = |axis: usize| root.shape[axis].div_ceil(TILE);
    let batches = root.elements / root.shape[along] / root.shape[across];
    let count = batches * tiles_of(along) * tiles_of(across);
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    let mut shared = String::new();
    for (number, view) in transposed.views.iter().enumerate() {
        let bytes = TILE * PITCH * tile_bytes(view.dtype);
        shared.push_str(&format!("\t.shared .align 8 .b8 tile{number}[{bytes}];\n"));
    }
    let mut lowering = Lowering::new(&mut body, kernel, false);
    let own = TileThread::new(&mut lowering, root, transposed);

    for turn in 0..TILE / LINES {
        let line_number = own.line_of_turn(lowering.body, turn);
        let indices = (
            offset(lowering.body, own.first_along, line_number),
            offset(lowering.body, own.first_across, own.lane),
        );
        let (position, _) = own.position(&mut lowering, root, transposed, indices);
        for (number, view) in transposed.views.iter().enumerate() {
            let words = lowering.body.name_parts();
            let element = lowering.lower(view, position);
            if turn > 0 {
                lowering.body.truncate_name(words);
            }
            let body = &mut *lowering.body;
            let address = tile_address(body, number, view.dtype, (line_number, own.lane));
            let word = body.as_word(element);
            let kind = word.class.move_type();
            line!(body, "st.shared.{kind} [{address}], {word};");
        }
    }
    let turns: SmallVec<[(Position, Reg, Reg); 4]> = (0..TILE / LINES)
        .map(|turn| {
            let line_number = own.line_of_turn(lowering.body, turn);
            let indices = (
                offset(lowering.body, own.first_along, own.lane),
                offset(lowering.body, own.first_across, line_number),
            );
            let (position, outside) = own.position(&mut lowering, root, transposed, indices);
            // These loads are in flight while the block waits for the tiles.
            for input in &transposed.inputs {
                lowering.lower(input, position);
            }
            (position, outside, line_number)
        })
        .collect();
    line!(lowering.body, "bar.sync 0;");
    for (turn, &(position, outside, line_number)) in turns.iter().enumerate() {
        for (number, view) in transposed.views.iter().enumerate() {
            let body = &mut *lowering.body;
            let address = tile_address(body, number, view.dtype, (own.lane, line_number));
            let element = load_shared(body, view.dtype, address);
            lowering.define(view, position, element);
        }
        let words = lowering.body.name_parts();
        let linear_index = lowering.linear_index(position);
        let elements: SmallVec<[Reg; 2]> = values(kernel)
            .map(|value| lowering.lower(value, position))
            .collect();
        if turn > 0 {
            lowering.body.truncate_name(words);
        }
        line!(lowering.body, "@{outside} bra OUTSIDE{turn};");
        for ((output, value), &element) in values(kernel).enumerate().zip(&elements) {
            store(
                lowering.body,
                (output, value.dtype),
                linear_index,
                &[element],
            );
        }
        lowering.body.label(&format!("OUTSIDE{turn}"));
    }
    GeneratedPasses::one(body.finish(&shared), count * BLOCK)
}

impl TileThread {
    fn new(lowering: &mut Lowering<'_>, root: &NodeRef, views: &TransposedViews<'_>) -> Self {
        let body = &mut *lowering.body;
        let (bits, (block, thread)) = (body.bits(), block_and_thread(body));
        let mut parameter = |name: &'static str, axis: usize| {
            let tiles = root.shape[axis].div_ceil(TILE);
            body.index_parameter(ParameterKey::Named(name), tiles as i64)
        };
        let along_tiles = parameter("tiles_along", views.along);
        let across_tiles = parameter("tiles_across", views.across);
        let (rest, first_along) = quotient_and_rest(body, block, along_tiles);
        let (batch, first_across) = quotient_and_rest(body, rest, across_tiles);
        let (lane, line) = (body.index_reg(), body.index_reg());
        let shift = TILE.trailing_zeros();
        line!(body, "and.b{bits} {lane}, {thread}, {};", TILE - 1);
        line!(body, "shr.u{bits} {line}, {thread}, {shift};");
        for first in [first_along, first_across] {
            line!(body, "shl.b{bits} {first}, {first}, {shift};");
        }
        let mut shape = Shape::from_slice(&root.shape);
        (shape[views.along], shape[views.across]) = (1, 1);
        let position = lowering.at_linear_index(BATCH, &shape, batch);
        let index = |axis: usize| (shape[axis] != 1).then(|| lowering.axis_index(position, axis));
        Self {
            lane,
            line,
            first_along,
            first_across,
            batch: (0..shape.len()).map(index).collect(),
        }
    }

    /// Returns the number of the thread's line in a turn.
    fn line_of_turn(&self, body: &mut KernelBody, turn: usize) -> Reg {
        let (bits, line) = (body.bits(), body.index_reg());
        line!(body, "add.s{bits} {line}, {}, {};", self.line, turn * LINES);
        line
    }

    /// Returns the position of the element with these indices along both axes, or of the last ones
    /// if they are outside of the result, and whether they are.
    fn position(
        &self,
        lowering: &mut Lowering<'_>,
        root: &NodeRef,
        views: &TransposedViews<'_>,
        (along, across): (Reg, Reg),
    ) -> (Position, Reg) {
        let mut axes = self.batch.clone();
        let outside = lowering.body.reg(RegClass::Predicate);
        let beyond = lowering.body.reg(RegClass::Predicate);
        for (number, (axis, index)) in [(views.along, along), (views.across, across)]
            .into_iter()
            .enumerate()
        {
            let body = &mut *lowering.body;
            let (bits, last, within) = (body.bits(), body.index_reg(), body.index_reg());
            let key = ParameterKey::Length(root.id, axis);
            let length = body.index_parameter(key, root.shape[axis] as i64);
            let beyond = if number == 0 { outside } else { beyond };
            line!(body, "setp.ge.u{bits} {beyond}, {index}, {length};");
            line!(body, "sub.s{bits} {last}, {length}, 1;");
            line!(body, "min.u{bits} {within}, {index}, {last};");
            axes[axis] = Some(within);
        }
        line!(lowering.body, "or.pred {outside}, {outside}, {beyond};");
        let position = lowering.at_indices(root.id, &root.shape, axes, None);
        (position, outside)
    }
}

/// Returns the size of an element in shared memory.
fn tile_bytes(dtype: DType) -> usize {
    dtype.bytes().max(4)
}

/// Computes the address of an element of a tile in shared memory.
fn tile_address(
    body: &mut KernelBody,
    tile: usize,
    dtype: DType,
    (line_number, lane): (Reg, Reg),
) -> Reg {
    let (bits, base, number) = (body.bits(), body.reg(RegClass::B64), body.index_reg());
    line!(body, "mov.u64 {base}, tile{tile};");
    line!(
        body,
        "mad.lo.s{bits} {number}, {line_number}, {PITCH}, {lane};"
    );
    body.element(base, number, tile_bytes(dtype))
}

fn load_shared(body: &mut KernelBody, dtype: DType, address: Reg) -> Reg {
    let class = match RegClass::of(dtype) {
        RegClass::Predicate => RegClass::B32,
        class => class,
    };
    let reg = body.reg(class);
    line!(body, "ld.shared.{} {reg}, [{address}];", class.move_type());
    if dtype == DType::Bool {
        body.is_not_zero(reg)
    } else {
        reg
    }
}

/// Computes the sum of two indices.
fn offset(body: &mut KernelBody, first: Reg, number: Reg) -> Reg {
    let (bits, sum) = (body.bits(), body.index_reg());
    line!(body, "add.s{bits} {sum}, {first}, {number};");
    sum
}

/// Computes the quotient and the rest of two indices.
fn quotient_and_rest(body: &mut KernelBody, number: Reg, divisor: Reg) -> (Reg, Reg) {
    let mut new = || body.index_reg();
    let (quotient, product, rest) = (new(), new(), new());
    let bits = body.bits();
    line!(body, "div.u{bits} {quotient}, {number}, {divisor};");
    line!(body, "mul.lo.s{bits} {product}, {quotient}, {divisor};");
    line!(body, "sub.s{bits} {rest}, {number}, {product};");
    (quotient, rest)
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array2, s};

    use crate::{Array, codegen::generate, fuse::only_kernel, graph::NodeRef};

    #[test]
    fn long_transposed_axes_are_read_through_shared_memory() {
        let device = Device::simulated().unwrap();
        let array = |shape| Array::from_host(&device, &Array2::<f32>::zeros(shape)).unwrap();
        let (x, y, narrow) = (array((64, 96)), array((96, 64)), array((64, 31)));
        let tiles = |node: &NodeRef| {
            let code = generate(&only_kernel(node));
            code.passes[0].kernel.ptx.matches(".shared .align").count()
        };
        assert_eq!(tiles((x.t() + &y).node()), 1);
        assert_eq!(tiles((x.t() + (&x * 2.0).t()).node()), 2);
        assert_eq!(tiles((&x + &x.slice(s![.., ..;-1])).node()), 0);
        assert_eq!(tiles((narrow.t() * 2.0).node()), 0);
        // A column for each element of a row is no transposed array.
        assert_eq!(
            tiles((&x + &x.column(3).insert_axis(ndarray::Axis(1))).node()),
            0
        );
    }
}
