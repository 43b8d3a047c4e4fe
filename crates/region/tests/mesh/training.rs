//! P12: a training step over 1, 2 and 4 devices gives the same numbers.

use millstream_region::{Replicated, Sharded, Split, region};
use ndarray::{Array1, Array2, Axis};

use crate::mesh::on_devices;

/// The parameters of a network of two layers.
type Parameters = (
    Replicated<Array2<f32>>,
    Replicated<Array1<f32>>,
    Replicated<Array2<f32>>,
);

/// Takes one step of gradient descent on the squared error, with the rows spread over the devices.
/// The gradients of the last layer are reduced while those of the first are calculated.
#[region(mesh)]
fn step(
    first: &Replicated<Array2<f32>>,
    bias: &Replicated<Array1<f32>>,
    last: &Replicated<Array2<f32>>,
    x: &Sharded<Array2<f32>, 0>,
    y: &Sharded<Array2<f32>, 0>,
    rate: f32,
) -> Parameters {
    let hidden = (x.dot(first) + bias).tanh();
    let error = hidden.dot(last) - y;
    let of_last = hidden.t().dot(&error).all_reduce("data");
    let back = error.dot(&last.t()) * (1.0 - &hidden * &hidden);
    let of_bias = back.sum_axis(Axis(0)).all_reduce("data");
    let of_first = x.t().dot(&back).all_reduce("data");
    (
        first - of_first * rate,
        bias - of_bias * rate,
        last - of_last * rate,
    )
}

/// The largest difference to the host: each gradient is a sum of 30 products rounded to 24 bits
/// whose terms are at most 4, over five steps at a rate of 0.01, and numbers below 1 are off by
/// 6e-8 each time they are rounded.
const OFF_MAX: f32 = 2e-6;

const STEPS: usize = 5;

fn numbers(rows: usize, columns: usize, seed: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        ((seed + 17 * row + 5 * column) as f32 * 0.37).sin()
    })
}

/// Trains on the host.
fn expected(x: &Array2<f32>, y: &Array2<f32>) -> (Array2<f32>, Array1<f32>, Array2<f32>) {
    let (mut first, mut bias, mut last) = (numbers(6, 8, 1), Array1::zeros(8), numbers(8, 3, 2));
    for _ in 0..STEPS {
        let hidden = (x.dot(&first) + &bias).mapv(f32::tanh);
        let error = hidden.dot(&last) - y;
        let of_last = hidden.t().dot(&error);
        let back = error.dot(&last.t()) * hidden.mapv(|value| 1.0 - value * value);
        bias = bias - back.sum_axis(Axis(0)) * 0.01;
        first = first - x.t().dot(&back) * 0.01;
        last = last - of_last * 0.01;
    }
    (first, bias, last)
}

fn off<D: ndarray::Dimension>(one: &ndarray::Array<f32, D>, other: &ndarray::Array<f32, D>) -> f32 {
    let pairs = one.iter().zip(other);
    pairs.fold(0.0, |off, (one, other)| off.max((one - other).abs()))
}

#[test]
fn p12_a_sharded_training_step_gives_the_same_numbers() {
    let (x, y) = (numbers(30, 6, 3), numbers(30, 3, 4));
    let on_host = expected(&x, &y);
    for count in [1, 2, 4] {
        on_devices(count, |machine| {
            let mesh = machine.mesh();
            let (rows, targets) = (
                mesh.shard(&x, Split::over("data"))?,
                mesh.shard(&y, Split::over("data"))?,
            );
            let mut first = mesh.replicate(&numbers(6, 8, 1))?;
            let mut bias = mesh.replicate(&Array1::zeros(8))?;
            let mut last = mesh.replicate(&numbers(8, 3, 2))?;
            machine.calls.forget();
            for _ in 0..STEPS {
                (first, bias, last) = step(&mesh, &first, &bias, &last, &rows, &targets, 0.01)?;
            }
            let counts = machine.calls.counts();
            for call in ["copy_host_to_device", "copy_device_to_host"] {
                let crossed = counts.keys().filter(|made| made.starts_with(call)).count();
                assert_eq!(crossed, 0, "{}: {counts:?}", machine.name);
            }
            // Each of the three sums is copied to each other device, as a whole or in one piece
            // from each; on one device nothing is copied between devices.
            let others = count as usize - 1;
            let exchanged = counts.get("copy_peer_async").copied().unwrap_or(0);
            let sums = STEPS * 3;
            assert!(
                (sums * others..=sums * 2 * count as usize * others).contains(&exchanged),
                "{}: {counts:?}",
                machine.name
            );
            for rank in 0..count as usize {
                assert!(off(&first.copies()[rank].to_host()?, &on_host.0) < OFF_MAX);
                assert!(off(&bias.copies()[rank].to_host()?, &on_host.1) < OFF_MAX);
                assert!(off(&last.copies()[rank].to_host()?, &on_host.2) < OFF_MAX);
            }
            Ok(())
        });
    }
}
