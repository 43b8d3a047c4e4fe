//! Shapes, broadcasting, and index maps of views.

use smallvec::SmallVec;

/// The maximum number of axes of an array.
pub(crate) const RANK_MAX: usize = 6;

/// The number of axes up to which shapes need no memory of their own.
const RANK_USUAL: usize = 4;

/// The length of each axis, outermost first.
pub(crate) type Shape = SmallVec<[usize; RANK_USUAL]>;

/// A list of axis numbers.
pub(crate) type Axes = SmallVec<[usize; RANK_USUAL]>;

/// Returns the number of elements of a shape, or `None` if it exceeds `usize::MAX`.
pub(crate) fn element_count(shape: &[usize]) -> Option<usize> {
    let mut product = Some(1_usize);
    for &length in shape {
        // One axis of length 0 makes the array empty, however long the other axes are.
        if length == 0 {
            return Some(0);
        }
        product = product.and_then(|product| product.checked_mul(length));
    }
    product
}

/// Returns the shape to which two shapes broadcast, or `None` if they are incompatible. The shapes
/// are aligned at their last axes, where two lengths must be equal or one of them 1.
pub(crate) fn broadcast(left: &[usize], right: &[usize]) -> Option<Shape> {
    let rank = left.len().max(right.len());
    let at = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (at(left, axis), at(right, axis)) {
            (left, right) if left == right => Some(left),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        })
        .collect()
}

/// The origin of the index along one source axis: `start + step × (index along a view axis)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AxisSource {
    /// The view axis whose index is used; `None` if the source index is constant.
    pub(crate) axis: Option<usize>,
    /// The source index at view index 0.
    pub(crate) start: usize,
    /// The change of the source index per view index.
    pub(crate) step: isize,
}

impl AxisSource {
    pub(crate) fn same(axis: usize) -> Self {
        Self {
            axis: Some(axis),
            start: 0,
            step: 1,
        }
    }

    pub(crate) fn fixed(start: usize) -> Self {
        Self {
            axis: None,
            start,
            step: 0,
        }
    }
}

/// The index map of a view: an entry for each axis of its source. Only those of vectors need no
/// memory of their own, because each node has room for the largest operation.
pub(crate) type AxisMap = SmallVec<[AxisSource; 1]>;

/// Returns whether the elements along some axes of an array are contiguous.
pub(crate) fn are_last(shape: &[usize], axes: &Axes) -> bool {
    let mut long = (0..shape.len()).filter(|&axis| shape[axis] != 1);
    long.by_ref().find(|axis| axes.contains(axis));
    long.all(|axis| axes.contains(&axis))
}

/// Returns the index map that broadcasts shape `from` to shape `to`; [`broadcast`] must have found
/// them compatible.
pub(crate) fn broadcast_map(from: &[usize], to: &[usize]) -> AxisMap {
    let ahead = to.len() - from.len();
    from.iter()
        .enumerate()
        .map(|(axis, &length)| {
            if length == 1 && to[ahead + axis] != 1 {
                AxisSource::fixed(0)
            } else {
                AxisSource::same(ahead + axis)
            }
        })
        .collect()
}

/// Composes two index maps: `outer` views the result of `inner`, and the composition views the
/// source of `inner`.
pub(crate) fn compose(outer: &[AxisSource], inner: &[AxisSource]) -> AxisMap {
    inner
        .iter()
        .map(|source| match source.axis {
            None => *source,
            Some(axis) => {
                let AxisSource { axis, start, step } = outer[axis];
                let (ahead, step) = (start as isize * source.step, step * source.step);
                let start = source.start.wrapping_add_signed(ahead);
                AxisSource { axis, start, step }
            }
        })
        .collect()
}

/// Returns whether a view has the shape and the elements of its source, in the same order.
pub(crate) fn is_identity(map: &[AxisSource], view: &[usize], source: &[usize]) -> bool {
    view == source
        && map.iter().enumerate().all(|(axis, &from)| {
            from == AxisSource::same(axis) || (source[axis] == 1 && from.start == 0)
        })
}

/// Returns whether two views, each an index map with the shape of the view, show no common element
/// of their source. Some views without a common element are not found.
pub(crate) fn are_disjoint(
    (left, left_shape): (&[AxisSource], &[usize]),
    (right, right_shape): (&[AxisSource], &[usize]),
) -> bool {
    /// Returns the least and the greatest index along a source axis, and the distance between
    /// neighbours.
    fn range(from: &AxisSource, shape: &[usize]) -> (usize, usize, usize) {
        let steps = from.axis.map_or(0, |axis| shape[axis].saturating_sub(1));
        let end = from
            .start
            .saturating_add_signed(from.step.saturating_mul(steps as isize));
        let distance = match steps {
            0 => 0,
            _ => from.step.unsigned_abs(),
        };
        (from.start.min(end), from.start.max(end), distance)
    }
    let gcd = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    left.iter().zip(right).any(|(left, right)| {
        let (left, right) = (range(left, left_shape), range(right, right_shape));
        if left.1 < right.0 || right.1 < left.0 {
            return true;
        }
        // Otherwise, the indices along the axis may interlock.
        let common = gcd(left.2, right.2);
        common > 1 && left.0 % common != right.0 % common
    })
}

/// Returns whether each view element has the same row-major linear index as the source element that
/// it shows.
pub(crate) fn preserves_linear_index(view: &[usize], map: &[AxisSource], source: &[usize]) -> bool {
    let long = |shape: &[usize], from: usize| (from..shape.len()).find(|&axis| shape[axis] != 1);
    let (mut of_view, mut of_source) = (long(view, 0), long(source, 0));
    while let (Some(seen), Some(axis)) = (of_view, of_source) {
        if map[axis] != AxisSource::same(seen) || view[seen] != source[axis] {
            return false;
        }
        (of_view, of_source) = (long(view, seen + 1), long(source, axis + 1));
    }
    of_view == of_source
}

/// Returns the linear index in the source of a view's first element, if those of the others follow
/// in the order of the view.
pub(crate) fn contiguous_offset(
    view: &[usize],
    map: &[AxisSource],
    source: &[usize],
) -> Option<usize> {
    let (of_view, of_source) = (dense_strides(view), dense_strides(source));
    let mut shown = 0;
    let mut offset = 0;
    for (from, stride) in map.iter().zip(of_source) {
        offset += from.start * stride;
        if let Some(axis) = from.axis.filter(|&axis| view[axis] != 1) {
            if from.step != 1 || stride != of_view[axis] {
                return None;
            }
            shown += 1;
        }
    }
    (shown == long_axes(view).len()).then_some(offset)
}

pub(crate) fn long_axes(shape: &[usize]) -> SmallVec<[usize; RANK_MAX]> {
    (0..shape.len()).filter(|&axis| shape[axis] != 1).collect()
}

pub(crate) fn last_axis(shape: &[usize]) -> Option<usize> {
    (0..shape.len()).rev().find(|&axis| shape[axis] != 1)
}

/// Returns the strides of a row-major contiguous array, in elements.
pub(crate) fn dense_strides(shape: &[usize]) -> SmallVec<[usize; RANK_MAX]> {
    let mut strides: SmallVec<[usize; RANK_MAX]> = SmallVec::from_elem(1, shape.len());
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn along(start: usize, step: isize) -> AxisSource {
        AxisSource {
            axis: Some(0),
            start,
            step,
        }
    }

    #[test]
    fn lengths_of_one_broadcast_and_others_must_agree() {
        assert_eq!(broadcast(&[3, 1], &[4]).unwrap().as_slice(), [3, 4]);
        assert_eq!(broadcast(&[], &[2, 0]).unwrap().as_slice(), [2, 0]);
        assert_eq!(broadcast(&[1], &[0]).unwrap().as_slice(), [0]);
        assert!(broadcast(&[3], &[4]).is_none());
        assert_eq!(
            broadcast_map(&[1, 4], &[2, 3, 4]).as_slice(),
            [AxisSource::fixed(0), AxisSource::same(2)]
        );
    }

    #[test]
    fn the_composition_of_two_index_maps_is_one_map() {
        // Every second element of 2, 3, 4, 5, 6, backwards.
        let both = compose(&[along(4, -2)], &[along(2, 1)]);
        assert_eq!(both.as_slice(), [along(6, -2)]);
    }

    #[test]
    fn views_are_disjoint_if_their_ranges_or_steps_are() {
        let are_disjoint = |left: (AxisSource, usize), right: (AxisSource, usize)| {
            are_disjoint((&[left.0], &[left.1]), (&[right.0], &[right.1]))
        };
        assert!(are_disjoint((along(0, 1), 3), (along(3, 1), 3)));
        assert!(!are_disjoint((along(0, 1), 4), (along(3, 1), 3)));
        assert!(are_disjoint((along(9, -1), 3), (along(6, -2), 4)));
        assert!(!are_disjoint((along(9, -1), 4), (along(6, -2), 4)));
        assert!(are_disjoint((along(0, 2), 5), (along(1, 2), 5)));
        assert!(are_disjoint((along(0, 4), 5), (along(15, -6), 3)));
        assert!(!are_disjoint((along(0, 4), 5), (along(14, -6), 3)));
        let fixed = AxisSource::fixed;
        assert!(are_disjoint((fixed(1), 1), (fixed(2), 1)));
        assert!(!are_disjoint((fixed(4), 1), (along(0, 2), 5)));
        // No element of a matrix is both in its first row and in its second.
        let row = |at| [AxisSource::fixed(at), AxisSource::same(0)];
        assert!(super::are_disjoint((&row(0), &[8]), (&row(1), &[8])));
    }

    #[test]
    fn empty_shapes_have_no_elements_however_long_they_are() {
        assert_eq!(element_count(&[usize::MAX, 2, 0]), Some(0));
        assert_eq!(element_count(&[usize::MAX, 2]), None);
        assert_eq!(element_count(&[]), Some(1));
        assert_eq!(dense_strides(&[2, 3, 4]).as_slice(), [12, 4, 1]);
    }
}
