//! Execution: enqueues the kernels of plans.
//!
//! Two maps remember earlier work: from the key of a graph and the machine to a plan with the
//! schedules of its kernels, and from the words of a kernel and its schedule to its code. A plan is
//! the list of the launches of a graph: they are enqueued one by one (`steps.rs`), or recorded once
//! in this way and then enqueued as one launch, by a replay or a prepared region (`replay/`).
//!
//! | file | contents |
//! |---|---|
//! | `evaluate.rs` | materialises planned nodes, by a replay or step by step |
//! | `plans.rs` | plans of graphs, kept for graphs with the same key |
//! | `bound.rs` | kernels of plans with the nodes of a graph |
//! | `steps.rs` | enqueues the kernels of a plan, step by step |
//! | `launch.rs` | launches of generated kernels with their parameters |
//! | `order/` | launches of sorts and searches |
//! | `product.rs` | launches of matrix products, with their epilogues |
//! | `texts.rs` | the kernel cache, keyed by the structure and the schedule of a kernel |
//! | `replay/` | plans that come again as one launch of a graph |

pub(crate) mod bound;
pub(crate) mod evaluate;
pub(crate) mod launch;
pub(crate) mod order;
#[cfg(test)]
mod other_lengths;
pub(crate) mod plans;
pub(crate) mod product;
pub(crate) mod replay;
#[cfg(test)]
mod same_bits;
pub(crate) mod steps;
pub(crate) mod texts;
