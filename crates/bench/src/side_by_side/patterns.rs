//! The works of the rows R19 to R35: patterns that were slow, works of other people's suites, which
//! were chosen before anything was measured, and operations of order. `python/pattern_rows.py` has
//! the same for the other libraries.
//!
//! R22 to R24 are of PyTorch's `benchmarks/gpt_fast`, R25 and R26 of its
//! `benchmarks/dynamo/microbenchmarks`, R27 to R30 of NPBench (`hdiff`, `nbody`, `arc_distance`,
//! `heat_3d`), R31 is the first step of CuPy's example `gmm`. R28 has more bodies than the 100 of
//! NPBench.

use half::bf16;
use millstream::Device;
use millstream_region::{Array, Keep, Packed, RegionExt, region, stack};
use ndarray::{Array1, Array2, Axis, Ix1, Ix3, s};

use super::work::{
    Prepared, Size, Work, halves, held, in_region, matrix, numbers, uploaded, vector,
};

/// The length of R28's softening, squared.
const SOFTENING: f32 = 0.01;

pub(super) fn works<'a>() -> [Work<'a>; 17] {
    let work = |row, what, prepare| Work { row, what, prepare };
    [
        work("R19", "nearest of 2,000 to each of 20,000 points", nearest),
        work("R20", "box blur 5 x 5 of 8192^2", blur),
        work("R21", "Black-Scholes, 2^24", prices),
        work("R22", "layer norm of bf16, 4096 x 8192", layer_norm),
        work("R23", "int8 matrix by bf16 vector, 8192^2", vector_product),
        work(
            "R24",
            "two of 8 matrices by a vector, 4096^2",
            selected_product,
        ),
        work("R25", "argmax of x + 1, 64 x 128 x 256", argmax_of_sum),
        work("R26", "relu of a product plus bias, f16", product_bias),
        work("R27", "horizontal diffusion, 384 x 384 x 160", diffusion),
        work("R28", "forces of 8,192 bodies", forces),
        work("R29", "arc distances of 10^7, f64", distances),
        work("R30", "heat in a cube of 120, 198 half steps", heat),
        work("R31", "expectations of a mixture, 500,000", mixture),
        work("R32", "sort of 2^26", sort),
        work("R33", "positions in sorted order, 2^26", argsort),
        work("R34", "64 greatest of rows, 4096 x 32768", greatest),
        work("R35", "distinct of 2^24 i32, with counts", distinct),
    ]
}

fn nearest(device: &Device, size: Size) -> Prepared<'_> {
    let x = matrix(device, (size.length(20_000), 3))?;
    let p = matrix(device, (size.length(2_000), 3))?;
    in_region(device, move |g| {
        let difference = g.array(&x).insert_axis(Axis(1)) - g.array(&p).insert_axis(Axis(0));
        difference.pow2().sum_axis(Axis(2)).argmin_axis(Axis(1))
    })
}

fn blur(device: &Device, size: Size) -> Prepared<'_> {
    let side = size.length(8192);
    let x = matrix(device, (side, side))?;
    in_region(device, move |g| {
        let (x, inner) = (g.array(&x), side - 4);
        let shifts = (0..25).map(|at| (at / 5, at % 5));
        let parts = shifts.map(|(i, j)| x.slice(s![i..i + inner, j..j + inner]));
        let sum = parts.reduce(|sum, part| sum + part);
        sum.expect("there are parts") * (1.0 / 25.0)
    })
}

fn prices(device: &Device, size: Size) -> Prepared<'_> {
    let length = size.length(1 << 24);
    let between = |low: f32, high: f32| {
        let host = numbers::<Ix1, _>(length) * ((high - low) / 2.0) + (low + high) / 2.0;
        Array::from_host(device, &host)
    };
    let (s, x, t) = (
        between(5.0, 30.0)?,
        between(1.0, 100.0)?,
        between(0.25, 10.0)?,
    );
    let (r, v) = (0.02_f32, 0.3_f32);
    held(move || {
        let pending = device.region(|g| {
            let (s, x, t) = (g.array(&s), g.array(&x), g.array(&t));
            let root = t.sqrt() * v;
            let d1 = ((&s / &x).ln() + &t * (r + v * v / 2.0)) / &root;
            let d2 = &d1 - &root;
            let normal = |d: &Array<f32, Ix1>| (d * 0.5_f32.sqrt()).erf() * 0.5 + 0.5;
            let (n1, n2) = (normal(&d1), normal(&d2));
            let discounted = x * (t * -r).exp();
            let call = &s * &n1 - &discounted * &n2;
            let put = discounted * (-n2 + 1.0) - s * (-n1 + 1.0);
            (Keep(call), Keep(put))
        })?;
        Ok(pending.wait()?)
    })
}

fn layer_norm(device: &Device, size: Size) -> Prepared<'_> {
    let (rows, width) = (size.length(4096), size.length(8192));
    let x = uploaded(device, (rows, width), bf16::from_f32)?;
    let (weight, bias) = (vector(device, width)?, vector(device, width)?);
    in_region(device, move |g| {
        let x = g.array(&x).cast::<f32>();
        let deviation = &x - &x.mean_keepdims(&[Axis(1)]);
        let variance = deviation.pow2().mean_keepdims(&[Axis(1)]);
        let scaled = &deviation / &(&variance + 1e-5).sqrt();
        (scaled * g.array(&weight) + g.array(&bias)).cast::<bf16>()
    })
}

fn vector_product(device: &Device, size: Size) -> Prepared<'_> {
    let side = size.length(8192);
    let w = uploaded(device, (side, side), |x| (x * 127.0) as i8)?;
    let x = uploaded(device, side, bf16::from_f32)?;
    in_region(device, move |g| {
        g.array(&w).cast::<bf16>().dot(&g.array(&x))
    })
}

fn selected_product(device: &Device, size: Size) -> Prepared<'_> {
    let side = size.length(4096);
    let w = uploaded(device, (8, side, side), bf16::from_f32)?;
    let x = uploaded(device, side, bf16::from_f32)?;
    let which = Array::from_host(device, &Array1::from(vec![3_i64, 5]))?;
    in_region(device, move |g| {
        let selected = g.array(&w).select(Axis(0), &g.array(&which));
        let rows = selected.into_shape_with_order((2 * side, side));
        rows.dot(&g.array(&x)).into_shape_with_order((2, side))
    })
}

fn argmax_of_sum(device: &Device, size: Size) -> Prepared<'_> {
    let shape = (size.times(64), size.length(128), size.length(256));
    let x = uploaded(device, shape, |x| x)?;
    in_region(device, move |g| (g.array(&x) + 1.0).argmax())
}

fn product_bias(device: &Device, size: Size) -> Prepared<'_> {
    let (m, k, n) = (size.length(2048), size.length(768), size.length(3072));
    let (a, b) = (halves(device, (m, k))?, halves(device, (k, n))?);
    let bias = halves(device, (m, n))?;
    in_region(device, move |g| {
        (g.array(&a).dot(&g.array(&b)) + g.array(&bias)).relu()
    })
}

fn diffusion(device: &Device, size: Size) -> Prepared<'_> {
    let (i, j, k) = (size.length(384), size.length(384), size.length(160));
    let field = uploaded(device, (i + 4, j + 4, k), f64::from)?;
    let coefficient = uploaded(device, (i, j, k), f64::from)?;
    in_region(device, move |g| {
        let (x, coefficient) = (g.array(&field), g.array(&coefficient));
        let laplace = x.slice(s![1..i + 3, 1..j + 3, ..]) * 4.0
            - (x.slice(s![2..i + 4, 1..j + 3, ..])
                + x.slice(s![..i + 2, 1..j + 3, ..])
                + x.slice(s![1..i + 3, 2..j + 4, ..])
                + x.slice(s![1..i + 3, ..j + 2, ..]));
        let limited = |flux: Array<f64, Ix3>, gradient: Array<f64, Ix3>| {
            (&flux * gradient).greater(0.0).where_cond(0.0, &flux)
        };
        let along = laplace.slice(s![1.., 1..=j, ..]) - laplace.slice(s![..i + 1, 1..=j, ..]);
        let gradient = x.slice(s![2..i + 3, 2..j + 2, ..]) - x.slice(s![1..i + 2, 2..j + 2, ..]);
        let along = limited(along, gradient);
        let across = laplace.slice(s![1..=i, 1.., ..]) - laplace.slice(s![1..=i, ..j + 1, ..]);
        let gradient = x.slice(s![2..i + 2, 2..j + 3, ..]) - x.slice(s![2..i + 2, 1..j + 2, ..]);
        let across = limited(across, gradient);
        let sum = along.slice(s![1.., .., ..]) - along.slice(s![..i, .., ..])
            + across.slice(s![.., 1.., ..])
            - across.slice(s![.., ..j, ..]);
        x.slice(s![2..i + 2, 2..j + 2, ..]) - coefficient * sum
    })
}

fn forces(device: &Device, size: Size) -> Prepared<'_> {
    let bodies = size.length(8192);
    let position = matrix(device, (bodies, 3))?;
    let mass = vector(device, bodies)?;
    in_region(device, move |g| {
        let (position, mass) = (g.array(&position), g.array(&mass));
        let differences = [0, 1, 2].map(|axis| {
            let x = position.column(axis);
            x.insert_axis(Axis(0)) - x.insert_axis(Axis(1))
        });
        let [dx, dy, dz] = &differences;
        let squares = dx.pow2() + dy.pow2() + dz.pow2() + SOFTENING;
        let inverse = squares.powf(-1.5);
        let [x, y, z] = differences.each_ref().map(|d| (d * &inverse).dot(&mass));
        stack(Axis(1), &[x, y, z]).expect("the shapes are equal")
    })
}

fn distances(device: &Device, size: Size) -> Prepared<'_> {
    let angles = || uploaded::<f64, Ix1, _>(device, size.length(10_000_000), f64::from);
    let (t1, p1, t2, p2) = (angles()?, angles()?, angles()?, angles()?);
    in_region(device, move |g| {
        let (t1, p1, t2, p2) = (g.array(&t1), g.array(&p1), g.array(&t2), g.array(&p2));
        let half = |a: &Array<f64, Ix1>, b: &Array<f64, Ix1>| ((a - b) * 0.5).sin().pow2();
        let square = half(&t2, &t1) + t1.cos() * t2.cos() * half(&p2, &p1);
        square.sqrt().atan2(&(-square + 1.0).sqrt()) * 2.0
    })
}

fn heat(device: &Device, size: Size) -> Prepared<'_> {
    let (side, steps) = (size.length(120), size.times(99));
    let start = uploaded(device, (side, side, side), f64::from)?;
    let inner = move |x: &Array<f64, Ix3>| {
        let r = 1..side - 1;
        let middle = x.slice(s![r.clone(), r.clone(), r.clone()]);
        let along = |next, last| (next - &middle * 2.0 + last) * 0.125;
        along(
            x.slice(s![2.., r.clone(), r.clone()]),
            x.slice(s![..side - 2, r.clone(), r.clone()]),
        ) + along(
            x.slice(s![r.clone(), 2.., r.clone()]),
            x.slice(s![r.clone(), ..side - 2, r.clone()]),
        ) + along(
            x.slice(s![r.clone(), r.clone(), 2..]),
            x.slice(s![r.clone(), r, ..side - 2]),
        ) + middle
    };
    in_region(device, move |g| {
        let (mut a, mut b) = (g.array(&start), g.array(&start));
        let end = side - 1;
        for _ in 0..steps {
            b.slice_mut(s![1..end, 1..end, 1..end]).assign(&inner(&a));
            a.slice_mut(s![1..end, 1..end, 1..end]).assign(&inner(&b));
        }
        a
    })
}

fn mixture(device: &Device, size: Size) -> Prepared<'_> {
    let x = matrix(device, (size.length(500_000), 2))?;
    let host = Array2::from_shape_vec((2, 2), vec![1.0_f32, 0.5, 0.75, 1.25])?;
    let (means, inverse) = (
        Array::from_host(device, &host)?,
        Array::from_host(device, &host)?,
    );
    let weights = Array::from_host(device, &Array1::from(vec![0.5_f32, 0.5]))?;
    held(move || {
        let pending = device.region(|g| {
            let (x, means, inverse) = (g.array(&x), g.array(&means), g.array(&inverse));
            let precisions = inverse.pow2();
            let log = (means.pow2() * &precisions).sum_axis(Axis(1))
                - x.dot(&(means * &precisions).t()) * 2.0
                + x.pow2().dot(&precisions.t());
            let log = (log + 2.0 * std::f32::consts::TAU.ln()) * -0.5
                + inverse.ln().sum_axis(Axis(1))
                + g.array(&weights).ln();
            let norm = log.exp().sum_axis(Axis(1)).ln();
            let expected = log - norm.insert_axis(Axis(1));
            (Keep(norm.mean()), Keep(expected))
        })?;
        Ok(pending.wait()?)
    })
}

fn sort(device: &Device, size: Size) -> Prepared<'_> {
    let x = vector(device, size.length(1 << 26))?;
    in_region(device, move |g| g.array(&x).sort())
}

fn argsort(device: &Device, size: Size) -> Prepared<'_> {
    let x = vector(device, size.length(1 << 26))?;
    in_region(device, move |g| g.array(&x).argsort())
}

fn greatest(device: &Device, size: Size) -> Prepared<'_> {
    let x = matrix(device, (size.length(4096), size.length(32_768)))?;
    held(move || {
        let pending = device.region(|g| {
            let (values, positions) = g.array(&x).topk(64, Axis(1));
            (Keep(values), Keep(positions))
        })?;
        Ok(pending.wait()?)
    })
}

#[region]
fn distinct_of(x: &Array<i32, Ix1>) -> (Packed<i32>, Packed<i64>) {
    x.unique_counts()
}

fn distinct(device: &Device, size: Size) -> Prepared<'_> {
    let x = uploaded::<i32, Ix1, _>(device, size.length(1 << 24), |x| (x * 1e6) as i32)?;
    held(move || Ok(distinct_of(device, &x)?.wait()?))
}
