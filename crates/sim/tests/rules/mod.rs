//! CUDA's rules (`crates/runtime/src/guide/semantics.md`) as the simulated GPU implements them.
//! Each test is named after its rule's number.

mod attacks;
mod captures;
mod chaos;
mod conditionals;
mod cooperative;
mod copies;
mod events;
mod graph_harness;
mod graphs;
mod heap;
mod host_functions;
mod injected;
mod keep_going;
mod kernels;
mod lost;
mod managed;
mod memory;
mod never_waiting;
mod own_contexts;
mod peer_copies;
pub(crate) mod peers;
mod pending;
mod prelude;
mod profile;
mod program_graphs;
mod replays;
mod rows;
mod schedules;
pub(crate) mod sim_harness;
mod streams;
mod texts;
mod time;
mod waiting;
mod waiting_elsewhere;

use crate::harness;
