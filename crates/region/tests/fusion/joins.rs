//! Joined arrays within the kernels that use them: no array is stored in between, and each element
//! of a part is read once.

use millstream::OperationKind;
use millstream_region::{Element, concatenate, stack};

use crate::fusion::prelude::*;

fn matrix((rows, columns): (usize, usize), first: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        ((first + row * 37 + column * 61) % 101) as f32 / 16.0 - 3.0
    })
}

/// Joins two matrices whose parts end within vectors of 16 bytes and at their ends.
#[test]
fn functions_of_joined_arrays_are_one_kernel_that_reads_each_part_once() {
    for (axis, first, second) in [
        (0, (3, 8), (5, 8)),
        (0, (3, 7), (2, 7)),
        (1, (4, 8), (4, 12)),
        (1, (4, 6), (4, 10)),
        (1, (4, 3), (4, 2)),
        (1, (4, 8), (4, 0)),
    ] {
        let (x, y) = (matrix(first, 0), matrix(second, 50));
        let joined = ndarray::concatenate(Axis(axis), &[x.view(), y.view()]).unwrap();
        let z = matrix(joined.dim(), 7);
        Counted::everywhere(|counted| {
            let (x, y, z) = (counted.array(&x), counted.array(&y), counted.array(&z));
            let (found, work) = counted.work(|_| {
                let joined = concatenate(Axis(axis), &[&x, &(&y * 3.0)]).unwrap();
                (joined * 2.0 + &z).to_host().unwrap()
            });
            let mut expected = joined.clone();
            let end = joined.dim();
            let mut part = match axis {
                0 => expected.slice_mut(s![end.0 - second.0.., ..]),
                _ => expected.slice_mut(s![.., end.1 - second.1..]),
            };
            part *= 3.0;
            assert_eq!(found, expected * 2.0 + &z.to_host().unwrap());
            let bytes = (4 * joined.len()) as u64;
            let once = Work::of(1, 2 * bytes, bytes);
            assert_eq!(work, once, "{axis}, {first:?}, {second:?}");
        });
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn reductions_of_padded_arrays_store_nothing_else() {
    let x = matrix((6, 8), 0);
    let mut padded = Array2::from_elem((8, 16), 0.5_f32);
    padded.slice_mut(s![1..7, 4..12]).assign(&(&x * 2.0));
    let on_x = counted.array(&x);
    let scale = counted.array(&ndarray::arr0(2.0_f32));
    let (found, work) = counted.region(|g| {
        // All parts use the same element.
        let scale = g.array(&scale);
        let x = g.array(&on_x) * &scale;
        let side = g.ones::<f32, _>((6, 4)) * 0.25 * &scale;
        let end = g.ones::<f32, _>((1, 16)) * 0.25 * &scale;
        let wide = concatenate(Axis(1), &[&side, &x, &side]).unwrap();
        let all = concatenate(Axis(0), &[&end, &wide, &end]).unwrap();
        (all.sum_axis(Axis(1)), all.max_axis(Axis(1)))
    });
    assert_eq!(found.0, padded.sum_axis(Axis(1)));
    let greatest = padded.map_axis(Axis(1), |row| row.fold(f32::MIN, |a, &b| a.max(b)));
    assert_eq!(found.1, greatest);
    assert_eq!(work.kernels, 1);
}

#[test]
fn a_softmax_of_joined_rows_is_one_kernel() {
    for columns in [(40, 60), (1000, 1000), (999, 1001)] {
        let (x, y) = (matrix((3, columns.0), 0), matrix((3, columns.1), 9));
        Counted::everywhere(|counted| {
            let (x, y) = (counted.array(&x), counted.array(&y));
            let softmax = |is_stored: bool| {
                let joined = concatenate(Axis(1), &[&x, &y]).unwrap();
                if is_stored {
                    drop(joined.to_host().unwrap());
                }
                let powers = (&joined - &joined.max_keepdims(&[Axis(1)])).exp();
                let rows = (&powers / &powers.sum_keepdims(&[Axis(1)]))
                    .to_host()
                    .unwrap();
                rows.mapv(f32::to_bits)
            };
            let (stored, _) = counted.work(|_| softmax(true));
            let (found, work) = counted.work(|_| softmax(false));
            assert_eq!((found, work.kernels), (stored, 1), "{columns:?}");
        });
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn parts_of_other_types_and_many_parts_are_joined() {
    let truths = Array1::from_shape_fn(11, |at| at % 3 == 0);
    let longs = Array1::from_shape_fn(11, |at| at as i64 * 7 - 30);
    let on_truths = counted.array(&truths);
    let on_longs = counted.array(&longs);
    let ((stacked, chosen, sixteen, seventeen), work) = counted.region(|g| {
        let (truths, longs) = (g.array(&on_truths), g.array(&on_longs));
        let stacked = stack(Axis(1), &[&longs, &(&longs * 2), &longs]).unwrap();
        let both = concatenate(Axis(0), &[&truths, &!&truths]).unwrap();
        let twice = concatenate(Axis(0), &[&longs, &longs]).unwrap();
        let shifted: Vec<_> = (0..17).map(|at| &longs + at).collect();
        let sixteen = concatenate(Axis(0), &shifted[..16]).unwrap();
        let seventeen = concatenate(Axis(0), &shifted).unwrap();
        (
            stacked + 1,
            both.where_cond(&twice, -twice.clone()),
            sixteen * 2,
            seventeen * 2,
        )
    });
    let expected = Array2::from_shape_fn((11, 3), |(at, part)| {
        longs[at] * if part == 1 { 2 } else { 1 } + 1
    });
    assert_eq!(stacked, expected);
    let expected = Array1::from_shape_fn(22, |at| {
        let (sign, at) = (truths[at % 11] == (at < 11), at % 11);
        if sign { longs[at] } else { -longs[at] }
    });
    assert_eq!(chosen, expected);
    let expected = |parts: usize| {
        Array1::from_shape_fn(11 * parts, |at| 2 * (longs[at % 11] + at as i64 / 11))
    };
    assert_eq!((sixteen, seventeen), (expected(16), expected(17)));
    // More than 16 computed parts are stored, by one kernel.
    assert_eq!(work.kernels, 1 + 1 + 1 + 1 + 1);
}

/// Joins arrays whose lines end within vectors of 16 bytes and at their ends, some of them empty,
/// more of them than a kernel computes, and one of them twice.
#[test]
fn arrays_in_memory_are_joined_by_one_kernel_however_many() {
    for (axis, first, step, others, parts) in [
        (0, 8, 4, 3, 2),
        (0, 3, 1, 5, 17),
        (1, 4, 8, 3, 33),
        (1, 0, 3, 4, 20),
        (0, 2, 0, 1, 250),
    ] {
        let shape = |part: usize| match axis {
            0 => (first + part % 3 * step, others),
            _ => (others, first + part % 3 * step),
        };
        let hosts: Vec<Array2<f32>> = (0..parts).map(|part| matrix(shape(part), part)).collect();
        let mut all: Vec<_> = hosts.iter().map(|host| host.view()).collect();
        all.push(hosts[0].view());
        all.truncate(250);
        let expected = ndarray::concatenate(Axis(axis), &all).unwrap();
        Counted::everywhere(|counted| {
            let mut arrays: Vec<_> = hosts.iter().map(|host| counted.array(host)).collect();
            arrays.push(arrays[0].clone());
            arrays.truncate(all.len());
            let (found, work) =
                counted.work(|_| concatenate(Axis(axis), &arrays).unwrap().to_host().unwrap());
            assert_eq!(found, expected);
            let bytes = 4 * expected.len() as u64;
            let once = Work::of(1, bytes, bytes);
            assert_eq!(work, once, "{axis}, {parts}");
        });
    }
}

#[test]
fn a_large_array_is_written_before_its_borders() {
    let device = Device::simulated().unwrap();
    let (row, large) = (matrix((1, 1024), 1), matrix((1024, 1024), 2));
    let [first, middle, last] = [&row, &large, &row].map(|host| {
        let array = Array::from_host(&device, host);
        array.unwrap()
    });
    let timeline = device.timeline().unwrap();
    let joined = concatenate(Axis(0), &[first, middle, last]).unwrap();
    let found = joined.to_host().unwrap();
    let bytes: Vec<u64> = timeline
        .finish()
        .unwrap()
        .operations
        .iter()
        .filter(|operation| operation.kind == OperationKind::Kernel)
        .map(|operation| operation.bytes)
        .collect();
    let parts = [row.view(), large.view(), row.view()];
    assert_eq!(found, ndarray::concatenate(Axis(0), &parts).unwrap());
    // The operands of each kernel: a part, and the whole.
    let of_part = |rows: u64| 4 * 1024 * (rows + 1026);
    assert_eq!(bytes, [of_part(1024), of_part(1), of_part(1)]);
}

#[run_by(Counted::everywhere, |counted|)]
fn stacked_arrays_of_other_types_are_one_kernel() {
    let bytes: Vec<_> = (0..19)
        .map(|part| Array1::from_shape_fn(35, |at| (at * 7 + part * 31) as u8))
        .collect();
    let truths: Vec<_> = bytes.iter().map(|part| part.mapv(|x| x % 3 == 0)).collect();
    let longs: Vec<_> = bytes.iter().map(|part| part.mapv(i64::from)).collect();
    fn stacked<T: Element>(counted: &Counted, parts: &[Array1<T>], axis: usize) -> Array2<T> {
        let parts: Vec<_> = parts.iter().map(|part| counted.array(part)).collect();
        stack(Axis(axis), &parts).unwrap().to_host().unwrap()
    }
    fn views<T>(parts: &[Array1<T>]) -> Vec<ndarray::ArrayView1<'_, T>> {
        parts.iter().map(|part| part.view()).collect()
    }
    let (found, work) = counted.work(|_| {
        (
            stacked(counted, &bytes, 1),
            stacked(counted, &truths, 0),
            stacked(counted, &longs, 1),
        )
    });
    assert_eq!(found.0, ndarray::stack(Axis(1), &views(&bytes)).unwrap());
    assert_eq!(found.1, ndarray::stack(Axis(0), &views(&truths)).unwrap());
    assert_eq!(found.2, ndarray::stack(Axis(1), &views(&longs)).unwrap());
    assert_eq!(work.kernels, 3);
}

#[run_by(Counted::everywhere, |counted|)]
fn joined_arrays_that_are_results_are_written_by_one_kernel() {
    let (x, y) = (matrix((3, 8), 0), matrix((5, 8), 50));
    let (on_x, on_y) = (counted.array(&x), counted.array(&y));
    let ((kept, doubled), work) = counted.work(|device| {
        let pending = device.region(|g| {
            let joined = concatenate(Axis(0), &[&g.array(&on_x), &g.array(&on_y).exp()]).unwrap();
            (Keep(joined.clone()), joined * 2.0)
        });
        let (kept, doubled) = pending.unwrap().wait().unwrap();
        (kept.to_host().unwrap(), doubled)
    });
    assert_eq!(kept.slice(s![..3, ..]), x);
    assert_eq!(kept * 2.0, doubled);
    assert_eq!(work.kernels, 2);
}
