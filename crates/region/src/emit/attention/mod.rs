//! Attention in one kernel: `softmax(q·kᵀ·scale + mask)·v`, without storing the scores (online
//! softmax). Every sum has a fixed order, which depends on the shapes alone.

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
