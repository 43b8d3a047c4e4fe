//! C1 to C3, C8 and C9: copies between host and device, counted at the driver. On a GPU the counts
//! are the same.

use millstream_region::Result;
use ndarray::{Array5, Axis, Slice};

use crate::scenarios::prelude::*;

const N: usize = 1500;

pub(crate) fn scenario(run: impl Fn(&Harness, &Calls) -> Result<()>) {
    everywhere_counted(|harness, calls| run(harness, calls).unwrap());
}

/// Asserts the numbers of uploads and downloads since the last `Calls::forget`.
#[track_caller]
pub(crate) fn assert_copies(calls: &Calls, up: usize, down: usize) {
    let counts = calls.counts();
    let made = |what: &str| -> usize {
        let named = counts.iter().filter(|(call, _)| call.starts_with(what));
        named.map(|(_, count)| count).sum()
    };
    let others = made("copy_") - made("copy_host_to_device") - made("copy_device_to_host");
    let seen = (
        made("copy_host_to_device"),
        made("copy_device_to_host"),
        others,
    );
    assert_eq!(seen, (up, down, 0), "{counts:?}");
}

/// Asserts that a result is an error whose message contains this.
#[track_caller]
pub(crate) fn assert_fails<T>(result: Result<T>, message: &str) {
    let error = result.err().expect("an error").to_string();
    assert!(error.contains(message), "{error}");
}

fn ramp() -> Array1<f32> {
    Array1::from_shape_fn(N, |index| index as f32)
}

#[region]
fn often(x: &Array1<f32>, scale: f32) -> Array1<f32> {
    let square = x * x;
    (&square * x + &square - x) / (x + 1.0) * scale
}

#[run_by(scenario, |harness, calls|)]
fn c01_an_input_that_is_used_often_is_uploaded_once() -> Result<()> {
    let x = ramp();
    calls.forget();
    let y = often(&harness.device, &x, 2.0)?.wait()?;
    assert_copies(calls, 1, 1);
    assert_eq!(y, x.mapv(|x| (x * x * x + x * x - x) / (x + 1.0) * 2.0));
    Ok(())
}

/// Returns the two places of a slice, other ones for each number.
fn places(at: usize) -> [usize; 2] {
    let (first, other) = (at / 10 + 1, at % 10);
    [first, other + 2 * usize::from(other >= first)]
}

/// Adds up slices whose starts and steps together exceed the parameters of a launch.
#[region]
fn slices(x: &Array5<f32>) -> Array5<f32> {
    let part = |at: usize| {
        let [first, second] = places(at).map(|place| place as isize);
        let along = Slice::from(first.min(second)..first.max(second) + 1).step_by(second - first);
        (0..5).fold(x.clone(), |part, axis| part.slice_axis(Axis(axis), along))
    };
    let mut sum = part(0);
    for at in 1..110 {
        sum += part(at);
    }
    sum
}

#[run_by(scenario, |harness, calls|)]
fn c01_a_table_of_parameters_is_one_upload() -> Result<()> {
    let x = Array5::from_shape_fn([13; 5], |(a, b, c, d, e)| {
        ((a + 3 * b + 5 * c + 7 * d + 2 * e) % 11) as f32
    });
    for _ in 0..2 {
        calls.forget();
        let sum = slices(&harness.device, &x)?.wait()?;
        // The array, and the table.
        assert_copies(calls, 2, 1);
        assert_eq!(calls.counts().get("launch_kernel"), Some(&1));
        let expected = Array5::from_shape_fn([2; 5], |(a, b, c, d, e)| {
            let at = |at: usize| x[[a, b, c, d, e].map(|place| places(at)[place])];
            (0..110).map(at).sum::<f32>()
        });
        assert_eq!(sum, expected);
    }
    Ok(())
}

#[region]
fn step(x: &Array1<f32>, speed: &Array1<f32>, place: &mut Array1<f32>, total: &mut Array1<f32>) {
    *place += &(speed * 0.5 + x);
    *total = &*place + &*total;
}

#[run_by(scenario, |harness, calls|)]
fn c02_only_mut_arguments_are_written_back() -> Result<()> {
    let (x, speed) = (ramp(), Array1::from_elem(N, 4.0));
    let (mut place, mut total) = (Array1::from_elem(N, 1.0), Array1::from_elem(N, 10.0));
    calls.forget();
    step(&harness.device, &x, &speed, &mut place, &mut total)?.wait()?;
    assert_copies(calls, 4, 2);
    assert_eq!(
        (x, speed),
        (ramp(), Array1::from_elem(N, 4.0)),
        "these are only read"
    );
    assert_eq!(place, ramp() + 3.0);
    assert_eq!(total, ramp() + 13.0);
    Ok(())
}

#[run_by(scenario, |harness, calls|)]
fn c02_half_of_an_array_can_be_written_back() -> Result<()> {
    let mut all = Array2::from_shape_fn((2, N), |(row, column)| (row * N + column) as f32);
    let before = all.clone();
    let (first, second) = all.view_mut().split_at(ndarray::Axis(0), 1);
    let (first, second) = (
        first.remove_axis(ndarray::Axis(0)),
        second.remove_axis(ndarray::Axis(0)),
    );
    let mut total = ramp();
    calls.forget();
    step(&harness.device, &first, &first, second, &mut total)?.wait()?;
    assert_copies(calls, 4, 2);
    assert_eq!(all.row(0), before.row(0));
    assert_eq!(all.row(1), &before.row(1) + &(&before.row(0) * 1.5));
    Ok(())
}

#[region]
fn layers(x: &Array2<f32>, w: &Array2<f32>, b: &Array1<f32>) -> (Array1<f32>, f32) {
    let hidden = (x.dot(w) + b).relu();
    let again = (hidden.dot(w) - b).relu();
    let means = again.mean_axis(ndarray::Axis(0));
    let largest = (&means * 2.0).max();
    (means, largest)
}

#[run_by(scenario, |harness, calls|)]
fn c03_intermediates_stay_on_the_device() -> Result<()> {
    let x = Array2::from_shape_fn((8, 16), |(row, column)| ((row + column) % 5) as f32);
    let w = Array2::from_shape_fn((16, 16), |(row, column)| ((row * column) % 3) as f32);
    let b = Array1::from_elem(16, 1.0);
    calls.forget();
    let (means, largest) = layers(&harness.device, &x, &w, &b)?.wait()?;
    assert_copies(calls, 3, 2);
    let relu = |x: Array2<f32>| x.mapv(|x| x.max(0.0));
    let expected = relu(relu(x.dot(&w) + &b).dot(&w) - &b)
        .mean_axis(ndarray::Axis(0))
        .unwrap();
    assert_eq!(
        means, expected,
        "the elements are small integers and eighths of them"
    );
    assert_eq!(
        largest,
        expected
            .iter()
            .fold(0.0_f32, |most, &mean| most.max(mean * 2.0))
    );
    Ok(())
}

#[region]
fn squares(x: &Array1<f32>) -> Array1<f32> {
    x * x
}

#[region]
fn length(g: &Region, x: &Array1<f32>) -> f32 {
    squares(g, x).sum().sqrt()
}

#[region]
fn normalised(g: &Region, x: &Array1<f32>) -> Array1<f32> {
    x / length(g, x)
}

#[run_by(scenario, |harness, calls|)]
fn c09_a_nested_region_copies_nothing() -> Result<()> {
    let x = array![3.0_f32, 4.0];
    calls.forget();
    assert_eq!(normalised(&harness.device, &x)?.wait()?, array![0.6, 0.8]);
    assert_copies(calls, 1, 1);
    Ok(())
}

#[region]
fn keep(x: &Array1<f32>) -> Array<f32, Ix1> {
    x.clone()
}

#[region]
fn product(x: &Array<f32, Ix2>, y: &Array2<f32>) -> Array<f32, Ix2> {
    x.dot(y)
}

#[region]
fn double(x: &mut Array1<f32>) {
    *x *= 2.0;
}

#[run_by(scenario, |harness, calls|)]
fn c09_device_arrays_are_not_copied() -> Result<()> {
    let x = ramp();
    calls.forget();
    let mut kept = keep(&harness.device, &x)?.wait()?;
    assert_copies(calls, 1, 0);
    double(&harness.device, &mut kept)?.wait()?;
    let squared = harness.device.region(|g| squares(g, &kept))?;
    assert_copies(calls, 1, 1);
    assert_eq!(squared.wait()?, x.mapv(|x| 4.0 * x * x));

    let unit = Array2::<f32>::eye(4);
    calls.forget();
    let one = product(&harness.device, &unit, &unit)?.wait()?;
    let mut power = product(&harness.device, &one, &one)?.wait()?;
    for _ in 0..3 {
        power = product(&harness.device, &power, &one)?.wait()?;
    }
    assert_copies(calls, 2, 0);
    assert_eq!(evaluate(&harness.device, |g| g.array(&power))?, unit);
    Ok(())
}
