//! Attention: one kernel that stores no scores.

use millstream_region::AttentionMask;

use crate::fusion::prelude::*;

/// Two batches of queries in two tiles, and of keys in three.
const QUERIES: usize = 66;
const KEYS: usize = 130;
const SIZE: usize = 20;

fn operand(counted: &Counted, rows: usize) -> Array<f32, Ix3> {
    let host = Array3::from_shape_fn((2, rows, SIZE), |(batch, row, column)| {
        ((batch * 11 + row * 37 + column * 61) % 101) as f32 / 64.0 - 0.75
    });
    counted.array(&host)
}

/// The bytes of so many rows of all batches.
fn bytes(rows: usize) -> u64 {
    (4 * 2 * rows * SIZE) as u64
}

#[run_by(Counted::everywhere, |counted|)]
fn attention_is_one_kernel_that_reads_keys_once_for_each_tile_of_queries() {
    let (q, k, v) = (
        operand(counted, QUERIES),
        operand(counted, KEYS),
        operand(counted, KEYS),
    );
    let attend = |device: &millstream::Device| {
        let pending = device.region(|g| {
            let (q, k, v) = (g.array(&q), g.array(&k), g.array(&v));
            q.attention(&k, &v, 0.25)
        });
        pending.unwrap().wait().unwrap()
    };
    let (_, work) = counted.work(attend);
    let expected = Work::of(1, bytes(QUERIES) + 2 * 2 * bytes(KEYS), bytes(QUERIES));
    assert_eq!(work, expected);
    // A plan that is recalled takes the same kernel.
    let (_, again) = counted.work(attend);
    assert_eq!(again, expected);
}

#[run_by(Counted::everywhere, |counted|)]
fn masks_and_views_take_no_kernel() {
    let (q, x) = (operand(counted, QUERIES), operand(counted, KEYS));
    let mask = Array::from_host(&counted.device, &ndarray::Array2::<f32>::ones((1, KEYS)));
    let mask = mask.unwrap();
    let (_, work) = counted.region(|g| {
        let (q, x) = (g.array(&q), g.array(&x));
        let turned = x.inverted_axis(ndarray::Axis(1));
        let mask = AttentionMask::added(&g.array(&mask)).and_causal();
        q.attention_masked(&turned, &x, 0.25, &mask)
    });
    assert_eq!((work.kernels, work.bytes_written), (1, bytes(QUERIES)));
}

#[run_by(Counted::everywhere, |counted|)]
fn functions_around_attention_have_kernels_of_their_own() {
    let (q, x) = (operand(counted, QUERIES), operand(counted, KEYS));
    let (_, work) = counted.region(|g| {
        let (q, x) = (g.array(&q), g.array(&x));
        let scaled = &q * 2.0 + 1.0;
        scaled.attention(&x, &x, 0.25).relu() - 0.5
    });
    assert_eq!(work.kernels, 3);
}

#[run_by(Counted::everywhere, |counted|)]
fn scales_and_masks_tell_kernels_apart() {
    let x = operand(counted, KEYS);
    for round in 0..3 {
        let (means, plain, causal) = counted.result(|g| {
            let x = g.array(&x);
            let causal = AttentionMask::causal();
            (
                x.attention(&x, &x, 0.0),
                x.attention(&x, &x, 4.0),
                x.attention_masked(&x, &x, 4.0, &causal),
            )
        });
        // With the scale 0, all queries have the same result.
        assert_eq!(
            means.index_axis(ndarray::Axis(1), 0),
            means.index_axis(ndarray::Axis(1), KEYS - 1),
            "{round}"
        );
        assert!(means != plain && plain != causal, "{round}");
        // The first query takes the first key alone, the last one takes all.
        let host = x.to_host().unwrap();
        for batch in 0..2 {
            let row =
                |array: &Array3<f32>, at: usize| array.slice(ndarray::s![batch, at, ..]).to_owned();
            assert_eq!(row(&causal, 0), row(&host, 0), "{round}");
            assert_eq!(row(&causal, KEYS - 1), row(&plain, KEYS - 1), "{round}");
        }
    }
}
