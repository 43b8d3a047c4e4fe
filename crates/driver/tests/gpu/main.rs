//! The seam on a real GPU. Without one, every test is listed as ignored; with `MILLSTREAM_DEVICE=cuda:0` it fails instead.

mod calls;
mod memory;
mod modules;
mod order;
mod rig;

use std::{env, process::ExitCode};

use libtest_mimic::{Arguments, Trial};
use millstream_driver::{DeviceOrdinal, cuda::Cuda};

use rig::{Gpu, Outcome};

type Test = (&'static str, fn(&Gpu) -> Outcome);

const TESTS: &[Test] = &[
    ("device_facts", calls::device_facts),
    (
        "copies_and_fills_in_stream_order",
        memory::copies_and_fills_in_stream_order,
    ),
    (
        "synchronous_copies_and_plain_allocation",
        memory::synchronous_copies_and_plain_allocation,
    ),
    ("page_locked_memory", memory::page_locked_memory),
    (
        "events_order_streams_and_measure_time",
        order::events_order_streams_and_measure_time,
    ),
    ("ptx_loads_and_launches", modules::ptx_loads_and_launches),
    (
        "kernels_load_before_their_first_launch",
        modules::kernels_load_before_their_first_launch,
    ),
    (
        "bad_ptx_gives_the_compilers_log",
        modules::bad_ptx_gives_the_compilers_log,
    ),
    (
        "explicit_handles_need_no_current_context",
        order::explicit_handles_need_no_current_context,
    ),
    ("pool_counters", memory::pool_counters),
    (
        "misuse_is_an_error_that_names_the_call",
        calls::misuse_is_an_error_that_names_the_call,
    ),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let demanded = env::var("MILLSTREAM_DEVICE")
        .ok()
        .filter(|value| value.starts_with("cuda"));
    let ignored = demanded.is_none() && Cuda::load().is_err();
    let ordinal = demanded
        .and_then(|value| value.strip_prefix("cuda:").and_then(|number| number.parse().ok()))
        .unwrap_or(0);
    let trials = TESTS
        .iter()
        .map(|&(name, test)| {
            let trial = Trial::test(name, move || test(&Gpu::open(DeviceOrdinal::from_raw(ordinal))?));
            let kind = if ignored { "needs a GPU" } else { "" };
            trial.with_kind(kind).with_ignored_flag(ignored)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
