//! Attention in one kernel: `softmax(q·kᵀ·scale + mask)·v`, without storing the scores (online
//! softmax). Every sum has a fixed order, which depends on the shapes alone.
//!
//! A block of 128 threads computes 64 queries, or fewer of large heads, and visits keys and values
//! in tiles of as many. It keeps each query's maximum score, the sum of its weights and the
//! weighted sum of values, and rescales the sums when a tile raises the maximum. One warp computes
//! all scores of a query: its maximum takes four shuffles, its weights no barrier. A thread
//! computes 8 queries with 4 keys; with fewer, accesses to shared memory would take longer than the
//! multiplications. The three tiles take at most 48 KiB, because the weights replace the keys. The
//! next tile is loaded into registers before the current one is multiplied. Larger heads are matrix
//! products and a softmax (`array/attention.rs`).

mod chunks;
pub(crate) mod kernel;
mod loader;
mod scores;
mod setup;
pub(crate) mod tiles;
mod values;
