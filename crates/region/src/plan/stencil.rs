//! Stencils of costly functions: the function is computed once for each element of a tile, in
//! shared memory, instead of being stored in an array.
//!
//! A stencil reads one value at several positions, each a shift of its own position. If `share.rs`
//! stores the value, that takes a second kernel, a write and a read of memory. A block of the
//! kernel that reads the value can instead compute it for the tile of results that it writes and
//! for the edges of the tile, its *halo*, and read it from shared memory. Halos overlap, so that
//! some elements are computed by several blocks. [`fuse_stencils`] fuses a stored value in this way
//! if its only users are shifts, of one kernel, and if computing the halos takes less time than the
//! accesses to memory that it spares.
//!
//! The kernel reads the arrays of the value in the place of the value, and must not take more
//! memory than two kernels. So either these arrays are not larger than the value, or no other
//! kernel runs between the two, and the result is not larger than the value.

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::{
        candidate::{Candidate, StoreReason, arrays_of},
        cut::kernel_of,
        limits::{INSTRUCTIONS_STORING, RESULTS_SMALL, TILE_BYTES_MAX, TILE_ELEMENTS_MAX},
        share::word,
        size::Size,
    },
    shape::{AxisSource, Shape},
};

/// The number of results of a tile.
const RESULTS: usize = 1024;
/// The maximum number of lines of a tile.
const LINES_MAX: usize = 16;
/// The same where a result has no more columns than that.
const LINES_OF_NARROW_MAX: usize = 32;

/// The axes of a result that its tiles divide, and the size of a tile along each, a power of two.
#[derive(Clone, Copy)]
pub(crate) struct TileAxes {
    /// The axis along which neighbouring threads compute neighbours, and the number of columns.
    pub(crate) along: (usize, usize),
    /// The axis of the lines of a tile, and their number; `None` for tiles of one line.
    pub(crate) across: Option<(usize, usize)>,
}

impl TileAxes {
    /// Returns each axis with the size of a tile along it.
    pub(crate) fn each(self) -> impl Iterator<Item = (usize, usize)> {
        std::iter::once(self.along).chain(self.across)
    }

    pub(crate) fn tiles(self, shape: &[usize]) -> usize {
        let mut batches = Shape::from_slice(shape);
        let tiles: usize = self
            .each()
            .map(|(axis, size)| std::mem::replace(&mut batches[axis], 1).div_ceil(size))
            .product();
        tiles * batches.iter().product::<usize>()
    }
}

/// The tiles of a stencil's result, and the elements of its source that those of a tile read.
pub(crate) struct Stencil {
    pub(crate) axes: TileAxes,
    /// The least start of the shifts along each axis.
    pub(crate) starts: Shape,
    /// The numbers of columns and lines of a tile with its halo.
    pub(crate) computed: (usize, usize),
}

impl Stencil {
    /// Returns the stencil of a result that reads a source through views with these index maps, or
    /// `None` if one of them is no shift, if all are equal, or if they differ along other axes than
    /// the last and one more.
    pub(crate) fn of<'a>(
        result: &[usize],
        source: &[usize],
        maps: impl Iterator<Item = &'a [AxisSource]>,
    ) -> Option<Self> {
        let along = (0..result.len()).rev().find(|&axis| result[axis] != 1)?;
        if result.len() != source.len() {
            return None;
        }
        let mut starts = Shape::from_elem(usize::MAX, result.len());
        let mut ends = Shape::from_elem(0, result.len());
        for map in maps {
            for (axis, from) in map.iter().enumerate() {
                let is_along = from.axis == Some(axis) && from.step == 1;
                let is_fixed = result[axis] == 1 && (from.axis.is_none() || source[axis] == 1);
                if !is_along && !is_fixed {
                    return None;
                }
                starts[axis] = starts[axis].min(from.start);
                ends[axis] = ends[axis].max(from.start);
            }
        }
        let halo = |axis: usize| ends[axis].saturating_sub(starts[axis]);
        let mut others = (0..result.len()).filter(|&axis| axis != along && halo(axis) > 0);
        let across = others.next();
        if others.next().is_some() || (across.is_none() && halo(along) == 0) {
            return None;
        }
        let lines_max = match result[along] {
            ..=LINES_OF_NARROW_MAX => LINES_OF_NARROW_MAX,
            _ => LINES_MAX,
        };
        let lines = |axis: usize| result[axis].next_power_of_two().min(lines_max);
        let across = across.map(|axis| (axis, lines(axis)));
        let lines = across.map_or(1, |(_, lines)| lines);
        let axes = TileAxes {
            along: (along, RESULTS / lines),
            across,
        };
        let computed = (
            RESULTS / lines + halo(along),
            lines + across.map_or(0, |(axis, _)| halo(axis)),
        );
        Some(Self {
            axes,
            starts,
            computed,
        })
    }

    /// Returns the number of elements of a tile with its halo.
    pub(crate) fn elements(&self) -> usize {
        self.computed.0 * self.computed.1
    }
}

/// Fuses stored values into the kernels of stencils that read them. Of several values of one
/// kernel, the last comes first, so that it is not between another one and the kernel.
pub(crate) fn fuse_stencils(candidates: &mut [Candidate]) {
    for at in (0..candidates.len()).rev() {
        let Some(root) = stencil_of(candidates, at) else {
            continue;
        };
        let (id, kernel) = (candidates[at].node.id, candidates[root].node.id);
        candidates[at].is_stored = false;
        candidates[root].tiled.insert(0, at);
        for operand in &mut candidates[..at] {
            operand.replace_consumer(id, kernel);
        }
    }
}

/// Returns the stored node whose kernel takes less time if it computes a stored value in shared
/// memory.
fn stencil_of(candidates: &[Candidate], at: usize) -> Option<usize> {
    let source = &candidates[at];
    let is_possible =
        source.is_stored && source.reason == Some(StoreReason::Shared) && is_map(source);
    let kernel = source.only_consumer().filter(|_| is_possible)?;
    let root = candidates.binary_search_by_key(&kernel, |candidate| candidate.node.id);
    let can_fuse = |&root: &usize| candidates[root].is_stored && is_map(&candidates[root]);
    let root = root.ok().filter(can_fuse)?;
    let (computed, size) = kernel_of(candidates, root, |_| true);
    let mut sources: SmallVec<[usize; 2]> = SmallVec::from_slice(&candidates[root].tiled);
    sources.push(at);
    let views = shifts(candidates, &computed, &sources)?;
    let result = &candidates[root].node;
    // A source that depends on another one through shifts is smaller than that.
    let is_alike = |&other: &usize| candidates[other].node.shape == source.node.shape;
    let stencil = Stencil::of(&result.shape, &source.node.shape, views.into_iter())?;
    let bytes = |&at: &usize| candidates[at].node.dtype.bytes().max(4) * stencil.elements();
    let fits = sources.iter().all(is_alike)
        && stencil.elements() <= TILE_ELEMENTS_MAX
        && sources.iter().map(bytes).sum::<usize>() <= TILE_BYTES_MAX;
    let (of_source, size_of_source) = kernel_of(candidates, at, |_| true);
    let is_without_branches = |&at: &usize| {
        let op = &*candidates[at].op;
        matches!(
            op,
            Op::Constant(_) | Op::Iota | Op::Apply(..) | Op::View(..) | Op::Reshape(_)
        )
    };
    (fits
        && is_small(size, &size_of_source)
        && of_source.iter().all(is_without_branches)
        && takes_no_memory(candidates, (at, &of_source), (root, &computed))
        && pays(candidates, at, &of_source, result, &stencil))
    .then_some(root)
}

/// Returns whether a candidate is the result of a function in a kernel of its own kind.
fn is_map(candidate: &Candidate) -> bool {
    matches!(&*candidate.op, Op::Apply(..))
        && candidate.rows.is_none()
        && candidate.epilogue_of.is_none()
}

/// Returns the index maps of all views through which a kernel reads the sources, or `None` if it
/// reads one of them, or what it computes from them, in another way.
fn shifts<'a>(
    candidates: &'a [Candidate],
    computed: &[usize],
    sources: &[usize],
) -> Option<SmallVec<[&'a [AxisSource]; 8]>> {
    let mut views: SmallVec<[&[AxisSource]; 8]> = SmallVec::new();
    let mut dependent: SmallVec<[usize; 16]> = SmallVec::new();
    for &at in computed {
        let candidate = &candidates[at];
        let mut operands = candidate.candidate_operands();
        let reads = operands.any(|operand| sources.contains(&operand));
        let depends = (candidate.candidate_operands()).any(|operand| dependent.contains(&operand));
        match &*candidate.op {
            _ if !reads && !depends => continue,
            Op::View(_, map) if reads => views.push(map),
            Op::Apply(..) if !reads => {}
            _ => return None,
        }
        dependent.push(at);
    }
    Some(views)
}

/// Returns whether a kernel of this size can compute a source in shared memory, too. A thread
/// computes four results and up to eight elements of the source.
fn is_small(mut size: Size, source: &Size) -> bool {
    size.add(source);
    size.add(source);
    !size.is_too_large()
}

/// Returns whether the kernel of `root` takes no more memory if it reads the arrays of a source
/// instead of the source.
fn takes_no_memory(
    candidates: &[Candidate],
    (at, of_source): (usize, &[usize]),
    (root, of_root): (usize, &[usize]),
) -> bool {
    let arrays = arrays_of(candidates, of_root);
    let is_known = |array: &NodeRef| arrays.iter().any(|other| other.id == array.id);
    let own = arrays_of(candidates, of_source).into_iter();
    let new = own.filter(|array| !is_known(array));
    let bytes: usize = new.map(|array| array.bytes()).sum();
    let source = candidates[at].node.bytes();
    let is_next = || !(at + 1..root).any(|between| candidates[between].is_stored);
    bytes <= source || (is_next() && candidates[root].node.bytes() <= source)
}

/// Returns whether the instructions for the elements that several blocks compute, or that are
/// beyond the end of the result, take less time than a write and a read of the source.
fn pays(
    candidates: &[Candidate],
    at: usize,
    of_source: &[usize],
    result: &NodeRef,
    stencil: &Stencil,
) -> bool {
    let source = &candidates[at].node;
    let each = of_source.iter().map(|&at| candidates[at].instructions());
    let instructions: f32 = each.sum();
    let computed = stencil.axes.tiles(&result.shape) * stencil.elements();
    let again = computed.saturating_sub(source.elements) as f32;
    let results = result.elements.max(RESULTS_SMALL) as f32;
    again * instructions < INSTRUCTIONS_STORING * word(source.dtype) * results
}
