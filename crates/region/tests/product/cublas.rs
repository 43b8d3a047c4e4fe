//! Products by cuBLAS: within the bound, equal to the built-in kernels where sums are exact, and
//! ordered with other work.

use std::thread;

use half::{bf16, f16};
use millstream::{Device, Select, Stream};
use millstream_region::{ProductPrecision, RegionExt, product};
use ndarray::Array2;
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::product::{
    Failed, Outcome,
    builtin::{compare, product_of},
    evaluate,
    exact::Case,
    layout::Layout,
};

/// Opens the GPU, and fails unless it has cuBLAS.
fn device() -> Result<Device, Failed> {
    let device = Device::open(Select::Auto)?;
    match product::library(&device) {
        Some(note) => println!("{note}"),
        None => return Err("cuBLAS is not installed, or too old".into()),
    }
    Ok(device)
}

/// Multiplies factors of all layouts, with a bound of this many roundings for each product.
fn every_layout<T: Case>(stream: &Stream, rng: &mut Pcg32, roundings: f64) -> Outcome {
    for (batch, m, k, n) in [
        (1, 64, 64, 64),
        (1, 17, 300, 5),
        (3, 33, 65, 31),
        (2, 2, 1, 3),
        (1, 90, 1000, 90),
    ] {
        let make = [
            Layout::<T>::plain,
            Layout::<T>::transposed,
            Layout::<T>::random,
        ];
        for a in make {
            for b in make {
                let (a, b) = (a(rng, &[batch, m, k]), b(rng, &[batch, k, n]));
                compare(stream, &a, &b, roundings * k as f64)?;
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU with cuBLAS"]
fn products_are_within_the_bound() -> Outcome {
    let device = device()?;
    let stream = device.stream()?;
    let mut rng = Pcg32::seed_from_u64(20);
    every_layout::<f32>(&stream, &mut rng, 1.0)?;
    every_layout::<f64>(&stream, &mut rng, 1.0)
}

#[test]
#[ignore = "needs a GPU with cuBLAS"]
fn products_of_half_floats_are_within_the_bound() -> Outcome {
    let stream = device()?.stream()?;
    let mut rng = Pcg32::seed_from_u64(22);
    every_layout::<f16>(&stream, &mut rng, 3.0)?;
    every_layout::<bf16>(&stream, &mut rng, 3.0)
}

/// Sums of small integers are exact in `f32`, and are rounded once: sums in the type itself would
/// lose bits in between.
fn exact_halves<T: Case>(of_single: fn(f32) -> T) -> Outcome {
    let device = device()?;
    let stream = device.stream()?;
    let mut rng = Pcg32::seed_from_u64(23);
    let mut a = Layout::<T>::plain(&mut rng, &[2, 128, 1024]);
    let mut b = Layout::<T>::transposed(&mut rng, &[2, 1024, 64]);
    for (at, element) in a.elements.iter_mut().enumerate() {
        *element = of_single((at * 37 % 13) as f32);
    }
    for (at, element) in b.elements.iter_mut().enumerate() {
        *element = of_single((at % 5) as f32);
    }
    let timeline = device.timeline()?;
    let by_cublas = product_of(&stream, &a, &b, product::multiply::<T>)?;
    let mut labels = timeline
        .finish()?
        .operations
        .into_iter()
        .map(|operation| operation.label);
    if !labels.any(|label| label == "cublasGemmStridedBatchedEx") {
        return Err("cuBLAS has not multiplied".into());
    }
    let by_own = product_of(&stream, &a, &b, product::multiply_without_libraries::<T>)?;
    if by_cublas != by_own {
        return Err("cuBLAS and the built-in kernels differ although every sum is exact".into());
    }
    Ok(())
}

#[test]
#[ignore = "needs a GPU with cuBLAS"]
fn exact_half_products_match_those_of_built_in_kernels() -> Outcome {
    exact_halves(f16::from_f32)?;
    exact_halves(bf16::from_f32)
}

/// The promise that fusion changes no bit needs this where a product with an epilogue is not left
/// to cuBLAS: on GPUs of compute capability 9.0, for multiples of eight up to 256.
#[test]
#[ignore = "needs a GPU with cuBLAS"]
fn half_products_of_short_k_have_the_bits_of_built_in_kernels() -> Outcome {
    let device = device()?;
    if device.compute_capability() != (9, 0) {
        println!(
            "skipped: the compute capability is {:?}",
            device.compute_capability()
        );
        return Ok(());
    }
    let stream = device.stream()?;
    let mut rng = Pcg32::seed_from_u64(24);
    let mut differing = Vec::new();
    for k in [16, 24, 32, 40, 64, 72, 96, 128, 136, 192, 200, 248, 256] {
        for (batch, m, n) in [
            (1, 64, 64),
            (1, 200, 136),
            (3, 128, 256),
            (1, 1040, 520),
            (2, 72, 2048),
        ] {
            let sizes = (batch, m, k, n);
            differing.extend(differing_from_own::<f16>(&stream, &mut rng, sizes)?);
            differing.extend(differing_from_own::<bf16>(&stream, &mut rng, sizes)?);
        }
    }
    match differing.is_empty() {
        true => Ok(()),
        false => Err(format!("other bits: {}", differing.join(", ")).into()),
    }
}

/// Returns descriptions of the products in all layouts that have other bits than those of cuBLAS.
fn differing_from_own<T: Case>(
    stream: &Stream,
    rng: &mut Pcg32,
    (batch, m, k, n): (usize, usize, usize, usize),
) -> Result<Vec<String>, Failed> {
    let mut differing = Vec::new();
    for layouts in 0..4 {
        let a = Layout::<T>::lines(rng, &[batch, m, k], layouts < 2, 16);
        let b = Layout::<T>::lines(rng, &[batch, k, n], layouts % 2 == 0, 16);
        let by_cublas = product_of(stream, &a, &b, product::multiply::<T>)?;
        let by_own = product_of(stream, &a, &b, product::multiply_without_libraries::<T>)?;
        if by_cublas != by_own {
            differing.push(format!("{batch} of {m} x {k} x {n} in layouts {layouts}"));
        }
    }
    Ok(differing)
}

/// Sums of small integers are exact in any order, so that both implementations must agree to the
/// bit; TF32 would lose bits.
#[test]
#[ignore = "needs a GPU with cuBLAS"]
fn exact_products_match_those_of_built_in_kernels() -> Outcome {
    let stream = device()?.stream()?;
    let mut rng = Pcg32::seed_from_u64(21);
    let mut a = Layout::<f32>::plain(&mut rng, &[2, 128, 256]);
    let mut b = Layout::<f32>::transposed(&mut rng, &[2, 256, 64]);
    // 13 bits, two more than TF32 has.
    for (at, element) in a.elements.iter_mut().enumerate() {
        *element = ((at * 37 % 0x1000) | 0x1001) as f32;
    }
    for (at, element) in b.elements.iter_mut().enumerate() {
        *element = (at % 5) as f32 - 2.0;
    }
    let by_cublas = product_of(&stream, &a, &b, product::multiply::<f32>)?;
    let by_own = product_of(&stream, &a, &b, product::multiply_without_libraries::<f32>)?;
    if by_cublas != by_own {
        return Err("cuBLAS and the built-in kernels differ although every sum is exact".into());
    }
    Ok(())
}

/// Multiplies again and again, with the factors that another stream has just written.
fn same_products<T: Case>(device: &Device, seed: u64, roundings: f64) -> Outcome {
    let mut rng = Pcg32::seed_from_u64(seed);
    let stream = device.stream()?;
    let a = Layout::<T>::plain(&mut rng, &[128, 96]);
    let b = Layout::<T>::plain(&mut rng, &[96, 64]);
    let first = product_of(&stream, &a, &b, product::multiply::<T>)?;
    for _ in 0..200 {
        let again = product_of(&device.stream()?, &a, &b, product::multiply::<T>)?;
        if again != first {
            return Err("the product differs from that of the first run".into());
        }
    }
    compare(&stream, &a, &b, roundings * 96.0)
}

/// [`same_products`] for one element type.
type Multiply = fn(&Device, u64, f64) -> Outcome;

/// Multiplies on several threads, in different modes of the handle.
#[test]
#[ignore = "needs a GPU with cuBLAS"]
fn threads_share_a_handle() -> Outcome {
    let device = device()?;
    let failed = thread::scope(|scope| {
        let multiply: [(Multiply, f64); 4] = [
            (same_products::<f64>, 1.0),
            (same_products::<f32>, 1.0),
            (same_products::<f16>, 3.0),
            (same_products::<bf16>, 3.0),
        ];
        let threads: Vec<_> = (0..)
            .zip(multiply)
            .map(|(seed, (multiply, roundings))| {
                let device = &device;
                scope.spawn(move || multiply(device, seed, roundings))
            })
            .collect();
        let outcomes = threads
            .into_iter()
            .map(|thread| thread.join().expect("the thread does not panic"));
        outcomes.filter_map(Result::err).next()
    });
    failed.map_or(Ok(()), Err)
}

/// Multiplies in TF32 between two products in full, of elements that TF32 has no bits for.
#[test]
#[ignore = "needs a GPU with cuBLAS"]
fn tf32_is_used_where_it_is_asked_for() -> Outcome {
    let device = device()?;
    let (rows, k) = (1024, 256);
    let a = Array2::from_elem((rows, k), 1.0 + 1.0 / 4096.0_f32);
    let b = Array2::from_elem((k, rows), 1.0_f32);
    let (before, in_tf32, after) = evaluate(&device, |g| {
        let (a, b) = (g.array(&a), g.array(&b));
        let before = a.dot(&b);
        let in_tf32 = a.dot_with(&b, ProductPrecision::Tf32);
        (before, in_tf32, a.matmul(&(&b * 2.0)))
    })?;
    let exact = k as f32 * (1.0 + 1.0 / 4096.0);
    if before.iter().any(|&found| found != exact) || after.iter().any(|&found| found != 2.0 * exact)
    {
        return Err("a product that was to be in full is not exact".into());
    }
    match in_tf32.iter().find(|&&found| found != k as f32) {
        Some(found) => Err(format!("{found} instead of {k}, which TF32 would give").into()),
        None => Ok(()),
    }
}

#[test]
#[ignore = "needs a GPU with cuBLAS"]
fn tf32_products_are_within_the_bound() -> Outcome {
    let device = device()?;
    let mut rng = Pcg32::seed_from_u64(24);
    for (m, k, n) in [(64, 64, 64), (17, 300, 5), (256, 1024, 128)] {
        let mut matrix =
            |rows, columns| Array2::from_shape_simple_fn((rows, columns), || f32::random(&mut rng));
        let (a, b) = (matrix(m, k), matrix(n, k));
        let found = device.region(|g| {
            g.array(&a)
                .dot_with(&g.array(&b).t(), ProductPrecision::Tf32)
        })?;
        for ((row, column), &found) in found.wait()?.indexed_iter() {
            let pairs = a.row(row).into_iter().zip(b.row(column));
            let products = pairs.map(|(&a, &b)| f64::from(a) * f64::from(b));
            let (sum, magnitudes) = products.fold((0.0, 0.0), |(sum, magnitudes), product| {
                (sum + product, magnitudes + product.abs())
            });
            let bound = (2_f64.powi(-9) + 3.0 * k as f64 * 2_f64.powi(-24)) * magnitudes;
            let distance = (f64::from(found) - sum).abs();
            // The terms in 2⁻²⁰, with room for those that follow.
            if distance > bound + 2_f64.powi(-19) * magnitudes {
                return Err(format!("{distance:e} off, of {bound:e} allowed").into());
            }
        }
    }
    Ok(())
}
