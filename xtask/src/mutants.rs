//! `cargo xtask mutants`: changes one operator, condition or function at a time with cargo-mutants,
//! and lists the changes that no unit test notices: everywhere in the tracker, and at 100 places
//! elsewhere, which are others each day.

use std::{
    fmt::Write,
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::{breakages, process};

/// The part of the code whose mutants are all tried.
const TRACKER: &str = "crates/runtime/src/tracker/**";
/// What compiles alone with the tracker, as a small crate: a mutant takes seconds there instead of
/// a minute in the whole crate.
const TRACKER_ALONE: [&str; 4] = ["tracker", "error", "sync", "sync.rs"];
const TRACKER_ROOT: &str = "#![allow(unused)]\nmod error;\nmod sync;\nmod tracker;\n\
     pub use error::{Error, OperationKind, Result, UsageError, UsageErrorKind};\n";
const TRACKER_DEPENDENCIES: [&str; 4] = ["parking_lot", "proptest", "smallvec", "thiserror"];
/// The packages with unit tests.
const PACKAGES: [&str; 7] = [
    "millstream",
    "millstream-collective",
    "millstream-driver",
    "millstream-libcuda",
    "millstream-ptx",
    "millstream-region",
    "millstream-sim",
];
/// The number of mutants outside of the tracker.
const ELSEWHERE: usize = 100;
/// The outcomes of mutants, by the names of cargo-mutants' files.
const OUTCOMES: [&str; 4] = ["caught", "missed", "timeout", "unviable"];

/// The arguments of `cargo xtask mutants`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Stop after this many minutes.
    #[arg(long, default_value_t = 120)]
    minutes: u64,
    /// The number that chooses the mutants outside of the tracker; without it the date does.
    #[arg(long)]
    seed: Option<usize>,
    /// Further arguments of cargo-mutants, such as `--shard 0/16` of the tracker's.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Tries the mutants, and prints those that were missed. They are an error.
pub(crate) fn run(options: &Options) -> Result<()> {
    process::install_command("mutants")?;
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    let mut missed = 0;
    if options.arguments.is_empty() {
        let mut elsewhere = mutants();
        elsewhere.args(PACKAGES.map(|package| ["--package", package]).concat());
        elsewhere.args(["--exclude", TRACKER]);
        let listed = process::output(mutants().args(elsewhere.get_args().skip(1)).arg("--list"))?;
        let shards = listed.lines().count().div_ceil(ELSEWHERE).max(1);
        let shard = options.seed.map_or_else(breakages::days_since_1970, Ok)? % shards;
        let shard = format!("{shard}/{shards}");
        elsewhere.args(["--sharding", "round-robin", "--shard", &shard]);
        missed += run_until(end, "elsewhere", elsewhere)?;
    }
    let mut tracker = mutants();
    tracker.arg("--dir").arg(tracker_alone()?);
    let settings = process::root().join(".cargo/mutants.toml");
    tracker.arg("--config").arg(settings);
    tracker.args(["--file", "src/tracker/**", "--jobs", "2"]);
    tracker.args(&options.arguments);
    missed += run_until(end, "tracker", tracker)?;
    ensure!(missed == 0, "{missed} mutants are missed by all unit tests");
    Ok(())
}

/// Makes a package of the tracker and of what it uses of its crate. Returns its folder.
fn tracker_alone() -> Result<PathBuf> {
    let folder = process::target_folder().join("mutants/tracker-alone");
    process::remove_folder(&folder)?;
    let source = folder.join("src");
    fs::create_dir_all(&source)?;
    let mut copy = process::command("cp");
    copy.arg("-r").args(TRACKER_ALONE).arg(&source);
    process::run(copy.current_dir(process::root().join("crates/runtime/src")))?;
    process::write(&source.join("lib.rs"), TRACKER_ROOT)?;
    let mut manifest = String::from(
        "[package]\nname = \"tracker\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n",
    );
    let driver = process::root().join("crates/driver");
    writeln!(manifest, "millstream-driver.path = {driver:?}")?;
    let used = |line: &&str| {
        let name = line.split(' ').next();
        name.is_some_and(|name| TRACKER_DEPENDENCIES.contains(&name))
    };
    for line in process::read("Cargo.toml")?.lines().filter(used) {
        writeln!(manifest, "{line}")?;
    }
    process::write(&folder.join("Cargo.toml"), manifest)?;
    process::write(&folder.join("Cargo.lock"), process::read("Cargo.lock")?)?;
    Ok(folder)
}

/// Creates a command of cargo-mutants that builds fast, for few tests.
fn mutants() -> Command {
    let mut command = process::cargo("mutants");
    command.envs([
        ("CARGO_PROFILE_DEV_DEBUG", "0"),
        ("CARGO_PROFILE_DEV_OPT_LEVEL", "0"),
        ("PROPTEST_CASES", "64"),
    ]);
    command
}

/// Runs cargo-mutants until then, and prints the number of mutants of each outcome and the missed
/// ones. Returns the number of these.
fn run_until(end: Instant, name: &str, mut command: Command) -> Result<usize> {
    let folder = process::target_folder().join("mutants").join(name);
    process::remove_folder(&folder)?;
    fs::create_dir_all(&folder)?;
    command.arg("--output").arg(&folder).args(["--", "--lib"]);
    let limit = end.saturating_duration_since(Instant::now());
    if breakages::status_within(&mut command, limit)?.is_none() {
        println!("the time is over: the other mutants of this part are not tried");
    }
    let lists = OUTCOMES.map(|outcome| {
        let list = folder.join("mutants.out").join(format!("{outcome}.txt"));
        fs::read_to_string(list).unwrap_or_default()
    });
    for (outcome, list) in OUTCOMES.iter().zip(&lists) {
        println!("{name}: {} {outcome}", list.lines().count());
    }
    print!("{}", lists[1]);
    Ok(lists[1].lines().count())
}
