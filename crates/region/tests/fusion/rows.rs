//! Reductions of rows with what leads to them and what follows: one kernel that reads each array
//! once and writes once, with the bits of separate kernels.

use crate::fusion::{SCHEDULES, prelude::*};

/// Rows of a part of a warp, of a whole warp, of several warps and a part, of a whole block, and of
/// several blocks and a part, with and without groups of four neighbours for each thread.
pub(super) const LENGTHS: [usize; 14] = [
    2, 3, 10, 16, 31, 40, 128, 250, 256, 257, 512, 1000, 1100, 2000,
];

/// Returns a number of rows, of which the last blocks have less than they could.
pub(super) fn rows(length: usize) -> usize {
    9 + 4000 / length
}

pub(super) fn of_length(length: usize) -> Array2<f32> {
    matrix((rows(length), length))
}

/// A function of a matrix. `cut` stores an intermediate array in memory, or does nothing.
type OfRows = fn(&Array<f32, Ix2>, &dyn Fn(&Array<f32, Ix2>)) -> Array<f32, Ix2>;

/// Asserts that a function takes one kernel that reads and writes each element once, and that it
/// gives the same bits with intermediate results in memory.
#[track_caller]
fn assert_one_kernel(name: &str, function: OfRows, has_rows: bool) {
    for length in LENGTHS {
        let host = of_length(length);
        Counted::somewhere(|counted| {
            let x = counted.array(&host);
            let (found, work) = counted.work(|_| function(&x, &|_| {}).to_host().unwrap());
            let bytes = (4 * rows(length) * length) as u64;
            let written = if has_rows {
                4 * rows(length) as u64
            } else {
                bytes
            };
            assert_eq!(
                (work.kernels, work.bytes_written),
                (1, written),
                "{name}, {length}"
            );
            // Threads beyond the end of a row read its last element again, and those beyond the
            // last row read that row.
            let is_grouped = [16, 128, 256, 1000, 2000].contains(&length);
            let threads = match length {
                16 | 128 | 256 => length / 8,
                ..=7 => length.next_power_of_two(),
                8..=256 => length.div_ceil(8).next_power_of_two().max(8),
                _ => 256,
            };
            let at_once = if is_grouped { 4 * threads } else { threads };
            let turns = length.div_ceil(at_once);
            let turns = if length <= 256 {
                turns.next_power_of_two()
            } else {
                turns
            };
            let (in_row, in_block) = (at_once * turns, 256 / threads);
            let read = (4 * rows(length).next_multiple_of(in_block) * in_row) as u64;
            assert!(read < 2 * bytes);
            assert!(
                (bytes..=read).contains(&work.bytes_read),
                "{name}, {length}: {work:?}"
            );
            let store = |array: &Array<f32, Ix2>| drop(array.to_host().unwrap());
            let (stored, work) = counted.work(|_| function(&x, &store).to_host().unwrap());
            assert!(work.kernels > 1, "{name}, {length}: {work:?}");
            let bits = |array: &Array2<f32>| array.mapv(f32::to_bits);
            assert_eq!(bits(&found), bits(&stored), "{name}, {length}");
        });
    }
}

/// Functions of rows, and whether their results have one element for each row.
const FUNCTIONS: [(&str, bool, OfRows); 7] = [
    ("a softmax", false, |x, cut| {
        let most = x.max_keepdims(&[Axis(1)]);
        cut(&most);
        let powers = (x - &most).exp();
        let sum = powers.sum_keepdims(&[Axis(1)]);
        cut(&sum);
        &powers / &sum
    }),
    ("a log softmax", false, |x, cut| {
        let most = x.max_keepdims(&[Axis(1)]);
        cut(&most);
        let from_most = x - &most;
        let sum = from_most.exp().sum_keepdims(&[Axis(1)]);
        cut(&sum);
        &from_most - &sum.ln()
    }),
    ("a layer normalisation", false, |x, cut| {
        let mean = x.mean_keepdims(&[Axis(1)]);
        cut(&mean);
        let deviation = x - &mean;
        let variance = deviation.pow2().mean_keepdims(&[Axis(1)]);
        cut(&variance);
        &deviation / &(&variance + 1e-5).sqrt()
    }),
    ("a root mean square normalisation", false, |x, cut| {
        let mean = x.pow2().mean_keepdims(&[Axis(1)]);
        cut(&mean);
        x / &(&mean + 1e-5).sqrt()
    }),
    ("a logarithm of the sum of powers", true, |x, cut| {
        let most = x.max_keepdims(&[Axis(1)]);
        cut(&most);
        let sum = (x - &most).exp().sum_keepdims(&[Axis(1)]);
        cut(&sum);
        &sum.ln() + &most
    }),
    ("a variance", true, |x, cut| {
        let mean = x.mean_keepdims(&[Axis(1)]);
        cut(&mean);
        (x - &mean).pow2().mean_keepdims(&[Axis(1)])
    }),
    ("positions of extrema", false, |x, cut| {
        let least = x.argmin_keepdims(&[Axis(1)]).cast::<f32>();
        cut(&least);
        let most = (x * &least).argmax_keepdims(&[Axis(1)]).cast::<f32>();
        cut(&most);
        x + &(&most - &least)
    }),
];

#[test]
fn functions_of_rows_are_one_kernel() {
    for (name, has_rows, function) in FUNCTIONS {
        assert_one_kernel(name, function, has_rows);
    }
}

/// The sums are exact, so that each element is in one of them, once.
#[test]
fn sums_of_short_rows_load_each_element_once() {
    for length in (2..=20).chain([31, 33, 36, 63, 64, 65, 100, 127, 129, 200, 255, 256]) {
        let host = of_length(length);
        Counted::somewhere(|counted| {
            let x = counted.array(&host);
            let (sums, work) = counted.work(|_| x.sum_axis(Axis(1)).to_host().unwrap());
            assert_eq!(sums, host.sum_axis(Axis(1)), "{length}");
            let (rows, bytes) = (rows(length), 4 * (rows(length) * length) as u64);
            assert_eq!((work.kernels, work.bytes_written), (1, 4 * rows as u64));
            // Threads beyond the end of a row read its last element, and those beyond the last row
            // that row.
            let read = 2 * bytes + 8 * (128 * length) as u64;
            assert!((bytes..read).contains(&work.bytes_read), "{length}");
        });
    }
}

#[test]
fn long_rows_are_fused_if_they_fit_in_registers_or_are_many() {
    for (rows, length, kernels) in [(2, 8192, [1, 1]), (2, 8193, [3, 3]), (130, 8193, [1, 1])] {
        let host = matrix((rows, length));
        Counted::somewhere(|counted| {
            let x = counted.array(&host);
            let softmax = || {
                let powers = (&x - &x.max_keepdims(&[Axis(1)])).exp();
                &powers / &powers.sum_keepdims(&[Axis(1)])
            };
            let normalised = || {
                let deviation = &x - &x.mean_keepdims(&[Axis(1)]);
                let variance = deviation.pow2().mean_keepdims(&[Axis(1)]);
                &deviation / &(&variance + 1e-5).sqrt()
            };
            let softmax = counted.work(|_| softmax().to_host().unwrap()).1;
            let normalised = counted.work(|_| normalised().to_host().unwrap()).1;
            assert_eq!([softmax.kernels, normalised.kernels], kernels, "{length}");
        });
    }
}

/// Functions of long rows in one kernel and with stored intermediate results differ in the last
/// bits at most, because the reductions add in other orders.
#[test]
fn functions_of_long_rows_are_those_of_stored_values() {
    // A larger block keeps the rows of one array, and visits those of two several times.
    let lengths = [(8196, 1), (8195, 1), (8196, 2), (8195, 2)];
    let cases = lengths.into_iter().zip(SCHEDULES.into_iter().cycle());
    for ((length, arrays), schedule) in share::cases(cases, 2) {
        let host = matrix((130, length));
        let gain = host.row(3).mapv(|element| element * 0.5);
        Counted::with(schedule, |counted| {
            let x = counted.array(&host);
            let y = counted.array(&host);
            let x = || if arrays == 1 { x.clone() } else { &x + &y };
            let gain = counted.array(&gain);
            let normalised = |cut: &dyn Fn(&Array<f32, Ix2>)| {
                let x = x();
                let mean = x.mean_keepdims(&[Axis(1)]);
                cut(&mean);
                let deviation = &x - &mean;
                let variance = deviation.pow2().mean_keepdims(&[Axis(1)]);
                let most = x.argmax_keepdims(&[Axis(1)]).cast::<f32>();
                cut(&variance);
                cut(&most);
                (&deviation / &(&variance + 1e-5).sqrt() * &gain + &most)
                    .to_host()
                    .unwrap()
            };
            let of_powers = |cut: &dyn Fn(&Array<f32, Ix2>)| {
                let x = x();
                let most = x.max_keepdims(&[Axis(1)]);
                cut(&most);
                let sum = (&x - &most).exp().sum_keepdims(&[Axis(1)]);
                cut(&sum);
                (&sum.ln() + &most).to_host().unwrap()
            };
            let store = |array: &Array<f32, Ix2>| drop(array.to_host().unwrap());
            let check = |(found, work): (Array2<f32>, Work), stored: Array2<f32>| {
                assert_eq!(work.kernels, 1, "{length}");
                for (found, stored) in found.iter().zip(&stored) {
                    let error = (found - stored).abs();
                    assert!(error <= 1e-6 * stored.abs(), "{found} is not {stored}");
                }
            };
            check(counted.work(|_| normalised(&|_| {})), normalised(&store));
            check(counted.work(|_| of_powers(&|_| {})), of_powers(&store));
        });
    }
}

/// With four arrays of `f64`, the rows of 132 blocks fill the cache.
#[test]
fn blocks_compute_one_long_row_after_another() {
    let host = matrix((140, 8196)).mapv(f64::from);
    let [x, y, z, w] = [0.0, 1.0, 2.0, 3.0].map(|number| host.mapv(|x| x + number));
    // All of these numbers are exact.
    let sums = &x + &y + &z + &w;
    let mut expected = sums.clone();
    for (mut row, sums) in expected.rows_mut().into_iter().zip(sums.rows()) {
        let total = sums.sum();
        row.mapv_inplace(|sum| sum * total);
    }
    Counted::somewhere(|counted| {
        let (found, work) = counted.region(|g| {
            let [x, y, z, w] = [&x, &y, &z, &w].map(|host| g.array(host));
            let sum = &x + &(&(&y + &z) + &w);
            // With another reduction, its barrier would lie between those of two rows.
            &sum * &sum.sum_keepdims(&[Axis(1)])
        });
        assert_eq!(work.kernels, 1);
        assert_eq!(found, expected);
    });
}

/// There are so many rows that a block of fewer threads computes each, in several parts.
#[test]
fn smaller_blocks_compute_many_rows() {
    let host = Array2::from_shape_fn((12_700, 257), |(row, column)| {
        ((row * 37 + column * 61) % 11) as f32 - 3.0
    });
    // All of these numbers are exact.
    let mut expected = host.clone();
    for mut row in expected.rows_mut() {
        let total = row.sum();
        row.mapv_inplace(|x| x * total);
    }
    // The order of the blocks is not that of the schedule.
    Counted::with(Schedule::Timed, |counted| {
        let (found, work) = counted.region(|g| {
            let x = g.array(&host);
            &x * &x.sum_keepdims(&[Axis(1)])
        });
        let bytes = 4 * host.len() as u64;
        assert_eq!((work.kernels, work.bytes_written), (1, bytes));
        assert!(work.bytes_read < 2 * bytes);
        assert_eq!(found, expected);
    });
}

/// Returns rows whose greatest elements are ordinary numbers and such as take a step of a division
/// beyond the exponents of `f32`, or have no reciprocal.
fn rows_to_divide(length: usize) -> Array2<f32> {
    let greatest = [
        1.5,
        0.1,
        3.0e7,
        1.2e-20,
        7.0e19,
        3.0e-39,
        -2.5,
        f32::INFINITY,
        0.0,
        f32::MAX,
    ];
    let others = [
        0.0,
        -0.0,
        1.0e-30,
        -1.0e-42,
        1.0e-45,
        -3.0e19,
        -f32::MAX,
        f32::NEG_INFINITY,
        -1.0e-18,
    ];
    let rows = 130;
    Array2::from_shape_fn((rows, length), |(row, column)| {
        let most = greatest[row % greatest.len()];
        // Half of the rows have only numbers of one size, with many different digits.
        let is_special = column.is_multiple_of(7) && (row / greatest.len()).is_multiple_of(2);
        let digits = (row * 7919 + column * 104_729) % 65_521;
        let element = if column == length / 2 {
            most
        } else if is_special {
            others[column / 7 % others.len()]
        } else {
            most * (digits as f32 / 65_536.0)
        };
        if element.is_nan() {
            most
        } else {
            element.min(most)
        }
    })
}

#[test]
fn quotients_by_a_value_of_the_row_are_those_of_the_host() {
    for length in [16, 63, 300, 1000, 8196] {
        let host = rows_to_divide(length);
        let mut expected = host.clone();
        for mut row in expected.rows_mut() {
            let most = row.iter().copied().max_by(f32::total_cmp);
            row /= most.unwrap();
        }
        Counted::everywhere(|counted| {
            let (found, work) = counted.region(|g| {
                let x = g.array(&host);
                &x / &x.max_keepdims(&[Axis(1)])
            });
            assert_eq!(work.kernels, 1, "{length}");
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let is_same = found.to_bits() == expected.to_bits();
                let are_nan = found.is_nan() && expected.is_nan();
                assert!(
                    is_same || are_nan,
                    "{found} is not {expected}: {length}, {at}"
                );
            }
        });
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn weights_of_columns_and_rows_are_read_by_a_row_kernel() {
    let (length, host) = (300, of_length(300));
    let (gain, scale) = (host.row(0).to_owned(), host.column(1).to_owned());
    let (x, gain) = (counted.array(&host), counted.array(&gain));
    let scale = counted.array(&scale).insert_axis(Axis(1));
    let run = |cut: &dyn Fn(&Array<f32, Ix2>)| {
        let mean = x.mean_keepdims(&[Axis(1)]) * &scale;
        cut(&mean);
        let y = (&x - &mean) * &gain + &scale;
        y.to_host().unwrap()
    };
    let (found, work) = counted.work(|_| run(&|_| {}));
    assert_eq!(
        (work.kernels, work.bytes_written),
        (1, (4 * rows(length) * length) as u64)
    );
    assert_eq!(found, run(&|array| drop(array.to_host().unwrap())));
}

#[test]
fn values_of_other_rows_are_not_fused() {
    let host = of_length(100);
    let takes_two_kernels = |function: fn(&Array<f32, Ix2>) -> Array<f32, Ix2>| {
        Counted::everywhere(|counted| {
            let (_, work) = counted.region(|g| function(&g.array(&host)));
            assert_eq!(work.kernels, 2);
        });
    };
    // The mean of each row is subtracted from another row, or that of each column from the column.
    takes_two_kernels(|x| x - &x.mean_keepdims(&[Axis(1)]).slice(s![..;-1, ..]));
    takes_two_kernels(|x| x - &x.mean_keepdims(&[Axis(0)]));
}

#[run_by(Counted::everywhere, |counted|)]
fn a_requested_reduction_is_stored_by_the_row_kernel() {
    let host = of_length(64);
    let ((mean, rest), work) = counted.region(|g| {
        let x = g.array(&host);
        let mean = x.mean_keepdims(&[Axis(1)]);
        let rest = &x - &mean;
        (Keep(mean), rest)
    });
    let mean = mean.to_host().unwrap();
    assert_eq!(rest, &host - &mean);
    assert_eq!(work.kernels, 1);
}
