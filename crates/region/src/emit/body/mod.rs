//! Bodies of kernels: registers, instructions and parameters, and the text that they become.

pub(crate) mod assemble;
pub(crate) mod cast;
pub(crate) mod deviations;
pub(crate) mod elementwise;
pub(crate) mod half;
pub(crate) mod index;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod parameters;
pub(crate) mod reducer;
pub(crate) mod warp;

pub(crate) use assemble::{Block, HEADER};
pub(crate) use kernel::{
    BLOCK, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, index, jump, line,
    test, value,
};
pub(crate) use memory::{VECTOR_BYTES, list, vector};
pub(crate) use reducer::{Accumulator, Reducer, assign, min_literal, zero_literal};
pub(crate) use warp::{RowThread, WARP, WARPS, WarpTotals, copy, shuffle};
