//! The peak memory of fused expressions is at most that of the same expressions evaluated operation
//! by operation.

use std::cell::RefCell;

use crate::fusion::prelude::*;

const SIDE: usize = 64;
const BYTES: u64 = (SIDE * SIDE * 4) as u64;

/// A computation, and whether each of its values is stored when it is recorded.
struct Recorder {
    stores: bool,
}

impl Recorder {
    /// Returns the array, stored if all are.
    fn value(&self, array: Array<f32, Ix2>) -> Array<f32, Ix2> {
        if self.stores {
            drop(array.to_host().unwrap());
        }
        array
    }
}

/// Asserts that a fused computation takes no more memory than one that stores each value, and at
/// most this many arrays at the same time.
#[track_caller]
fn assert_peak(arrays: u64, compute: impl Fn(&Recorder, Array<f32, Ix2>) -> Array<f32, Ix2>) {
    let host = Array2::from_shape_fn((SIDE, SIDE), |(a, b)| (a * 3 + b) as f32 / 256.0);
    // The peak is that of a device's whole life, so each computation has its own.
    let peaks = |stores| {
        let peaks = RefCell::new(Vec::new());
        Counted::everywhere(|counted| {
            let x = counted.array(&host);
            let result = compute(&Recorder { stores }, x).to_host().unwrap();
            let stats = counted.device.memory_stats().unwrap();
            peaks
                .borrow_mut()
                .push((result, stats.allocated_peak_bytes));
        });
        peaks.into_inner()
    };
    for ((fused, fused_peak), (stored, stored_peak)) in peaks(false).into_iter().zip(peaks(true)) {
        assert_eq!(fused, stored);
        assert!(fused_peak <= stored_peak, "{fused_peak} > {stored_peak}");
        assert!(fused_peak <= arrays * BYTES + 1024, "{fused_peak}");
    }
}

#[test]
fn a_long_loop_takes_two_arrays_more_than_its_input() {
    assert_peak(3, |recorder, x| {
        let mut y = x.clone();
        for _ in 0..300 {
            let half = recorder.value(&y * 0.5);
            y = recorder.value(&half + &x);
        }
        y
    });
}

#[test]
fn a_softmax_takes_its_input_and_its_result() {
    assert_peak(2, |recorder, x| {
        let most = recorder.value(x.max_keepdims(&[Axis(1)]));
        let below = recorder.value(&x - &most);
        let powers = recorder.value(below.exp());
        let sum = recorder.value(powers.sum_keepdims(&[Axis(1)]));
        recorder.value(&powers / &sum)
    });
}

#[test]
fn updates_in_place_take_one_array() {
    assert_peak(1, |recorder, x| {
        let mut y = recorder.value(x);
        for row in 0..SIDE {
            y.row_mut(row).fill(row as f32);
            y = recorder.value(y);
        }
        y
    });
}

#[test]
fn a_stencil_in_a_loop_takes_two_arrays() {
    assert_peak(2, |recorder, x| {
        let mut x = x;
        for _ in 0..20 {
            let mut next = x.clone();
            let above = recorder.value(x.slice(s![..-2_isize, ..]) + x.slice(s![2.., ..]));
            next.slice_mut(s![1..SIDE - 1, ..]).assign(&above);
            x = recorder.value(next);
        }
        x
    });
}

#[test]
fn a_stencil_of_a_function_takes_its_array_and_its_result() {
    assert_peak(2, |recorder, x| {
        let powers = recorder.value(x.exp());
        let parts = (0..5).map(|row| powers.slice(s![row..row + SIDE - 4, ..]));
        recorder.value(parts.reduce(|sum, part| sum + part).unwrap())
    });
}

/// If the kernel of the stencil computed the function, its two arrays would be in memory together
/// with another one that is made in between.
#[test]
fn a_stencil_of_a_function_of_two_arrays_takes_no_more_than_both() {
    assert_peak(4, |recorder, x| {
        let down = recorder.value(x.cumsum(Axis(0)));
        let along = recorder.value(x.cumsum(Axis(1)));
        let values = recorder.value((&down * &along * 1e-3).sin());
        drop((down, along));
        let other = recorder.value((&x * 2.0).cumsum(Axis(0)));
        let parts = (0..5).map(|row| values.slice(s![row..row + SIDE - 4, ..]));
        let sum = parts.reduce(|sum, part| sum + part).unwrap();
        let inner = s![2..SIDE - 2, ..];
        recorder.value(sum + other.slice(inner) + x.slice(inner))
    });
}
