//! Reduction kernels.

pub(crate) mod accumulate;
pub(crate) mod partial;
pub(crate) mod reduction;
pub(crate) mod row_per_warp;
