//! The training on several devices: each has some of the images, and they add their gradients.
//!
//! A gradient leaves the body in buckets, one `all_reduce` for each, in the order in which they are
//! calculated. A region enqueues the work up to a collective, then the collective, then the work up
//! to the next. The devices exchange a bucket on streams of their own, so that the kernels of the
//! next bucket, which do not depend on it, run meanwhile. Only the update of the weights waits for
//! all of them.

use anyhow::Result;
use millstream::Device;
use millstream_region::{Mesh, Replicated, Sharded, Split, concatenate, region};
use ndarray::{Array1, Array2, Axis, s};

/// The number of buckets in which the gradient of the weights is added.
const BUCKETS: usize = 2;

type Weights = Replicated<Array2<f32>>;
type Bias = Replicated<Array1<f32>>;
type Rows = Sharded<Array2<f32>, 0>;

/// Takes one step of gradient descent; `scale` is the rate divided by the number of all images.
#[region(mesh)]
fn step(
    x: &Rows,
    y: &Rows,
    weights: &Weights,
    bias: &Bias,
    scale: f32,
) -> millstream_region::Result<(Weights, Bias)> {
    let odds = (x.dot(weights) + bias).exp();
    let error = &odds / &odds.sum_axis(Axis(1)).insert_axis(Axis(1)) - y;
    let of_bias = error.sum_axis(Axis(0)).all_reduce("data");
    let pixels = x.ncols().div_ceil(BUCKETS);
    let mut buckets = Vec::new();
    for bucket in 0..BUCKETS {
        let pixels = bucket * pixels..((bucket + 1) * pixels).min(x.ncols());
        let part = x.slice(s![.., pixels]);
        buckets.push(part.t().dot(&error).all_reduce("data"));
    }
    let of_weights = concatenate(Axis(0), &buckets)?;
    Ok((weights - of_weights * scale, bias - of_bias * scale))
}

/// Trains on these devices, from weights and a bias of zero.
pub(crate) fn train(
    devices: &[Device],
    images: &Array2<f32>,
    classes: &Array2<f32>,
    rate: f32,
    steps: usize,
) -> Result<(Array2<f32>, Array1<f32>)> {
    let mesh = Mesh::new(devices.to_vec(), [("data", devices.len())])?;
    let x = mesh.shard(images, Split::over("data"))?;
    let y = mesh.shard(classes, Split::over("data"))?;
    let mut weights = mesh.replicate(&Array2::zeros((images.ncols(), classes.ncols())))?;
    let mut bias = mesh.replicate(&Array1::zeros(classes.ncols()))?;
    let scale = rate / images.nrows() as f32;
    for _ in 0..steps {
        (weights, bias) = step(&mesh, &x, &y, &weights, &bias, scale)?;
    }
    Ok((weights.to_host()?, bias.to_host()?))
}
