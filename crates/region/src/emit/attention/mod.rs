//! Attention in one kernel: `softmax(q·kᵀ·scale + mask)·v`, without storing the scores.
//!
//! A block computes a tile of queries. It visits the keys and values tile by tile, and keeps of
//! each query the maximum of the scores so far, the sum of the weights `exp(score − maximum)`, and
//! the weighted sum of the values. Where a tile raises the maximum, both sums are multiplied by the
//! weight of the old maximum (online softmax). The tile after the current one is loaded into
//! registers while the current one is multiplied.
//!
//! A warp computes all scores of its queries, so that only the tiles of keys and values are
//! exchanged between warps. Each thread computes several queries with several keys, and later with
//! several elements of the values, so that most operands of its multiplications are in registers.
//!
//! Every sum has a fixed order, which depends on the shapes alone.

/// Loops over chunks in shared memory.
mod chunks;
/// The kernel, and the loop over the tiles of keys.
pub(crate) mod kernel;
/// Loads of tiles into shared memory.
mod loader;
/// The scores of a tile, and their weights.
mod scores;
/// The part of a thread, and the addresses that do not change.
mod setup;
/// The order of the elements of tiles in shared memory.
pub(crate) mod tiles;
/// The weighted sums of the values.
mod values;
