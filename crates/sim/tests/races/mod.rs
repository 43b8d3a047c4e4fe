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
mod host;
mod initialisation;
mod kernels;
mod labels;
mod lifetimes;
mod model;
mod orders;
mod peers;
mod prelude;
mod proposals;
mod rows;
mod severities;
mod streams;
mod threads;
mod uninitialised;
mod within;

use crate::{harness, rules::sim_harness};
