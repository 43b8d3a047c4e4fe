//! Stored values that a row kernel would read: it computes and stores them itself, with their bits.

use millstream_region::Region;

use crate::fusion::{
    prelude::*,
    rows::{LENGTHS, of_length, rows},
};

/// Returns results of two matrices, all of which one kernel computes.
type Results = fn(&Array<f32, Ix2>, &Array<f32, Ix2>) -> [Array<f32, Ix2>; 3];

fn mean_of(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    x.mean_keepdims(&[Axis(1)])
}

/// Results with names, and how many have a whole matrix, and one element for each row.
const RESULTS: [(&str, Results, (usize, usize)); 6] = [
    (
        "a sum and its normalisation",
        |x, r| {
            let h = x + r;
            let scale = (mean_of(&h.pow2()) + 1e-5).sqrt();
            [&h / &scale, h.clone(), h]
        },
        (2, 0),
    ),
    (
        "a sum and its mean",
        |x, r| {
            let h = x + r;
            [mean_of(&h), h.clone(), h]
        },
        (1, 1),
    ),
    (
        "a mean and the deviations",
        |x, _| {
            let mean = mean_of(x);
            [x - &mean, mean.clone(), mean]
        },
        (1, 1),
    ),
    (
        "a normalisation, its mean and its scale",
        |x, r| {
            let h = x * r;
            let mean = mean_of(&h);
            let apart = &h - &mean;
            let scale = (mean_of(&apart.pow2()) + 1e-5).sqrt();
            [&apart / &scale, mean, scale]
        },
        (1, 2),
    ),
    (
        "a softmax and a product",
        |x, r| {
            let powers = (x - x.max_keepdims(&[Axis(1)])).exp();
            let shares = &powers / powers.sum_keepdims(&[Axis(1)]);
            [&shares * r, shares.clone(), shares]
        },
        (2, 0),
    ),
    (
        "a maximum, what is below it, and its sum",
        |x, r| {
            let most = x.max_keepdims(&[Axis(1)]);
            let below = (&most - x) * r;
            [below.sum_keepdims(&[Axis(1)]), below, most]
        },
        (1, 2),
    ),
];

#[test]
fn values_that_a_row_kernel_would_read_are_stored_by_it() {
    for length in LENGTHS {
        let (x, r) = (
            of_length(length),
            of_length(length).mapv(|x| x * 0.75 + 1.0),
        );
        for (name, results, (whole, of_rows)) in RESULTS {
            Counted::somewhere(|counted| {
                let (x, r) = (counted.array(&x), counted.array(&r));
                let of = |region: &Region| results(&region.array(&x), &region.array(&r));
                let ((a, b, c), work) = counted.region(|region| {
                    let [one, two, three] = of(region);
                    (one, two, three)
                });
                let elements = rows(length) * (whole * length + of_rows);
                let expected = (1, 4 * elements as u64);
                let found = (work.kernels, work.bytes_written);
                assert_eq!(found, expected, "{name}, {length}");
                let alone = [0, 1, 2].map(|at| counted.result(|region| of(region)[at].clone()));
                assert_eq!([a, b, c], alone, "{name}, {length}");
            });
        }
    }
}

#[test]
fn values_of_other_rows_and_those_between_kernels_are_stored_before() {
    let shares = |x: &Array<f32, Ix2>| {
        let powers = (x - x.max_keepdims(&[Axis(1)])).exp();
        &powers / powers.sum_keepdims(&[Axis(1)])
    };
    type Map<'a> = &'a dyn Fn(&Array<f32, Ix2>) -> Array<f32, Ix2>;
    let cases: [(&str, usize, Map<'_>); 4] = [
        ("other rows", 2, &|h| shares(&h.slice(s![..;-1, ..]))),
        ("other elements", 2, &|h| shares(&h.slice(s![.., ..;-1]))),
        // A scan lies between the sum and the shares.
        ("a scan", 3, &|h| shares(&(h + h.cumsum(Axis(0))))),
        ("columns", 3, &|h| shares(h) + h.sum_axis(Axis(0))),
    ];
    let (x, r) = (matrix((20, 20)), matrix((20, 20)).mapv(|x| x * 0.5));
    for (name, kernels, function) in cases {
        Counted::everywhere(|counted| {
            let (x, r) = (counted.array(&x), counted.array(&r));
            let ((found, h), work) = counted.region(|region| {
                let h = region.array(&x) + region.array(&r);
                (function(&h), h)
            });
            assert_eq!(work.kernels, kernels, "{name}");
            let expected = counted.result(|region| function(&region.array(&h)));
            assert_eq!(found, expected, "{name}");
        });
    }
}
