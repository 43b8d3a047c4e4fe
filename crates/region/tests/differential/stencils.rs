//! Stencils of costly functions, which their kernels compute in shared memory: the bits of stored
//! functions, for shapes around the size of a tile.

use millstream_region::Number;

use crate::differential::prelude::*;

/// Positions around an element, by the starts of the views along each axis.
type Places = &'static [&'static [usize]];

const STAR: Places = &[&[1, 1], &[1, 0], &[1, 2], &[0, 1], &[2, 1]];
const BOX: Places = &[
    &[0, 0],
    &[0, 1],
    &[0, 2],
    &[1, 0],
    &[1, 1],
    &[1, 2],
    &[2, 0],
    &[2, 1],
    &[2, 2],
];
/// No position at the start of the array, with another distance along each axis.
const ASIDE: Places = &[&[2, 1], &[4, 6], &[3, 1], &[2, 5], &[3, 4]];
/// Positions along the first axis alone.
const COLUMN: Places = &[&[0, 2], &[1, 2], &[2, 2], &[3, 2], &[5, 2]];
const LINE: Places = &[&[0], &[1], &[2], &[5], &[3]];
/// Positions in matrices of a batch, the first of which is left out.
const BATCH: Places = &[&[1, 1, 1], &[1, 0, 1], &[1, 2, 1], &[1, 1, 0], &[1, 1, 2]];
/// Positions along the first and the last axis.
const AROUND: Places = &[&[1, 0, 1], &[0, 0, 1], &[2, 0, 1], &[1, 0, 0], &[1, 0, 2]];

fn numbers(shape: &[usize]) -> ArrayD<f64> {
    let mut next = 0;
    ArrayD::from_shape_simple_fn(IxDyn(shape), || {
        next += 1;
        (next * 7919 % 2003) as f64 / 1001.5 - 1.0
    })
}

/// Returns the sum of an array at all positions, as far as the array has elements there.
fn stencil<T: Number>(values: &Array<T, IxDyn>, places: Places) -> Array<T, IxDyn> {
    let part = |place: &&[usize]| {
        let axes = place.iter().enumerate();
        axes.fold(values.clone(), |part, (axis, &start)| {
            let last = places.iter().map(|place| place[axis]).max().unwrap_or(0);
            let length = values.shape()[axis].saturating_sub(last);
            part.slice_axis(Axis(axis), Slice::from(start..start + length))
        })
    };
    let parts = places.iter().map(part);
    parts
        .reduce(|sum, part| sum + part)
        .expect("there are positions")
}

/// Asserts that a stencil of a function has the elements of a stencil of the stored function, and
/// that its kernel computes the function in shared memory, unless only few elements are read.
fn assert_stencil<T: Number, B: PartialEq + std::fmt::Debug>(
    device: &Device,
    (host, places): (&ArrayD<T>, Places),
    function: impl Fn(&Array<T, IxDyn>) -> Array<T, IxDyn>,
    bits: fn(&T) -> B,
) -> Outcome {
    let x = Array::from_host(device, host)?;
    let shape = host.shape();
    let found = device.region(|g| {
        let result = stencil(&function(&g.array(&x)), places);
        let kernels = g.explain(&result)?.kernels().to_vec();
        let is_tiled = kernels.len() == 1 && kernels[0].in_shared_memory.len() == 1;
        let is_expected = result.len() > 1 && 2 * result.len() >= x.len();
        assert!(is_tiled || !is_expected, "{shape:?}, {kernels:?}");
        Ok(result)
    });
    let values = evaluate(device, |g| Keep(function(&g.array(&x))))?;
    let expected = stencil(&values, places).to_host()?;
    let elements = |result: ArrayD<T>| result.iter().map(bits).collect::<Vec<B>>();
    assert_eq!(
        elements(found?.wait()?),
        elements(expected),
        "{shape:?}, {places:?}"
    );
    Ok(())
}

/// Asserts the same for exponentials of `f32` and sines of `f64`.
fn assert_floats(device: &Device, shape: &[usize], places: Places) -> Outcome {
    let wide = numbers(shape);
    let narrow = wide.mapv(|x| x as f32);
    assert_stencil(
        device,
        (&narrow, places),
        |x| (x * 1.5).exp(),
        |x| x.to_bits(),
    )?;
    assert_stencil(device, (&wide, places), |x| x.sin(), |x| x.to_bits())
}

/// Results of no element and of one, of less than a tile, of a tile, and of one and several tiles
/// with some elements more, along both axes.
#[run_by(everywhere, |device|)]
fn stencils_of_matrices_have_the_bits_of_stored_functions() -> Outcome {
    for shape in [[2, 9], [9, 2], [3, 3], [3, 4], [4, 3]] {
        assert_floats(device, &shape, STAR)?;
    }
    for shape in [
        [18, 66],
        [18, 67],
        [19, 66],
        [35, 130],
        [7, 300],
        [150, 9],
        [17, 34],
    ] {
        assert_floats(device, &shape, STAR)?;
        assert_floats(device, &shape, BOX)?;
    }
    for shape in [[20, 70], [21, 71], [40, 75]] {
        assert_floats(device, &shape, ASIDE)?;
        assert_floats(device, &shape, COLUMN)?;
    }
    Ok(())
}

/// A batch of matrices has tiles of its own for each of them.
#[run_by(everywhere, |device|)]
fn stencils_of_lines_and_batches_have_the_bits_of_stored_functions() -> Outcome {
    for length in [7, 1028, 1029, 1030, 1029 + 1024] {
        assert_floats(device, &[length], LINE)?;
    }
    for shape in [[3, 20, 70], [2, 18, 66], [4, 5, 40]] {
        assert_floats(device, &shape, BATCH)?;
    }
    for shape in [[20, 3, 70], [18, 1, 66], [9, 4, 5]] {
        assert_floats(device, &shape, AROUND)?;
    }
    Ok(())
}

/// Arithmetic of integers wraps around, so that it has one right result.
#[run_by(everywhere, |device|)]
fn stencils_of_integers_are_those_of_the_host() -> Outcome {
    fn mixed<T: Number>(x: &Array<T, IxDyn>, factor: T) -> Array<T, IxDyn> {
        (0..6).fold(x.clone(), |y, _| (&y * factor) + x)
    }
    for shape in [[18, 67], [40, 75], [3, 5]] {
        let wide = numbers(&shape).mapv(|x| (x * 1e9) as i64);
        let narrow = wide.mapv(|x| x as i32);
        let half = wide.mapv(|x| f16::from_f64(x as f64 * 1e-9));
        assert_stencil(device, (&narrow, BOX), |x| mixed(x, 7), |&x| x)?;
        assert_stencil(device, (&wide, BOX), |x| mixed(x, -7), |&x| x)?;
        assert_stencil(device, (&half, BOX), |x| x.exp(), |x| x.to_bits())?;
        let x = Array::from_host(device, &narrow)?;
        let found = stencil(&mixed(&x, 7), BOX).to_host()?;
        let host = narrow.mapv(|x| (0..6).fold(x, |y, _| y.wrapping_mul(7).wrapping_add(x)));
        let expected = ArrayD::from_shape_fn(found.raw_dim(), |at| {
            let element = |place: &&[usize]| host[[at[0] + place[0], at[1] + place[1]]];
            BOX.iter().map(element).fold(0, i32::wrapping_add)
        });
        assert_eq!(found, expected);
    }
    Ok(())
}

/// One of the functions has another function, a row, a view and its own position as operands. The
/// kernel reads another array, too.
#[run_by(everywhere, |device|)]
fn a_stencil_of_several_functions_has_the_bits_of_stored_ones() -> Outcome {
    fn functions(x: &Array<f32, IxDyn>, row: &Array<f32, IxDyn>) -> [Array<f32, IxDyn>; 2] {
        let below = x.slice_axis(Axis(0), Slice::from(1..));
        let above = x.slice_axis(Axis(0), Slice::from(..-1));
        let first = (&below * row).exp();
        [first, (&above - 0.25).cos() + &below.sqrt()]
    }
    let host = numbers(&[38, 75]).mapv(|x| x.abs() as f32);
    let row = numbers(&[75]).mapv(|x| x as f32);
    let [x, row] = [
        Array::from_host(device, &host)?,
        Array::from_host(device, &row)?,
    ];
    let result = |[first, second]: [&Array<f32, IxDyn>; 2], x: &Array<f32, IxDyn>| {
        let inner = stencil(x, &[&[1, 2], &[3, 1]]).slice_axis(Axis(1), Slice::from(..-4));
        stencil(first, ASIDE) * inner.slice_axis(Axis(0), Slice::from(..-2))
            - stencil(second, ASIDE)
    };
    let found = device.region(|g| {
        let x = g.array(&x);
        let [first, second] = functions(&x, &g.array(&row));
        let result = result([&first, &second], &x);
        let kernels = g.explain(&result)?.kernels().to_vec();
        assert_eq!(kernels.len(), 1, "{kernels:?}");
        assert_eq!(kernels[0].in_shared_memory, ["exp", "add"]);
        Ok(result)
    });
    let (first, second) = evaluate(device, |g| {
        let [first, second] = functions(&g.array(&x), &g.array(&row));
        (Keep(first), Keep(second))
    })?;
    let bits = |result: ArrayD<f32>| result.mapv(f32::to_bits);
    let expected = result([&first, &second], &x).to_host()?;
    assert_eq!(bits(found?.wait()?), bits(expected));
    Ok(())
}

/// Returns a stencil of a function of an array, and an element beside it.
fn with_neighbour(x: &Array<f32, IxDyn>, values: &Array<f32, IxDyn>) -> Array<f32, Ix2> {
    let above = stencil(x, &[&[0, 1]]).slice_axis(Axis(0), Slice::from(..-2));
    let above = above.slice_axis(Axis(1), Slice::from(..-1));
    let sum = stencil(values, STAR) + above;
    sum.into_dimensionality::<Ix2>()
        .expect("a matrix has two axes")
}

/// The old elements are read by blocks that run after others have written new ones.
#[run_by(everywhere, |device|)]
fn a_stencil_in_the_place_of_its_array_reads_old_elements() -> Outcome {
    let host = numbers(&[40, 75]).mapv(|x| x as f32);
    let expected = {
        let x = Array::from_host(device, &host)?;
        let values = evaluate(device, |g| Keep(g.array(&x).exp()))?;
        let mut expected = host.clone();
        let inner = with_neighbour(&x, &values).to_host()?;
        expected.slice_mut(s![1..39, 1..74]).assign(&inner);
        expected
    };
    let mut x = Array::from_host(device, &host)?;
    let inner = with_neighbour(&x, &x.exp());
    x.slice_mut(s![1..39, 1..74]).assign(&inner);
    drop(inner);
    assert_eq!(x.to_host()?, expected);
    let mut changed = host.clone();
    let pending = device.region(|g| {
        let mut x = g.array(&changed);
        let inner = with_neighbour(&x, &x.exp());
        x.slice_mut(s![1..39, 1..74]).assign(&inner);
        Ok(x)
    });
    changed.assign(&pending?.wait()?);
    assert_eq!(changed, expected);
    Ok(())
}
