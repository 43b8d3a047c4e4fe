//! Stencils of costly functions, which read a function of arrays at several shifted positions.
//!
//! A block first computes the function once for each element that its tile of results reads, those
//! of the tile and of its edges, in shared memory. After a barrier, each thread computes four
//! results from there. Positions beyond the end of an array are replaced by the last ones, so that
//! all threads reach the barrier and no access is out of bounds.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    emit::{
        body::{BLOCK, KernelBody, Reg, index, line, test},
        lower::{Lowering, Position},
        map::tile::{
            BlockTile, clamped, declare_shared, load_shared, shared_address, shared_bytes,
            store_inside, store_shared,
        },
        passes::GeneratedPasses,
    },
    expr::{NodeRef, Op},
    plan::{FusedKernel, IndexAnalysis, Stencil, TileAxes},
    shape::{AxisMap, RANK_MAX},
};

/// A view through which a stencil reads one of the nodes in shared memory.
struct Shift<'a> {
    view: &'a NodeRef,
    /// The number of the node.
    source: usize,
    map: &'a AxisMap,
}

/// A thread's place among the results of a tile.
struct ResultThread {
    /// The number of threads with neighbouring results.
    lanes: usize,
    /// The number of such groups of results along a line of the tile.
    parts: usize,
    /// The number within a line.
    lane: Reg,
    /// The first of its lines.
    line: Reg,
}

pub(crate) fn stencil(kernel: &FusedKernel) -> GeneratedPasses {
    let (root, sources) = (&kernel.root, &kernel.tiled);
    let shifts = shifts(kernel);
    let maps = shifts.iter().map(|shift| &shift.map[..]);
    let stencil = Stencil::of(&root.shape, &sources[0].shape, maps)
        .expect("planning has checked that the views are shifts");
    let axes = stencil.axes;
    let mut body = KernelBody::new(IndexAnalysis::of(kernel).wide);
    let mut shared = String::new();
    for (number, source) in sources.iter().enumerate() {
        declare_shared(&mut shared, number, source.dtype, stencil.elements());
    }
    let (block, thread) = body.block_and_thread();
    let mut lowering = Lowering::new(&mut body, kernel, false);
    let tile = axes.of_block(&mut lowering, root, block);
    compute_sources(&mut lowering, kernel, &stencil, (&tile, thread));

    let own = ResultThread::new(lowering.body, axes, thread);
    let inputs = kernel.arrays_of(kernel.values());
    let turns = axes.along.1 * axes.across.map_or(1, |(_, lines)| lines) / BLOCK;
    let turns: SmallVec<[(Position, Reg); 4]> = (0..turns)
        .map(|turn| {
            let (line, column) = own.offsets(turn);
            let indices = own.indices(lowering.body, &tile, (line, column));
            let (position, outside) = axes.position(&mut lowering, root, &tile, indices);
            // These loads are in flight while the block waits for the tiles.
            for input in &inputs {
                lowering.lower(input, position);
            }
            (position, outside)
        })
        .collect();
    line!(lowering.body; "bar.sync 0;");
    let first = own.number(lowering.body, &stencil);
    let addresses = shared_addresses(lowering.body, kernel, first);
    let mut loaded: FxHashMap<(usize, usize), Reg> = FxHashMap::default();
    for (turn, &(position, outside)) in turns.iter().enumerate() {
        let (line, column) = own.offsets(turn);
        for shift in &shifts {
            let start = |axis: usize| shift.map[axis].start - stencil.starts[axis];
            let line = line + axes.across.map_or(0, |(axis, _)| start(axis));
            let behind = line * stencil.computed.0 + column + start(axes.along.0);
            let (address, dtype) = (addresses[shift.source], shift.view.dtype);
            // Results of one thread have elements in common.
            let element = *loaded.entry((shift.source, behind)).or_insert_with(|| {
                load_shared(lowering.body, dtype, address, behind * shared_bytes(dtype))
            });
            lowering.define(shift.view, position, element);
        }
        store_inside(&mut lowering, (turn, position, outside));
    }
    let blocks = axes.tiles(&root.shape);
    GeneratedPasses::one(body.finish(&shared), blocks * BLOCK)
}

/// Computes the addresses in shared memory of the element with a number, of each node.
fn shared_addresses(
    body: &mut KernelBody,
    kernel: &FusedKernel,
    number: Reg,
) -> SmallVec<[Reg; 2]> {
    let sources = (0..).zip(&kernel.tiled);
    sources
        .map(|(array, source)| shared_address(body, array, source.dtype, number))
        .collect()
}

/// Returns the views through which a kernel reads nodes in shared memory.
fn shifts(kernel: &FusedKernel) -> Vec<Shift<'_>> {
    let shift = |view, source: &NodeRef, map| {
        let mut sources = kernel.tiled.iter();
        let source = sources.position(|tiled| tiled.id == source.id)?;
        Some(Shift { view, source, map })
    };
    let shifts = kernel.nodes.iter().filter_map(|fused| match &*fused.op {
        Op::View(source, map) => shift(&fused.node, source, map),
        _ => None,
    });
    shifts.collect()
}

/// Computes the elements of the nodes that a block's tile reads, and stores them in shared memory.
/// Loads of all elements precede the functions of the first.
fn compute_sources(
    lowering: &mut Lowering<'_>,
    kernel: &FusedKernel,
    stencil: &Stencil,
    (tile, thread): (&BlockTile, Reg),
) {
    let (sources, elements) = (&kernel.tiled, stencil.elements());
    let origin = Origin::new(lowering.body, kernel, stencil, tile);
    let inputs = kernel.arrays_of(sources.iter());
    let turns: Vec<(Position, Option<Reg>)> = (0..elements.div_ceil(BLOCK))
        .map(|turn| {
            let (number, beyond) = number_of_turn(lowering.body, thread, turn, elements);
            let position = origin.position(lowering, &sources[0], stencil, number);
            for input in &inputs {
                lowering.lower(input, position);
            }
            (position, beyond)
        })
        .collect();
    let addresses = shared_addresses(lowering.body, kernel, thread);
    for (turn, &(position, beyond)) in turns.iter().enumerate() {
        if let Some(beyond) = beyond {
            line!(lowering.body; "@{beyond} bra COMPUTED;");
        }
        for (array, source) in sources.iter().enumerate() {
            let element = lowering.lower_in_turn(source, position, turn);
            let behind = turn * BLOCK * shared_bytes(source.dtype);
            store_shared(lowering.body, addresses[array], behind, element);
        }
        if beyond.is_some() {
            lowering.body.label("COMPUTED");
        }
    }
}

/// Returns the number of a thread's element in the tile. A thread beyond the tile gets the last
/// number, and a predicate that says so.
fn number_of_turn(
    body: &mut KernelBody,
    thread: Reg,
    turn: usize,
    elements: usize,
) -> (Reg, Option<Reg>) {
    let number = index!(body; "add.s# {thread}, {}", turn * BLOCK);
    if (turn + 1) * BLOCK <= elements {
        return (number, None);
    }
    let beyond = test!(body; "ge.u# {number}, {elements}");
    let within = index!(body; "min.u# {number}, {}", elements - 1);
    (within, Some(beyond))
}

/// The indices of the first element that a block computes, along the axes that are longer than 1.
struct Origin(SmallVec<[Option<Reg>; RANK_MAX]>);

impl Origin {
    fn new(
        body: &mut KernelBody,
        kernel: &FusedKernel,
        stencil: &Stencil,
        tile: &BlockTile,
    ) -> Self {
        let source = &kernel.tiled[0];
        let index = |axis: usize| {
            if source.shape[axis] == 1 {
                return None;
            }
            let start = body.start(source.id, axis, stencil.starts[axis]);
            let first = match stencil.axes.across {
                _ if axis == stencil.axes.along.0 => Some(tile.first_along),
                Some((across, _)) if axis == across => tile.first_across,
                _ => tile.batch[axis],
            };
            Some(first.map_or(start, |first| index!(body; "add.s# {first}, {start}")))
        };
        Self((0..source.shape.len()).map(index).collect())
    }

    /// Returns the position of an element by its number in the tile.
    fn position(
        &self,
        lowering: &mut Lowering<'_>,
        source: &NodeRef,
        stencil: &Stencil,
        number: Reg,
    ) -> Position {
        let body = &mut *lowering.body;
        let (line, column) = match stencil.axes.across {
            None => (None, number),
            Some(_) => {
                let (line, column) = body.quotient_and_rest(number, stencil.computed.0);
                (Some(line), column)
            }
        };
        let mut axes = self.0.clone();
        let along = Some((stencil.axes.along.0, column));
        let across = stencil.axes.across.map(|(axis, _)| axis).zip(line);
        for (axis, number) in along.into_iter().chain(across) {
            let index = axes[axis].map(|first| index!(body; "add.s# {first}, {number}"));
            axes[axis] = index.map(|index| clamped(body, source, axis, index));
        }
        lowering.at_indices(source.id, &source.shape, axes, None)
    }
}

impl ResultThread {
    fn new(body: &mut KernelBody, axes: TileAxes, thread: Reg) -> Self {
        let lanes = axes.along.1.min(BLOCK);
        let lines = axes.across.map_or(1, |(_, lines)| lines);
        // Results below each other have elements in common, so that a thread computes them.
        let lines_per_thread = lines / (BLOCK / lanes);
        let (lane, line) = (body.index_reg(), body.index_reg());
        let shift = lanes.trailing_zeros();
        line!(body; "and.b# {lane}, {thread}, {};", lanes - 1);
        line!(body; "shr.u# {line}, {thread}, {shift};");
        line!(body; "mul.lo.s# {line}, {line}, {lines_per_thread};");
        Self {
            lanes,
            parts: axes.along.1 / lanes,
            lane,
            line,
        }
    }

    /// Returns how many lines and columns the result of a turn is behind the first.
    fn offsets(&self, turn: usize) -> (usize, usize) {
        (turn / self.parts, turn % self.parts * self.lanes)
    }

    /// Computes the indices of the result at an offset of lines and columns from the first.
    fn indices(
        &self,
        body: &mut KernelBody,
        tile: &BlockTile,
        (line, column): (usize, usize),
    ) -> (Reg, Option<Reg>) {
        let mut behind = |first: Reg, own: Reg, behind: usize| {
            let index = index!(body; "add.s# {first}, {own}");
            line!(body; "add.s# {index}, {index}, {behind};");
            index
        };
        let along = behind(tile.first_along, self.lane, column);
        let across = tile.first_across;
        (along, across.map(|first| behind(first, self.line, line)))
    }

    /// Computes the number of the first element of the tile that the first result may read.
    fn number(&self, body: &mut KernelBody, stencil: &Stencil) -> Reg {
        index!(body; "mad.lo.s# {}, {}, {}", self.line, stencil.computed.0, self.lane)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use millstream::{Device, kernel::load_generated};
    use ndarray::{Array2, Ix2, s};

    use crate::{
        Array, Region, element::DType, expr::Op, plan::only_kernel, run::texts::generate,
        shape::Shape,
    };

    /// Returns the sum of exponentials at five positions.
    fn star(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
        let (values, rows, columns) = (x.exp(), x.shape()[0] - 2, x.shape()[1] - 2);
        let part = |(row, column): (usize, usize)| {
            values.slice(s![row..row + rows, column..column + columns])
        };
        let places = [(1, 1), (1, 0), (1, 2), (0, 1), (2, 1)];
        let parts = places.into_iter().map(part);
        parts.reduce(|sum, part| sum + part).unwrap()
    }

    #[test]
    fn a_block_computes_each_element_once_and_results_of_a_thread_share_loads() {
        let device = Device::simulated().unwrap();
        let x = Array::from_host(&device, &Array2::<f32>::zeros((100, 200))).unwrap();
        let code = generate(&only_kernel(star(&x).node()));
        let pass = &code.passes[0];
        let count = |what: &str| pass.kernel.ptx.matches(what).count();
        // Of 66 by 18 elements, each of 256 threads computes five. Four results below each other
        // read six elements of their column, and four of each of the columns beside it.
        assert_eq!((count("st.shared.f32"), count("ld.shared.f32")), (5, 14));
        assert_eq!((count("st.global.f32"), count("bar.sync")), (4, 1));
        assert_eq!(count("tile0[4752]"), 1);
        assert_eq!(&*pass.kernel.name, "exp+add+add+add+add");
        assert_eq!(pass.threads.of(0), 7 * 4 * 256);
    }

    #[test]
    fn a_stencil_of_large_arrays_has_indices_of_64_bits() {
        let device = Device::simulated().unwrap();
        let region = Region::new(device.clone());
        let session = region.session();
        let shape = Shape::from_elem(1 << 16, 2);
        let numbers = session.plan(DType::I64, shape, Op::Iota, "iota", Location::caller());
        let numbers = Array::<i64, Ix2>::of(session, numbers);
        let code = generate(&only_kernel(star(&numbers.cast::<f32>()).node()));
        let kernel = &code.passes[0].kernel;
        assert!(kernel.wide && kernel.ptx.contains("st.shared"));
        let (name, count) = (|| "a stencil of large arrays", kernel.parameters.len());
        load_generated(&device, &kernel.ptx, "region", name, count).unwrap();
    }
}
