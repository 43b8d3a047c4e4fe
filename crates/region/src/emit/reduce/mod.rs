//! Reduction kernels.
//!
//! | file | contents |
//! |---|---|
//! | `reduction.rs` | the kinds of reductions, and their kernels |
//! | `accumulate.rs` | the loop in which a thread accumulates elements |
//! | `partial.rs` | reductions whose results are shared by several blocks |
//! | `row_per_warp.rs` | reductions of many rows of moderate length |

pub(crate) mod accumulate;
pub(crate) mod partial;
pub(crate) mod reduction;
pub(crate) mod row_per_warp;
