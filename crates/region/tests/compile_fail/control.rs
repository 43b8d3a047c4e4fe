//! The control: a valid counterpart of the other programs. It compiles, which shows that they fail
//! for the expected reasons.

use millstream::Device;
use millstream_region::{Array, Element, Float, OnDevice, Region, RegionExt, Result, region};
use ndarray::{
    Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut1, Axis, Dimension, Ix1, array, s,
};

#[derive(OnDevice)]
struct Layer {
    weights: Array2<f32>,
    bias: Array1<f32>,
    rounds: usize,
}

/// Takes every kind of parameter.
#[region]
fn all(
    g: &Region,
    x: &Array1<f32>,
    mut y: Array1<f32>,
    z: &mut Array1<f32>,
    layer: &Layer,
    by: f32,
) -> (Array1<f32>, f32) {
    for _ in 0..layer.rounds {
        y += &(layer.weights.dot(x) + &layer.bias);
    }
    *z *= by;
    let first: Array<f32, Ix1> = x.index_axis(Axis(0), 0).exp() + g.zeros::<f32, _>(1);
    (y, first.sum())
}

/// Uses the idioms of `ndarray`.
#[region]
fn idioms(x: &ArrayView2<f32>, y: ArrayView1<'_, f32>, z: &mut ArrayViewMut1<f32>) -> Array1<f32> {
    let mut sums = Array1::zeros(x.nrows());
    sums += &x.mean_axis(Axis(1)).unwrap();
    for (at, row) in x.outer_iter().enumerate() {
        let mut part = sums.slice_mut(s![at..=at]);
        part += row.mapv(|v| v * v).sum();
    }
    *z += 1.0;
    // Full paths name host arrays.
    let host = ndarray::Array1::<f32>::zeros(2);
    let host = host.mapv(|v| if v > 0.0 { v } else { v.max(1.0) }).mapv(f32::sqrt);
    assert_eq!(host[0], 1.0);
    y.view().less(0.0).where_cond(0.0, sums)
}

/// Takes any element type and any number of axes.
#[region]
fn same<T: Element, D>(x: &ndarray::Array<T, D>) -> ndarray::Array<T, D>
where
    D: Dimension,
{
    x.clone()
}

/// Takes a pattern, and returns a result that can be an error.
#[region]
fn checked<T: Float>(_: usize, x: &[T]) -> Result<Vec<T>> {
    Ok(x.exp())
}

fn main() -> Result<()> {
    let device = Device::open(millstream::Select::Auto)?;
    let layer = Layer {
        weights: Array2::eye(2),
        bias: array![1.0, 2.0],
        rounds: 2,
    };
    let (x, y, mut z) = (array![1.0, 2.0], array![3.0, 4.0], vec![5.0]);
    let mut z_view = ndarray::ArrayViewMut1::from(&mut z[..]);
    let (_, first) = all(&device, &x, y.view(), z_view.view_mut(), &layer, 2.0)?.wait()?;
    let again: Vec<f32> = checked(&device, 3, &z)?.wait()?;
    println!("{first} {again:?}");
    let (matrix, mut line) = (Array2::eye(2), array![1.0_f32]);
    idioms(&device, matrix.view(), &x, &mut line)?.wait()?;
    let kept = device.region(|g| same(g, &x))?.wait()?;
    same(&device, &kept)?.wait()?;
    Ok(())
}
