//! The simulated state, under one lock, and the rules by which it changes: queues of operations,
//! what running one does, when the schedule lets it run, and how long it takes.
//!
//! An operation is enqueued ([`enqueue`]) behind others, becomes eligible when they are done, is
//! chosen by the [`schedule`], and runs as a whole ([`execute`]). A driver call holds the state as
//! a [`StateGuard`](gpu::StateGuard).

pub(crate) mod context;
pub(crate) mod fault_injection;
pub(crate) mod gpu;
pub(crate) mod host_functions;
pub(crate) mod module;
pub(crate) mod op;
pub(crate) mod schedule;
pub(crate) mod state;
pub(crate) mod wait_set;

mod allocate;
mod engine;
mod enqueue;
mod execute;
mod kernel_pool;
mod kernel_view;
mod queue_limit;
mod race_hooks;

pub(crate) use allocate::{budgeted, host_out_of_memory};
