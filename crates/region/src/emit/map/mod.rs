//! Element-wise kernels.
//!
//! | file | contents |
//! |---|---|
//! | `elements.rs` | kernels in which a thread computes its elements |
//! | `transpose.rs` | kernels that read transposed arrays through shared memory |
//! | `stencil.rs` | kernels that compute what a stencil reads in shared memory |
//! | `tile.rs` | the tiles of such kernels, and arrays in shared memory |
//! | `join_arrays.rs` | joins of arrays in memory |

pub(crate) mod elements;
pub(crate) mod join_arrays;
pub(crate) mod stencil;
pub(crate) mod tile;
pub(crate) mod transpose;
