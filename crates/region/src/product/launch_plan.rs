//! Choice of the built-in kernel for a product, its grid, and the split of `k`.

use bytemuck::{Pod, Zeroable};
use millstream::Device;

use crate::{
    element::DType,
    product::layout::{BATCH_DIMS, FactorLayout, ProductLayout},
};

/// The number of threads per block of every kernel.
pub(crate) const THREADS: usize = 256;
/// The number of rows and columns of a tile for tensor cores, and that of a stage of `k`.
const TENSOR_TILE: usize = 128;
const TENSOR_STEP: usize = 32;
/// The least number of rows and columns for tensor cores. Narrower products leave most of a tile
/// empty.
const TENSOR_SIDE_MIN: usize = 64;
/// The number of elements that a thread copies at once, and that of elements of the product.
const TENSOR_COPIED: usize = 8;
const TENSOR_STORED: usize = 4;
/// The maximum `k` of products with an epilogue that are not left to cuBLAS. Up to there, storing
/// and reading the product takes longer than the kernel is slower than cuBLAS's
/// (2026-11-28-products-of-halves.md).
pub(crate) const EPILOGUE_K_MAX: usize = 256;

/// The maximum number of blocks of a grid.
pub(crate) const BLOCKS_MAX: usize = i32::MAX as usize;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawShape {
    /// `m`, `n`, `k`, the splits, the `k` of each, and the matrices in the batch.
    sizes: [u64; 6],
    /// The offset and the strides of rows and columns of each factor.
    a: [i64; 3],
    b: [i64; 3],
    batch: [u64; BATCH_DIMS],
    a_batch: [i64; BATCH_DIMS],
    b_batch: [i64; BATCH_DIMS],
}

/// The kernels, in the order of [`KERNELS`](super::source::KERNELS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BuiltinKernel {
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
    /// Matrix times matrix of 16-bit floats, in tiles of 128 × 128 elements, by tensor cores. The
    /// names say of what the elements are contiguous: of rows or columns of each factor.
    TensorRowsColumns,
    TensorRowsRows,
    TensorColumnsColumns,
    TensorColumnsRows,
}

impl BuiltinKernel {
    /// The kernels for tensor cores, by whether the rows of each factor are contiguous.
    const TENSOR: [[Self; 2]; 2] = [
        [Self::TensorColumnsColumns, Self::TensorColumnsRows],
        [Self::TensorRowsColumns, Self::TensorRowsRows],
    ];

    pub(crate) fn is_tensor(self) -> bool {
        self as usize >= Self::TensorRowsColumns as usize
    }
}

/// The kernel and the split of a product. Both depend on the product, and on whether the device has
/// tensor cores that a kernel can use, so that devices alike compute it in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaunchPlan {
    pub(crate) kernel: BuiltinKernel,
    pub(crate) blocks: usize,
    pub(crate) splits: usize,
    split_k: usize,
}

impl LaunchPlan {
    /// Plans a product with at least one element. A product with one row must be transposed.
    pub(crate) fn of(layout: &ProductLayout, dtype: DType, capability: u32) -> Self {
        let &ProductLayout { m, k, n, a, .. } = layout;
        let of_tensor = (dtype.is_half() && capability >= 80)
            .then(|| tensor_kernel(layout))
            .flatten();
        let batches = layout.batches();
        // Per kind of product: the rows and columns of a unit of work, the units per block, the
        // blocks that keep a device busy, and the least `k` of a split.
        let own = 1 << m.min(8).ilog2();
        let (kernel, (rows, columns), per_block, wanted, split_k_min) = if let Some(kernel) =
            of_tensor
        {
            (kernel, (TENSOR_TILE, TENSOR_TILE), 1, 256, 512)
        } else if n == 1 {
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
        // One split without elements if `k` is 0.
        let mut split_k = k.div_ceil(splits).max(1);
        if kernel.is_tensor() && splits > 1 {
            split_k = split_k.next_multiple_of(TENSOR_STEP);
        }
        // Rounding `split_k` up may leave the last splits empty.
        let splits = k.div_ceil(split_k).max(1);
        Self {
            kernel,
            blocks: (units * splits).div_ceil(per_block),
            splits,
            split_k,
        }
    }

    /// Returns the parameter that describes the product to its kernel.
    pub(crate) fn shape(&self, layout: &ProductLayout) -> RawShape {
        let &ProductLayout { m, k, n, a, b, .. } = layout;
        let strides = |factor: FactorLayout| {
            [
                factor.offset as i64,
                factor.row as i64,
                factor.column as i64,
            ]
        };
        RawShape {
            sizes: [m, n, k, self.splits, self.split_k, layout.batches()].map(|size| size as u64),
            a: strides(a),
            b: strides(b),
            batch: layout.batch.map(|size| size as u64),
            a_batch: a.batch.map(|stride| stride as i64),
            b_batch: b.batch.map(|stride| stride as i64),
        }
    }

    /// Returns the launch of the kernel that sums the partial products, if there are several.
    pub(crate) fn sum(&self, layout: &ProductLayout) -> Option<SumPlan> {
        if self.splits == 1 {
            return None;
        }
        // With few elements of many parts, one thread per element would leave the device idle.
        let elements = layout.elements();
        let shares = self.splits >= 64 && elements <= 1 << 16;
        let (lanes, length) = (if shares { 32 } else { 1 }, layout.m * layout.n);
        Some(SumPlan {
            blocks: (elements * lanes).div_ceil(THREADS),
            parts: elements * self.splits,
            scalars: [layout.batches(), self.splits, length, lanes].map(|size| size as u64),
        })
    }
}

/// Returns the compute capability of a device: 90 for 9.0.
pub(crate) fn capability(device: &Device) -> u32 {
    let (major, minor) = device.compute_capability();
    (10 * major + minor) as u32
}

/// Returns the kernel for tensor cores, if it can compute a product of floats of 16 bits: lines of
/// contiguous elements begin at multiples of sixteen bytes, and results are stored four at a time.
fn tensor_kernel(layout: &ProductLayout) -> Option<BuiltinKernel> {
    let &ProductLayout { m, k, n, a, b, .. } = layout;
    let has_lines = |factor: FactorLayout, is_contiguous: isize, line: isize| {
        let moved = |dim: usize| match layout.batch[dim] {
            1 => 0,
            _ => factor.batch[dim],
        };
        let all = [line, factor.offset as isize].into_iter();
        let mut all = all.chain((0..BATCH_DIMS).map(moved));
        is_contiguous == 1 && all.all(|distance| distance % TENSOR_COPIED as isize == 0)
    };
    let has_rows = |factor: FactorLayout| has_lines(factor, factor.column, factor.row);
    let has_columns = |factor: FactorLayout| has_lines(factor, factor.row, factor.column);
    // A kernel counts `k` in 32 bits.
    let is_large = m.min(n) >= TENSOR_SIDE_MIN && (TENSOR_STEP / 2..1 << 30).contains(&k);
    let fits = is_large
        && n.is_multiple_of(TENSOR_STORED)
        && [a, b]
            .into_iter()
            .all(|factor| has_rows(factor) || has_columns(factor));
    fits.then(|| BuiltinKernel::TENSOR[usize::from(has_rows(a))][usize::from(has_rows(b))])
}

/// The launch of the kernel that sums partial products.
#[derive(Debug, PartialEq)]
pub(crate) struct SumPlan {
    pub(crate) blocks: usize,
    /// The number of elements of all partial products.
    pub(crate) parts: usize,
    /// The scalar parameters: the number of matrices in the batch, the splits of each, the elements
    /// of a matrix, and the threads that share an element.
    pub(crate) scalars: [u64; 4],
}

/// Returns the size of an element of the matrices of splits, `Part` in `product.cuh`: that of the
/// sums for floats of 16 bits, whose sums are rounded once.
pub(crate) fn part_bytes(dtype: DType) -> usize {
    match dtype.is_half() {
        true => DType::F32.bytes(),
        false => dtype.bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::{layout::FactorStrides, operand::ProductShape};

    /// Returns the plan for row-major matrices of `m × k` and `k × n`.
    fn plan(m: usize, k: usize, n: usize) -> LaunchPlan {
        let factor = |columns: usize| FactorStrides {
            offset: 0,
            row: columns as isize,
            column: 1,
            batch: &[],
        };
        let (product, left) = ([m, n], [m, k]);
        let shape = ProductShape::of(&product, &left);
        let layout = ProductLayout::new(&shape, factor(k), factor(n));
        LaunchPlan::of(&layout, DType::F32, 90)
    }

    #[test]
    fn splits_cover_k_and_none_is_empty() {
        assert_eq!(plan(3, 0, 4).splits, 1);
        let long = [
            (1, 1_000_003, 1),
            (5, 70_001, 1),
            (9, 4097, 3),
            (64, 1025, 64),
        ];
        for (m, k, n) in long.into_iter().chain([(1, 1, 1)]) {
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
    fn tensor_cores_take_large_products_of_halves_with_aligned_lines() {
        let lines = |line: isize, has_rows: bool, offset: usize| FactorStrides {
            offset,
            row: if has_rows { line } else { 1 },
            column: if has_rows { 1 } else { line },
            batch: &[4],
        };
        let of = |dtype, a, b, (m, k, n): (usize, usize, usize), capability| {
            let (product, left) = ([1, m, n], [1, m, k]);
            let shape = ProductShape::of(&product, &left);
            LaunchPlan::of(&ProductLayout::new(&shape, a, b), dtype, capability)
        };
        let (rows, columns) = (lines(80, true, 8), lines(800, false, 0));
        let sizes = (64, 40, 72);
        let plan = of(DType::F16, rows, columns, sizes, 80);
        assert_eq!(plan.kernel, BuiltinKernel::TensorRowsColumns);
        let plan = of(DType::Bf16, columns, rows, (64, 1_100, 72), 90);
        assert_eq!(plan.kernel, BuiltinKernel::TensorColumnsRows);
        assert_eq!((plan.splits, plan.split_k), (2, 576));
        for (dtype, a, sizes, capability) in [
            (DType::F32, rows, sizes, 90),
            (DType::F16, rows, sizes, 75),
            (DType::F16, rows, (63, 40, 72), 90),
            (DType::F16, rows, (64, 40, 70), 90),
            (DType::F16, lines(81, true, 8), sizes, 90),
            (DType::F16, lines(80, true, 9), sizes, 90),
        ] {
            let plan = of(dtype, a, columns, sizes, capability);
            assert!(
                !plan.kernel.is_tensor(),
                "{dtype:?} {a:?} {sizes:?} {capability}"
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
