//! Structs of arrays as parameters, results and `&mut` arguments, and on the device between
//! regions.

use millstream_region::{OnDevice, Result};

use crate::scenarios::{crossing::scenario, prelude::*};

#[derive(Clone, Debug, PartialEq, OnDevice)]
struct Layer {
    weights: Array2<f32>,
    bias: Array1<f32>,
    rounds: usize,
}

#[derive(Clone, Debug, PartialEq, OnDevice)]
struct Model(Layer, Vec<f64>, Layer);

fn layer(scale: f32) -> Layer {
    Layer {
        weights: array![[1.0, 2.0], [3.0, 4.0]] * scale,
        bias: array![scale, 0.5],
        rounds: 2,
    }
}

#[region]
fn apply(layer: &Layer, x: &Array1<f32>) -> Array1<f32> {
    let mut y = x.clone();
    for _ in 0..layer.rounds {
        y = layer.weights.dot(&y) + &layer.bias;
    }
    y
}

#[region]
fn keep(layer: Layer) -> LayerOnDevice {
    layer
}

#[region]
fn learn(layer: &mut Layer, by: f32) {
    layer.weights *= by;
    layer.bias += 1.0;
    layer.rounds += 1;
}

#[region]
fn transposed(model: &Model) -> Model {
    let mut other = model.clone();
    other.0.weights = model.2.weights.t().clone();
    other.1 = &model.1 * 2.0;
    other
}

#[region]
fn learn_all(g: &Region, model: &mut Model) {
    learn(g, &mut model.0, 2.0);
    learn(g, &mut model.2, 3.0);
}

#[run_by(scenario, |harness, calls|)]
fn c09_a_struct_that_is_kept_is_uploaded_once() -> Result<()> {
    let x = array![1.0, -1.0];
    calls.forget();
    let kept = keep(&harness.device, layer(1.0))?.wait()?;
    assert_copies(calls, 2, 0);
    let host = layer(1.0);
    let by_hand = host.weights.dot(&(host.weights.dot(&x) + &host.bias)) + &host.bias;
    calls.forget();
    for _ in 0..3 {
        assert_eq!(apply(&harness.device, &kept, &x)?.wait()?, by_hand);
    }
    assert_copies(calls, 3, 3);
    calls.forget();
    assert_eq!(apply(&harness.device, &host, &x)?.wait()?, by_hand);
    assert_copies(calls, 3, 1);
    Ok(())
}

#[run_by(scenario, |harness, calls|)]
fn c02_a_struct_is_written_back() -> Result<()> {
    let mut host = layer(1.0);
    calls.forget();
    learn(&harness.device, &mut host, 2.0)?.wait()?;
    assert_copies(calls, 2, 2);
    let expected = Layer {
        weights: layer(2.0).weights,
        bias: array![2.0, 1.5],
        rounds: 3,
    };
    assert_eq!(host, expected);

    let mut kept = keep(&harness.device, layer(1.0))?.wait()?;
    calls.forget();
    learn(&harness.device, &mut kept, 2.0)?.wait()?;
    assert_copies(calls, 0, 0);
    let back = bring(&harness.device, &kept)?.wait()?;
    assert_copies(calls, 0, 2);
    assert_eq!(back, expected);
    Ok(())
}

#[region]
fn bring(layer: &Layer) -> Layer {
    layer.clone()
}

#[run_by(scenario, |harness, calls|)]
fn c09_structs_hold_structs() -> Result<()> {
    let model = Model(layer(1.0), vec![1.0, 2.0], layer(3.0));
    calls.forget();
    let mut other = transposed(&harness.device, &model)?.wait()?;
    assert_copies(calls, 5, 5);
    let mut expected = model.clone();
    expected.0.weights = array![[3.0, 9.0], [6.0, 12.0]];
    expected.1 = vec![2.0, 4.0];
    assert_eq!(other, expected);
    learn_all(&harness.device, &mut other)?.wait()?;
    assert_eq!(other.0.weights, array![[6.0, 18.0], [12.0, 24.0]]);
    assert_eq!(other.2.bias, array![4.0, 1.5]);
    assert_eq!(
        (other.0.rounds, other.2.rounds, &other.1),
        (3, 3, &expected.1)
    );
    Ok(())
}
