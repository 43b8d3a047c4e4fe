//! `cargo xtask mutants`: changes one operator, condition or function at a time with cargo-mutants,
//! and lists the changes that no test notices: everywhere in the tracker, where unit tests judge,
//! and at 100 places elsewhere, which are others each day, where integration tests do too.

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
    process::remove_folder(&process::target_folder().join("mutants"))?;
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
        let [_, survivors, ..] = run_until(end, "elsewhere", elsewhere, "--lib")?;
        missed += try_again(end, &survivors)?;
    }
    let mut tracker = mutants();
    tracker.arg("--dir").arg(tracker_alone()?);
    let settings = process::root().join(".cargo/mutants.toml");
    tracker.arg("--config").arg(settings);
    tracker.args(["--file", "src/tracker/**", "--jobs", "2"]);
    tracker.args(&options.arguments);
    let [_, survivors, ..] = run_until(end, "tracker", tracker, "--lib")?;
    print!("{survivors}");
    missed += survivors.lines().count();
    ensure!(missed == 0, "{missed} mutants are missed by all tests");
    Ok(())
}

/// Makes a package of the tracker and of what it uses of its crate. Returns its folder.
fn tracker_alone() -> Result<PathBuf> {
    let folder = folder_of("tracker-alone");
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

/// Tries the mutants that no unit test notices with the integration tests, and prints those that
/// these do not catch in time. Returns the number of these.
fn try_again(end: Instant, missed: &str) -> Result<usize> {
    let mut survivors = 0;
    for package in PACKAGES {
        let listed = process::output(mutants().args(["--package", package, "--list"]))?;
        let is_missed = |name: &&str| missed.lines().any(|other| other == *name);
        let (due, others): (Vec<_>, Vec<_>) = listed.lines().partition(is_missed);
        if due.is_empty() {
            continue;
        }
        let tested = match package {
            "millstream-libcuda" => "millstream-cli",
            "millstream-ptx" | "millstream-sim" => "sim-tests",
            _ => package,
        };
        let mut again = mutants();
        // Integration tests take minutes without optimisation, and some name lines.
        again.env_remove("CARGO_PROFILE_DEV_OPT_LEVEL");
        again.env_remove("CARGO_PROFILE_DEV_DEBUG");
        again.args(["--package", package, "--test-package", tested, "--iterate"]);
        // The limit is otherwise computed from the tests of `package`.
        again.args(["--minimum-test-timeout", "300"]);
        // `--iterate` leaves out the mutants of this list.
        let list = folder_of(package).join("mutants.out/previously_caught.txt");
        process::write(&list, others.join("\n"))?;
        let [caught, _, hung, _] = run_until(end, package, again, "--tests")?;
        for name in due {
            if !caught
                .lines()
                .chain(hung.lines())
                .any(|other| other == name)
            {
                println!("{name}");
                survivors += 1;
            }
        }
    }
    Ok(survivors)
}

/// Returns the folder of a part's outcomes.
fn folder_of(name: &str) -> PathBuf {
    process::target_folder().join("mutants").join(name)
}

/// Runs cargo-mutants with these tests until then, and prints the number of mutants of each
/// outcome. Returns their lists.
fn run_until(end: Instant, name: &str, mut command: Command, tests: &str) -> Result<[String; 4]> {
    let folder = folder_of(name);
    fs::create_dir_all(&folder)?;
    // Arguments behind `--` would hold for running the tests, but not for building them.
    command
        .arg("--output")
        .arg(&folder)
        .arg(format!("--cargo-arg={tests}"));
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
    Ok(lists)
}
