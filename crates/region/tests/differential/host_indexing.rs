//! Elements taken and put by indices on the host.

use ndarray::Dimension;

use crate::differential::prelude::*;

pub(crate) fn gather<T: Copy>(x: &ArrayD<T>, axis: usize, index: &ArrayD<usize>) -> ArrayD<T> {
    let without = |shape: &[usize], length: usize| {
        let mut shape = shape.to_vec();
        shape[axis] = length;
        shape
    };
    let common = broadcast(&without(x.shape(), 1), &without(index.shape(), 1))
        .expect("the generator chooses shapes that broadcast");
    let x = x
        .broadcast(without(&common, x.shape()[axis]))
        .expect("the generator chooses shapes that broadcast");
    let index = index
        .broadcast(without(&common, index.shape()[axis]))
        .expect("the generator chooses shapes that broadcast");
    let chosen = index.indexed_iter().map(|(position, &index)| {
        let mut position = position;
        position[axis] = index;
        x[position]
    });
    ArrayD::from_shape_vec(index.shape(), chosen.collect())
        .expect("the result has one element per index")
}

/// Puts values at indices of an axis, combined with the elements there.
pub(crate) fn scatter<T: Copy>(
    base: &ArrayD<T>,
    axis: usize,
    index: &ArrayD<usize>,
    values: &ArrayD<T>,
    put: impl Fn(T, T) -> T,
) -> ArrayD<T> {
    let mut shape = base.shape().to_vec();
    shape[axis] = index.shape()[axis];
    let index = index
        .broadcast(&shape[..])
        .expect("the generator chooses shapes that broadcast");
    let values = values
        .broadcast(&shape[..])
        .expect("the generator chooses shapes that broadcast");
    let mut result = base.clone();
    for ((position, &index), &value) in index.indexed_iter().zip(&values) {
        let mut position = position;
        position[axis] = index;
        result[position.slice()] = put(result[position.slice()], value);
    }
    result
}
