//! Code generation: lowers a [`FusedKernel`] to PTX.
//!
//! Compiling a kernel takes longer than most launches, so kernels are generated to be reused. One
//! lowering of the fused nodes produces both the text and the parameters: the text depends on the
//! kind of computation, and everything specific to one computation (addresses, lengths, strides,
//! scalars) is a parameter. Computations of the same kind therefore share a kernel, whatever their
//! shapes are.
//!
//! | folder | contents |
//! |---|---|
//! | `body/` | registers, instructions and parameters, and the text that they become |
//! | `passes.rs` | the passes of one fused kernel and the temporaries between them |
//! | `lower/` | the lowering of expressions to the instructions of a body |
//! | `map/` | element-wise kernels |
//! | `row/` | row kernels: several reductions of rows, and what follows from them |
//! | `reduce/` | reductions |
//! | `scan/` | scans |
//! | `scatter/` | scatters |
//! | `product.rs` | built-in kernels for matrix products with an epilogue |
//! | `attention/` | attention in one kernel |
//!
//! Each folder uses only those before it among `body/`, `passes.rs` and `lower/`, and those from
//! `map/` on are the families of kernels, which do not use each other.

pub(crate) mod attention;
pub(crate) mod body;
pub(crate) mod lower;
pub(crate) mod map;
pub(crate) mod passes;
pub(crate) mod product;
pub(crate) mod reduce;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod scatter;

use attention::kernel::attention;
use map::{
    elements::map,
    join_arrays::{JoinedArrays, join},
    stencil::stencil,
    transpose::{TransposedViews, tiles},
};
use passes::GeneratedPasses;
use product::product;
use reduce::reduction::reduce;
use row::{
    block::block_row,
    larger_block::split_in_larger_block,
    long_row::long_row,
    many_rows::{has_many_rows, many_rows},
};
use scan::rows::scan;
use scatter::{atomics::scatter, shared::scatter_add_to_few};

use crate::{
    expr::Op,
    plan::{FusedKernel, RowShape, RowSplit},
};

/// Generates the passes of a fused kernel that has elements to write.
pub(crate) fn passes_of(kernel: &FusedKernel) -> GeneratedPasses {
    if let Some(rows) = kernel.rows {
        return row(kernel, rows);
    }
    match kernel.op(&kernel.root) {
        Some(Op::Reduce { .. }) => reduce(kernel),
        Some(Op::Scan { .. }) => scan(kernel),
        Some(Op::MatrixProduct(left, right, _)) => product(kernel, (left, right)),
        Some(Op::Attention(operands)) => attention(kernel, operands),
        Some(Op::Scatter { adds, .. }) => {
            let of_blocks = adds.then(|| scatter_add_to_few(kernel)).flatten();
            of_blocks.unwrap_or_else(|| scatter(kernel))
        }
        _ => element_wise(kernel),
    }
}

/// Generates a row kernel.
fn row(kernel: &FusedKernel, rows: RowShape) -> GeneratedPasses {
    if has_many_rows(kernel, rows) {
        return many_rows(kernel, rows);
    }
    if !rows.is_long() {
        return block_row(kernel, rows, RowSplit::of(rows.length));
    }
    match split_in_larger_block(kernel, rows) {
        Some(split) => block_row(kernel, rows, split),
        None => long_row(kernel, rows),
    }
}

/// Generates an element-wise kernel.
fn element_wise(kernel: &FusedKernel) -> GeneratedPasses {
    if let Some(joined) = JoinedArrays::of(kernel) {
        join(kernel, &joined)
    } else if !kernel.tiled.is_empty() {
        stencil(kernel)
    } else if let Some(transposed) = TransposedViews::of(kernel) {
        tiles(kernel, &transposed)
    } else {
        map(kernel)
    }
}
