//! The simulator state behind one lock: the stream queues, the execution of operations, the
//! schedule that picks them, and virtual time.
//!
//! An operation is enqueued ([`enqueue`]), becomes eligible when its predecessors are complete, is
//! picked by the [`schedule`], and runs as a whole ([`execute`]), except for kernels that wait for
//! others ([`waiting`]). A driver call holds the state as
//! a [`StateGuard`](gpu::StateGuard).

pub(crate) mod call_error;
pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod fault_injection;
pub(crate) mod gpu;
pub(crate) mod graph;
pub(crate) mod graph_template;
pub(crate) mod host_functions;
pub(crate) mod host_threads;
pub(crate) mod module;
pub(crate) mod objects;
pub(crate) mod op;
pub(crate) mod parts;
mod peers;
pub(crate) mod pools;
pub(crate) mod profile;
pub(crate) mod schedule;
pub(crate) mod state;
pub(crate) mod wait_set;

mod allocate;
mod conditional;
mod engine;
mod enqueue;
mod execute;
mod graph_edit;
mod graph_launch;
mod kernel_fault;
mod kernel_view;
mod printf_output;
mod progress;
mod queue_limit;
mod race_hooks;
mod waiting;

pub(crate) use allocate::{budgeted, host_out_of_memory};
