//! Element-wise functions of products, computed in the kernel of the product, against the same
//! functions of a product in memory.

use half::{bf16, f16};
use millstream::{
    Device, Select,
    sim::{Gpu, SimConfig},
};
use millstream_region::{Array, Element, Keep, Number, Region, RegionExt};
use millstream_testkit::share;
use ndarray::{Array1, Array2, Array3, Axis, Dimension, Ix2, Ix3};

use crate::{
    differential::order::Word,
    product::{Outcome, evaluate, on_gpu},
};

/// Computes an epilogue of a product in the product's kernel, and separately from a product in
/// memory, and compares all bits.
fn compare<T: Element, U: Word, D: Dimension>(
    device: &Device,
    product: impl Fn(&Region) -> Array<T, D>,
    epilogue: impl Fn(&Region, &Array<T, D>) -> Array<U, D>,
) -> Outcome {
    let mut kernels = 0;
    let fused = device.region(|g| {
        let result = epilogue(g, &product(g));
        kernels = g.explain(&result).map_or(0, |plan| plan.kernels().len());
        Keep(result)
    })?;
    assert_eq!(kernels, 1, "the epilogue is in the kernel of the product");
    let alone = evaluate(device, |g| Keep(product(g)))?;
    let separate = device.region(|g| Keep(epilogue(g, &g.array(&alone))))?;
    let [fused, separate] = [fused, separate].map(|result| {
        let bits = |result: Array<U, D>| Ok(result.to_host()?.mapv(Word::bits));
        result.wait().and_then(bits)
    });
    let (fused, separate) = (fused?, separate?);
    if fused == separate {
        return Ok(());
    }
    Err(format!("{fused:x?} in the kernel of the product, {separate:x?} after it").into())
}

/// Returns a matrix of numbers with fractions, as far as the type has them.
fn numbers<T: Element>(
    device: &Device,
    (rows, columns): (usize, usize),
    seed: usize,
) -> Result<Array<T, Ix2>, millstream_region::Error> {
    let number = |(row, column): (usize, usize)| {
        ((row * 37 + column * 11 + seed * 5) % 97) as f64 / 8.0 - 5.0
    };
    let doubles = Array2::from_shape_fn((rows, columns), number);
    evaluate(device, |g| Keep(g.array(&doubles).cast::<T>()))
}

/// Sizes of products, with whether the first factor is transposed in memory. They take each
/// built-in kernel, and the sum of partial products with one thread for each element.
const SIZES: &[(usize, usize, usize, bool)] = &[
    (60, 40, 70, false),
    (17, 9, 18, false),
    (5, 40, 1, false),
    (40, 64, 1, true),
    (9, 5, 1, false),
    (1, 40, 33, false),
    (17, 1100, 18, false),
    (3, 5000, 1, false),
    (5, 0, 7, false),
    (6, 0, 1, false),
    (3, 4, 0, false),
];

/// Sizes of products of 16-bit floats by tensor cores, also of those of a split `k`.
const TENSOR_SIZES: &[(usize, usize, usize, bool)] = &[
    (70, 24, 72, false),
    (64, 40, 136, true),
    (64, 1104, 64, false),
];

/// The sum of partial products with 32 threads for each element.
const LONG: (usize, usize, usize, bool) = (1, 131_080, 1, false);

/// The functions of a product and other arrays that are compared.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    Some,
    All,
}

fn compare_sizes<T: Number + Word>(
    device: &Device,
    (m, k, n, is_transposed): (usize, usize, usize, bool),
    which: Which,
) -> Outcome {
    let a = numbers::<T>(device, if is_transposed { (k, m) } else { (m, k) }, 1)?;
    let b = numbers::<T>(device, (k, n), 2)?;
    let row = numbers::<T>(device, (1, n), 3)?;
    let column = numbers::<T>(device, (m, 1), 4)?;
    let others = numbers::<T>(device, (m, n), 5)?;
    let turned = numbers::<T>(device, (n, m), 6)?;
    let product = |g: &Region| {
        let (a, b) = (g.array(&a), g.array(&b));
        if is_transposed {
            a.t().dot(&b)
        } else {
            a.dot(&b)
        }
    };
    compare(device, product, |g, p| (p + &g.array(&row).row(0)).relu())?;
    compare(device, product, |g, p| {
        let residual = g.array(&turned);
        (p * &g.array(&column) - &residual.t()).cast::<f64>()
    })?;
    if which == Which::Some {
        return Ok(());
    }
    compare(device, product, |_, p| p.pow2())?;
    compare(device, product, |g, p| p * &g.array(&others) + p)?;
    compare(device, product, |g, p| p.greater(&g.array(&others)))?;
    compare(device, product, |g, p| p.less(&g.array(&row)).cast::<u16>())?;
    compare(device, product, |g, p| {
        let chosen = p.greater(&g.array(&others));
        chosen.where_cond(p, &g.array(&column)).cast::<bf16>()
    })?;
    let lines = numbers::<T>(device, (2, m * n), 7)?;
    compare(device, product, |g, p| {
        let reversed = g.array(&lines).slice(ndarray::s![1, ..;-1]);
        p - &reversed.into_shape_with_order((m, n))
    })
}

/// Runs `body` on a device that also checks for races within kernels.
fn on_device(body: impl FnOnce(&Device) -> Outcome) -> Outcome {
    if on_gpu() {
        return body(&Device::open(Select::Auto)?);
    }
    let gpu = Gpu::new(SimConfig::new().kernel_race_check(true));
    body(&Device::open_simulated(&gpu, 0)?)?;
    match gpu.reports() {
        reports if reports.is_empty() => Ok(()),
        reports => Err(format!("{reports:?}").into()),
    }
}

/// Compares products of all sizes within so many days.
fn compare_type<T: Number + Word>(which: Which, days: u64) -> Outcome {
    let compare = |&sizes| on_device(|device| compare_sizes::<T>(device, sizes, which));
    share::cases(SIZES, days).try_for_each(compare)
}

#[test]
fn epilogues_have_the_bits_of_separate_kernels() -> Outcome {
    compare_type::<f32>(Which::All, 2)
}

#[test]
fn epilogues_of_half_products_have_the_bits_of_separate_kernels() -> Outcome {
    compare_type::<f16>(Which::All, 7)?;
    compare_type::<bf16>(Which::All, 7)
}

#[test]
fn epilogues_of_products_by_tensor_cores_have_the_bits_of_separate_kernels() -> Outcome {
    for &sizes in share::cases(TENSOR_SIZES, 3) {
        on_device(|device| compare_sizes::<f16>(device, sizes, Which::All))?;
        on_device(|device| compare_sizes::<bf16>(device, sizes, Which::Some))?;
    }
    Ok(())
}

#[test]
fn epilogues_of_every_type_have_the_bits_of_separate_kernels() -> Outcome {
    compare_type::<f64>(Which::Some, 7)?;
    compare_type::<i8>(Which::Some, 7)?;
    compare_type::<i32>(Which::Some, 7)?;
    compare_type::<i64>(Which::Some, 7)?;
    compare_type::<u8>(Which::Some, 7)?;
    compare_type::<u32>(Which::Some, 7)?;
    compare_type::<u64>(Which::Some, 7)
}

#[test]
fn epilogues_of_many_partial_products_have_the_bits_of_separate_kernels() -> Outcome {
    on_device(|device| {
        compare_sizes::<f32>(device, LONG, Which::Some)?;
        compare_sizes::<bf16>(device, LONG, Which::Some)
    })
}

#[test]
fn epilogues_of_16_bit_integers_cast_the_product() -> Outcome {
    on_device(|device| {
        compare_cast::<i16>(device)?;
        compare_cast::<u16>(device)
    })
}

/// Compares a product of integers of 16 bits, which is one of `i32` and a cast.
fn compare_cast<T: Number + Word>(device: &Device) -> Outcome {
    let (a, b) = (
        numbers::<T>(device, (7, 9), 1)?,
        numbers::<T>(device, (9, 5), 2)?,
    );
    let wide = |a: &Array<T, Ix2>| device.region(|g| Keep(g.array(a).cast::<i32>()));
    let (a, b) = (wide(&a)?.wait()?, wide(&b)?.wait()?);
    let product = |g: &Region| g.array(&a).dot(&g.array(&b));
    compare(device, product, |_, p| p.cast::<T>() + T::ONE)
}

#[test]
fn epilogues_of_batches_have_the_bits_of_separate_kernels() -> Outcome {
    on_device(compare_batches)
}

fn compare_batches(device: &Device) -> Outcome {
    let number = |(batch, row, column): (usize, usize, usize)| {
        ((batch * 29 + row * 13 + column * 7) % 53) as f32 / 4.0 - 6.0
    };
    let host = |shape| Array3::from_shape_fn(shape, number);
    let [a, b, others] = [(4, 17, 9), (4, 9, 18), (4, 17, 18)].map(host);
    let bias = Array1::from_shape_fn(18, |column| column as f32 - 8.5);
    let product = |g: &Region| g.array(&a).matmul(&g.array(&b));
    compare(device, product, |g, p: &Array<f32, Ix3>| {
        (p + &g.array(&bias)).relu() + &g.array(&others)
    })?;
    // The batch has two strides of the second factor.
    let swapped = |g: &Region| {
        g.array(&a)
            .matmul(&g.array(&b).slice(ndarray::s![..;-1, .., ..]))
    };
    compare(device, swapped, |g, p: &Array<f32, Ix3>| {
        let per_matrix = g.array(&others).slice(ndarray::s![.., 3, 2]);
        p * &per_matrix.insert_axis(Axis(1)).insert_axis(Axis(2))
    })
}
