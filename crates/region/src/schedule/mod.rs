//! Schedules: which kernel computes a fused kernel, with how many threads and blocks.
//!
//! A plan says what is computed, and in which order elements are combined (`plan/order/`). Several
//! kernels often give these bits: a row can be computed by a block, or by a quarter of one that
//! does its work in four parts. [`schedule`] chooses among them by the sizes of the machine, and
//! code generation takes the choice from the [`Schedule`].
//!
//! | file | contents |
//! |---|---|
//! | `machine.rs` | the sizes of a machine, and the thresholds that follow from them |
//! | `choose.rs` | the schedules there are, and the choice |
//! | `views.rs` | views and joins that have a kernel of their own |

#[cfg(test)]
pub(crate) mod admissible;
pub(crate) mod choose;
pub(crate) mod machine;
pub(crate) mod views;

pub(crate) use choose::{
    Choice, MapSchedule, ReduceSchedule, RowSchedule, ScatterSchedule, Schedule, adds_to_few,
    product_layout, schedule,
};
pub(crate) use machine::Machine;
pub(crate) use views::{JoinedArrays, TransposedViews};
