//! Several devices: operations that use memory of more than one, groups of operations, and peer
//! access.

mod arrival;
mod crossing;
mod group;
mod peers;
mod state;
mod verdict;
mod watch;

pub(crate) use arrival::Arrival;
pub(crate) use crossing::{Crossing, submit_crossing};
pub(crate) use group::submit_group;
pub use peers::PeerStatus;
pub(crate) use peers::{copies_directly, known_peer_status, peer_status};
pub(crate) use verdict::Failure;
