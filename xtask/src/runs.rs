//! The tasks that run another program with certain arguments: `bench`, `suites`, `programs`,
//! `whole`, `devices`, `shuttle`, `miri`, `candle` and `semver`.

use std::{env, ffi::OsStr, process::Command};

use anyhow::{Context, Result, ensure};

use crate::process::{self, cargo};

/// Arguments that a task passes on.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct PassedOn {
    /// The arguments; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// Builds and runs the benchmarks, optimised.
pub(crate) fn bench(options: &PassedOn) -> Result<()> {
    let mut bench = cargo("run --release --quiet --package millstream-bench --");
    process::run(bench.args(&options.arguments))
}

/// Builds and runs other people's CUDA programs; see `xtask/suites/suites.py`.
pub(crate) fn suites<T: AsRef<OsStr>>(arguments: impl IntoIterator<Item = T>) -> Result<()> {
    let mut suites = process::command("python3");
    suites.arg("xtask/suites/suites.py");
    process::run(suites.args(arguments))
}

/// The arguments of `cargo xtask programs`.
#[derive(clap::Args)]
pub(crate) struct ProgramsOptions {
    /// Start no program after this many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run at most this many programs.
    #[arg(long)]
    programs: Option<u64>,
    /// The number of the first program; the tests run those from 0 on.
    #[arg(long, default_value_t = 1_000_000)]
    seed: u64,
    /// Inject driver errors into every second program.
    #[arg(long)]
    faults: bool,
}

/// Runs random programs, optimised. With `MILLSTREAM_DEVICE=cuda:0` they run on a GPU.
pub(crate) fn programs(options: &ProgramsOptions) -> Result<()> {
    let mut cargo = cargo(
        "test --release --package millstream --test all -- --ignored --nocapture \
         open_ended_random_programs",
    );
    cargo.env("MILLSTREAM_PROGRAMS_SECONDS", options.seconds.to_string());
    cargo.env("MILLSTREAM_PROGRAMS_SEED", options.seed.to_string());
    cargo.env("MILLSTREAM_PROGRAMS_FAULTS", options.faults.to_string());
    if let Some(programs) = options.programs {
        cargo.env("MILLSTREAM_PROGRAMS_COUNT", programs.to_string());
    }
    process::run(&mut cargo)
}

/// Runs the whole of the suites of which each day's tests run a share, then the tests that are
/// ignored because they are long.
pub(crate) fn whole() -> Result<()> {
    let mut suites = cargo("test --workspace --tests");
    process::run(suites.env("MILLSTREAM_WHOLE", "1"))?;
    process::run(&mut cargo(
        "test --workspace --test all -- --ignored a10_ a11_ b10_ b15_ d01_ every_single \
         ten_million",
    ))
}

/// Runs the scenarios of several devices with 4 and 8 simulated devices, where CI has two: the
/// harness's device in a pair with each of the others, all of which are open.
pub(crate) fn devices() -> Result<()> {
    for devices in ["4", "8"] {
        println!("{devices} devices");
        let mut test = cargo(
            "test --package millstream --test all -- scenarios::peers scenarios::two_devices \
             collective",
        );
        process::run(test.env("MILLSTREAM_TEST_DEVICES", devices))?;
    }
    Ok(())
}

/// The environment in which `cargo test` builds the runtime with shuttle's locks.
pub(crate) const SHUTTLE: [(&str, &str); 2] = [
    ("RUSTFLAGS", "--cfg shuttle"),
    ("SHUTTLE_SILENCE_WARNINGS", "1"),
];

/// Builds the runtime with shuttle's locks instead of `parking_lot`'s, in a separate target folder,
/// and runs the tests written for shuttle. All other tests would use the locks outside of a
/// schedule.
pub(crate) fn shuttle() -> Result<()> {
    let mut test = cargo("test --package millstream --lib interleavings");
    let target = process::target_folder().join("shuttle");
    process::run(test.envs(SHUTTLE).env("CARGO_TARGET_DIR", target))
}

/// The unit tests that Miri finishes in minutes: the parts of the tracker without tests of very
/// large tables and without property tests.
const MIRI_TESTS: &str = "--lib -- tracker::vector_clock tracker::plan tracker::sync_points";

/// The documentation examples of waiting for the device and of sharing memory with it, on the
/// simulated device. Examples that copy mebibytes are left out.
const MIRI_EXAMPLES: &str = "--doc -- future::pending copy::Stream::copy \
     copy::owned_upload::OwnedSource copy::overlapping page_locked::guard array::managed \
     page_locked::pinned array::view scope::";

/// Miri's flags for the examples. The library's threads outlive the examples, and Miri's weak
/// memory emulation does not support accesses of different sizes to the same address, which
/// simulated memory makes.
const MIRI_FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance \
                          -Zmiri-disable-weak-memory-emulation -Zmiri-ignore-leaks";

/// Runs the tests in Miri, which detects undefined behaviour.
pub(crate) fn miri() -> Result<()> {
    ensure!(
        process::succeeds(&mut cargo("+nightly miri --version")),
        "Miri is not installed; install it with \
         `rustup toolchain install nightly --component miri --component rust-src`"
    );
    for (tests, flags) in [(MIRI_TESTS, ""), (MIRI_EXAMPLES, MIRI_FLAGS)] {
        let mut miri = cargo("+nightly miri test -p millstream");
        process::run(miri.args(tests.split(' ')).env("MIRIFLAGS", flags))?;
    }
    Ok(())
}

/// Tests and runs the example with layers of candle on the host and a simulated device, and checks
/// the types of its part for a GPU.
///
/// The example is a workspace of its own, because candle has many dependencies. On a GPU candle
/// needs `nvcc`; where there is none, a script that makes empty files stands in for it.
pub(crate) fn candle() -> Result<()> {
    let of_example = |command: &str| {
        let (command, rest) = command.split_once(' ').unwrap_or((command, ""));
        let mut cargo = cargo(&format!(
            "{command} --manifest-path examples/candle/Cargo.toml {rest}"
        ));
        cargo.env("CARGO_TARGET_DIR", process::target_folder());
        cargo
    };
    for command in ["clippy --all-targets -- -D warnings", "test", "run"] {
        process::run(&mut of_example(command))?;
    }
    let mut check = of_example("check --features cuda");
    if !process::succeeds(Command::new("nvcc").arg("--version")) {
        let path = env::var_os("PATH").unwrap_or_default();
        let stand_in = process::root().join("examples/candle/stand-in");
        let folders = [stand_in].into_iter().chain(env::split_paths(&path));
        let folders = env::join_paths(folders).context("the search path has a bad folder")?;
        check.env("PATH", folders).env("CUDA_COMPUTE_CAP", "90");
    }
    process::run(&mut check)
}

/// The arguments of `cargo xtask semver`.
#[derive(clap::Args)]
pub(crate) struct SemverOptions {
    /// The revision to compare with, such as the tag of the last release.
    baseline: String,
    /// Compare this crate only, by default all published ones.
    #[arg(long)]
    package: Option<String>,
}

/// Lists changes of the public interface since a revision that the versions do not allow, with
/// cargo-semver-checks. The baseline is a revision, because nothing is in a registry.
pub(crate) fn semver(options: &SemverOptions) -> Result<()> {
    process::install_command("semver-checks")?;
    let mut checks = cargo("semver-checks --baseline-rev");
    checks.arg(&options.baseline);
    match &options.package {
        Some(package) => checks.args(["--package", package]),
        None => checks.arg("--workspace"),
    };
    process::run(&mut checks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_of_miri_names_a_module_of_the_runtime() {
        let filters = [MIRI_TESTS, MIRI_EXAMPLES].into_iter();
        let filters = filters.flat_map(|tests| tests.split_whitespace());
        for filter in filters.filter(|filter| filter.contains("::")) {
            let is_module = |name: &&str| name.starts_with(|first: char| first.is_lowercase());
            let modules: Vec<&str> = filter.split("::").take_while(is_module).collect();
            let path = process::root().join("crates/runtime/src");
            let path = path.join(modules.join("/"));
            let exists = path.is_dir() || path.with_extension("rs").is_file();
            assert!(exists, "there is no module `{filter}`");
        }
    }
}
