//! Waiting for operations, by blocking a thread or as a future.

mod adaptive_spin;
mod completion;
mod pending;
mod wait;

pub(crate) use completion::completions;
pub use pending::Pending;
pub(crate) use pending::PendingValue;
pub(crate) use wait::{all_done, prepare_wait, wait_for_ticket, wait_ticket};
