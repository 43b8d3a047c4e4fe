//! Scatter kernels.
//!
//! | file | contents |
//! |---|---|
//! | `atomics.rs` | a store or an atomic operation in device memory for each value |
//! | `shared.rs` | additions of many values to few elements, in shared memory first |

pub(crate) mod atomics;
pub(crate) mod shared;
