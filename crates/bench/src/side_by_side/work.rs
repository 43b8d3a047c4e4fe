//! The works of the rows R1 to R18, written with regions. `python/region_rows.py` has the same for
//! the other libraries. `patterns.rs` has those from R19 on.

use std::any::Any;

use anyhow::Result;
use half::f16;
use millstream::Device;
use millstream_region::{Array, Element, Keep, Region, RegionExt};
use ndarray::{Array1, Array2, Array3, Axis, Dimension, Ix1, Ix2, Ix3, ShapeBuilder, s};

use super::patterns;

/// A result that is still on the device.
pub(super) type Held = Box<dyn Any>;

pub(super) struct Work<'a> {
    /// The name of the row: `R1`.
    pub(super) row: &'static str,
    pub(super) what: &'static str,
    /// Uploads the arrays of the work. The function that it returns does the work once.
    pub(super) prepare: fn(&'a Device, Size) -> Prepared<'a>,
}

/// A function that does the work once.
pub(super) type Prepared<'a> = Result<Box<dyn FnMut() -> Result<Held> + 'a>>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Size {
    Full,
    /// Sizes for the simulated device.
    #[cfg_attr(not(test), allow(dead_code, reason = "tests use it"))]
    Small,
}

impl Size {
    pub(super) fn length(self, full: usize) -> usize {
        match self {
            Size::Full => full,
            Size::Small => full.min(64),
        }
    }

    pub(super) fn times(self, full: usize) -> usize {
        match self {
            Size::Full => full,
            Size::Small => 2,
        }
    }
}

pub(super) fn works<'a>() -> Vec<Work<'a>> {
    let work = |row, what, prepare| Work { row, what, prepare };
    let mut works = vec![
        work("R1", "ten elementwise operations, 2^26", elementwise),
        work("R2", "softmax of rows, 8192^2", softmax),
        work("R3", "layer normalisation of rows, 8192^2", normalise),
        work("R4", "Jacobi, 8192^2, 100 steps", jacobi),
        work("R5", "transpose plus an array, 8192^2", transpose),
        work("R6", "argmax of rows, 8192^2", argmax),
        work("R7", "sum of 2^28", sum),
        work("R8", "product of two 4096^2", product),
        work("R9", "attention, 16 x 1024 x 64", attention),
        work("R10", "training step of an MLP, 512 x 784-512-10", training),
        work("R11", "k-means, 10^6 x 16, 64 centres", means),
        work("R12", "a x + b on 1,000 elements", few),
        work("R13", "20 operations on 1,000 elements", twenty),
        work("R14", "2,000 dependent small calls", dependent),
        work("R15", "cumulative sum of 2^26", scan),
        work("R16", "gather of 2^26", gather),
        work("R17", "GELU layer of f16, 4096 x 2048-4096-2048", layer),
        work("R18", "scaled scores of f16, 64 x 1024 x 64", scores),
    ];
    works.extend(patterns::works());
    works
}

/// Boxes a function that does the work once.
pub(super) fn held<'a, R: Any>(mut work: impl FnMut() -> Result<R> + 'a) -> Prepared<'a> {
    Ok(Box::new(move || Ok(Box::new(work()?))))
}

/// Boxes a function that runs a region of one result once.
pub(super) fn in_region<'a, T: Element, D: Dimension + 'static>(
    device: &'a Device,
    body: impl Fn(&Region) -> Array<T, D> + 'a,
) -> Prepared<'a> {
    held(move || Ok(device.region(|g| Keep(body(g)))?.wait()?))
}

/// Returns pseudo-random numbers between −1 and 1.
pub(super) fn numbers<D: Dimension, S: ShapeBuilder<Dim = D>>(shape: S) -> ndarray::Array<f32, D> {
    let mut state = 0x2545_f491_u32;
    ndarray::Array::from_shape_simple_fn(shape, || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    })
}

/// Uploads pseudo-random numbers of a type.
pub(super) fn uploaded<T: Element, D: Dimension, S: ShapeBuilder<Dim = D>>(
    device: &Device,
    shape: S,
    from: impl Fn(f32) -> T,
) -> Result<Array<T, D>> {
    Ok(Array::from_host(device, numbers(shape).mapv(from))?)
}

/// The same of `f16`.
pub(super) fn halves<D: Dimension, S: ShapeBuilder<Dim = D>>(
    device: &Device,
    shape: S,
) -> Result<Array<f16, D>> {
    uploaded(device, shape, f16::from_f32)
}

pub(super) fn vector(device: &Device, length: usize) -> Result<Array<f32, Ix1>> {
    Ok(Array::from_host(device, &numbers(length))?)
}

pub(super) fn matrix(device: &Device, shape: (usize, usize)) -> Result<Array<f32, Ix2>> {
    Ok(Array::from_host(device, &numbers(shape))?)
}

fn elementwise(device: &Device, size: Size) -> Prepared<'_> {
    let x = vector(device, size.length(1 << 26))?;
    in_region(device, move |g| {
        let x = g.array(&x);
        let y = ((&x * 1.5 + 0.25).abs() * 0.5 - 0.125).relu();
        -((y + &x) * &x).minimum(100.0) + 1.0
    })
}

fn softmax(device: &Device, size: Size) -> Prepared<'_> {
    let side = size.length(8192);
    let x = matrix(device, (side, side))?;
    in_region(device, move |g| {
        let x = g.array(&x);
        let powers = (&x - &x.max_keepdims(&[Axis(1)])).exp();
        &powers / &powers.sum_keepdims(&[Axis(1)])
    })
}

fn normalise(device: &Device, size: Size) -> Prepared<'_> {
    let side = size.length(8192);
    let x = matrix(device, (side, side))?;
    in_region(device, move |g| {
        let x = g.array(&x);
        let deviation = &x - &x.mean_keepdims(&[Axis(1)]);
        let variance = deviation.pow2().mean_keepdims(&[Axis(1)]);
        &deviation / &(&variance + 1e-5).sqrt()
    })
}

fn jacobi(device: &Device, size: Size) -> Prepared<'_> {
    let (side, steps) = (size.length(8192), size.times(100));
    let end = side - 1;
    let start = matrix(device, (side, side))?;
    in_region(device, move |g| {
        let mut x = g.array(&start);
        for _ in 0..steps {
            let inner = (x.slice(s![..end - 1, 1..end])
                + x.slice(s![2.., 1..end])
                + x.slice(s![1..end, ..end - 1])
                + x.slice(s![1..end, 2..]))
                * 0.25;
            let mut next = x.clone();
            next.slice_mut(s![1..end, 1..end]).assign(&inner);
            x = next;
        }
        x
    })
}

fn transpose(device: &Device, size: Size) -> Prepared<'_> {
    let side = size.length(8192);
    let (x, y) = (matrix(device, (side, side))?, matrix(device, (side, side))?);
    in_region(device, move |g| g.array(&x).t() + g.array(&y))
}

fn argmax(device: &Device, size: Size) -> Prepared<'_> {
    let side = size.length(8192);
    let x = matrix(device, (side, side))?;
    in_region(device, move |g| g.array(&x).argmax_axis(Axis(1)))
}

fn sum(device: &Device, size: Size) -> Prepared<'_> {
    let x = vector(device, size.length(1 << 28))?;
    in_region(device, move |g| g.array(&x).sum())
}

fn product(device: &Device, size: Size) -> Prepared<'_> {
    let side = size.length(4096);
    let (x, y) = (matrix(device, (side, side))?, matrix(device, (side, side))?);
    in_region(device, move |g| g.array(&x).dot(&g.array(&y)))
}

fn attention(device: &Device, size: Size) -> Prepared<'_> {
    let shape = (size.times(16), size.length(1024), 64);
    let host: Array3<f32> = numbers(shape);
    let upload = || -> Result<Array<f32, Ix3>> { Ok(Array::from_host(device, &host)?) };
    let (q, k, v) = (upload()?, upload()?, upload()?);
    in_region(device, move |g| {
        let (q, k, v) = (g.array(&q), g.array(&k), g.array(&v));
        q.attention(&k, &v, 0.125)
    })
}

fn training(device: &Device, size: Size) -> Prepared<'_> {
    let (rows, inputs, hidden) = (size.length(512), size.length(784), size.length(512));
    let x = matrix(device, (rows, inputs))?;
    let target = Array2::from_shape_fn((rows, 10), |(row, class)| {
        f32::from(u8::from(row % 10 == class))
    });
    let target = Array::from_host(device, &target)?;
    let scaled = |shape| numbers::<Ix2, _>(shape) * 0.05;
    let mut w1 = Array::from_host(device, &scaled((inputs, hidden)))?;
    let mut b1 = Array::from_host(device, &Array1::<f32>::zeros(hidden))?;
    let mut w2 = Array::from_host(device, &scaled((hidden, 10)))?;
    let mut b2 = Array::from_host(device, &Array1::<f32>::zeros(10))?;
    held(move || {
        let pending = device.region(|g| {
            let (x, target) = (g.array(&x), g.array(&target));
            let (v1, c1, v2, c2) = (g.array(&w1), g.array(&b1), g.array(&w2), g.array(&b2));
            let before = x.dot(&v1) + &c1;
            let active = before.relu();
            let scores = active.dot(&v2) + &c2;
            let powers = (&scores - &scores.max_keepdims(&[Axis(1)])).exp();
            let chances = &powers / &powers.sum_keepdims(&[Axis(1)]);
            let error = (chances - &target) * (1.0 / rows as f32);
            let back = before.greater(0.0).where_cond(error.dot(&v2.t()), 0.0);
            let rate = 0.01;
            (
                Keep(&v1 - &(x.t().dot(&back) * rate)),
                Keep(&c1 - &(back.sum_axis(Axis(0)) * rate)),
                Keep(&v2 - &(active.t().dot(&error) * rate)),
                Keep(&c2 - &(error.sum_axis(Axis(0)) * rate)),
            )
        })?;
        (w1, b1, w2, b2) = pending.wait()?;
        Ok((w1.clone(), b1.clone(), w2.clone(), b2.clone()))
    })
}

fn means(device: &Device, size: Size) -> Prepared<'_> {
    let (points, centres) = (size.length(1_000_000), size.length(64));
    let x = matrix(device, (points, 16))?;
    let start = matrix(device, (centres, 16))?;
    in_region(device, move |g| {
        let (x, centre) = (g.array(&x), g.array(&start));
        let norms = centre.pow2().sum_axis(Axis(1));
        let nearest = (&norms - &(x.dot(&centre.t()) * 2.0)).argmin_axis(Axis(1));
        let of_axes = nearest.insert_axis(Axis(1)).broadcast((points, 16));
        let sums = g.zeros::<f32, _>((centres, 16));
        let sums = sums.scatter_add(Axis(0), &of_axes, &x);
        let counts = g.zeros::<f32, _>(centres);
        let counts = counts.scatter_add(Axis(0), &nearest, &g.ones::<f32, _>(points));
        &sums / &counts.maximum(1.0).insert_axis(Axis(1))
    })
}

fn few(device: &Device, size: Size) -> Prepared<'_> {
    let length = size.length(1000);
    let vector = || vector(device, length);
    let (a, x, b) = (vector()?, vector()?, vector()?);
    in_region(device, move |g| g.array(&a) * g.array(&x) + g.array(&b))
}

fn twenty(device: &Device, size: Size) -> Prepared<'_> {
    let x = vector(device, size.length(1000))?;
    in_region(device, move |g| {
        let x = g.array(&x);
        (0..10).fold(x.clone(), |y, _| (&y * 0.5) + &x)
    })
}

fn dependent(device: &Device, size: Size) -> Prepared<'_> {
    let (length, calls) = (size.length(1000), size.times(2000));
    let vector = || vector(device, length);
    let (a, start, b) = (vector()?, vector()?, vector()?);
    held(move || {
        let mut x = start.clone();
        for _ in 0..calls {
            let pending = device.region(|g| Keep(g.array(&a) * g.array(&x) + g.array(&b)))?;
            x = pending.wait()?;
        }
        Ok(x)
    })
}

fn scan(device: &Device, size: Size) -> Prepared<'_> {
    let x = vector(device, size.length(1 << 26))?;
    in_region(device, move |g| g.array(&x).cumsum(Axis(0)))
}

fn gather(device: &Device, size: Size) -> Prepared<'_> {
    let length = size.length(1 << 26);
    let x = vector(device, length)?;
    let index = Array1::from_shape_fn(length, |at| {
        (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64 & (length as i64 - 1)
    });
    let index = Array::from_host(device, &index)?;
    in_region(device, move |g| {
        g.array(&x).gather(Axis(0), &g.array(&index))
    })
}

fn layer(device: &Device, size: Size) -> Prepared<'_> {
    let (rows, inputs, hidden) = (size.length(4096), size.length(2048), size.length(4096));
    let x = halves(device, (rows, inputs))?;
    let (w, v) = (
        halves(device, (inputs, hidden))?,
        halves(device, (hidden, inputs))?,
    );
    let b = halves(device, hidden)?;
    let number = f16::from_f32;
    in_region(device, move |g| {
        let y = g.array(&x).dot(&g.array(&w)) + g.array(&b);
        let active = ((&y * number(0.5_f32.sqrt())).erf() + number(1.0)) * &y * number(0.5);
        active.dot(&g.array(&v))
    })
}

fn scores(device: &Device, size: Size) -> Prepared<'_> {
    let shape = (size.times(64), size.length(1024), 64);
    let (q, k) = (halves(device, shape)?, halves(device, shape)?);
    in_region(device, move |g| {
        let keys = g.array(&k).permuted_axes([0, 2, 1]);
        g.array(&q).matmul(&keys) * f16::from_f32(0.125)
    })
}
