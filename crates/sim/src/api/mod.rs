//! The driver calls, by subject. Each call validates its caller's obligations and changes the
//! simulator state, mostly by enqueueing an operation that runs when the schedule picks it.

mod attributes;
mod capture;
mod context;
mod copy;
mod copy_location;
mod device_memory;
mod driver;
mod event;
mod graph;
mod graph_changes;
mod graph_copy;
mod graph_exec;
pub(crate) mod graph_programs;
pub(crate) mod graph_questions;
mod host_access;
mod host_memory;
mod images;
mod launch;
mod managed_memory;
mod module;
mod occupancy;
mod peers;
mod pool_memory;
pub(crate) mod pools;
pub(crate) mod programs;
mod stream;
pub(crate) mod virtual_memory;
