//! Completion: how the host learns that an operation is done.

mod arrival;
mod keep;
mod local;
mod pending;
mod reactor;
mod spin;
mod wait;

pub(crate) use arrival::{Arrival, arrivals};
pub(crate) use keep::keep_until_done;
pub(crate) use local::{LocalReactor, has_local_reactor};
pub use pending::Pending;
pub(crate) use pending::Value;
pub(crate) use wait::{
    is_over, note_done, poll_own_ticket, poll_ticket, prepare_wait, query_point, query_stream,
    wait_for_ticket, wait_ticket, wait_until,
};
