//! Reduction kernels.

/// The loop in which a thread accumulates elements.
pub(crate) mod accumulate;
/// Reductions whose results are shared by several blocks.
pub(crate) mod partial;
/// The kernels of reductions; the accumulators are those of `body/reducer.rs`.
pub(crate) mod reduction;
/// Reductions of many rows of moderate length.
pub(crate) mod row_per_warp;
