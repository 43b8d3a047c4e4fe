//! Products by the built-in kernels.

use half::{bf16, f16};
use millstream::{
    Buffer, Check, Device, Select, Stream,
    sim::{Gpu, SimConfig},
};
use millstream_region::product::{Factor, ProductShape, multiply, multiply_without_libraries};
use millstream_testkit::share;
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::product::{
    Failed, Outcome,
    exact::{Case, roundings},
    layout::{Layout, below},
    on_gpu,
};

/// Opens a device, and returns its simulated GPU if it has one.
pub(crate) fn device() -> Result<(Device, Option<Gpu>), Failed> {
    if on_gpu() {
        return Ok((Device::open(Select::Auto)?, None));
    }
    let gpu = Gpu::new(SimConfig::default());
    Ok((Device::open_simulated(&gpu, 0)?, Some(gpu)))
}

/// Runs `body` on a device, then checks for races.
fn on_device(body: impl FnOnce(&Stream) -> Outcome) -> Outcome {
    on_opened(device()?, body)
}

/// The same, with a check for races within kernels and for reads of uninitialised memory.
fn on_checked_device(body: impl FnOnce(&Stream) -> Outcome) -> Outcome {
    if on_gpu() {
        return on_device(body);
    }
    let config = SimConfig::new().kernel_race_check(true);
    let gpu = Gpu::new(config.kernel_init_check(true));
    on_opened((Device::open_simulated(&gpu, 0)?, Some(gpu)), body)
}

fn on_opened(
    (device, gpu): (Device, Option<Gpu>),
    body: impl FnOnce(&Stream) -> Outcome,
) -> Outcome {
    body(&device.stream()?)?;
    drop(device);
    match gpu.map(|gpu| gpu.reports()) {
        Some(reports) if !reports.is_empty() => Err(format!("{reports:?}").into()),
        _ => Ok(()),
    }
}

/// The signature of the multiplication functions.
type Multiply = fn(
    &Stream,
    &ProductShape<'_>,
    &Factor<'_>,
    &Factor<'_>,
    &mut Buffer<u8>,
) -> millstream::Result<()>;

/// Returns the bytes of the product of two factors on the device.
pub(crate) fn product_of<T: Case>(
    stream: &Stream,
    a: &Layout<T>,
    b: &Layout<T>,
    multiply: Multiply,
) -> Result<Vec<u8>, millstream::Error> {
    let [batch @ .., m, k] = &a.sizes[..] else {
        panic!("a factor has rows and columns, not shape {:?}", a.sizes);
    };
    let shape = ProductShape {
        batch,
        m: *m,
        k: *k,
        n: *b.sizes.last().expect("a factor has columns"),
    };
    let a_buffer = stream.upload(bytemuck::cast_slice(&a.elements))?;
    let b_buffer = stream.upload(bytemuck::cast_slice(&b.elements))?;
    let len: usize = batch.iter().product::<usize>() * m * shape.n;
    let mut out = stream.zeros::<u8>(len * size_of::<T>())?;
    stream.fill(&mut out, 0xee)?;
    multiply(
        stream,
        &shape,
        &a.factor(&a_buffer),
        &b.factor(&b_buffer),
        &mut out,
    )?;
    stream.download(&out)?.wait()
}

/// Multiplies by the built-in kernels, and compares every element with its sum in plain Rust.
fn compare_own<T: Case>(stream: &Stream, a: &Layout<T>, b: &Layout<T>) -> Outcome {
    let k = *a.sizes.last().expect("a factor has columns");
    compare_by(stream, a, b, multiply_without_libraries::<T>, roundings(k))
}

/// Multiplies by the default implementation, and compares with a bound of this many roundings.
pub(crate) fn compare<T: Case>(
    stream: &Stream,
    a: &Layout<T>,
    b: &Layout<T>,
    roundings: f64,
) -> Outcome {
    compare_by(stream, a, b, multiply::<T>, roundings)
}

fn compare_by<T: Case>(
    stream: &Stream,
    a: &Layout<T>,
    b: &Layout<T>,
    multiply: Multiply,
    roundings: f64,
) -> Outcome {
    let found = product_of(stream, a, b, multiply)?;
    let found = found
        .chunks_exact(size_of::<T>())
        .map(bytemuck::pod_read_unaligned);
    let found: Vec<T> = found.collect();
    let [batch @ .., m, k] = &a.sizes[..] else {
        panic!("a factor has rows and columns, not shape {:?}", a.sizes);
    };
    let n = *b.sizes.last().expect("a factor has columns");
    let mut at = 0;
    for matrix in 0..batch.iter().product() {
        for row in 0..*m {
            for column in 0..n {
                let products: Vec<_> = (0..*k)
                    .map(|k| (a.at(matrix, row, k), b.at(matrix, k, column)))
                    .collect();
                if let Some(problem) = T::describe_error(&products, roundings, found[at]) {
                    let place = format!("row {row}, column {column} of matrix {matrix}");
                    return Err(
                        format!("{place} of {:?} by {:?}: {problem}", a.sizes, b.sizes).into(),
                    );
                }
                at += 1;
            }
        }
    }
    assert_eq!(at, found.len(), "elements of the product");
    Ok(())
}

fn sizes(batch: &[usize], rows: usize, columns: usize) -> Vec<usize> {
    [batch, &[rows, columns]].concat()
}

fn random_product<T: Case>(stream: &Stream, rng: &mut Pcg32) -> Outcome {
    let dims = below(rng, 5);
    let batch: Vec<_> = (0..dims).map(|_| 1 + below(rng, 3)).collect();
    let mut size = |most: usize| match below(rng, 4) {
        0 => 1,
        1 => 1 + below(rng, 4),
        _ => 1 + below(rng, most),
    };
    let (m, k, n) = (size(90), size(300), size(90));
    let a = Layout::<T>::random(rng, &sizes(&batch, m, k));
    let b = Layout::<T>::random(rng, &sizes(&batch, k, n));
    compare_own(stream, &a, &b)
        .map_err(|failed| format!("{failed}; {} and {}", a.strides_text(), b.strides_text()).into())
}

/// Multiplies factors with contiguous lines, most of which are for tensor cores.
fn random_lines<T: Case>(stream: &Stream, rng: &mut Pcg32) -> Outcome {
    let (batch, m, n) = (
        1 + below(rng, 2),
        60 + below(rng, 80),
        60 + 4 * below(rng, 20),
    );
    let (k, layouts) = (1 + below(rng, 80), below(rng, 4));
    let mut lines = |rows, columns, has_rows| {
        let offset = 8 * below(rng, 3) + 4 * (below(rng, 4) / 3);
        Layout::<T>::lines(rng, &[batch, rows, columns], has_rows, offset)
    };
    let (a, b) = (lines(m, k, layouts < 2), lines(k, n, layouts % 2 == 0));
    compare_own(stream, &a, &b)
        .map_err(|failed| format!("{failed}; {} and {}", a.strides_text(), b.strides_text()).into())
}

#[run_by(on_device, |stream|)]
fn random_products() -> Outcome {
    for seed in share::numbers(10, 200) {
        let mut rng = Pcg32::seed_from_u64(seed);
        match seed % 7 {
            5 if seed % 2 == 0 => random_lines::<f16>(stream, &mut rng)?,
            6 if seed % 2 == 0 => random_lines::<bf16>(stream, &mut rng)?,
            5 => random_product::<f16>(stream, &mut rng)?,
            6 => random_product::<bf16>(stream, &mut rng)?,
            0 => random_product::<f32>(stream, &mut rng)?,
            1 => random_product::<f64>(stream, &mut rng)?,
            2 => random_product::<i32>(stream, &mut rng)?,
            3 => random_product::<i64>(stream, &mut rng)?,
            _ => random_product::<u8>(stream, &mut rng)?,
        }
    }
    Ok(())
}

#[run_by(on_device, |stream|)]
fn sizes_around_tiles_and_chunks() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(8);
    for (m, k, n) in [
        (16, 16, 16),
        (17, 15, 1),
        (1, 33, 17),
        (64, 128, 64),
        (65, 129, 63),
        (63, 127, 65),
        (128, 17, 130),
        (2, 4097, 1),
        (33, 1025, 1),
        (300, 31, 1),
        (1, 9, 700),
        (1, 1, 1),
    ] {
        let a = Layout::<f32>::plain(&mut rng, &[m, k]);
        compare_own(stream, &a, &Layout::plain(&mut rng, &[k, n]))?;
        compare_own(stream, &a, &Layout::transposed(&mut rng, &[k, n]))?;
        let a = Layout::<i32>::transposed(&mut rng, &[m, k]);
        compare_own(stream, &a, &Layout::plain(&mut rng, &[k, n]))?;
    }
    Ok(())
}

#[run_by(on_device, |stream|)]
fn long_sums_are_split() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(9);
    let sizes = [
        (1, 20_000, 1),
        (1, 140_000, 1),
        (3, 9_001, 2),
        (40, 2_500, 3),
        (70, 1_100, 70),
    ];
    for (m, k, n) in share::cases(sizes, 3) {
        let a = Layout::<f32>::plain(&mut rng, &[2, m, k]);
        compare_own(stream, &a, &Layout::plain(&mut rng, &[2, k, n]))?;
        let a = Layout::<i64>::transposed(&mut rng, &[m, k]);
        compare_own(stream, &a, &Layout::random(&mut rng, &[k, n]))?;
    }
    Ok(())
}

/// Checks the order of the additions, from which the bound is derived, by the bits of the elements.
#[run_by(on_device, |stream|)]
fn products_are_added_up_in_ranges() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(13);
    for (m, k, n) in [(17, 300, 5), (64, 257, 64)] {
        let a = Layout::<f32>::plain(&mut rng, &[m, k]);
        let b = Layout::<f32>::plain(&mut rng, &[k, n]);
        let found = product_of(stream, &a, &b, multiply_without_libraries::<f32>)?;
        let mut expected = Vec::new();
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let add = |sum: f32, at| a.at(0, row, at).mul_add(b.at(0, at, column), sum);
            let ranges = (0..k).step_by(128);
            let sums = ranges.map(|from| (from..k.min(from + 128)).fold(0.0, add));
            expected.extend(sums.fold(0.0_f32, |total, sum| total + sum).to_le_bytes());
        }
        if found != expected {
            return Err(format!("other bits than the order gives for {m} × {k} × {n}").into());
        }
    }
    Ok(())
}

/// Compares products of floats of 16 bits with those of `f32`, rounded.
fn compare_with_singles<T: Case>(
    stream: &Stream,
    single: fn(T) -> f32,
    rounded: fn(f32) -> T,
) -> Outcome {
    let mut rng = Pcg32::seed_from_u64(14);
    for (m, k, n) in [
        (17, 300, 5),
        (64, 257, 70),
        (1, 20_000, 1),
        (3, 9_001, 2),
        (40, 2_500, 1),
        (300, 31, 1),
    ] {
        let a = Layout::<T>::random(&mut rng, &[2, m, k]);
        let b = Layout::<T>::random(&mut rng, &[2, k, n]);
        let found = product_of(stream, &a, &b, multiply_without_libraries::<T>)?;
        let (a, b) = (a.map(single), b.map(single));
        let sums = product_of(stream, &a, &b, multiply_without_libraries::<f32>)?;
        let sums = sums.chunks_exact(4).map(bytemuck::pod_read_unaligned);
        let expected: Vec<T> = sums.map(rounded).collect();
        if found != bytemuck::cast_slice::<T, u8>(&expected) {
            return Err(format!("other bits than those of f32 for {m} × {k} × {n}").into());
        }
    }
    Ok(())
}

#[run_by(on_device, |stream|)]
fn half_products_are_those_of_f32_rounded_once() -> Outcome {
    compare_with_singles::<f16>(stream, f16::to_f32, f16::from_f32)?;
    compare_with_singles::<bf16>(stream, bf16::to_f32, bf16::from_f32)
}

/// Multiplies by tensor cores, with edges in every direction, in all layouts, with a split `k`.
fn compare_tensor<T: Case>(stream: &Stream) -> Outcome {
    let mut rng = Pcg32::seed_from_u64(15);
    let sizes = [
        (&[][..], 64, 16, 64),
        (&[], 129, 37, 260),
        (&[], 70, 1_100, 68),
        (&[2, 3], 65, 50, 72),
    ];
    for (batch, m, k, n) in share::cases(sizes, 4) {
        for layouts in 0..4 {
            let [a_sizes, b_sizes] = [(m, k), (k, n)].map(|(m, n)| self::sizes(batch, m, n));
            let a = Layout::<T>::lines(&mut rng, &a_sizes, layouts < 2, 16);
            let b = Layout::<T>::lines(&mut rng, &b_sizes, layouts % 2 == 0, 16);
            compare_own(stream, &a, &b)?;
        }
    }
    // Lines that do not begin at multiples of 16 bytes.
    for (a_offset, b_offset) in [(9, 8), (8, 1)] {
        let a = Layout::<T>::lines(&mut rng, &[64, 16], true, a_offset);
        let b = Layout::<T>::lines(&mut rng, &[16, 64], true, b_offset);
        compare_own(stream, &a, &b)?;
    }
    Ok(())
}

#[run_by(on_checked_device, |stream|)]
fn products_by_tensor_cores() -> Outcome {
    compare_tensor::<f16>(stream)?;
    compare_tensor::<bf16>(stream)
}

#[run_by(on_device, |stream|)]
fn empty_products() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(10);
    for (batch, m, k, n) in [
        (2, 3, 0, 4),
        (2, 0, 3, 4),
        (2, 3, 4, 0),
        (0, 3, 4, 5),
        (1, 0, 0, 0),
    ] {
        let a = Layout::<f64>::plain(&mut rng, &[batch, m, k]);
        let b = Layout::<f64>::plain(&mut rng, &[batch, k, n]);
        compare_own(stream, &a, &b)?;
    }
    Ok(())
}

#[test]
fn a_product_is_the_same_every_time() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(11);
    let a = Layout::<f32>::plain(&mut rng, &[50, 3000]);
    let b = Layout::<f32>::plain(&mut rng, &[3000, 40]);
    let (device, _gpu) = device()?;
    let first = product_of(&device.stream()?, &a, &b, multiply_without_libraries::<f32>)?;
    for _ in 0..3 {
        let again = product_of(&device.stream()?, &a, &b, multiply_without_libraries::<f32>)?;
        assert!(again == first, "the products have different bits");
    }
    Ok(())
}

/// Checks that uploads, products and the overwriting of a factor, on four streams, give one result
/// under every schedule.
#[test]
fn products_wait_for_their_operands() -> Outcome {
    let program = |device: &Device| -> millstream::Result<()> {
        let streams: Vec<_> = (0..4).map(|_| device.stream()).collect::<Result<_, _>>()?;
        let matrix: Vec<i32> = (0..9).collect();
        let a = streams[0].upload(bytemuck::cast_slice(&matrix))?;
        let shape = ProductShape {
            batch: &[],
            m: 3,
            k: 3,
            n: 3,
        };
        let factor = |buffer| Factor {
            buffer,
            offset: 0,
            row_stride: 3,
            column_stride: 1,
            batch_strides: &[],
        };
        let mut square = streams[1].zeros::<u8>(36)?;
        multiply::<i32>(&streams[1], &shape, &factor(&a), &factor(&a), &mut square)?;
        let mut cube = streams[2].zeros::<u8>(36)?;
        multiply::<i32>(
            &streams[2],
            &shape,
            &factor(&square),
            &factor(&a),
            &mut cube,
        )?;
        streams[3].fill(&mut square, 0)?;
        let cube: Vec<u8> = streams[3].download(&cube)?.wait()?;
        let expected = [180, 234, 288, 558, 720, 882, 936, 1206, 1476];
        assert_eq!(bytemuck::cast_slice::<u8, i32>(&cube), expected);
        Ok(())
    };
    if on_gpu() {
        return Ok(program(&Device::open(Select::Auto)?)?);
    }
    Check::new().random(16).run(program);
    Ok(())
}

#[run_by(on_device, |stream|)]
fn operands_on_another_device_are_rejected() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(12);
    let a = Layout::<f32>::plain(&mut rng, &[3, 4]);
    let elsewhere = Device::simulated()?.stream()?;
    let here = stream.upload(bytemuck::cast_slice(&a.elements))?;
    let there = elsewhere.upload(bytemuck::cast_slice(&a.elements))?;
    let shape = ProductShape {
        batch: &[],
        m: 3,
        k: 4,
        n: 3,
    };
    let b = Layout::<f32>::transposed(&mut rng, &[4, 3]);
    let mut out = stream.zeros(36)?;
    let refused = multiply::<f32>(
        stream,
        &shape,
        &a.factor(&here),
        &b.factor(&there),
        &mut out,
    );
    assert!(
        matches!(refused, Err(millstream::Error::Usage(_))),
        "{refused:?}"
    );
    Ok(())
}
