//! `millstream-bench-nvidia`: measures Millstream beside cudarc and NVIDIA's cuda-core and
//! cuda-async, in turns in one process, with the same work in raw driver calls as the baseline of
//! each figure.
//!
//! It is a workspace of its own, because NVIDIA's crates need CUDA's headers and libclang to build:
//! `cargo xtask nvidia` installs both. To run it needs a driver for CUDA 13.0 and nothing else.
//!
//! cuda-async tracks the arrays of a launch until the host learns that it is complete, and refuses
//! a launch on another stream that conflicts with it meanwhile. Its safe `.await` and `sync_on`
//! return when the work is complete. Measured are launches that are each awaited, many launches in
//! one future, and the unsafe `async_on`, which ends the tracking when it returns and leaves order
//! and lifetimes to its caller. cuda-core launches kernels through an unsafe function, which tracks
//! nothing.

#[path = "../../src/cudarc.rs"]
mod cudarc;
#[path = "../../src/harness.rs"]
#[allow(dead_code, reason = "the other benchmarks use more of it")]
mod harness;
#[path = "../../src/json.rs"]
#[allow(dead_code, reason = "the other benchmarks use more of it")]
mod json;
#[path = "../../src/kernels.rs"]
mod kernels;
mod launches;
mod nvidia;
mod others;
mod products;
#[path = "../../src/raw/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the other benchmarks use more of it"
)]
mod raw;
#[path = "../../src/report.rs"]
#[allow(dead_code, reason = "the other benchmarks use more of it")]
mod report;
mod table;
#[path = "../../src/timing.rs"]
#[allow(dead_code, reason = "the other benchmarks use more of it")]
mod timing;
#[path = "../../src/targets/waiting.rs"]
#[allow(dead_code, reason = "the other benchmarks use more of it")]
mod waiting;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, anyhow};
use clap::Parser;

use harness::Harness;
use report::{Row, Table};
use table::{Bench, LIBRARIES};

/// Measures Millstream beside cudarc and NVIDIA's cuda-core and cuda-async on the first GPU.
#[derive(Parser)]
#[command(name = "millstream-bench-nvidia", version)]
struct Arguments {
    /// Measure only these libraries beside raw driver calls.
    #[arg(long, value_name = "LIBRARIES", value_delimiter = ',', value_parser = LIBRARIES)]
    only: Vec<String>,
    /// Measure only these targets: `T1,T11`.
    #[arg(long, value_name = "TARGETS", value_delimiter = ',')]
    targets: Vec<String>,
    /// Also write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run fewer rounds.
    #[arg(long)]
    quick: bool,
    /// Use small arrays and one round, for a simulated device.
    #[arg(long)]
    small: bool,
}

/// A measurement and its name.
type Measurement = (&'static str, fn(&Bench) -> Result<Vec<Row>>);

/// The measurements, in their order. The first must precede the threads of other libraries.
const MEASUREMENTS: [Measurement; 13] = [
    ("T9", others::load),
    ("T1", launches::three),
    ("T1", launches::four),
    ("T3", |bench| launches::pairs(bench, false)),
    ("T3", |bench| launches::pairs(bench, true)),
    ("T3", launches::conflict),
    ("T5", |bench| others::allocate(bench, false)),
    ("T5", |bench| others::allocate(bench, true)),
    ("T9", |bench| others::awaited(bench, false)),
    ("T9", |bench| others::awaited(bench, true)),
    ("T11", |bench| {
        let what = "graph of 32 kernels and 3 arrays, host time of a replay";
        others::replays(bench, what, 2, false)
    }),
    ("T11", |bench| {
        let what = "graph of 32 kernels and 34 arrays, host time of a replay";
        others::replays(bench, what, 33, false)
    }),
    ("T11", |bench| {
        let what = "graph of 32 kernels and 34 arrays, launch to completion";
        others::replays(bench, what, 33, true)
    }),
];

/// Runs all measurements. Returns whether all of them succeeded.
fn run(arguments: Arguments) -> Result<bool> {
    let harness = Harness::gpu(arguments.quick).map_err(|why| anyhow!("no GPU: {why}"))?;
    let all = || LIBRARIES.map(str::to_owned).to_vec();
    let only = match arguments.only.is_empty() {
        true => all(),
        false => arguments.only,
    };
    let bench = Bench {
        harness,
        only: only.into_iter().collect(),
        small: arguments.small,
    };
    let device = bench.harness.device.to_string();
    println!("{device}");
    let (mut rows, mut succeeded) = (Vec::new(), true);
    let targets = arguments.targets;
    let is_wanted = |target: &str| targets.is_empty() || targets.iter().any(|one| one == target);
    for (target, measure) in MEASUREMENTS {
        if !is_wanted(target) {
            continue;
        }
        let measured = measure(&bench).unwrap_or_else(|error| {
            vec![Row::absent(
                target,
                "all libraries",
                format!("FAILED: {error:#}"),
            )]
        });
        succeeded &= !measured.iter().any(|row| row.note.starts_with("FAILED"));
        // At once: a library that brings the process down does not take earlier figures with it.
        print!("{}", Table(&measured));
        rows.extend(measured);
        if let Some(path) = &arguments.json {
            std::fs::write(path, json::write(&device, &rows))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(succeeded)
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
