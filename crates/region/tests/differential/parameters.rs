//! Kernels whose scalars exceed the parameter limit, and which read them from a table in device
//! memory.

use millstream_region::{Array, Error, RegionExt, UsageErrorKind};
use ndarray::{Array6, ArrayView, Axis, Ix6, SliceInfo, SliceInfoElem, s};

use crate::differential::{Outcome, configurations::everywhere};

/// The number of slices in one kernel. Each has a start and a step for each axis: 1,152 values of
/// four bytes.
const SLICES: usize = 96;

type Slice6 = SliceInfo<[SliceInfoElem; 6], Ix6, Ix6>;

fn slice(at: usize) -> Slice6 {
    let start = |divisor: usize| (at / divisor % 4) as isize + 1;
    let [a, b, c, d] = [1, 4, 16, 64].map(start);
    s![a..a + 5;2, b..b + 5;2, c..c + 5;-2, d..d + 5;2, 1..6;-2, 2..7;2]
}

/// Returns an array of small integers, whose sums are exact.
fn host(offset: usize) -> Array6<f32> {
    let shape = [9; 6];
    let count = shape.iter().product::<usize>();
    let numbers = (0..count)
        .map(|at| ((at * 7 + offset) % 31) as f32)
        .collect();
    Array6::from_shape_vec(shape, numbers).expect("the elements fill the shape")
}

fn on_device(x: &Array<f32, Ix6>, factor: f32) -> Array<f32, Ix6> {
    let parts = (0..SLICES).map(|at| x.slice(slice(at)));
    parts
        .reduce(|sum, part| sum + part)
        .expect("the sum has slices")
        * factor
}

fn on_cpu(x: &ArrayView<'_, f32, Ix6>, factor: f32) -> Array6<f32> {
    let parts = (0..SLICES).map(|at| x.slice(slice(at)).to_owned());
    parts
        .reduce(|sum, part| sum + part)
        .expect("the sum has slices")
        * factor
}

#[run_by(everywhere, |device|)]
fn scalars_beyond_the_parameter_limit_come_from_a_table() -> Outcome {
    // The second iteration uses the cached kernels with other values.
    for (offset, factor) in [(0, 1.0), (5, -2.0)] {
        let host = host(offset);
        let expected = on_cpu(&host.view(), factor);
        // A region for each, so that each kernel computes the sum itself.
        let sum = device.region(|g| on_device(&g.array(&host), factor))?;
        let total = device.region(|g| on_device(&g.array(&host), factor).sum())?;
        let sums = device.region(|g| on_device(&g.array(&host), factor).sum_axis(Axis(0)))?;
        let updated = device.region(|g| {
            let x = g.array(&host);
            let mut updated = x.clone();
            updated
                .slice_mut(s![3..6, ..;4, 1..4, ..3, ..3, ..3])
                .assign(&on_device(&x, factor));
            updated
        })?;
        assert_eq!(sum.wait()?, expected);
        assert_eq!(total.wait()?.into_scalar(), expected.iter().sum::<f32>());
        assert_eq!(sums.wait()?, expected.sum_axis(Axis(0)));
        let mut host = host;
        host.slice_mut(s![3..6, ..;4, 1..4, ..3, ..3, ..3])
            .assign(&expected);
        assert_eq!(updated.wait()?, host);
    }
    Ok(())
}

#[run_by(everywhere, |device|)]
fn invalid_indices_are_found_by_kernels_with_a_table() -> Outcome {
    let host = host(3);
    for (indices, is_wrong) in [([2_i64, 0], false), ([0, 3], true), ([2, 2], false)] {
        let indices = ndarray::arr1(&indices);
        let found = device
            .region(|g| on_device(&g.array(&host), 1.0).select(Axis(0), &g.array(&indices)))?;
        match found.wait() {
            Err(Error::Usage(usage_error)) if is_wrong => {
                assert_eq!(
                    *usage_error.problem(),
                    UsageErrorKind::Index {
                        index: Some(3),
                        axis: 0,
                        length: 3
                    }
                );
            }
            Ok(found) if !is_wrong => {
                let chosen = indices.mapv(|index| index as usize).to_vec();
                assert_eq!(found, on_cpu(&host.view(), 1.0).select(Axis(0), &chosen));
            }
            other => return Err(format!("{indices}: {other:?}").into()),
        }
    }
    Ok(())
}
