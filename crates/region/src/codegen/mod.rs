//! Code generation: lowers a [`FusedKernel`](crate::fuse::FusedKernel) to PTX.
//!
//! Compiling a kernel takes longer than most launches, so kernels are generated to be reused. One
//! lowering of the fused nodes produces both the text and the parameters: the text depends on the
//! kind of computation, and everything specific to one computation (addresses, lengths, strides,
//! scalars) is a parameter. Computations of the same kind therefore share a kernel, whatever their
//! shapes are.
//!
//! | file | contents |
//! |---|---|
//! | `cache.rs` | the kernel cache, the entrance to code generation |
//! | `first_axis.rs` | kernels of rows whose code serves any number of rows |
//! | `passes.rs` | the passes of one fused kernel and the temporaries between them |
//! | `map.rs` | element-wise kernels |
//! | `transpose.rs` | element-wise kernels that read transposed arrays through shared memory |
//! | `stencil.rs` | element-wise kernels that compute what a stencil reads in shared memory |
//! | `tile.rs` | the tiles of such kernels, and arrays in shared memory |
//! | `reduce.rs` | reduction kernels |
//! | `accumulate.rs` | the loop in which a thread of a reduction accumulates elements |
//! | `partial.rs` | reductions whose results are shared by several blocks |
//! | `row_per_warp.rs` | reductions of many rows of moderate length |
//! | `row.rs` | row kernels: several reductions of rows, and what follows from them |
//! | `many_rows.rs` | row kernels of many rows of moderate length |
//! | `larger_block.rs` | row kernels of rows in the registers of a larger block |
//! | `row_division.rs` | divisions of a row's elements by values of the row |
//! | `long_row.rs` | row kernels of rows that do not fit in registers |
//! | `warp.rs` | combinations of accumulators by shuffles, and the threads of a row |
//! | `scan.rs` | scan kernels |
//! | `scan_columns.rs` | scans along another axis than the last |
//! | `column_totals.rs` | the totals of tiles of such scans |
//! | `look_back.rs` | scans in one pass of rows that several blocks share |
//! | `kept.rs` | the elements that a thread of a scan keeps in shared memory |
//! | `published.rs` | the totals that blocks of a scan publish to each other |
//! | `neighbours.rs` | the elements that a thread of a scan loads together |
//! | `attention/` | attention in one kernel |
//! | `product.rs` | built-in kernels for matrix products with an epilogue |
//! | `scatter.rs` | scatter kernels |
//! | `scatter_shared.rs` | scatter-additions of many values to few elements |
//! | `reducer.rs` | the accumulators of reductions and scans |
//! | `deviations.rs` | sums of squared deviations from the mean, in one pass |
//! | `lowering.rs` | the lowering of graph nodes to registers |
//! | `position.rs` | positions in arrays and the index maps of views |
//! | `update.rs` | the positions of values that replace elements of a part |
//! | `join.rs` | joined arrays, whose parts are computed under branches |
//! | `join_arrays.rs` | joins of arrays in memory |
//! | `elementwise.rs` | instruction selection for element-wise functions |
//! | `half.rs` | functions of `f16` and `bf16` |
//! | `cast.rs` | casts between element types |
//! | `memory.rs` | loads and stores of elements |
//! | `body.rs` | the body of a kernel under construction |
//! | `assemble.rs` | assembly of finished bodies |
//! | `name.rs` | the names of kernels |

mod accumulate;
mod assemble;
mod attention;
mod body;
mod cache;
mod cast;
mod column_totals;
mod deviations;
mod elementwise;
mod first_axis;
mod half;
mod join;
mod join_arrays;
mod kept;
mod larger_block;
mod long_row;
mod look_back;
mod lowering;
mod many_rows;
mod map;
mod memory;
mod name;
mod neighbours;
#[cfg(test)]
mod other_lengths;
mod partial;
mod passes;
mod position;
mod product;
mod published;
mod reduce;
mod reducer;
mod row;
mod row_division;
mod row_per_warp;
mod scan;
mod scan_columns;
mod scatter;
mod scatter_shared;
mod stencil;
mod tile;
mod transpose;
mod update;
mod warp;

pub(crate) use attention::TileSizes;
pub(crate) use body::{ENTRY_BYTES, Kernel, KernelParameter, PARAMETER_BYTES_MAX};
pub(crate) use cache::{BoundParameter, Code, CodeParameter, KernelNodes, code_in, generate};
pub(crate) use memory::VECTOR_BYTES;
pub(crate) use passes::PassOutput;
pub(crate) use scatter_shared::adds_to_few;
