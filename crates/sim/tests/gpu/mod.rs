//! The driver interface on a real GPU. Without a GPU every test is listed as ignored; with
//! `MILLSTREAM_DEVICE=cuda:0` it fails instead.

mod calls;
mod contexts;
mod memory;
mod modules;
mod order;
mod peers;

use std::env;

use libtest_mimic::Trial;
use millstream_driver::{
    DeviceOrdinal, Driver,
    cuda::{Cuda, LoadError},
};

use crate::conformance::prelude::*;

pub(crate) type Outcome = Result<(), Failed>;

type Test = (&'static str, fn(&DeviceHarness) -> Outcome);

/// Lists tests, each named after its function.
macro_rules! tests {
    ($($module:ident::$name:ident,)*) => {
        &[$((stringify!($name), $module::$name as fn(&DeviceHarness) -> Outcome)),*]
    };
}

const TESTS: &[Test] = tests! {
    calls::device_properties,
    memory::copies_and_fills_in_stream_order,
    memory::registered_memory,
    order::events_order_streams_and_measure_time,
    modules::ptx_loads_and_launches,
    modules::invalid_ptx_returns_the_compilers_log,
    modules::images_other_than_ptx_are_rejected,
    order::explicit_handles_need_no_current_context,
    memory::pool_counters,
    contexts::calls_work_without_a_current_context,
    calls::usage_errors_name_the_call,
};

/// Tests that need the machine's first two devices.
const TESTS_OF_TWO: &[Test] = tests! {
    contexts::calls_work_while_another_device_is_current,
    peers::link_properties_agree_with_each_other,
};

/// Returns the tests. Those whose devices are missing are listed as ignored.
pub(crate) fn trials() -> Vec<Trial> {
    let demanded = env::var("MILLSTREAM_DEVICE")
        .ok()
        .filter(|value| value.starts_with("cuda"));
    let cuda = Cuda::load();
    let ignored = demanded.is_none() && cuda.is_err();
    let devices = cuda.map_or(0, |cuda| cuda.device_count().unwrap_or(0));
    let ordinal = demanded
        .and_then(|value| {
            value
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
        })
        .unwrap_or(0);
    let mut trials = Vec::new();
    let mut extend = |tests: &[Test], ordinal, lacks: bool, needs| {
        trials.extend(tests.iter().map(|&(name, test)| {
            let trial = Trial::test(name, move || test(&open(ordinal)?));
            let kind = if lacks { needs } else { "" };
            trial.with_kind(kind).with_ignored_flag(lacks)
        }));
    };
    extend(TESTS, ordinal, ignored, "needs a GPU");
    extend(TESTS_OF_TWO, 0, devices < 2, "needs two GPUs");
    trials
}

fn open(ordinal: i32) -> Result<DeviceHarness, Failed> {
    let cuda = Cuda::load().map_err(|error: LoadError| error.to_string())?;
    DeviceHarness::open(cuda, None, DeviceOrdinal::from_raw(ordinal))
}
