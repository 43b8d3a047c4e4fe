//! CUDA's rules (`crates/runtime/src/guide/semantics.md`) that can be observed through the seam,
//! each as one test that runs on both drivers: with `MILLSTREAM_DEVICE=cuda:0` on that GPU, else on
//! the simulated device in each of its readings, under several schedules.
//!
//! A test says what it saw. It fails if that is not what the documentation allows. At the end all
//! of it is printed as a table, for the columns of the list of rules.

mod allocations;
mod apart;
mod async_copies;
mod configurations;
mod device_harness;
mod events;
mod gate;
#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod harness;
mod host_functions;
mod kernels;
mod legacy;
mod managed;
mod modules;
mod pool;
mod queues;
mod rows;
mod rules;
mod shared_memory;
mod streams;
mod sync_copies;
mod synchronisation;
mod table;
mod two_devices;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use configurations::on_gpu;
use rules::{RULES, Rule};

fn main() -> ExitCode {
    if let Some(code) = apart::asked_for() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    if on_gpu() {
        // One at a time: loading a module, or freeing, would wait for another test's gate.
        arguments.test_threads = Some(1);
    }
    let devices = configurations::device_count();
    let trials = RULES.iter().map(|rule| trial(rule, devices)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        table::print();
    }
    conclusion.exit_code()
}

fn trial(rule: &'static Rule, devices: i32) -> Trial {
    let ignored = rule.devices > devices;
    let kind = if ignored { "needs two GPUs" } else { "" };
    Trial::test(rule.test_name(), || configurations::run(rule))
        .with_kind(kind)
        .with_ignored_flag(ignored)
}
