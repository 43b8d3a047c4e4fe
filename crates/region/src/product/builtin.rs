//! Built-in kernels for matrix products: choice of kernel, grid, and split of `k`.

#![allow(
    unsafe_code,
    reason = "launches kernels whose accesses depend on strides"
)]

use std::panic::Location;

use bytemuck::{Pod, Zeroable};
use millstream::{
    Buffer, LaunchConfig, Result, Stream,
    kernel::{self, Argument, ModuleSource, Param, ParamKind, Signature},
};

use super::operand::{BATCH_DIMS, CheckedProduct};
use crate::element::DType;

/// The number of threads per block of every kernel.
const THREADS: usize = 256;

/// The maximum number of blocks of a grid.
const BLOCKS_MAX: usize = i32::MAX as usize;

/// `struct Shape` of `product.cuh`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawShape {
    m: u64,
    n: u64,
    k: u64,
    splits: u64,
    split_k: u64,
    batches: u64,
    a_offset: i64,
    a_row: i64,
    a_column: i64,
    b_offset: i64,
    b_row: i64,
    b_column: i64,
    batch: [u64; BATCH_DIMS],
    a_batch: [i64; BATCH_DIMS],
    b_batch: [i64; BATCH_DIMS],
}

/// The kernels, in the order of [`KERNELS`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum BuiltinKernel {
    /// Matrix times matrix, in tiles of 64 × 64 elements.
    WideTiles,
    /// Matrix times matrix, in tiles of 16 × 16 elements.
    Tiles,
    /// Matrix times vector, one warp per row.
    Rows,
    /// Matrix times vector, 32 rows per block.
    Columns,
    /// Matrix times vector, one thread per row.
    ShortRows,
    /// Sum of the partial products of a split `k`.
    Sum,
}

const fn slice(name: &'static str, writable: bool) -> Param {
    Param {
        name,
        kind: ParamKind::Slice { writable },
    }
}

const fn scalar<T>(name: &'static str) -> Param {
    Param {
        name,
        kind: ParamKind::Scalar {
            size: size_of::<T>(),
            align: align_of::<T>(),
        },
    }
}

const PRODUCT: &[Param] = &[
    slice("a", false),
    slice("b", false),
    slice("out", true),
    scalar::<RawShape>("shape"),
];

const SUM: &[Param] = &[
    slice("parts", false),
    slice("out", true),
    scalar::<u64>("batches"),
    scalar::<u64>("splits"),
    scalar::<u64>("length"),
    scalar::<u64>("lanes"),
];

const fn signature(name: &'static str, params: &'static [Param]) -> Signature {
    Signature { name, params }
}

/// The kernels of each element type, as declared in `product.cuh`.
const KERNELS: &[Signature] = &[
    signature("product_wide_tiles", PRODUCT),
    signature("product_tiles", PRODUCT),
    signature("product_rows", PRODUCT),
    signature("product_columns", PRODUCT),
    signature("product_short_rows", PRODUCT),
    signature("product_sum", SUM),
];

macro_rules! sources {
    ($($($dtype:ident)|+ => $name:literal $ptx:literal)*) => {
        /// Returns the PTX module for an element type. Integers that wrap around have the same bits
        /// with and without a sign.
        fn source(dtype: DType) -> &'static ModuleSource {
            match dtype {
                $($(DType::$dtype)|+ => {
                    static SOURCE: ModuleSource = ModuleSource {
                        module: $name,
                        origin: $ptx,
                        declared: concat!(file!(), ":", line!()),
                        ptx: include_str!($ptx),
                        cuda: None,
                        kernels: KERNELS,
                        variables: &[],
                    };
                    &SOURCE
                })*
                DType::I16 | DType::U16 | DType::Bool => {
                    unreachable!("{dtype:?} has no matrix products of its own")
                }
            }
        }
    };
}

sources! {
    F16 => "product_f16" "../../kernels/product_f16.ptx"
    Bf16 => "product_bf16" "../../kernels/product_bf16.ptx"
    F32 => "product_f32" "../../kernels/product_f32.ptx"
    F64 => "product_f64" "../../kernels/product_f64.ptx"
    I32 | U32 => "product_i32" "../../kernels/product_i32.ptx"
    I64 | U64 => "product_i64" "../../kernels/product_i64.ptx"
    I8 | U8 => "product_u8" "../../kernels/product_u8.ptx"
}

/// Returns the size of an element of the matrices of splits, `Part` in `product.cuh`: that of the
/// sums for floats of 16 bits, whose sums are rounded once.
fn part_bytes(dtype: DType) -> usize {
    if dtype.is_half() {
        DType::F32.bytes()
    } else {
        dtype.bytes()
    }
}

/// The stream, the element type and the source line of a product's launches.
#[derive(Clone, Copy)]
struct Launcher<'a> {
    stream: &'a Stream,
    dtype: DType,
    location: &'static Location<'static>,
}

impl Launcher<'_> {
    /// Launches a multiplication kernel.
    ///
    /// # Safety
    ///
    /// With the shape's offsets and strides, the elements of both factors lie within `a` and `b`,
    /// and `out` has `batches × splits × m × n` elements, of the size of parts if there are several
    /// splits. The splits of `k` cover it. For the kernels of vectors, `n` is 1.
    unsafe fn multiply(
        self,
        kernel: BuiltinKernel,
        blocks: usize,
        (a, b): (Argument<'_>, Argument<'_>),
        out: &mut Buffer<u8>,
        shape: &RawShape,
    ) -> Result<()> {
        let mut out = out.slice_mut(..);
        let mut arguments = [a, b, Argument::write(&mut out), Argument::scalar(shape)];
        // SAFETY: these are the parameters of the multiplication kernels, which touch no elements
        // outside the matrices.
        unsafe { self.launch(kernel, blocks, &mut arguments) }
    }

    /// Launches the kernel that sums `splits` runs of `length` elements for each of `batches`.
    ///
    /// # Safety
    ///
    /// `parts` has `batches × splits × length` elements of the size of parts, and `out` has
    /// `batches × length`.
    unsafe fn sum(
        self,
        parts: &Buffer<u8>,
        out: &mut Buffer<u8>,
        (batches, splits, length): (usize, usize, usize),
    ) -> Result<()> {
        // With few elements of many parts, one thread per element would leave the device idle.
        let elements = batches * length;
        let lanes = if splits >= 64 && elements <= 1 << 16 {
            32
        } else {
            1
        };
        let blocks = (elements * lanes).div_ceil(THREADS);
        let (parts, mut out) = (parts.slice(..), out.slice_mut(..));
        let [batches, splits, length, lanes] =
            [batches, splits, length, lanes].map(|size| size as u64);
        let mut arguments = [
            Argument::read(&parts),
            Argument::write(&mut out),
            Argument::scalar(&batches),
            Argument::scalar(&splits),
            Argument::scalar(&length),
            Argument::scalar(&lanes),
        ];
        // SAFETY: these are the kernel's parameters.
        unsafe { self.launch(BuiltinKernel::Sum, blocks, &mut arguments) }
    }

    /// Launches a kernel with these arguments.
    ///
    /// # Safety
    ///
    /// The arguments match the kernel's parameters and keep its accesses within the arrays.
    unsafe fn launch<const N: usize>(
        self,
        kernel: BuiltinKernel,
        blocks: usize,
        arguments: &mut [Argument<'_>; N],
    ) -> Result<()> {
        let functions = kernel::load(&self.stream.device(), source(self.dtype))?;
        let (function, grid) = (&functions[kernel as usize], grid(blocks));
        // SAFETY: this function's contract.
        unsafe { kernel::launch_at(function, self.stream, grid, arguments, self.location) }
    }
}

/// Returns a grid of this many blocks, up to the maximum; the kernels loop over the remaining work.
fn grid(blocks: usize) -> LaunchConfig {
    LaunchConfig::new(
        [blocks.min(BLOCKS_MAX) as u32, 1, 1],
        [THREADS as u32, 1, 1],
    )
}

/// Enqueues a checked product. `out` has `m × n` elements for each matrix of the batch.
pub(super) fn enqueue(
    stream: &Stream,
    dtype: DType,
    operands: CheckedProduct<'_>,
    out: &mut Buffer<u8>,
    location: &'static Location<'static>,
) -> Result<()> {
    let operands = if operands.m == 1 {
        operands.transposed()
    } else {
        operands
    };
    let LaunchPlan {
        kernel,
        blocks,
        splits,
        split_k,
    } = LaunchPlan::of(&operands);
    let batches = operands.batches();
    let CheckedProduct {
        m,
        k,
        n,
        batch,
        a,
        b,
    } = operands;
    let elements = batches * m * n;
    debug_assert_eq!(out.len(), elements * dtype.bytes());
    let shape = RawShape {
        m: m as u64,
        n: n as u64,
        k: k as u64,
        splits: splits as u64,
        split_k: split_k as u64,
        batches: batches as u64,
        a_offset: a.offset as i64,
        a_row: a.row as i64,
        a_column: a.column as i64,
        b_offset: b.offset as i64,
        b_row: b.row as i64,
        b_column: b.column as i64,
        batch: batch.map(|size| size as u64),
        a_batch: a.batch.map(|stride| stride as i64),
        b_batch: b.batch.map(|stride| stride as i64),
    };
    let launcher = Launcher {
        stream,
        dtype,
        location,
    };
    let factors = (Argument::read(&a.view), Argument::read(&b.view));
    if splits == 1 {
        // SAFETY: `CheckedProduct::new` checked the factors, and the caller `out`.
        return unsafe { launcher.multiply(kernel, blocks, factors, out, &shape) };
    }
    // SAFETY: the kernel writes all of it before it is read.
    let mut parts = unsafe { stream.uninit::<u8>(elements * splits * part_bytes(dtype)) }?;
    // SAFETY: `CheckedProduct::new` checked the factors, and there is a matrix for each split.
    unsafe { launcher.multiply(kernel, blocks, factors, &mut parts, &shape) }?;
    // SAFETY: the sizes are those of the two arrays.
    unsafe { launcher.sum(&parts, out, (batches, splits, m * n)) }
}

/// The kernel and the split of a product. Both depend on the product alone, so that every device
/// computes it in the same order.
#[derive(Debug, PartialEq)]
struct LaunchPlan {
    kernel: BuiltinKernel,
    blocks: usize,
    splits: usize,
    split_k: usize,
}

impl LaunchPlan {
    fn of(operands: &CheckedProduct<'_>) -> Self {
        let &CheckedProduct { m, k, n, .. } = operands;
        let (a, batches) = (&operands.a, operands.batches());
        // Per kind of product: the rows and columns of a unit of work, the units per block, the
        // blocks that keep a device busy, and the least `k` of a split.
        let own = 1 << m.min(8).ilog2();
        let (kernel, (rows, columns), per_block, wanted, split_k_min) = if n == 1 {
            let along_rows = a.column.unsigned_abs() <= a.row.unsigned_abs() || m < 8;
            if k < 32 {
                (BuiltinKernel::ShortRows, (256, 1), 1, 1024, 512)
            } else if along_rows {
                (BuiltinKernel::Rows, (own, 1), 8 / own, 1024, 2048)
            } else {
                (BuiltinKernel::Columns, (32, 1), 1, 1024, 512)
            }
        } else {
            // A wide tile costs half as much per element, including the elements beyond the edges.
            let padded =
                |tile: usize| m.next_multiple_of(tile) as u128 * n.next_multiple_of(tile) as u128;
            if padded(64) <= 2 * padded(16) {
                (BuiltinKernel::WideTiles, (64, 64), 1, 256, 512)
            } else {
                (BuiltinKernel::Tiles, (16, 16), 1, 256, 512)
            }
        };
        let units = m.div_ceil(rows) * n.div_ceil(columns) * batches;
        let splits = (wanted * per_block / units).min(k / split_k_min).max(1);
        let split_k = k.div_ceil(splits);
        // Rounding `split_k` up may leave the last splits empty.
        let splits = k.div_ceil(split_k);
        Self {
            kernel,
            blocks: (units * splits).div_ceil(per_block),
            splits,
            split_k,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::operand::{Factor, ProductShape};

    /// Returns the plan for row-major matrices of `m × k` and `k × n`.
    fn plan(m: usize, k: usize, n: usize) -> LaunchPlan {
        let stream = millstream::Device::simulated().unwrap().stream().unwrap();
        let buffer = stream.zeros((m * k).max(k * n)).unwrap();
        let factor = |columns: usize| Factor {
            buffer: &buffer,
            offset: 0,
            row_stride: columns as isize,
            column_stride: 1,
            batch_strides: &[],
        };
        let sizes = ProductShape {
            batch: &[],
            m,
            k,
            n,
        };
        LaunchPlan::of(&CheckedProduct::new(
            DType::U8,
            &sizes,
            &factor(k),
            &factor(n),
        ))
    }

    #[test]
    fn splits_cover_k_and_none_is_empty() {
        for (m, k, n) in [
            (1, 1, 1),
            (1, 1_000_003, 1),
            (5, 70_001, 1),
            (9, 4097, 3),
            (64, 1025, 64),
        ] {
            let LaunchPlan {
                splits, split_k, ..
            } = plan(m, k, n);
            assert!(
                splits * split_k >= k && (splits - 1) * split_k < k,
                "{splits} splits of {split_k} for {k}"
            );
        }
    }

    #[test]
    fn each_kind_of_product_has_its_kernel_and_fills_a_device() {
        assert_eq!(plan(3, 31, 1).kernel, BuiltinKernel::ShortRows);
        assert_eq!(plan(3, 32, 1).kernel, BuiltinKernel::Rows);
        assert_eq!(plan(17, 9, 70).kernel, BuiltinKernel::Tiles);
        assert_eq!(plan(60, 9, 70).kernel, BuiltinKernel::WideTiles);
        assert_eq!(plan(1, 1 << 24, 1).blocks, 1024);
        assert_eq!(plan(1 << 13, 64, 1).blocks, 1 << 10);
        assert_eq!(plan(64, 1 << 17, 64).blocks, 256);
    }
}
