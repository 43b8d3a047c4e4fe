//! Transposed reads through shared memory.
//!
//! Through a transposed view, neighbouring threads would read elements that lie a whole row apart.
//! A block therefore computes a square tile of the result: it reads the tile of each transposed
//! array in the order of that array into shared memory, and from there in the order of the result.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::{
        body::{BLOCK, KernelBody, Reg, index, line},
        lower::{Lowering, Position},
        map::tile::{
            BlockTile, declare_shared, load_shared, shared_address, store_inside, store_shared,
        },
        passes::GeneratedPasses,
    },
    expr::NodeRef,
    plan::{FusedKernel, IndexAnalysis, TileAxes},
    schedule::{TransposedViews, machine::TILE},
};

/// The distance of a tile's lines in elements, which puts those of a column in several banks.
const PITCH: usize = TILE + 1;
/// The number of lines of a tile that a block reads or writes at once.
const LINES: usize = BLOCK / TILE;
/// A thread's place in a tile.
struct TileThread {
    /// The number within a line.
    lane: Reg,
    /// The first of its lines.
    line: Reg,
    tile: BlockTile,
}

pub(crate) fn tiles(kernel: &FusedKernel) -> GeneratedPasses {
    let root = &kernel.root;
    let transposed = TransposedViews::of(kernel).expect("the kernel reads transposed views");
    let axes = TileAxes {
        along: (transposed.along, TILE),
        across: Some((transposed.across, TILE)),
    };
    let count = axes.tiles(&root.shape);
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    let mut shared = String::new();
    for (number, view) in transposed.views.iter().enumerate() {
        declare_shared(&mut shared, number, view.dtype, TILE * PITCH);
    }
    let mut lowering = Lowering::new(&mut body, kernel, false);
    let own = TileThread::new(&mut lowering, root, axes);

    for turn in 0..TILE / LINES {
        let line_number = own.line_of_turn(lowering.body, turn);
        let indices = own.indices(lowering.body, line_number, own.lane);
        let (position, _) = axes.position(&mut lowering, root, &own.tile, indices);
        for (number, view) in transposed.views.iter().enumerate() {
            let element = lowering.lower_in_turn(view, position, turn);
            let body = &mut *lowering.body;
            let address = tile_address(body, number, view.dtype, (line_number, own.lane));
            store_shared(body, address, 0, element);
        }
    }
    let inputs = kernel.arrays_of(kernel.values());
    let turns: SmallVec<[(Position, Reg, Reg); 4]> = (0..TILE / LINES)
        .map(|turn| {
            let line_number = own.line_of_turn(lowering.body, turn);
            let indices = own.indices(lowering.body, own.lane, line_number);
            let (position, outside) = axes.position(&mut lowering, root, &own.tile, indices);
            // These loads are in flight while the block waits for the tiles.
            for input in &inputs {
                lowering.lower(input, position);
            }
            (position, outside, line_number)
        })
        .collect();
    line!(lowering.body; "bar.sync 0;");
    for (turn, &(position, outside, line_number)) in turns.iter().enumerate() {
        for (number, view) in transposed.views.iter().enumerate() {
            let body = &mut *lowering.body;
            let address = tile_address(body, number, view.dtype, (own.lane, line_number));
            let element = load_shared(body, view.dtype, address, 0);
            lowering.define(view, position, element);
        }
        store_inside(&mut lowering, (turn, position, outside));
    }
    GeneratedPasses::one(body.finish(&shared), count * BLOCK)
}

impl TileThread {
    fn new(lowering: &mut Lowering<'_>, root: &NodeRef, axes: TileAxes) -> Self {
        let body = &mut *lowering.body;
        let (block, thread) = body.block_and_thread();
        let [lane, line] = body.index_regs();
        let shift = TILE.trailing_zeros();
        line!(body; "and.b# {lane}, {thread}, {};", TILE - 1);
        line!(body; "shr.u# {line}, {thread}, {shift};");
        Self {
            lane,
            line,
            tile: axes.of_block(lowering, root, block),
        }
    }

    /// Returns the number of the thread's line in a turn.
    fn line_of_turn(&self, body: &mut KernelBody, turn: usize) -> Reg {
        index!(body; "add.s# {}, {}", self.line, turn * LINES)
    }

    /// Computes the indices along both axes of an element of the tile.
    fn indices(&self, body: &mut KernelBody, along: Reg, across: Reg) -> (Reg, Option<Reg>) {
        let first_across = self.tile.first_across;
        (
            index!(body; "add.s# {}, {along}", self.tile.first_along),
            first_across.map(|first| index!(body; "add.s# {first}, {across}")),
        )
    }
}

/// Computes the address of an element of a tile in shared memory.
fn tile_address(
    body: &mut KernelBody,
    tile: usize,
    dtype: DType,
    (line_number, lane): (Reg, Reg),
) -> Reg {
    let number = index!(body; "mad.lo.s# {line_number}, {PITCH}, {lane}");
    shared_address(body, tile, dtype, number)
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array2, s};

    use crate::{Array, expr::NodeRef, plan::only_kernel, run::texts::generate};

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
