//! Scatter kernels.

pub(crate) mod atomics;
pub(crate) mod shared;
