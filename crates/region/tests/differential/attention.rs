//! Attention against `softmax(q·kᵀ·scale + mask)·v` in `f64` on the host, within the documented
//! bound.

use millstream_region::AttentionMask;
use ndarray::{Array4, Ix3};

use crate::differential::{
    attention_case::{Case, Lengths, numbers},
    prelude::*,
};

/// Lengths, and the sizes of keys and values: around the sizes of tiles, which are 64, 32 and 16.
const SHAPES: &[(Lengths, (usize, usize))] = &[
    ((1, 1, 1), (1, 1)),
    ((2, 3, 5), (8, 8)),
    ((1, 64, 64), (64, 64)),
    ((2, 65, 63), (40, 40)),
    ((1, 5, 130), (64, 64)),
    ((1, 70, 1), (4, 64)),
    ((1, 33, 47), (128, 128)),
    ((1, 17, 33), (36, 128)),
    ((1, 20, 90), (100, 7)),
    ((1, 10, 40), (3, 17)),
    ((3, 2, 66), (33, 33)),
    ((1, 18, 35), (200, 130)),
    ((1, 128, 9), (5, 2)),
];

#[test]
fn attention_is_within_its_error_bound() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(11);
    for (seed, &(lengths, sizes)) in (0..).zip(SHAPES) {
        Case::random(&mut rng, lengths, sizes).check_f32(seed % 4)?;
    }
    Ok(())
}

#[test]
fn attention_of_doubles_is_within_its_error_bound() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(12);
    for (seed, &(lengths, sizes)) in (0..).zip(SHAPES) {
        let mut case = Case::random(&mut rng, lengths, sizes);
        case.is_causal = seed % 3 == 0;
        let configuration = configuration(seed % 4);
        let device = configuration.open()?;
        let found = case.run(&device, |x| x, |x| x)?;
        // The host computes in `f64`, too.
        case.assert_near(&found, f64::EPSILON);
        configuration.close(device)?;
    }
    Ok(())
}

#[test]
fn attention_with_masks_is_within_its_error_bound() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(13);
    for (seed, &(lengths, sizes)) in (0..).zip(SHAPES) {
        let mut case = Case::random(&mut rng, lengths, sizes);
        case.is_causal = true;
        case.check_f32(seed % 4)?;
        let (batches, queries, keys) = lengths;
        let mut mask = numbers(&mut rng, lengths);
        // Each query takes some keys, the first ones among them: the others are masked.
        for batch in 0..batches {
            for query in 0..queries {
                for key in query % 3 + 1..keys {
                    if rng.next_u32() % 2 == 0 {
                        mask[[batch, query, key]] = f64::NEG_INFINITY;
                    }
                }
            }
        }
        case.mask = Some(mask);
        case.check_f32((seed + 1) % 4)?;
        case.is_causal = false;
        case.check_f32((seed + 2) % 4)?;
    }
    Ok(())
}

#[run_by(everywhere, |device|)]
fn attention_takes_views() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(14);
    let mut case = Case::random(&mut rng, (3, 21, 70), (12, 20));
    let row = numbers(&mut rng, (1, 1, 70));
    case.mask = Some(
        row.broadcast((3, 21, 70))
            .expect("the axes have length 1")
            .to_owned(),
    );
    let unit = f64::from(f32::EPSILON) / 2.0;
    let narrow = |x: &Array3<f64>| x.mapv(|x| x as f32);
    let (q, k, v) = (narrow(&case.q), narrow(&case.k), narrow(&case.v));
    let transposed = q
        .view()
        .permuted_axes([2, 0, 1])
        .as_standard_layout()
        .into_owned();
    // Every second row of this array is a key; the others are no numbers.
    let mut spread = Array3::from_elem((3, 140, 13), f32::NAN);
    spread.slice_mut(s![.., ..;2, 1..]).assign(&k);
    let reversed = v
        .slice(s![.., ..;-1, ..;-1])
        .as_standard_layout()
        .into_owned();
    let row = narrow(&row);
    let found = evaluate(device, |g| {
        let q = g.array(&transposed).permuted_axes([1, 2, 0]);
        let k = g.array(&spread).slice(s![.., ..;2, 1..]);
        let v = g.array(&reversed).slice(s![.., ..;-1, ..;-1]);
        let mask = AttentionMask::added(&g.array(&row));
        q.attention_masked(&k, &v, case.scale as f32, &mask)
    })?;
    case.assert_near(&found.mapv(f64::from), unit);
    // One array is queries, keys and values; batch axes of length 1 broadcast.
    let shared = evaluate(device, |g| {
        let k = g.array(&k);
        k.attention(&k.slice(s![..1, .., ..]), &k, 0.375)
    })?;
    let first = case.k.slice(s![..1, .., ..]);
    let shared_case = Case {
        q: case.k.clone(),
        k: first.broadcast((3, 70, 12)).expect("one batch").to_owned(),
        v: case.k.clone(),
        scale: 0.375,
        mask: None,
        is_causal: false,
    };
    shared_case.assert_near(&shared.mapv(f64::from), unit);
    Ok(())
}

/// Batch axes that no single stride passes through, and none.
#[run_by(everywhere, |device|)]
fn attention_has_several_batch_axes() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(15);
    let case = Case::random(&mut rng, (6, 5, 7), (4, 4));
    let unit = f64::from(f32::EPSILON) / 2.0;
    let four = |x: &Array3<f64>| -> Result<Array4<f32>, ndarray::ShapeError> {
        let (_, rows, columns) = x.dim();
        x.mapv(|x| x as f32)
            .into_shape_with_order((2, 3, rows, columns))
    };
    let (q, k, v) = (four(&case.q)?, four(&case.k)?, four(&case.v)?);
    let turned = k
        .view()
        .permuted_axes([1, 0, 2, 3])
        .as_standard_layout()
        .into_owned();
    let (all, first) = evaluate(device, |g| {
        let (q, k, v) = (g.array(&q), g.array(&turned), g.array(&v));
        let k = k.permuted_axes([1, 0, 2, 3]);
        let first = |x: &Array<f32, ndarray::Ix4>| x.index_axis(Axis(0), 0).index_axis(Axis(0), 0);
        let scale = case.scale as f32;
        (
            q.attention(&k, &v, scale),
            first(&q).attention(&first(&k), &first(&v), scale),
        )
    })?;
    assert_eq!(first, all.slice(s![0, 0, .., ..]));
    let all = all.into_shape_with_order((6, 5, 4))?;
    case.assert_near(&all.mapv(f64::from), unit);
    Ok(())
}

#[test]
fn attention_of_large_scores_does_not_overflow() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(16);
    let mut case = Case::random(&mut rng, (1, 20, 150), (16, 16));
    // The maximum rises from tile to tile.
    for (key, mut row) in case
        .k
        .slice_mut(s![0, .., ..])
        .rows_mut()
        .into_iter()
        .enumerate()
    {
        row *= 1.0 + key as f64 * 8.0;
    }
    case.check_f32(0)
}

/// The result of the formula, by separate operations on the device.
fn formula([q, k, v]: [&Array<f32, Ix3>; 3], mask: &Array<f32, Ix3>) -> Array<f32, Ix3> {
    let scores = q.matmul(&k.swapped_axes(1, 2)) + mask;
    let powers = (&scores - &scores.max_keepdims(&[Axis(2)])).exp();
    (&powers / &powers.sum_keepdims(&[Axis(2)])).matmul(v)
}

#[run_by(everywhere, |device|)]
fn attention_of_special_values_is_that_of_the_formula() -> Outcome {
    let keys = 70;
    let q = Array3::from_elem((1, 6, 1), 1.0_f32);
    let k = Array3::from_shape_fn((1, keys, 1), |(_, key, _)| key as f32 / 64.0);
    let v = Array3::from_shape_fn((1, keys, 2), |(_, key, column)| (key * 2 + column) as f32);
    let mut mask = Array3::<f32>::zeros((1, 6, keys));
    // All keys are masked; all but one of the second tile; a NaN; an infinity in the first tile,
    // and in the second; no mask.
    for query in [0, 1] {
        mask.slice_mut(s![0, query, ..]).fill(f32::NEG_INFINITY);
    }
    mask[[0, 1, 67]] = 0.5;
    mask[[0, 2, 3]] = f32::NAN;
    mask[[0, 3, 3]] = f32::INFINITY;
    mask[[0, 4, 66]] = f32::INFINITY;
    let (found, expected) = evaluate(device, |g| {
        let (q, k, v) = (g.array(&q), g.array(&k), g.array(&v));
        let mask = g.array(&mask);
        let added = AttentionMask::added(&mask);
        (
            q.attention_masked(&k, &v, 1.0, &added),
            formula([&q, &k, &v], &mask),
        )
    })?;
    assert_eq!(found.slice(s![0, 1, ..]), array![134.0, 135.0]);
    for query in [0, 2, 3, 4] {
        assert!(
            found.slice(s![0, query, ..]).iter().all(|x| x.is_nan()),
            "{query}"
        );
    }
    for (found, expected) in found.iter().zip(&expected) {
        let is_near = (found - expected).abs() < 1e-3;
        assert!(
            is_near || (found.is_nan() && expected.is_nan()),
            "{found} {expected}"
        );
    }
    Ok(())
}

#[test]
fn attention_of_large_heads_is_composed() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(17);
    for (seed, sizes) in [(300, 4), (4, 300), (257, 258)].into_iter().enumerate() {
        let mut case = Case::random(&mut rng, (2, 5, 9), sizes);
        case.check_f32(seed as u64)?;
        case.is_causal = true;
        case.mask = Some(numbers(&mut rng, (2, 5, 9)));
        case.check_f32(seed as u64)?;
    }
    Ok(())
}

#[run_by(everywhere, |device|)]
fn attention_of_nothing_is_zero_or_empty() -> Outcome {
    let shapes = [
        ((2, 3, 0), (4, 5)),
        ((2, 0, 3), (4, 5)),
        ((0, 2, 3), (4, 5)),
        ((2, 3, 4), (5, 0)),
    ];
    for ((batches, queries, keys), (key_size, value_size)) in shapes {
        let found = evaluate(device, |g| {
            g.ones::<f32, _>((batches, queries, key_size)).attention(
                &g.ones((batches, keys, key_size)),
                &g.ones((batches, keys, value_size)),
                1.0,
            )
        })?;
        assert_eq!(found, Array3::<f32>::zeros((batches, queries, value_size)));
    }
    // Without elements, all keys have equal weights.
    let (v, mask) = (array![[1.0_f64], [3.0]], AttentionMask::causal());
    let found = evaluate(device, |g| {
        let (q, k, v) = (g.zeros((2, 0)), g.zeros((2, 0)), g.array(&v));
        q.attention_masked(&k, &v, 1.0, &mask)
    })?;
    assert_eq!(found, array![[1.0], [2.0]]);
    Ok(())
}

#[run_by(everywhere, |device|)]
fn attention_of_halves_is_rounded_once() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(18);
    let case = Case::random(&mut rng, (1, 9, 21), (8, 8));
    let [q, k, v] = [&case.q, &case.k, &case.v].map(|x| x.mapv(f16::from_f64));
    let (halves, wide) = evaluate(device, |g| {
        let [q, k, v] = [&q, &k, &v].map(|x| g.array(x));
        let [a, b, c] = [&q, &k, &v].map(|x| x.cast::<f32>());
        let scale = f16::from_f64(0.25);
        (q.attention(&k, &v, scale), a.attention(&b, &c, 0.25))
    })?;
    assert_eq!(halves, wide.mapv(f16::from_f32));
    Ok(())
}

#[test]
fn attention_has_the_same_bits_under_every_schedule() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(19);
    let case = Case::random(&mut rng, (2, 66, 100), (24, 24));
    let first = std::cell::RefCell::new(None);
    everywhere(|device| {
        let found = case.run(device, |x| x as f32, f64::from)?;
        let bits = found.mapv(f64::to_bits);
        assert_eq!(*first.borrow_mut().get_or_insert(bits.clone()), bits);
        Ok(())
    })
}

#[run_by(everywhere, |device|)]
fn a_prepared_region_has_attention() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(20);
    let hosts: Vec<Array3<f32>> = (0..4)
        .map(|_| numbers(&mut rng, (2, 20, 12)).mapv(|x| x as f32))
        .collect();
    let body = |x: &Array<f32, Ix3>| x.attention(&(x * 0.5), x, 0.25) + 1.0;
    let upload = |host: &Array3<f32>| Array::from_host(device, host);
    let prepared = device.prepare(&upload(&hosts[0])?, |_, x| body(x))?;
    for host in &hosts {
        let x = upload(host)?;
        let expected = evaluate(device, |g| body(&g.array(&x)))?;
        assert_eq!(prepared.call(&x)?.to_host()?, expected);
    }
    Ok(())
}

#[test]
fn attention_of_wrong_shapes_fails() -> Outcome {
    let device = configuration(0).open()?;
    let message = |shapes: [(usize, usize); 3], mask: Option<(usize, usize)>| -> String {
        let [q, k, v] = shapes.map(Array2::<f32>::zeros);
        let mask = mask.map(Array2::<f32>::zeros);
        let result = device.region(|g| {
            let (q, k, v) = (g.array(&q), g.array(&k), g.array(&v));
            match &mask {
                None => q.attention(&k, &v, 1.0),
                Some(mask) => {
                    q.attention_masked(&k, &v, 1.0, &AttentionMask::added(&g.array(mask)))
                }
            }
        });
        match result {
            Err(error) => error.to_string(),
            Ok(_) => String::from("no error"),
        }
    };
    for (found, shapes) in [
        (message([(2, 3), (4, 5), (4, 3)], None), "[2, 3] and [4, 5]"),
        (message([(2, 3), (4, 3), (5, 3)], None), "[4, 3] and [5, 3]"),
        (
            message([(2, 3), (4, 3), (4, 3)], Some((2, 5))),
            "[2, 4] and [2, 5]",
        ),
        (
            message([(1, 3), (4, 3), (4, 3)], Some((2, 4))),
            "[1, 4] and [2, 4]",
        ),
    ] {
        assert!(
            found.contains("attention") && found.contains(shapes),
            "{found}"
        );
    }
    Ok(())
}
