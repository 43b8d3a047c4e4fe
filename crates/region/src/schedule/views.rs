//! Transposed views, and joins of arrays in memory, which have kernels of their own.

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::{FusedKernel, are_flat},
    schedule::machine::{TILE, TRANSPOSED_MAX},
    shape::{AxisMap, last_axis},
};

/// The transposed views of a kernel, and the axes of its tiles.
pub(crate) struct TransposedViews<'a> {
    /// The last axis of the result.
    pub(crate) along: usize,
    /// The axis of the result that is the last one of the views' sources.
    pub(crate) across: usize,
    pub(crate) views: SmallVec<[&'a NodeRef; TRANSPOSED_MAX]>,
}

impl<'a> TransposedViews<'a> {
    /// Returns the transposed views that a kernel reads at the position of its result, if there are
    /// any.
    pub(crate) fn of(kernel: &'a FusedKernel) -> Option<Self> {
        if !kernel.is_whole() || are_flat(&kernel.nodes) {
            return None;
        }
        let along = last_axis(&kernel.root.shape)?;
        let mut joined: Option<Self> = None;
        for node in kernel.reached_from(kernel.values()) {
            let Some(Op::View(source, map)) = kernel.op(node) else {
                continue;
            };
            let Some(across) = across(kernel, along, source, map) else {
                continue;
            };
            let views = SmallVec::new();
            let joined = joined.get_or_insert(Self {
                along,
                across,
                views,
            });
            if joined.across == across && joined.views.len() < TRANSPOSED_MAX {
                joined.views.push(node);
            }
        }
        joined
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

/// The arrays of a join, which are in memory.
pub(crate) struct JoinedArrays<'a> {
    pub(crate) axis: usize,
    /// Each array, with its length along the joined axis.
    pub(crate) parts: SmallVec<[(&'a NodeRef, usize); 16]>,
}

impl<'a> JoinedArrays<'a> {
    /// Returns the arrays that a kernel joins, if it does nothing else.
    pub(crate) fn of(kernel: &'a FusedKernel) -> Option<Self> {
        let Some(Op::Concatenate { parts, axis }) = kernel.op(&kernel.root) else {
            return None;
        };
        let is_only = kernel.outputs.len() == 1 && kernel.is_whole();
        let arrays = parts.iter().map(|part| {
            let array = kernel.array_with_elements_of(part)?;
            Some((array, part.shape[*axis]))
        });
        let parts: Option<_> = arrays.collect();
        parts
            .filter(|_| is_only)
            .map(|parts| Self { axis: *axis, parts })
    }

    /// Returns the number of elements of a line along the axes behind the joined one.
    pub(crate) fn behind(&self, root: &NodeRef) -> usize {
        root.shape[self.axis + 1..].iter().product()
    }

    /// Returns the number of neighbours that a thread copies: more than one if the lines of all
    /// arrays begin and end at multiples of it.
    pub(crate) fn lanes(&self, root: &NodeRef) -> usize {
        let (behind, lanes) = (self.behind(root), root.dtype.vector_width());
        let mut lengths = self.parts.iter().map(|&(_, of_axis)| of_axis * behind);
        if lengths.all(|length| length.is_multiple_of(lanes)) {
            lanes
        } else {
            1
        }
    }
}
