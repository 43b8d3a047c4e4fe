//! `Region::explain`: the kernels that an evaluation runs, and why arrays are stored.

use millstream_region::{Error, Explanation, ProductPrecision, StoreReason};

use crate::fusion::prelude::*;

type Body = fn(&Array<f32, Ix2>) -> Array<f32, Ix2>;

fn softmax(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    let powers = (x - &x.max_keepdims(&[Axis(1)])).exp();
    &powers / &powers.sum_keepdims(&[Axis(1)])
}

fn product(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    (x * 2.0).dot(x) + 1.0
}

fn attention(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    (x * 2.0).attention(x, x, 0.5) + 1.0
}

/// Each reduction of columns needs all of an array that is used again after it.
fn shared(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    let powers = x.exp().tanh().exp();
    let part = &powers / &powers.sum_keepdims(&[Axis(0)]);
    &part * &part.max_keepdims(&[Axis(0)])
}

/// More operations than one kernel has.
fn long(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    (0..150).fold(x.clone(), |y, _| (y * 0.5) + x)
}

/// Returns the operation and the reason of each stored array.
fn reasons(plan: &Explanation) -> Vec<(&'static str, StoreReason)> {
    let stored = plan.kernels().iter().flat_map(|kernel| &kernel.stored);
    stored
        .map(|array| (array.operation, array.reason))
        .collect()
}

#[test]
fn the_explained_kernels_are_those_that_run() {
    use StoreReason::{Operand, OwnKernel, Requested, Shared};
    let all: [(Body, &[(&str, StoreReason)]); 4] = [
        (softmax, &[("div", Requested)]),
        (product, &[("mul", Operand), ("add", Requested)]),
        (
            attention,
            &[
                ("mul", Operand),
                ("attention", OwnKernel),
                ("add", Requested),
            ],
        ),
        (
            shared,
            &[
                ("exp", Shared),
                ("sum", OwnKernel),
                ("div", Shared),
                ("greatest", OwnKernel),
                ("mul", Requested),
            ],
        ),
    ];
    for (body, expected) in all {
        Counted::everywhere(|counted| {
            let host =
                Array2::from_shape_fn((30, 30), |(row, column)| (row + column) as f32 / 64.0);
            let x = counted.array(&host);
            let (kernels, work) = counted.work(|device| {
                let mut kernels = 0;
                let pending = device.region(|g| {
                    let result = body(&g.array(&x));
                    let plan = g.explain(&result)?;
                    assert_eq!(reasons(&plan), expected, "{plan}");
                    assert!(
                        plan.to_string().contains("tests/fusion/explanations.rs"),
                        "{plan}"
                    );
                    assert_eq!(counted.calls.count("launch_kernel"), 0, "nothing has run");
                    kernels = plan.kernels().len();
                    Ok(result)
                });
                pending.unwrap().wait().unwrap();
                kernels
            });
            assert_eq!(work.kernels, kernels);
        });
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn explanations_tell_what_is_read_and_what_is_too_large() {
    let x = counted.array(&Array2::<f32>::ones((3, 8)));
    let pending = counted.device.region(|g| {
        let x = g.array(&x);
        let (y, sum) = (long(&x), x.sum_axis(Axis(0)));
        let plan = g.explain(&(Keep(y.clone()), sum.clone()))?;
        let found = reasons(&plan);
        let size = |&(_, reason): &(&str, StoreReason)| reason == StoreReason::Size;
        assert!(found.iter().any(size), "{plan}");
        let results = found
            .iter()
            .filter(|(_, reason)| *reason == StoreReason::Requested);
        assert_eq!(results.count(), 2, "{plan}");
        assert_eq!(plan.kernels()[0].bytes_read, [96], "{plan}");
        let wrong = y.into_shape_with_order(7);
        assert!(matches!(g.explain(&wrong), Err(Error::Usage(_))));
        Ok(sum)
    });
    assert!(pending.is_err(), "the body contains a wrong operation");
}

#[run_by(Counted::everywhere, |counted|)]
fn an_explanation_tells_what_is_computed_in_shared_memory() {
    let x = counted.array(&Array2::<f32>::ones((40, 8)));
    counted.result(|g| {
        let powers = g.array(&x).exp();
        let parts = (0..5).map(|row| powers.slice(s![row..row + 36, ..]));
        let sum = parts.reduce(|sum, part| sum + part).unwrap();
        let plan = g.explain(&sum)?;
        assert_eq!(reasons(&plan), [("add", StoreReason::Requested)], "{plan}");
        assert_eq!(plan.kernels()[0].in_shared_memory, ["exp"]);
        let line = "computes exp in shared memory: a stencil reads it";
        assert!(plan.to_string().contains(line), "{plan}");
        Ok(sum)
    });
}

#[run_by(Counted::everywhere, |counted|)]
fn an_explanation_names_the_precision_of_a_product() {
    let x = counted.array(&Array2::<f32>::ones((5, 5)));
    let wide = counted.array(&Array2::<f64>::ones((5, 5)));
    counted.result(|g| {
        let (x, wide) = (g.array(&x), g.array(&wide));
        let operations = |plan: Explanation| plan.kernels()[0].operations.clone();
        for (precision, name) in [
            (ProductPrecision::Full, "matrix product"),
            (ProductPrecision::Tf32, "matrix product in TF32"),
        ] {
            let product = x.dot_with(&x, precision);
            assert_eq!(operations(g.explain(&product)?), [name]);
            // Other elements than `f32` have no other precision.
            let product = wide.matmul_with(&wide, precision);
            assert_eq!(operations(g.explain(&product)?), ["matrix product"]);
        }
        Ok(())
    });
}
