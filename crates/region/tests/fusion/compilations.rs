//! Numbers of texts that the driver compiles for one expression and arrays of many shapes.

use std::collections::BTreeMap;

use millstream_region::concatenate;

use crate::fusion::prelude::*;

type Compute = fn(&Array<f32, Ix2>) -> Array<f32, Ix2>;

/// The name of an expression, how many texts the documentation of the crate allows, and the
/// expression.
type Kind = (&'static str, usize, Compute);

/// Returns a row of the length of the last axis.
fn row_of(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    let host = Array1::<f32>::ones(x.shape()[1]);
    let row = Array::from_host(x.device(), &host).unwrap();
    row.insert_axis(Axis(0))
}

const KINDS: [Kind; 12] = [
    ("element-wise", 2, |x| (x * 2.0 + 1.0).abs()),
    ("element-wise with a row", 5, |x| (x + &row_of(x)).exp()),
    ("transposed", 5, |x| x.t() + &x.t() * 2.0),
    ("sum of columns", 8, |x| {
        (x * 2.0).sum_axis(Axis(0)).insert_axis(Axis(0))
    }),
    ("sum of rows", 22, |x| {
        (x * 2.0).sum_axis(Axis(1)).insert_axis(Axis(0))
    }),
    ("sum of all", 2, |x| {
        (x * 2.0).sum().insert_axis(Axis(0)).insert_axis(Axis(0))
    }),
    ("softmax", 33, |x| {
        let powers = x.exp();
        &powers / &powers.sum_axis(Axis(1)).insert_axis(Axis(1))
    }),
    ("scan of rows", 6, |x| (x * 0.5).cumsum(Axis(1))),
    ("scan of columns", 6, |x| (x * 0.5).cumsum(Axis(0))),
    ("gather", 4, |x| {
        x.select(Axis(1), &[0, x.shape()[1] - 1]) * 2.0
    }),
    ("join", 7, |x| {
        concatenate(Axis(0), &[x, &(x * 2.0)]).unwrap() + 1.0
    }),
    // Inner lengths of up to four have kernels of their own.
    ("product and its epilogue", 13, |x| {
        (x.dot(&x.t()) + 1.0).relu()
    }),
];

/// Numbers of rows and columns on both sides of the bounds between kernels, as far as a simulated
/// device gets there in a short time.
fn shapes() -> Vec<(usize, usize)> {
    let mut shapes = Vec::new();
    for rows in [1, 3, 40] {
        for columns in [1, 2, 5, 8, 17, 33, 36, 52, 70, 100, 128, 250, 300] {
            shapes.push((rows, columns));
        }
    }
    shapes.extend([
        (2, 1000),
        (3, 1024),
        (2, 2050),
        (1, 4100),
        (1, 9001),
        (1, 17_000),
    ]);
    shapes.extend([
        (260, 36),
        (260, 300),
        (1000, 2),
        (5000, 3),
        (4096, 4),
        (9001, 1),
    ]);
    shapes
}

#[run_by(Counted::with(Schedule::Timed), |counted|)]
fn an_expression_for_many_shapes_takes_few_compilations() {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for (what, _, compute) in &KINDS {
        counted.calls.forget();
        for shape in shapes() {
            if what.starts_with("product") && shape.0 > 40 {
                continue;
            }
            let x = counted.array(&Array2::<f32>::ones(shape));
            drop(compute(&x).to_host().unwrap());
        }
        found.insert(*what, counted.calls.count("module_load"));
    }
    let is_few = |(what, most, _): &Kind| (1..=*most).contains(&found[what]);
    assert!(KINDS.iter().all(is_few), "{found:#?}");
}

/// A kernel's text contains no lengths. It only depends on how many threads share a result or a
/// tile, so that the texts for arrays of some heights serve all other widths of these heights. Rows
/// of 36 have eight threads with single elements, those of 52 eight with groups of four.
#[run_by(Counted::everywhere, |counted|)]
fn other_shapes_take_no_further_compilation() {
    let kinds: [(&str, Compute); 5] = [
        ("element-wise", |x| (x * 2.0 + 1.0).abs()),
        ("transposed", |x| x.t() + &x.t() * 2.0),
        ("sum of columns", |x| {
            x.sum_axis(Axis(0)).insert_axis(Axis(0))
        }),
        ("softmax", |x| {
            let e = x.exp();
            &e / &e.sum_axis(Axis(1)).insert_axis(Axis(1))
        }),
        ("scan", |x| (x * 0.5).cumsum(Axis(1))),
    ];
    for (kind, compute) in kinds {
        let compilations = |columns: &[usize]| {
            counted.calls.forget();
            for &columns in columns {
                for rows in [4, 8, 12, 20, 40] {
                    let host = Array2::<f32>::ones((rows, columns));
                    let x = counted.array(&host);
                    drop(compute(&x).to_host().unwrap());
                }
            }
            counted.calls.count("module_load")
        };
        let first = compilations(&[36, 52]);
        assert!((1..=3).contains(&first), "{kind}: {first} compilations");
        assert_eq!(compilations(&[44, 40, 60]), 0, "{kind}");
    }
}
