//! The simulated state, under one lock, and the rules by which it changes: queues of operations,
//! what running one does, when the schedule lets it run, and how long it takes.
//!
//! An operation is enqueued ([`enqueue`]) behind others, becomes eligible when they are done, is
//! chosen by the [`schedule`], and runs as a whole ([`execute`]). A driver call holds the state as
//! a [`Session`](gpu::Session).

pub(crate) mod context;
pub(crate) mod goal;
pub(crate) mod gpu;
pub(crate) mod host_functions;
pub(crate) mod injected;
pub(crate) mod module;
pub(crate) mod op;
pub(crate) mod schedule;
pub(crate) mod world;

mod allocate;
mod checked;
mod engine;
mod enqueue;
mod execute;
mod kernel_threads;
mod kernel_view;
mod queue;

pub(crate) use allocate::{budgeted, host_out_of_memory};
