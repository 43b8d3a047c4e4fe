//! Scatter kernels.

/// A store or an atomic operation in device memory for each value.
pub(crate) mod atomics;
/// Additions of many values to few elements, in shared memory first.
pub(crate) mod shared;
