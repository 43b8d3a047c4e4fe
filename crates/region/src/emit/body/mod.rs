//! Bodies of kernels: registers, instructions and parameters, and the text that they become.
//!
//! | file | contents |
//! |---|---|
//! | `kernel.rs` | the body of a kernel under construction, and the macros that append to it |
//! | `assemble.rs` | assembly of finished bodies |
//! | `name.rs` | the names of kernels |
//! | `index.rs` | indices of threads, and addresses of elements |
//! | `memory.rs` | loads and stores of elements |
//! | `elementwise.rs` | instruction selection for element-wise functions |
//! | `half.rs` | functions of `f16` and `bf16` |
//! | `cast.rs` | casts between element types |
//! | `parameters.rs` | the parameters of a kernel |
//! | `reducer.rs` | the accumulators of reductions and scans |
//! | `deviations.rs` | sums of squared deviations from the mean, in one pass |
//! | `warp.rs` | combinations of accumulators by shuffles, and the threads of a row |

pub(crate) mod assemble;
pub(crate) mod cast;
pub(crate) mod deviations;
pub(crate) mod elementwise;
pub(crate) mod half;
pub(crate) mod index;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod name;
pub(crate) mod parameters;
pub(crate) mod reducer;
pub(crate) mod warp;

pub(crate) use assemble::{Block, HEADER};
pub(crate) use kernel::{
    BLOCK, Kernel, KernelBody, KernelParameter, ParameterKey, Reg, RegClass, index, line, test,
    value,
};
pub(crate) use memory::{VECTOR_BYTES, list};
pub(crate) use reducer::{Accumulator, Reducer, assign, min_literal, zero_literal};
pub(crate) use warp::{RowThread, WARP, WARPS, WarpTotals, copy, shuffle};
