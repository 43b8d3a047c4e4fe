//! Hand-overs between Millstream and the published crate cudarc, in one process.
//!
//! With `MILLSTREAM_DEVICE=cuda:0` both use the GPU, one scenario after the other: the driver runs
//! the host functions of all streams on one thread, so that one scenario's closed gate would block
//! another's. Elsewhere on Linux each test runs this program again with the drop-in driver of
//! `crates/libcuda` in the place of the GPU's, and fails if that reports a race. There the calls
//! with which the process waits on the host are counted too; on a GPU they are with `LD_PRELOAD`
//! (`interposed.c`).

mod captures;
mod dropin;
mod interposed;
mod play;
mod scenarios;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use scenarios::{SCENARIOS, Scenario};

/// Returns all scenarios.
fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().chain(&captures::SCENARIOS)
}

/// Runs a scenario on the driver that the loader finds.
fn run(scenario: &Scenario) -> Result<(), String> {
    (scenario.run)().map_err(|error| error.to_string())
}

fn trials(on_gpu: bool) -> Vec<Trial> {
    let trial = |scenario: &'static Scenario| {
        let run_here = move || match on_gpu {
            true => Ok(run(scenario)?),
            false => Ok(dropin::run(scenario.name)?),
        };
        Trial::test(scenario.name, run_here)
            .with_ignored_flag(!on_gpu && !cfg!(target_os = "linux"))
    };
    scenarios().map(trial).collect()
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some("client") {
        let on_gpu = std::env::var("MILLSTREAM_DEVICE").is_ok_and(|name| name.starts_with("cuda"));
        let mut arguments = Arguments::from_args();
        if on_gpu {
            arguments.test_threads = Some(1);
        }
        return libtest_mimic::run(&arguments, trials(on_gpu)).exit_code();
    }
    let name = arguments.next().unwrap_or_default();
    let found = scenarios().find(|scenario| scenario.name == name);
    match found
        .ok_or_else(|| format!("there is no scenario `{name}`"))
        .and_then(run)
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
