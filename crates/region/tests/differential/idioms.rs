//! Idioms of `ndarray` in region functions: each function is compiled for the host and for the
//! device, and must give equal results.

use millstream_region::Result;

use crate::differential::prelude::*;

/// Defines the functions in a module, with the given attributes.
macro_rules! functions {
    ($module:ident, $(#[$attribute:meta])*) => {
        #[allow(elided_lifetimes_in_paths, reason = "as it is often written")]
        mod $module {
            use ndarray::{
                Array1, Array2, Array3, ArrayD, ArrayView1, ArrayView2, Axis, Ix2, IxDyn, s,
            };

            $(#[$attribute])*
            pub(super) fn views(
                x: &ArrayView2<f32>,
                y: ArrayView1<'_, f32>,
            ) -> (Array2<f32>, Array1<f32>) {
                (x.view().t().to_owned() * 2.0, (&y.view() + &y).to_owned())
            }

            $(#[$attribute])*
            pub(super) fn shapes(
                x: &Array2<f32>,
            ) -> (Array2<f32>, Array2<f32>, Array1<f32>, ArrayD<f32>) {
                let (rows, columns) = x.dim();
                let mut corner = Array2::zeros((rows, columns));
                corner.slice_mut(s![..x.nrows() - 1, ..x.ncols() - 1]).fill(2.0);
                let same = Array2::from_elem(x.raw_dim(), 3.0) + x;
                let range = Array1::range(0.0, columns as f32, 1.0);
                let line = range + Array1::linspace(1.0, 2.0, columns);
                (corner, same, line, Array3::ones((1, 2, 1)).into_dyn())
            }

            $(#[$attribute])*
            pub(super) fn dimensions(x: &Array2<f32>) -> (ArrayD<f32>, Array2<f32>, Array2<f32>) {
                let any = x.clone().into_dyn();
                let shape = IxDyn(&[x.len(), 1]);
                let column = any.clone().into_shape_with_order(shape).unwrap();
                (any.clone(), column.into_dimensionality::<Ix2>().unwrap(), Array2::eye(3))
            }

            $(#[$attribute])*
            pub(super) fn parts(x: &mut Array2<f32>, y: &Array1<f32>) {
                let mut row = x.row_mut(1);
                row += y;
                row *= 2.0;
                x.column_mut(0).fill(9.0);
                let mut block = x.slice_mut(s![..;2, 1..]);
                block -= 1.0;
                block /= 2.0;
                block %= 3.0;
                let mut last = x.index_axis_mut(Axis(1), 2);
                last -= &Array1::from_elem(3, 0.5);
                let mut all = x.view_mut();
                all += 100.0;
            }

            $(#[$attribute])*
            pub(super) fn loops(x: &Array2<f32>) -> (Array1<f32>, Array1<f32>, Array2<f32>) {
                let (mut sum, mut weighted) = (Array1::zeros(x.ncols()), Array1::zeros(x.nrows()));
                for (at, row) in x.outer_iter().enumerate() {
                    sum += &(&row * (at as f32 + 1.0));
                }
                for column in x.axis_iter(Axis(1)).rev() {
                    weighted = weighted * 2.0 + column;
                }
                let (above, below) = x.view().split_at(Axis(0), 1);
                (sum, weighted, &above + &below)
            }

            $(#[$attribute])*
            pub(super) fn functions(x: &Array2<f32>) -> (Array2<f32>, Array1<f32>, Array2<f32>) {
                let scaled = x.mapv(|v| v * v + 1.0 / v);
                let means = x.mean_axis(Axis(0)).unwrap();
                let wide = means.broadcast((2, 3)).expect("three columns").to_owned();
                (scaled, means, wide)
            }

            $(#[$attribute])*
            pub(super) fn bits(
                x: &Array1<i32>,
                y: &Array1<i32>,
                is_odd: &mut Array1<bool>,
            ) -> (Array1<i32>, Array1<i32>) {
                let mut x = x.clone();
                x &= y;
                x |= 8;
                x ^= &(y >> 1);
                x <<= 2;
                let mut half = x.clone();
                half >>= &Array1::from_elem(y.len(), 1);
                let mut part = half.slice_mut(s![1..]);
                part |= 64;
                part <<= 1;
                *is_odd |= true;
                *is_odd &= &is_odd.clone();
                *is_odd ^= &is_odd.clone();
                (1 << (&x & 15), half)
            }
        }
    };
}

functions!(on_device, #[millstream_region::region]);
functions!(on_cpu,);

#[test]
fn the_same_bodies_run_on_ndarray_and_on_the_device() -> Outcome {
    everywhere(|device| Ok(check(device)?))
}

fn check(device: &Device) -> Result<()> {
    let x = Array2::from_shape_fn((3, 3), |(row, column)| (row * 4 + column + 1) as f32);
    let y = array![10.0_f32, 20.0, 30.0];
    assert_eq!(
        on_device::views(device, x.view(), &y)?.wait()?,
        on_cpu::views(&x.view(), y.view())
    );
    assert_eq!(on_device::shapes(device, &x)?.wait()?, on_cpu::shapes(&x));
    assert_eq!(
        on_device::dimensions(device, &x)?.wait()?,
        on_cpu::dimensions(&x)
    );
    let (mut changed, mut expected) = (x.clone(), x.clone());
    on_device::parts(device, &mut changed, &y)?.wait()?;
    on_cpu::parts(&mut expected, &y);
    assert_eq!(changed, expected);
    assert_eq!(on_device::loops(device, &x)?.wait()?, on_cpu::loops(&x));
    assert_eq!(
        on_device::functions(device, &x)?.wait()?,
        on_cpu::functions(&x)
    );
    let (a, b) = (
        array![0b1100, -1, 77, i32::MIN],
        array![0b1010, 6, -3, i32::MAX],
    );
    let (mut odd, mut expected_odd) = (array![true, false], array![true, false]);
    let found = on_device::bits(device, &a, &b, &mut odd)?.wait()?;
    assert_eq!(found, on_cpu::bits(&a, &b, &mut expected_odd));
    assert_eq!(odd, expected_odd);
    Ok(())
}

#[run_by(everywhere, |device|)]
fn masks_are_counted_and_select_values() -> Outcome {
    let x: Array1<f32> = Array1::from_shape_fn(1000, |index| (index % 7) as f32 - 3.0);
    let (count, positive, negative, numbers, truths) = evaluate(device, |g| {
        let x = g.array(&x);
        let is_positive = x.greater(0.0);
        (
            is_positive.sum(),
            is_positive.where_cond(&x, 0.0),
            is_positive.where_cond(0.0, &x),
            is_positive.where_cond(1_u8, 2),
            is_positive.where_cond(true, x.less(-2.0)),
        )
    })?;
    assert_eq!(
        count.into_scalar(),
        x.iter().filter(|&&v| v > 0.0).count() as i64
    );
    assert_eq!(positive, x.mapv(|v| if v > 0.0 { v } else { 0.0 }));
    assert_eq!(negative, x.mapv(|v| if v > 0.0 { 0.0 } else { v }));
    assert_eq!(numbers, x.mapv(|v| if v > 0.0 { 1 } else { 2 }));
    assert_eq!(truths, x.mapv(|v| !(-2.0..=0.0).contains(&v)));
    Ok(())
}
