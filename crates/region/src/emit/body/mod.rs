//! Bodies of kernels: registers, instructions and parameters, and the text that they become.

/// Assembly of finished bodies.
pub(crate) mod assemble;
/// Casts between element types.
pub(crate) mod cast;
/// Sums of squared deviations from the mean, in one pass.
pub(crate) mod deviations;
/// Instruction selection for element-wise functions.
pub(crate) mod elementwise;
/// Functions of `f16` and `bf16`.
pub(crate) mod half;
/// Indices of threads, and addresses of elements.
pub(crate) mod index;
/// The body of a kernel under construction, and the macros that append to it.
pub(crate) mod kernel;
/// Loads and stores of elements.
pub(crate) mod memory;
/// The parameters of a kernel.
pub(crate) mod parameters;
/// The accumulators of reductions and scans.
pub(crate) mod reducer;
/// Combinations of accumulators by shuffles, and the threads of a row.
pub(crate) mod warp;

pub(crate) use assemble::{Block, HEADER};
pub(crate) use kernel::{
    BLOCK, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, index, jump, line,
    test, value,
};
pub(crate) use memory::{VECTOR_BYTES, list, vector};
pub(crate) use reducer::{Accumulator, Reducer, assign, min_literal, zero_literal};
pub(crate) use warp::{RowThread, WARP, WARPS, WarpTotals, copy, shuffle};
