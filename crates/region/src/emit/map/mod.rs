//! Element-wise kernels.

/// Kernels in which a thread computes its elements.
pub(crate) mod elements;
/// Joins of arrays in memory.
pub(crate) mod join_arrays;
/// Kernels that compute what a stencil reads in shared memory.
pub(crate) mod stencil;
/// The tiles of a result that blocks compute, and arrays in shared memory.
pub(crate) mod tile;
/// Kernels that read transposed arrays through shared memory.
pub(crate) mod transpose;
