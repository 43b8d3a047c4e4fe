//! Updates of parts of arrays: in place where nothing else needs the old elements.

#![allow(
    clippy::reversed_empty_ranges,
    reason = "a negative end of a slice counts from the end of the axis"
)]

use std::thread;

use millstream::driver::{DriverError, ResultCode};
use millstream_region::region;
use millstream_testkit::calls::Failure;

use crate::fusion::prelude::*;

const ROWS: usize = 100;
const COLUMNS: usize = 32;
const BYTES: u64 = (ROWS * COLUMNS * 4) as u64;
const ROW_BYTES: u64 = (COLUMNS * 4) as u64;

fn matrix() -> Array2<f32> {
    Array2::from_shape_fn((ROWS, COLUMNS), |(row, column)| (row * 7 + column) as f32)
}

/// Runs an update of the matrix on a device, and asserts that it gives the host's elements.
#[track_caller]
fn assert_updated(
    expected: &Array2<f32>,
    work: Work,
    on_device: impl Fn(Array<f32, Ix2>) -> Array<f32, Ix2>,
) {
    let matrix = matrix();
    Counted::everywhere(|counted| {
        let (found, done) = counted.region(|g| on_device(g.array(&matrix)));
        assert_eq!(&found, expected);
        assert_eq!(done, work);
    });
}

#[test]
fn a_hundred_row_fills_write_each_row_once() {
    let expected = Array2::from_shape_fn((ROWS, COLUMNS), |(row, _)| row as f32);
    let work = Work::of(1, 0, BYTES);
    assert_updated(&expected, work, |mut m| {
        for row in 0..ROWS {
            m.row_mut(row).fill(row as f32);
        }
        m
    });
}

#[test]
fn borders_that_overlap_are_set_with_the_array_by_one_kernel() {
    let mut expected = matrix() + 1.0;
    expected.row_mut(0).fill(5.0);
    expected.row_mut(ROWS - 1).fill(6.0);
    expected.column_mut(0).fill(7.0);
    expected.column_mut(COLUMNS - 1).assign(&matrix().column(3));
    let inner = ((ROWS - 2) * (COLUMNS - 2)) as u64;
    let work = Work::of(1, 4 * (inner + ROWS as u64), BYTES);
    assert_updated(&expected, work, |m| {
        let mut x = &m + 1.0;
        x.row_mut(0).fill(5.0);
        x.row_mut(ROWS - 1).fill(6.0);
        x.column_mut(0).fill(7.0);
        x.column_mut(COLUMNS - 1).assign(&m.column(3));
        x
    });
}

/// Updates a row and a column of a matrix, and then what another function says.
fn row_and_column(m: &mut Array<f32, Ix2>) {
    let mut row = m.row_mut(1);
    row += 0.5;
    m.column_mut(2).fill(9.0);
}

#[test]
fn a_series_is_in_place_as_far_as_no_slice_is_read_that_another_replaces() {
    let mut expected = matrix();
    expected.row_mut(1).mapv_inplace(|x| x + 0.5);
    expected.column_mut(2).fill(9.0);
    let column = 4 * ROWS as u64;
    let work = Work::of(1, ROW_BYTES - 4, ROW_BYTES - 4 + column);
    assert_updated(&expected, work, |mut m| {
        row_and_column(&mut m);
        m
    });
    // The first row is read before it is replaced, so that it takes a second kernel.
    let (mut expected, row) = (matrix(), matrix().row(0).to_owned());
    expected.row_mut(3).assign(&row);
    expected.row_mut(0).fill(1.0);
    expected.row_mut(1).fill(2.0);
    let work = Work::of(2, ROW_BYTES, 3 * ROW_BYTES);
    assert_updated(&expected, work, |mut m| {
        let row = m.row(0).to_owned();
        m.row_mut(3).assign(&row);
        m.row_mut(0).fill(1.0);
        m.row_mut(1).fill(2.0);
        m
    });
}

#[run_by(Counted::everywhere, |counted|)]
fn an_array_between_two_updates_keeps_its_elements() {
    let [mut between, mut after] = [matrix(), matrix()];
    between.row_mut(1).fill(1.0);
    after.assign(&between);
    after.column_mut(2).fill(2.0);
    let (x, held) = counted
        .work(|_| {
            let mut x = counted.array(&matrix());
            x.row_mut(1).fill(1.0);
            let held = x.clone();
            x.column_mut(2).fill(2.0);
            (x.to_host().unwrap(), held)
        })
        .0;
    assert_eq!((x, held.to_host().unwrap()), (after, between));
}

#[test]
fn a_row_that_is_added_to_another_is_read_where_it_is() {
    let mut expected = matrix();
    let row = expected.row(3).to_owned();
    expected.row_mut(5).scaled_add(2.0, &row);
    let work = Work::of(1, 2 * ROW_BYTES, ROW_BYTES);
    assert_updated(&expected, work, |mut m| {
        let doubled = &m.row(3).to_owned() * 2.0;
        let mut target = m.row_mut(5);
        target += &doubled;
        m
    });
}

#[test]
fn odd_elements_are_replaced_by_functions_of_even_ones_in_place() {
    let mut expected = matrix();
    let mean = (&expected.slice(s![.., ..-1;2]) + &expected.slice(s![.., ..-1;2])) * 0.5;
    expected.slice_mut(s![.., 1..;2]).assign(&mean);
    let work = Work::of(1, BYTES / 2, BYTES / 2);
    assert_updated(&expected, work, |mut m| {
        let even = m.slice(s![.., ..-1;2]);
        let mean = (&even + &even) * 0.5;
        m.slice_mut(s![.., 1..;2]).assign(&mean);
        m
    });
}

#[test]
fn an_update_through_a_reversed_slice_with_steps_is_in_place() {
    let mut expected = matrix();
    let mut part = expected.slice_mut(s![1..;3, ..;-2]);
    part += 0.5;
    let elements = part.len() as u64;
    let work = Work::of(1, 4 * elements, 4 * elements);
    assert_updated(&expected, work, |mut m| {
        let mut part = m.slice_mut(s![1..;3, ..;-2]);
        part += 0.5;
        m
    });
}

#[test]
fn a_jacobi_step_is_one_kernel_that_writes_the_array_once() {
    #[allow(clippy::op_ref, reason = "the expression is the same as on the device")]
    fn step(x: &Array2<f32>) -> Array2<f32> {
        let mut next = x.clone();
        let sum = &x.slice(s![..-2, 1..-1])
            + &x.slice(s![2.., 1..-1])
            + &x.slice(s![1..-1, ..-2])
            + &x.slice(s![1..-1, 2..]);
        next.slice_mut(s![1..-1, 1..-1]).assign(&(sum * 0.25));
        next
    }
    const STEPS: usize = 7;
    let expected = (0..STEPS).fold(matrix(), |x, _| step(&x));
    let work = Work::of(
        STEPS,
        // Of four elements that are all replaced: the vectors above and below, and three of their
        // row; of others: the elements themselves and the four neighbours of each. The cache holds
        // most of them.
        STEPS as u64 * (98 * 5 * 96 + (2 * 8 + 98 * 2) * 80),
        STEPS as u64 * BYTES,
    );
    assert_updated(&expected, work, |m| {
        let mut x = m;
        for _ in 0..STEPS {
            let mut next = x.clone();
            let sum = &x.slice(s![..-2, 1..-1])
                + &x.slice(s![2.., 1..-1])
                + &x.slice(s![1..-1, ..-2])
                + &x.slice(s![1..-1, 2..]);
            next.slice_mut(s![1..-1, 1..-1]).assign(&(sum * 0.25));
            x = next;
        }
        x
    });
}

#[run_by(Counted::everywhere, |counted|)]
fn an_array_that_is_needed_later_is_not_updated_in_place() {
    let matrix = matrix();
    let mut expected = matrix.clone();
    expected.row_mut(2).fill(-1.0);
    let ((old, new, doubled), work) = counted.region(|g| {
        let old = g.array(&matrix);
        let mut new = old.clone();
        new.row_mut(2).fill(-1.0);
        let doubled = &old.row(2) * 2.0;
        (old, new, doubled)
    });
    assert_eq!((&old, &new), (&matrix, &expected));
    assert_eq!(doubled, &matrix.row(2) * 2.0);
    assert_eq!(work.bytes_written, BYTES + ROW_BYTES);
}

#[run_by(Counted::everywhere, |counted|)]
fn an_array_of_the_caller_is_not_updated_in_place() {
    let matrix = matrix();
    let mine = counted.array(&matrix);
    let changed = counted.device.region(|_| {
        let mut changed = mine.clone();
        changed.row_mut(0).fill(9.0);
        changed.column_mut(1).fill(8.0);
        Keep(changed)
    });
    let changed = changed.unwrap().wait().unwrap();
    assert_eq!(mine.to_host().unwrap(), matrix);
    let mut expected = matrix.clone();
    expected.row_mut(0).fill(9.0);
    expected.column_mut(1).fill(8.0);
    assert_eq!(changed.to_host().unwrap(), expected);
}

#[test]
fn elements_read_elsewhere_are_read_before_they_are_replaced() {
    let mut expected = matrix();
    let shifted = expected.slice(s![..-1, ..]).to_owned();
    expected.slice_mut(s![1.., ..]).assign(&shifted);
    let work = Work::of(
        1,
        // Threads that keep an element also read the first one of the values.
        BYTES + ROW_BYTES,
        BYTES,
    );
    assert_updated(&expected, work, |mut m| {
        let shifted = m.slice(s![..-1, ..]);
        m.slice_mut(s![1.., ..]).assign(&shifted);
        m
    });
}

#[run_by(Counted::everywhere, |counted|)]
fn a_scatter_into_an_array_that_nothing_else_needs_copies_nothing() {
    let (base, index) = (
        Array1::from_elem(1000, 7_i32),
        Array1::from_iter([3_i64, 5, 3]),
    );
    let values = Array1::from_iter([1, 2, 4]);
    let mut expected = base.clone();
    expected[3] += 5;
    expected[5] += 2;
    let (found, work) = counted.region(|g| {
        let base = g.array(&base);
        base.scatter_add(Axis(0), &g.array(&index), &g.array(&values))
    });
    assert_eq!(found, expected);
    assert_eq!(work.kernels, 1, "{work:?}");
    assert!(work.bytes_written <= 3 * 4, "{work:?}");
}

#[run_by(Counted::everywhere, |counted|)]
fn a_scatter_add_of_f32_is_one_kernel_in_place_and_two_elsewhere() {
    let elements = 6000;
    let base = Array1::from_elem(elements, 7_f32);
    let index = Array1::from_shape_fn(elements, |at| (at * 7 % elements) as i64);
    let values = Array1::from_shape_fn(elements, |at| at as f32);
    let mut expected = base.clone();
    for (&index, value) in index.iter().zip(&values) {
        expected[index as usize] += value;
    }
    let bytes = 4 * elements as u64;
    let on_base = counted.array(&base);
    let on_index = counted.array(&index);
    let on_values = counted.array(&values);
    let work = |keeps_base: bool, in_f64: bool| {
        let (found, work) = counted.region(|g| {
            let (index, values) = (g.array(&on_index), g.array(&on_values));
            let own = if keeps_base {
                g.array(&on_base)
            } else {
                g.array(&base)
            };
            if in_f64 {
                own.scatter_add_in_f64(Axis(0), &index, &values)
            } else {
                own.scatter_add(Axis(0), &index, &values)
            }
        });
        assert_eq!(found, expected);
        work
    };
    // The indices and the values. Additions in memory are not among the bytes.
    let added = Work::of(1, 3 * bytes, 0);
    assert_eq!(work(false, false), added);
    let copied = Work::of(2, 4 * bytes, bytes);
    assert_eq!(work(true, false), copied);
    assert_eq!(work(true, true).kernels, 3);
}

#[run_by(Counted::everywhere, |counted|)]
fn many_values_are_added_to_few_elements_once_for_each_block() {
    let (count, elements) = (20_000, 64);
    let index = Array1::from_shape_fn(count, |at| (at * 7919 % elements) as i64);
    let values = Array1::from_shape_fn(count, |at| (at % 100) as i32);
    let mut expected = Array1::from_elem(elements, 7_i32);
    for (&index, value) in index.iter().zip(&values) {
        expected[index as usize] += value;
    }
    let (found, work) = counted.region(|g| {
        let base = g.zeros::<i32, _>(elements) + 7;
        base.scatter_add(Axis(0), &g.array(&index), &g.array(&values))
    });
    assert_eq!(found, expected);
    // The base is written first. A block has at least 2,048 values.
    let per_block = (elements * size_of::<i32>()) as u64;
    assert_eq!(work.kernels, 2);
    assert!(
        work.bytes_written <= (1 + 20_000 / 2048) * per_block,
        "{work:?}"
    );
    assert!(work.bytes_read >= 12 * count as u64);
}

#[run_by(Counted::everywhere, |counted|)]
fn a_costly_value_for_few_elements_is_computed_for_them_alone() {
    let matrix = matrix();
    let (_, work) = counted.region(|g| {
        let old = g.array(&matrix);
        let mut new = old.clone();
        new.row_mut(2).assign(&old.row(7).sqrt());
        (old, new)
    });
    // The row that is replaced is not copied.
    assert_eq!(work, Work::of(1, BYTES, BYTES));
}

#[region]
fn set_borders(x: &mut Array2<f32>, y: &Array2<f32>) {
    x.row_mut(0).fill(1.0);
    x.column_mut(3).assign(&(y.column(0) * 2.0));
    x.slice_mut(s![2..2, ..]).fill(5.0);
    x.slice_mut(s![1..;2, ..;-3]).fill(4.0);
}

/// From the third call on, the kernels may be replayed by a graph.
#[run_by(Counted::everywhere, |counted|)]
fn a_series_of_updates_of_an_argument_is_written_back() {
    let [mut x, y] = [matrix(), matrix()];
    for call in 0..5 {
        x.fill(call as f32);
        let mut expected = x.clone();
        expected.row_mut(0).fill(1.0);
        expected.column_mut(3).assign(&(&y.column(0) * 2.0));
        expected.slice_mut(s![1..;2, ..;-3]).fill(4.0);
        let ((), work) =
            counted.work(|device| set_borders(device, &mut x, &y).unwrap().wait().unwrap());
        assert_eq!(x, expected);
        assert_eq!(work.kernels, 1);
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn threads_that_need_one_update_at_the_same_time_get_the_same_elements() {
    let matrix = matrix();
    let mut expected = matrix.clone();
    (0..4).for_each(|row| expected.row_mut(row).fill(1.0));
    for _ in 0..20 {
        let mut updated = counted.array(&matrix);
        (0..4).for_each(|row| updated.row_mut(row).fill(1.0));
        let sum = &updated + 1.0;
        let (updated, sum) = thread::scope(|scope| {
            let other = scope.spawn(|| sum.to_host().unwrap());
            (updated.to_host().unwrap(), other.join().unwrap())
        });
        assert_eq!(updated, expected);
        assert_eq!(sum, &expected + 1.0);
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn an_update_whose_launch_fails_is_an_error_ever_after() {
    let matrix = matrix();
    let mut updated = counted.array(&matrix);
    let mut row = updated.row_mut(0);
    row += 1.0;
    // The driver fails after the kernel has run, so the row is changed already.
    counted.calls.fail_so(|call| {
        (call == "launch_kernel")
            .then(|| Failure::Afterwards(DriverError::new(call, ResultCode::UNKNOWN)))
    });
    assert!(updated.to_host().is_err());
    counted.calls.fail_no_more();
    assert!(updated.to_host().is_err());
    assert!((&updated * 2.0).to_host().is_err());
}

#[run_by(Counted::everywhere, |counted|)]
fn an_update_of_no_elements_reads_none_of_an_empty_array() {
    let (mut updated, empty) = (counted.array(&matrix()), Array2::<f32>::zeros((0, COLUMNS)));
    let mut nothing = updated.slice_mut(s![3..3, ..]);
    nothing.assign(&counted.array(&empty));
    assert_eq!(updated.to_host().unwrap(), matrix());
}
