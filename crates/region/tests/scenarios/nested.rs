//! Lists, options, tuples and arrays of Rust's as parameters, results and `&mut` arguments, nested
//! in one another and in structs.

use half::f16;
use millstream_region::{Element, Keep, OnDevice, Result};

use crate::scenarios::{crossing::scenario, prelude::*};

#[derive(Clone, Debug, PartialEq, OnDevice)]
struct Layer {
    weights: Array2<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(Clone, Debug, PartialEq, OnDevice)]
struct Model {
    layers: Vec<Layer>,
    ends: [Layer; 2],
    tables: (Vec<u8>, Vec<Vec<i32>>),
    steps: Vec<usize>,
    name: String,
}

fn layer(scale: f32, bias: bool) -> Layer {
    Layer {
        weights: array![[1.0, 2.0], [3.0, 4.0]] * scale,
        bias: bias.then(|| array![scale, 0.5]),
    }
}

fn model() -> Model {
    Model {
        layers: vec![layer(1.0, true), layer(2.0, false), layer(3.0, true)],
        ends: [layer(4.0, false), layer(5.0, true)],
        tables: (vec![1, 2], vec![vec![3], vec![], vec![4, 5]]),
        steps: vec![2, 1],
        name: "small".to_owned(),
    }
}

/// A struct that is generic in its elements.
#[derive(Clone, Debug, PartialEq, OnDevice)]
struct Pair<T: Element>(Array1<T>, Vec<T>);

#[region]
fn swapped<T: Element>(pairs: &mut [Pair<T>]) -> Vec<Pair<T>> {
    let before = pairs.clone();
    for pair in pairs.iter_mut() {
        std::mem::swap(&mut pair.0, &mut pair.1);
    }
    before
}

#[run_by(scenario, |harness, calls|)]
fn c09_structs_are_generic() -> Result<()> {
    let mut pairs = [Pair(array![1_u8, 2], vec![3, 4])];
    calls.forget();
    let before = swapped(&harness.device, &mut pairs)?.wait()?;
    assert_copies(calls, 2, 4);
    assert_eq!(
        (&pairs, before),
        (
            &[Pair(array![3, 4], vec![1, 2])],
            vec![Pair(array![1, 2], vec![3, 4])]
        )
    );
    Ok(())
}

#[region]
fn keep(model: Model) -> ModelOnDevice {
    model
}

#[region]
fn bring(model: &Model) -> Model {
    model.clone()
}

#[region]
fn apply(model: &Model, x: &Array1<f32>) -> Array1<f32> {
    let mut y = x.clone();
    let steps = model.steps.iter().sum();
    for layer in model.layers.iter().chain(&model.ends).take(steps) {
        y = layer.weights.dot(&y);
        if let Some(bias) = &layer.bias {
            y += bias;
        }
    }
    y
}

#[region]
fn learn(model: &mut Model, by: f32) {
    for layer in model.layers.iter_mut().chain(&mut model.ends) {
        layer.weights *= by;
        if let Some(bias) = &mut layer.bias {
            *bias += 1.0;
        }
    }
    model.tables.1[0] *= 7;
    model.steps[1] = 9;
}

#[run_by(scenario, |harness, calls|)]
fn c09_a_model_of_lists_is_one_value() -> Result<()> {
    let (host, x) = (model(), array![1.0, -1.0]);
    let by_hand = host.layers.iter().fold(x.clone(), |y, layer| {
        let y = layer.weights.dot(&y);
        layer.bias.as_ref().map_or(y.clone(), |bias| &y + bias)
    });
    calls.forget();
    assert_eq!(apply(&harness.device, &host, &x)?.wait()?, by_hand);
    // Of 12 arrays, one has no elements; and the argument.
    assert_copies(calls, 12, 1);
    calls.forget();
    let kept = keep(&harness.device, &host)?.wait()?;
    assert_copies(calls, 11, 0);
    calls.forget();
    assert_eq!(apply(&harness.device, &kept, &x)?.wait()?, by_hand);
    assert_copies(calls, 1, 1);
    assert_eq!(bring(&harness.device, &kept)?.wait()?, host);
    Ok(())
}

#[run_by(scenario, |harness, calls|)]
fn c02_a_model_of_lists_is_written_back() -> Result<()> {
    let (mut host, mut expected) = (model(), model());
    for layer in expected.layers.iter_mut().chain(&mut expected.ends) {
        layer.weights *= 2.0;
        layer.bias = layer.bias.take().map(|bias| bias + 1.0);
    }
    expected.tables.1[0][0] = 21;
    expected.steps = vec![2, 9];
    calls.forget();
    learn(&harness.device, &mut host, 2.0)?.wait()?;
    assert_copies(calls, 11, 11);
    assert_eq!(host, expected);
    let mut kept = keep(&harness.device, model())?.wait()?;
    calls.forget();
    learn(&harness.device, &mut kept, 2.0)?.wait()?;
    assert_copies(calls, 0, 0);
    assert_eq!(bring(&harness.device, &kept)?.wait()?, expected);
    Ok(())
}

#[region]
fn scale(all: &mut Vec<Array1<f32>>, by: &[f32], one: &mut Option<Array1<f32>>, grow: usize) {
    for x in all.iter_mut() {
        *x *= by;
    }
    if let Some(one) = one {
        *one += all[0].sum();
    }
    all.extend((0..grow).map(|_| by * 2.0));
}

#[run_by(scenario, |harness, calls|)]
fn c02_lists_and_options_are_written_back() -> Result<()> {
    let device = &harness.device;
    let mut all = vec![array![1.0, 2.0], array![3.0, 4.0]];
    let mut one = Some(array![0.5]);
    calls.forget();
    scale(device, &mut all, &[10.0, 1.0], &mut one, 0)?.wait()?;
    assert_copies(calls, 4, 3);
    assert_eq!(all, [array![10.0, 2.0], array![30.0, 4.0]]);
    assert_eq!(one, Some(array![12.5]));
    scale(
        device,
        &mut all.clone(),
        vec![1.0, 1.0],
        &mut None::<Array1<f32>>,
        0,
    )?
    .wait()?;

    // A longer list is an error, and all data of the host is unchanged.
    let (before, before_one) = (all.clone(), one.clone());
    let error = scale(device, &mut all, &[0.0, 0.0], &mut one, 1).unwrap_err();
    let Error::Usage(usage) = &error else {
        panic!("{error}")
    };
    assert!(
        error
            .to_string()
            .contains("the caller's has 2, and the body left 3"),
        "{error}"
    );
    assert!(matches!(usage.problem(), UsageErrorKind::Argument { .. }));
    assert_eq!((&all, &one), (&before, &before_one));

    // On the device, lists of arrays are changed without a copy, within a region, too.
    let on_device = |x: &Array1<f32>| Array::from_host(device, x);
    let mut kept = vec![on_device(&all[0])?, on_device(&all[1])?];
    let mut kept_one = Some(on_device(&array![0.0])?);
    let by = on_device(&array![2.0, 2.0])?;
    calls.forget();
    scale(device, &mut kept, &by, &mut kept_one, 0)?.wait()?;
    assert_copies(calls, 0, 0);
    assert_eq!(kept[1].to_host()?, array![60.0, 8.0]);
    let sums = device.region(|g| {
        let mut all: Vec<_> = kept.iter().map(|x| g.array(x)).collect();
        scale(g, &mut all, &by, &mut kept_one, 0);
        all
    })?;
    assert_eq!(sums.wait()?, [array![40.0, 8.0], array![120.0, 16.0]]);
    let failed = device.region(|g| {
        let mut host = vec![array![1.0, 1.0]];
        scale(g, &mut host, &by, &mut None::<Array1<f32>>, 0);
        g.array(&host[0])
    });
    assert_fails(failed, "cannot be changed by a part");
    Ok(())
}

#[region]
fn halves<T: Element>(all: &[(Array1<T>, usize)], other: Option<Vec<T>>) -> Vec<[Vec<T>; 2]> {
    let parts = all.iter().map(|(x, at)| x.split_at(Axis(0), *at).into());
    parts
        .chain(other.map(|other| [other.clone(), other]))
        .collect()
}

#[region]
fn fail(all: &[Array1<f32>]) -> Result<Vec<Array1<f32>>> {
    let sum = all.iter().cloned().reduce(|a, b| a + b);
    Ok(vec![
        sum.unwrap(),
        all[0].select(Axis(0), &all[1].cast::<i32>()),
    ])
}

#[run_by(scenario, |harness, calls|)]
fn c09_results_are_lists_and_options_in_one_another() -> Result<()> {
    let device = &harness.device;
    calls.forget();
    let all = [array![1.0_f32, 2.0], array![3.0]];
    let kept = device.region(|g| {
        let all: Vec<_> = all.iter().map(|x| g.array(x)).collect();
        let sums = [all[0].sum(), all[1].sum()];
        (
            all.into_iter().map(Keep).collect::<Vec<_>>(),
            sums,
            Some(g.ones::<u8, _>(2)),
        )
    })?;
    let (kept, sums, ones) = kept.wait()?;
    assert_copies(calls, 2, 3);
    assert_eq!(
        (kept[1].to_host()?, ones),
        (array![3.0], Some(array![1, 1]))
    );
    assert_eq!(sums.map(|sum| sum.into_scalar()), [3.0, 3.0]);

    assert_fails(
        fail(device, &[&array![1.0_f32], &array![7.0]])?.wait(),
        "index 7",
    );
    let (one, ends) = (array![f16::ONE], (array![f16::ONE, f16::ZERO], 1));
    let halves = halves(device, &[ends], Some(&one))?.wait()?;
    assert_eq!(
        halves,
        [
            [vec![f16::ONE], vec![f16::ZERO]],
            [vec![f16::ONE], vec![f16::ONE]]
        ]
    );
    let none: Vec<Array1<f32>> = Vec::new();
    assert_eq!(
        device
            .region(|g| none.iter().map(|x| g.array(x)).collect::<Vec<_>>())?
            .wait()?,
        none
    );
    assert_fails(fail(device, &[array![1.0], array![7.0]])?.wait(), "index 7");
    assert_fails(
        fail(device, &[array![1.0, 2.0], array![1.0, 2.0, 3.0]]),
        "[2] and [3]",
    );
    Ok(())
}
