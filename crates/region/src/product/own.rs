//! Matrix products by kernels of our own: which of them, with what grid, and whether `k` is split.

#![allow(unsafe_code, reason = "vouches for kernels whose accesses depend on strides")]

use bytemuck::{Pod, Zeroable};
use millstream::{Buffer, Grid, Result, Stream, View, ViewMut};

use super::operand::{BATCH_DIMS, Operands};
use crate::element::DType;

/// Threads of a block of every kernel.
const THREADS: usize = 256;

/// The most blocks of a grid.
const BLOCKS_MAX: usize = i32::MAX as usize;

/// `struct Shape` of product.cuh.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Shape {
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

/// The kernels that multiply.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kernel {
    /// Tiles of 64 × 64 elements.
    WideTiles,
    /// Tiles of 16 × 16 elements.
    Tiles,
    /// Matrix and vector, a warp for a row.
    Rows,
    /// Matrix and vector, 32 rows for a block.
    Columns,
}

macro_rules! kernels {
    ($($dtype:ident $module:ident $ptx:literal)*) => {
        $(millstream::kernels! {
            // SAFETY: the signatures are those of product.cuh; factors are read and products written.
            unsafe mod $module from include_str!($ptx) {
                unsafe fn product_wide_tiles(a: &[u8], b: &[u8], out: &mut [u8], shape: Shape);
                unsafe fn product_tiles(a: &[u8], b: &[u8], out: &mut [u8], shape: Shape);
                unsafe fn product_rows(a: &[u8], b: &[u8], out: &mut [u8], shape: Shape);
                unsafe fn product_columns(a: &[u8], b: &[u8], out: &mut [u8], shape: Shape);
                unsafe fn product_sum(parts: &[u8], out: &mut [u8], batches: u64, splits: u64, length: u64);
            }
        })*

        /// Launches a kernel that multiplies.
        ///
        /// # Safety
        ///
        /// With the shape's offsets and strides, the elements of both factors lie within `a` and `b`, and `out` has
        /// `batches × splits × m × n` elements. The splits of `k` cover it. `n` is 1 for `Rows` and `Columns`.
        #[track_caller]
        unsafe fn launch(
            stream: &Stream,
            dtype: DType,
            kernel: Kernel,
            blocks: usize,
            (a, b, out): (View<'_, u8>, View<'_, u8>, ViewMut<'_, u8>),
            shape: Shape,
        ) -> Result<()> {
            let (device, grid) = (stream.device(), grid(blocks));
            match dtype {
                $(DType::$dtype => {
                    let kernels = $module::load(&device)?;
                    match kernel {
                        // SAFETY: this function's contract; elements outside a matrix are not touched.
                        Kernel::WideTiles => unsafe { kernels.product_wide_tiles(stream, grid, a, b, out, shape) },
                        // SAFETY: as above.
                        Kernel::Tiles => unsafe { kernels.product_tiles(stream, grid, a, b, out, shape) },
                        // SAFETY: as above.
                        Kernel::Rows => unsafe { kernels.product_rows(stream, grid, a, b, out, shape) },
                        // SAFETY: as above.
                        Kernel::Columns => unsafe { kernels.product_columns(stream, grid, a, b, out, shape) },
                    }
                })*
                DType::Bool => unreachable!("truth values are not multiplied"),
            }
        }

        /// Launches the kernel that adds up `splits` runs of `length` elements for each of `batches`.
        ///
        /// # Safety
        ///
        /// `parts` has `batches × splits × length` elements, and `out` has `batches × length`.
        #[track_caller]
        unsafe fn launch_sum(
            stream: &Stream,
            dtype: DType,
            parts: &Buffer<u8>,
            out: &mut Buffer<u8>,
            (batches, splits, length): (usize, usize, usize),
        ) -> Result<()> {
            let (device, grid) = (stream.device(), grid((batches * length).div_ceil(THREADS)));
            let (batches, splits, length) = (batches as u64, splits as u64, length as u64);
            match dtype {
                $(DType::$dtype => {
                    let kernels = $module::load(&device)?;
                    // SAFETY: this function's contract.
                    unsafe { kernels.product_sum(stream, grid, parts, out, batches, splits, length) }
                })*
                DType::Bool => unreachable!("truth values are not multiplied"),
            }
        }
    };
}

kernels! {
    F32 float32 "../../kernels/product_f32.ptx"
    F64 float64 "../../kernels/product_f64.ptx"
    I32 int32 "../../kernels/product_i32.ptx"
    I64 int64 "../../kernels/product_i64.ptx"
    U8 bytes "../../kernels/product_u8.ptx"
}

/// A grid of this many blocks, or of as many as there can be: the blocks go on to what is left.
fn grid(blocks: usize) -> Grid {
    Grid::new([blocks.min(BLOCKS_MAX) as u32, 1, 1], [THREADS as u32, 1, 1])
}

/// Enqueues the product. `out` has a multiple of `m × n` elements of this type, one for each of the batch.
#[track_caller]
pub(super) fn enqueue(
    stream: &Stream,
    dtype: DType,
    operands: Operands<'_>,
    out: &mut Buffer<u8>,
) -> Result<()> {
    let operands = if operands.m == 1 {
        operands.transposed()
    } else {
        operands
    };
    let Plan {
        kernel,
        blocks,
        splits,
        split_k,
    } = Plan::of(&operands);
    let batches = operands.batches();
    let Operands { m, k, n, batch, a, b } = operands;
    debug_assert_eq!(out.len(), batches * m * n * dtype.bytes());
    let shape = Shape {
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
    if splits == 1 {
        let operands = (a.view, b.view, out.slice_mut(..));
        // SAFETY: the operands were checked when they were made, and `out` by the caller.
        return unsafe { launch(stream, dtype, kernel, blocks, operands, shape) };
    }
    // SAFETY: the kernel writes all of it before it is read.
    let mut parts = unsafe { stream.uninit::<u8>(out.len() * splits) }?;
    let operands = (a.view, b.view, parts.slice_mut(..));
    // SAFETY: the operands were checked when they were made, and there is a matrix for each split.
    unsafe { launch(stream, dtype, kernel, blocks, operands, shape) }?;
    // SAFETY: the sizes are those of the two arrays.
    unsafe { launch_sum(stream, dtype, &parts, out, (batches, splits, m * n)) }
}

/// How a product is computed. It depends on nothing but the product, so that the same is the same on every device.
#[derive(Debug, PartialEq)]
struct Plan {
    kernel: Kernel,
    blocks: usize,
    splits: usize,
    split_k: usize,
}

impl Plan {
    fn of(operands: &Operands<'_>) -> Self {
        let &Operands { m, k, n, .. } = operands;
        let (a, batches) = (&operands.a, operands.batches());
        // The rows and columns of a block, how many blocks keep a device busy, and the least of `k` that is worth one.
        let (kernel, rows, columns, blocks_wanted, split_k_min) = if n == 1 {
            let along_rows = a.column.unsigned_abs() <= a.row.unsigned_abs() || m < 8;
            if along_rows && k >= 32 {
                (Kernel::Rows, 8, 1, 1024, 2048)
            } else {
                (Kernel::Columns, 32, 1, 1024, 512)
            }
        } else {
            // A wide tile costs half as much for each element, those beyond the edges included.
            let padded = |tile: usize| m.next_multiple_of(tile) as u128 * n.next_multiple_of(tile) as u128;
            if padded(64) <= 2 * padded(16) {
                (Kernel::WideTiles, 64, 64, 256, 512)
            } else {
                (Kernel::Tiles, 16, 16, 256, 512)
            }
        };
        let blocks = m.div_ceil(rows) * n.div_ceil(columns) * batches;
        let splits = (blocks_wanted / blocks).min(k / split_k_min).max(1);
        let split_k = k.div_ceil(splits);
        // Rounding up may leave nothing for the last ones.
        let splits = k.div_ceil(split_k);
        Self {
            kernel,
            blocks: blocks * splits,
            splits,
            split_k,
        }
    }
}
