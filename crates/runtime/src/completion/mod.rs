//! Completion: how the host learns that an operation is done.

mod pending;
mod reactor;
mod wait;

pub use pending::Pending;
pub(crate) use wait::{poll_ticket, query_point, query_stream, wait_ticket};
