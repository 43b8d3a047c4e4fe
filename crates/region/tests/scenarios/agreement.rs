//! C8: a region gives the same results with the same copies on a simulated device and on a GPU.
//! C10: two regions overlap.

use std::collections::BTreeSet;

use millstream::{OperationKind, timeline::TimedOperation};
use millstream_region::Result;

use crate::scenarios::{configurations::on_gpu, prelude::*};

/// Computes the probabilities of classes and their entropy.
#[region]
fn classify(x: &Array2<f32>, w: &Array2<f32>, b: &Array1<f32>) -> (Array2<f32>, Array1<f32>) {
    let odds = (x.dot(w) + b).tanh().exp();
    let probable = &odds / &odds.sum_axis(Axis(1)).insert_axis(Axis(1));
    let entropy = -(&probable * &probable.ln()).sum_axis(Axis(1));
    (probable, entropy)
}

/// Computes `classify` in double precision on the CPU.
fn classify_on_the_cpu(
    x: &Array2<f32>,
    w: &Array2<f32>,
    b: &Array1<f32>,
) -> (Array2<f64>, Array1<f64>) {
    let [x, w] = [x, w].map(|array| array.mapv(f64::from));
    let odds = (x.dot(&w) + b.mapv(f64::from)).mapv(|x| x.tanh().exp());
    let probable = &odds / &odds.sum_axis(Axis(1)).insert_axis(Axis(1));
    let entropy = -(&probable * &probable.mapv(f64::ln)).sum_axis(Axis(1));
    (probable, entropy)
}

/// The maximum relative error of a result: a few roundings of a sum of eight terms, of `tanh`,
/// `exp`, a sum and a quotient.
const OFF_MAX: f64 = 16.0 * f32::EPSILON as f64;

#[run_by(everywhere_counted, |harness, calls|)]
fn c08_values_and_copies_are_the_same_on_every_device() {
    // Halves and quarters, so that the matrix product is exact in any order of additions.
    let x = Array2::from_shape_fn((37, 8), |(row, column)| {
        ((row * 3 + column * 5) % 7) as f32 * 0.25 - 0.75
    });
    let w = Array2::from_shape_fn((8, 5), |(row, column)| {
        ((row + column * 2) % 5) as f32 * 0.5 - 1.0
    });
    let b = Array1::from_shape_fn(5, |column| column as f32 * 0.25);
    calls.forget();
    let result = classify(&harness.device, &x, &w, &b).and_then(|pending| pending.wait());
    assert_copies(calls, 3, 2);
    let (probable, entropy) = result.unwrap();
    let expected = classify_on_the_cpu(&x, &w, &b);
    for (&one, &other) in probable
        .iter()
        .chain(&entropy)
        .zip(expected.0.iter().chain(&expected.1))
    {
        assert!(
            (f64::from(one) - other).abs() <= OFF_MAX * other.abs(),
            "{one} for {other}"
        );
    }
}

/// Computes a power of a matrix by a chain of products.
#[region]
fn power(g: &Region, x: &Array2<f32>, times: usize) -> Array<f32, Ix2> {
    let mut product = g.eye(x.shape()[0]);
    for _ in 0..times {
        product = product.dot(x);
    }
    product
}

#[run_by(once, |harness|)]
fn c10_two_regions_at_once_overlap() -> millstream::Result<()> {
    let run = || -> Result<Vec<TimedOperation>> {
        let n = if on_gpu() { 2048 } else { 48 };
        let [x, y] = [2.0, 3.0].map(|value| Array2::<f32>::eye(n) * value);
        // Loads the kernels first, because loading may wait for running kernels.
        let [x, y] = [
            power(&harness.device, &x, 1)?.wait()?,
            power(&harness.device, &y, 1)?.wait()?,
        ];
        let timeline = harness.device.timeline()?;
        let pending = [
            power(&harness.device, &x, 16)?,
            power(&harness.device, &y, 16)?,
        ];
        let operations = timeline.finish()?.operations;
        for result in pending {
            let _ = result.wait()?;
        }
        Ok(operations)
    };
    let mut kernels = run().unwrap();
    kernels.retain(|operation| operation.kind == OperationKind::Kernel);
    let streams: BTreeSet<u64> = kernels.iter().map(|kernel| kernel.stream).collect();
    assert!(streams.len() >= 2, "each region uses its own streams");
    let first = kernels
        .first()
        .expect("the region launches products")
        .stream;
    let (one, other): (Vec<_>, Vec<_>) = kernels.iter().partition(|kernel| kernel.stream == first);
    let at_once = one.iter().any(|one| {
        let meets = |other: &&&TimedOperation| {
            one.time_ns.start < other.time_ns.end && other.time_ns.start < one.time_ns.end
        };
        other.iter().any(|other| meets(&other))
    });
    assert!(at_once, "{kernels:#?}");
    Ok(())
}
