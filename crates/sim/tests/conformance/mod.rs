//! Conformance tests of CUDA's rules (`crates/runtime/src/guide/semantics.md`) that the driver seam
//! can observe. Each test runs on both drivers: with `MILLSTREAM_DEVICE=cuda:0` on that GPU, else
//! on the simulated device in each reading of the disputed rules, under several schedules.
//!
//! A test returns an observation. It fails if the documentation does not allow that observation. At
//! the end all observations are printed as a table, for the columns of the list of rules.

mod allocations;
mod apart;
mod async_copies;
mod captures;
mod concurrent;
mod configurations;
mod cooperative;
mod device_harness;
mod events;
mod gate;
mod graphs;
mod host_functions;
mod kernels;
mod legacy;
mod managed;
mod modules;
mod peers;
mod pool;
pub(crate) mod prelude;
mod queues;
mod rows;
mod rules;
mod shared_memory;
mod streams;
mod sync_copies;
mod synchronisation;
mod table;
mod two_devices;

use libtest_mimic::Trial;

use crate::harness;

pub(crate) use apart::asked_for;
pub(crate) use configurations::on_gpu;
pub(crate) use kernels::KERNELS_PTX;
use rules::{RULES, Rule};
pub(crate) use table::print as print_table;

pub(crate) fn trials() -> Vec<Trial> {
    let devices = configurations::device_count();
    RULES.iter().map(|rule| trial(rule, devices)).collect()
}

fn trial(rule: &'static Rule, devices: i32) -> Trial {
    let ignored = rule.devices > devices;
    let kind = if ignored { "needs two GPUs" } else { "" };
    Trial::test(rule.test_name(), || configurations::run(rule))
        .with_kind(kind)
        .with_ignored_flag(ignored)
}
