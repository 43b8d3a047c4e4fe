//! Findings of the race checker: a wrong program has exactly the expected findings under every
//! schedule, and a correct program has none.
//!
//! The expected findings are stored in `expected`, in one file for each wrong program.
//! `UPDATE_EXPECT=1` rewrites the files.

mod async_copies;
mod barriers;
mod block_orders;
mod device_libraries;
mod elements;
mod expect;
mod graphs;
mod grid_barrier;
#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod harness;
mod host;
mod kernels;
mod labels;
mod lifetimes;
mod model;
mod orders;
mod peers;
mod planted;
mod rows;
mod severities;
#[path = "../rules/sim_harness.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod sim_harness;
mod streams;
mod threads;
mod uninitialised;
mod within;
