//! `cargo xtask mutants`: changes one operator, condition or function at a time with cargo-mutants,
//! and lists the changes that no unit test notices: everywhere in the tracker, and at 100 places
//! elsewhere, which are others each day.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::{breakages, process};

/// The part of the code whose mutants are all tried.
const TRACKER: &str = "crates/runtime/src/tracker/**";
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
    tracker.args(["--package", PACKAGES[0], "--file", TRACKER]);
    tracker.args(&options.arguments);
    missed += run_until(end, "tracker", tracker)?;
    ensure!(missed == 0, "{missed} mutants are missed by all unit tests");
    Ok(())
}

/// Creates a command of cargo-mutants that builds fast, for few tests.
fn mutants() -> Command {
    let mut command = process::cargo("mutants");
    command.envs([
        ("CARGO_PROFILE_DEV_DEBUG", "0"),
        ("CARGO_PROFILE_DEV_OPT_LEVEL", "0"),
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
