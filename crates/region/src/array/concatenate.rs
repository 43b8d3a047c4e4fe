//! Concatenation and stacking of arrays.

use std::borrow::Borrow;

use ndarray::{Axis, Dimension, RemoveAxis};

use crate::{
    array::Array,
    element::Element,
    error::{Result, Site, UsageErrorKind},
    expr::Op,
};

/// Concatenates arrays along an axis. Their lengths along all other axes must be equal.
///
/// ```
/// use millstream_region::{RegionExt, concatenate, stack};
/// use ndarray::{Axis, array};
/// let device = millstream::Device::simulated()?;
/// let (a, b) = (array![1, 2], array![3]);
/// let joined = device.region(|g| {
///     let (a, b) = (g.array(&a), g.array(&b));
///     Ok((concatenate(Axis(0), &[&a, &b])?, stack(Axis(1), &[a.view(), a.view()])?))
/// })?;
/// assert_eq!(joined.wait()?, (array![1, 2, 3], array![[1, 1], [2, 2]]));
/// # Ok::<(), millstream_region::Error>(())
/// ```
///
/// # Errors
///
/// If there are no arrays, their shapes differ along another axis, they do not have the axis, or
/// one of them has failed.
#[track_caller]
pub fn concatenate<T: Element, D: RemoveAxis>(
    axis: Axis,
    arrays: &[impl Borrow<Array<T, D>>],
) -> Result<Array<T, D>> {
    let arrays: Vec<&Array<T, D>> = arrays.iter().map(Borrow::borrow).collect();
    concatenated(axis, &arrays, Site::of("concatenate"))
}

/// Stacks arrays of equal shapes along a new axis.
///
/// # Errors
///
/// If there are no arrays, their shapes differ, an array cannot have this axis, or one of them has
/// failed.
#[track_caller]
pub fn stack<T: Element, D>(
    axis: Axis,
    arrays: &[impl Borrow<Array<T, D>>],
) -> Result<Array<T, D::Larger>>
where
    D: Dimension,
    D::Larger: RemoveAxis,
{
    let site = Site::of("stack");
    let mut all = arrays.iter().map(Borrow::borrow);
    if let Some(array) = all.find(|array: &&Array<T, D>| axis.index() > array.ndim()) {
        let problem = UsageErrorKind::axis(axis.index(), array.shape());
        return Err(site.error(problem).into());
    }
    let all = arrays
        .iter()
        .map(|array| array.borrow().with_axis(axis, site));
    let arrays: Vec<Array<T, D::Larger>> = all.collect();
    concatenated(axis, &arrays.iter().collect::<Vec<_>>(), site)
}

/// Concatenates arrays on behalf of an operation.
pub(crate) fn concatenated<T: Element, D: Dimension>(
    axis: Axis,
    arrays: &[&Array<T, D>],
    site: Site,
) -> Result<Array<T, D>> {
    let fails = |problem| Err(site.error(problem).into());
    let Some(first) = arrays.first() else {
        return fails(UsageErrorKind::NoArrays);
    };
    if let Some(failure) = arrays.iter().find_map(|array| array.node().failure()) {
        return Err(failure);
    }
    let mut shape = first.node().shape.clone();
    let axis = axis.index();
    if axis >= shape.len() {
        return fails(UsageErrorKind::axis(axis, first.shape()));
    }
    let others = |array: &Array<T, D>| -> Vec<usize> {
        let mut shape = array.shape().to_vec();
        shape[axis] = 0;
        shape
    };
    let differs =
        |array: &&&Array<T, D>| array.ndim() != first.ndim() || others(array) != others(first);
    if let Some(other) = arrays.iter().find(differs) {
        return fails(UsageErrorKind::shapes(first.shape(), other.shape()));
    }
    // The sum saturates; the shape check then rejects it.
    let lengths = arrays.iter().map(|array| array.shape()[axis]);
    shape[axis] = lengths.fold(0, usize::saturating_add);
    // Parts without elements along the axis have no place in a kernel.
    let long = arrays.iter().filter(|array| array.shape()[axis] > 0);
    let long: Vec<&&Array<T, D>> = long.collect();
    if long.len() < 2 {
        return Ok(Array::clone(long.first().unwrap_or(&first)));
    }
    let parts = long.iter().map(|array| array.node().clone()).collect();
    let op = Op::Concatenate { parts, axis };
    let concatenated: Array<T, D> = first.plan(T::DTYPE, shape, op, site);
    concatenated.node().failure().map_or(Ok(concatenated), Err)
}
