//! `cargo xtask repeat`: runs the test command of README.md many times, on an idle machine, on a
//! busy one and on one core, and prints how often each test failed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{breakages::failed_tests, ci, process};

/// The arguments of `cargo xtask repeat`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run the command this many times in each condition.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Use these conditions only.
    #[arg(long, value_enum)]
    only: Vec<Condition>,
    /// Pass these words to the tests, for example a filter.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// The conditions under which tests run.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Condition {
    /// Nothing else runs.
    Idle,
    /// Two threads for each core compute besides.
    Busy,
    /// All threads of the tests share one core.
    OneCore,
}

/// The failures of all rounds.
#[derive(Default)]
struct Failures {
    /// The number of rounds in which each test failed.
    of_tests: BTreeMap<String, u32>,
    rounds: u32,
}

/// Runs the rounds and prints the rates. Fails if a test failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let readme = process::read("README.md")?;
    let command = ci::test_command(&readme).context("README.md has no test command")?;
    let mut words: Vec<&str> = command.split(' ').collect();
    words.push("--no-fail-fast");
    // Not in the conditions: compiling under them would only take longer.
    process::run(process::command(words[0]).args(&words[1..]).arg("--no-run"))?;
    words.push("--");
    words.extend(options.arguments.iter().map(String::as_str));
    let all = [Condition::Idle, Condition::Busy, Condition::OneCore];
    let mut failures = Failures::default();
    for condition in all {
        if !options.only.is_empty() && !options.only.contains(&condition) {
            continue;
        }
        for round in 1..=options.rounds {
            let start = Instant::now();
            let failed = under(condition, || run_round(condition, &words))?;
            failures.rounds += 1;
            println!(
                "{condition:?}, round {round}: {} failed, {:.0} s",
                failed.len(),
                start.elapsed().as_secs_f64()
            );
            for test in failed {
                println!("    {test}");
                *failures.of_tests.entry(test).or_default() += 1;
            }
        }
    }
    for (test, count) in &failures.of_tests {
        println!("{count} of {} rounds: {test}", failures.rounds);
    }
    if !failures.of_tests.is_empty() {
        bail!("{} tests failed", failures.of_tests.len());
    }
    println!("no test failed in {} rounds", failures.rounds);
    Ok(())
}

/// Runs `work` while the other threads that the condition asks for compute.
fn under<T>(condition: Condition, work: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let busy = if condition == Condition::Busy {
        2 * cores
    } else {
        0
    };
    thread::scope(|scope| {
        for _ in 0..busy {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        ended.store(true, Ordering::Relaxed);
        result
    })
}

/// Runs the tests once and returns the names of the failed ones.
fn run_round(condition: Condition, words: &[&str]) -> Result<Vec<String>> {
    let pinned = ["taskset", "--cpu-list", "0"];
    let pinned = if condition == Condition::OneCore {
        &pinned[..]
    } else {
        &[]
    };
    let words: Vec<&str> = pinned.iter().chain(words).copied().collect();
    let mut command = process::command(words[0]);
    command
        .args(&words[1..])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", words[0]))?;
    let output = child.stdout.take().expect("the output is piped");
    let mut failed = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        failed.extend(failed_tests(&String::from_utf8_lossy(&line?)));
    }
    if !child.wait()?.success() && failed.is_empty() {
        failed.push(String::from("a program that ended without a result"));
    }
    Ok(failed)
}
