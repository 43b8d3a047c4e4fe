//! Waiting for operations, on a thread or as a future.

mod arrival;
mod pending;
mod spin;
mod wait;

pub(crate) use arrival::arrivals;
pub use pending::Pending;
pub(crate) use pending::Value;
pub(crate) use wait::{is_over, prepare_wait, wait_for_ticket, wait_ticket, wait_until};
