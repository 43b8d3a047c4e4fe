//! Code generation: from a [`FusedKernel`](crate::fuse::FusedKernel) to PTX.
//!
//! Text and parameters come from one walk over the nodes of the fused kernel: what belongs to the
//! kind of calculation is text, and what belongs to this one (addresses, lengths, steps, scalars)
//! is a parameter, so that calculations of the same kind share a kernel whatever their shapes are.
//!
//! | file | |
//! |---|---|
//! | `cache.rs` | the kernel cache, through which all goes |
//! | `generated.rs` | what is generated: one pass or several, and what they leave for each other |
//! | `map.rs` | kernels with a thread for each element, or for several |
//! | `reduce.rs` | reductions |
//! | `scan.rs` | inclusive scans |
//! | `scatter.rs` | scatters |
//! | `accumulate.rs` | what the kernels of reductions and scans keep of the elements that they have seen |
//! | `value.rs` | the walk: the register with a node's element at an index |
//! | `index.rs` | where in an array: indices along axes, the number of an element, views |
//! | `apply.rs` | one function of elements |
//! | `cast.rs` | from type to type |
//! | `memory.rs` | elements between memory and registers |
//! | `body.rs` | the text of one kernel as it grows: registers, parameters, instructions |

mod body;
mod cache;
mod cast;
mod elementwise;
mod lowering;
mod map;
mod memory;
mod passes;
mod position;
mod reduce;
mod reducer;
mod scan;
mod scatter;

pub(crate) use body::{BLOCK, ENTRY_BYTES, Kernel, KernelParameter, PARAMETER_BYTES_MAX};
pub(crate) use cache::generate;
pub(crate) use passes::PassOutput;
