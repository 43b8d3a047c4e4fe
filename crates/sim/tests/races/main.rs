//! What the race checker finds in wrong programs, under every schedule the same and to the letter;
//! and that right ones are clean.
//!
//! What is expected lies in `expected`, a file for each wrong program. `UPDATE_EXPECT=1` writes the
//! files anew.

mod elements;
mod expect;
#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod harness;
mod host;
mod kernels;
mod labels;
mod lifetimes;
mod model;
mod orders;
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
