//! Reduction kernels.

/// The loop in which a thread accumulates elements.
pub(crate) mod accumulate;
/// Reductions whose results are shared by several blocks.
pub(crate) mod partial;
/// The kinds of reductions, and their kernels.
pub(crate) mod reduction;
/// Reductions of many rows of moderate length.
pub(crate) mod row_per_warp;
