//! On which axes of a kernel's elements a value depends.

use crate::{
    expr::{NodeRef, Op},
    plan::kernel::FusedKernel,
    shape::Axes,
};

/// A set of axes, a bit for each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct AxisSet(u32);

impl AxisSet {
    /// Returns those of some axes of a shape that are longer than 1.
    pub(crate) fn long(shape: &[usize], axes: impl IntoIterator<Item = usize>) -> Self {
        let long = axes.into_iter().filter(|&axis| shape[axis] > 1);
        Self(long.fold(0, |set, axis| set | 1 << axis))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn contains(self, axis: usize) -> bool {
        self.0 >> axis & 1 == 1
    }

    /// Returns the axes of an operand along which it is read elsewhere if the position of the
    /// operation moves along these: all operands of functions, the source of a view or a reduction,
    /// the indices of a gather. `None` for other operations.
    pub(crate) fn of_operands(self, op: &Op) -> Option<Self> {
        match op {
            Op::Apply(..) | Op::Gather { .. } => Some(self),
            Op::View(source, map) => {
                let moves = |axis: &usize| map[*axis].axis.is_some_and(|from| self.contains(from));
                Some(Self::long(&source.shape, (0..map.len()).filter(moves)))
            }
            Op::Reduce { source, axes, .. } => {
                let kept = (0..source.shape.len()).filter(|axis| !axes.contains(axis));
                let of_result = kept.enumerate().filter(|&(axis, _)| self.contains(axis));
                Some(Self::long(&source.shape, of_result.map(|(_, axis)| axis)))
            }
            _ => None,
        }
    }
}

/// Returns whether all results of a reduction read the same elements of an array.
pub(crate) fn is_shared(kernel: &FusedKernel, source: &NodeRef, axes: &Axes) -> bool {
    let kept = (0..source.shape.len()).filter(|axis| !axes.contains(axis));
    let kept = AxisSet::long(&source.shape, kept);
    reads_at_rest(kernel, source, kept, &mut { VISITS_MAX })
}

/// The maximum number of values that are looked at, some several times.
const VISITS_MAX: usize = 64;

/// Returns whether a value is computed from an array whose elements do not depend on these axes.
fn reads_at_rest(
    kernel: &FusedKernel,
    node: &NodeRef,
    moving: AxisSet,
    visits: &mut usize,
) -> bool {
    let Some(left) = visits.checked_sub(1) else {
        return false;
    };
    *visits = left;
    let Some(op) = kernel.op(node) else {
        return node.elements > 1 && moving.is_empty();
    };
    let Some(moving) = moving.of_operands(op) else {
        return false;
    };
    if let Op::Gather { index, .. } = op {
        return reads_at_rest(kernel, index, moving, visits);
    }
    let mut found = false;
    op.operands(|operand| found = found || reads_at_rest(kernel, operand, moving, visits));
    found
}
