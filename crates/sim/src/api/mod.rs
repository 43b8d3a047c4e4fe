//! The `Driver` calls, by subject. Each call checks its caller's obligations and changes the
//! simulated state, mostly by enqueueing an operation, which runs when the schedule says so.

mod attributes;
mod context;
mod copy;
mod device_memory;
mod driver;
mod event;
mod host_access;
mod host_memory;
mod launch;
mod managed_memory;
mod module;
mod stream;
