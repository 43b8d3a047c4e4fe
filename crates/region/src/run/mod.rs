//! Execution: enqueues the kernels of plans.
//!
//! | file | contents |
//! |---|---|
//! | `evaluate.rs` | materialises planned nodes, step by step |
//! | `plans.rs` | plans of graphs that were met before |
//! | `kept.rs` | the steps of these plans with the nodes of a graph |
//! | `enqueue.rs` | enqueues one fused kernel |
//! | `launch.rs` | launches of generated kernels with their parameters |
//! | `product.rs` | launches of matrix products, with their epilogues |
//! | `texts.rs` | the kernel cache, keyed by graph structure |
//! | `first_axis.rs` | kernels of rows whose code serves any number of rows |
//! | `replay/` | plans that come again as one launch of a graph |

pub(crate) mod enqueue;
pub(crate) mod evaluate;
pub(crate) mod first_axis;
pub(crate) mod kept;
pub(crate) mod launch;
#[cfg(test)]
mod other_lengths;
pub(crate) mod plans;
pub(crate) mod product;
pub(crate) mod replay;
#[cfg(test)]
mod same_bits;
pub(crate) mod texts;
