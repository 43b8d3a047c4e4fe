//! PTX for kernels that calculate many operations at once.
//!
//! A kernel is generated for one node whose elements are stored, its *root*, and for all planned nodes below it down to what
//! is in memory. Text and parameters come from one walk: what belongs to the kind of calculation is text, and what belongs
//! to this one (addresses, lengths, steps, scalars) is a parameter, so that calculations of the same kind share a kernel
//! whatever their shapes are.
//!
//! | file | |
//! |---|---|
//! | `body.rs` | the text of one kernel as it grows: registers, parameters, instructions |
//! | `index.rs` | where in an array: indices along axes, the number of an element, views |
//! | `value.rs` | the walk: the register with a node's element at an index |
//! | `apply.rs` | one function of elements |
//! | `cast.rs` | from type to type |
//! | `memory.rs` | elements between memory and registers |
//! | `survey.rs` | what must be known of all nodes first |
//! | `known.rs` | kernels that were generated before |
//! | `map.rs` | kernels with a thread for each element, or for several |
//! | `reduce.rs` | kernels that make one element of many |
//! | `scan.rs` | kernels that keep every step on the way to that one |
//! | `scatter.rs` | kernels that put elements where indices say |
//! | `accumulate.rs` | what the kernels of both keep of the elements that they have seen |

mod accumulate;
mod apply;
mod body;
mod cast;
mod index;
mod known;
mod map;
mod memory;
mod reduce;
mod scan;
mod scatter;
mod survey;
mod value;

pub(crate) use body::{BLOCK, ENTRY_BYTES, Kernel, PARAMETER_BYTES_MAX, Parameter};
pub(crate) use index::keeps_numbers;
pub(crate) use known::{map, reduce};
pub(crate) use map::Target;
pub(crate) use scan::{Scanned, scan};
pub(crate) use scatter::{Pass, Scatter, scatter};
