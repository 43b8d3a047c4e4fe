//! The order in which a reduction of few elements combines them within another kernel: that of a
//! kernel of its own (`reduction.rs`).

use smallvec::SmallVec;

use crate::{
    plan::order::split::RowSplit,
    shape::{Axes, Shape, are_last},
};

/// Returns the numbers of the elements of each accumulator of a result, in order. The accumulators
/// are combined by halves.
pub(crate) fn nested_order(
    shape: &Shape,
    axes: &Axes,
    results: usize,
) -> SmallVec<[SmallVec<[usize; 16]>; 8]> {
    let length: usize = axes.iter().map(|&axis| shape[axis]).product();
    let split = RowSplit::of(length);
    if !are_last(shape, axes) || i32::try_from(results).is_err() {
        return SmallVec::from_elem((0..length).collect(), 1);
    }
    let of_accumulator = |thread: usize| {
        let groups = (0..split.turns()).map(|turn| turn * split.threads + thread);
        let elements =
            groups.flat_map(|group| (0..split.neighbours).map(move |lane| (group, lane)));
        let numbers = elements.map(|(group, lane)| group * split.neighbours + lane);
        numbers.filter(|&number| number < length).collect()
    };
    (0..split.threads).map(of_accumulator).collect()
}
