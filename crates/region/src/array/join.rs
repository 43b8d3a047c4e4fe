//! Several arrays as one.

use std::panic::Location;

use ndarray::{Axis, Dimension, RemoveAxis};

use super::Array;
use crate::{element::Element, error::Problem, graph::Op};

/// The arrays one behind the other along an axis. Along the others they are equally long.
///
/// ```
/// use millstream_region::{RegionExt, concatenate, stack};
/// use ndarray::{Axis, array};
///
/// let device = millstream::Device::simulated()?;
/// let (a, b) = (array![1, 2], array![3]);
/// let joined = device.region(|g| {
///     let (a, b) = (g.array(&a), g.array(&b));
///     (concatenate(Axis(0), &[&a, &b]), stack(Axis(1), &[&a, &a]))
/// })?;
/// assert_eq!(joined.wait()?, (array![1, 2, 3], array![[1, 1], [2, 2]]));
/// # Ok::<(), millstream_region::Error>(())
/// ```
///
/// # Panics
///
/// If there are no arrays: then there is no device either.
#[track_caller]
#[must_use]
pub fn concatenate<T: Element, D: RemoveAxis>(axis: Axis, arrays: &[&Array<T, D>]) -> Array<T, D> {
    joined(axis, arrays, "concatenate", Location::caller())
}

/// The arrays, which have one shape, one behind the other along a new axis.
///
/// # Panics
///
/// If there are no arrays: then there is no device either.
#[track_caller]
#[must_use]
pub fn stack<T: Element, D>(axis: Axis, arrays: &[&Array<T, D>]) -> Array<T, D::Larger>
where
    D: Dimension,
    D::Larger: RemoveAxis,
{
    let arrays: Vec<_> = arrays.iter().map(|array| array.insert_axis(axis)).collect();
    let arrays: Vec<_> = arrays.iter().collect();
    joined(axis, &arrays, "stack", Location::caller())
}

fn joined<T: Element, D: Dimension>(
    axis: Axis,
    arrays: &[&Array<T, D>],
    operation: &'static str,
    location: &'static Location<'static>,
) -> Array<T, D> {
    let first = arrays.first().expect("there is an array to join");
    let mut shape = first.node().shape.clone();
    let axis = axis.index();
    if axis >= shape.len() {
        let problem = Problem::Axis {
            axis,
            shape: first.shape().into(),
        };
        return first.mistake(T::DTYPE, &shape, operation, problem, location);
    }
    let others = |array: &Array<T, D>| -> Vec<usize> {
        let mut shape = array.shape().to_vec();
        shape[axis] = 0;
        shape
    };
    if let Some(other) = arrays.iter().find(|array| others(array) != others(first)) {
        let problem = Problem::Shapes {
            left: first.shape().into(),
            right: other.shape().into(),
        };
        return first.mistake(T::DTYPE, &shape, operation, problem, location);
    }
    // More than a word counts is refused with the shape.
    shape[axis] = arrays
        .iter()
        .fold(0, |sum: usize, array| sum.saturating_add(array.shape()[axis]));
    let parts = arrays.iter().map(|array| array.node().clone()).collect();
    first.plan(T::DTYPE, shape, Op::Join { parts, axis }, operation, location)
}
