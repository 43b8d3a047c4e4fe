//! `millstream-bench`: measures the library's overhead, with the same work in raw driver calls as
//! the baseline of each figure.

mod baseline;
mod chart;
mod chunk;
mod cudarc;
mod harness;
mod instructions;
mod json;
mod kernels;
mod pytorch;
mod raw;
mod report;
mod side_by_side;
mod simulated;
mod targets;
mod timing;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

use report::{Row, Table};
use targets::Measured;

/// Measures Millstream, with the same work in raw driver calls as the baseline of each figure.
#[derive(Parser)]
#[command(name = "millstream-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Measure only these targets: `T4`, `T6,T7`; or rows of regions beside other libraries:
    /// `R1,R2`, `regions` for all of them.
    #[arg(long, value_name = "TARGETS", value_delimiter = ',')]
    only: Vec<String>,
    /// Also write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw the figures beside the same work by hand.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Measure nothing; draw the figures that `--json` wrote to this file. Of several files, those
    /// of the benchmarks beside NVIDIA's crates too, a later one takes precedence.
    #[arg(long, value_name = "FILE", requires = "svg")]
    from: Vec<PathBuf>,
    /// Run fewer rounds.
    #[arg(long)]
    quick: bool,
    /// Write callgrind's files of T4 to this folder, for callgrind_annotate.
    #[arg(long, value_name = "FOLDER")]
    callgrind_out: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Run one case of T4; valgrind counts its instructions.
    #[command(hide = true)]
    Count {
        /// The name of the case.
        case: String,
    },
    /// Print how many nanoseconds the first use of a pair of GPUs takes; T13 compares the two ways.
    #[command(hide = true)]
    FirstUse {
        /// `ours` or `raw`.
        way: String,
    },
}

/// Runs the requested measurements. Returns whether all of them succeeded.
fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Some(Command::Count { case }) => return instructions::run_case(case).map(|()| true),
        Some(Command::FirstUse { way }) => return targets::first_use(way).map(|()| true),
        None => {}
    }
    if let (false, Some(svg)) = (arguments.from.is_empty(), &arguments.svg) {
        let mut rows = Vec::<Row>::new();
        for from in &arguments.from {
            let text = std::fs::read_to_string(from);
            let text = text.with_context(|| format!("cannot read {}", from.display()))?;
            let later = json::read_written(&text).with_context(|| from.display().to_string())?;
            let of_same = |a: &Row, b: &Row| (&a.what, &a.who) == (&b.what, &b.who);
            rows.retain(|row| !later.iter().any(|other| of_same(row, other)));
            rows.extend(later);
        }
        return write(svg, &chart::draw(&rows)).map(|()| true);
    }
    let rows = side_by_side::names();
    let is_row = |only: &String| only == "regions" || rows.contains(&only.as_str());
    if !arguments.only.is_empty() && arguments.only.iter().all(is_row) {
        let is_wanted = |row: &str| {
            arguments
                .only
                .iter()
                .any(|only| only == row || only == "regions")
        };
        return side_by_side::measure(arguments.quick, &is_wanted);
    }
    let targets = targets::names();
    if let Some(unknown) = arguments
        .only
        .iter()
        .find(|only| !targets.contains(&only.as_str()))
    {
        bail!(
            "there is no target {unknown}; the targets are {}; the rows of regions, which are \
             measured by themselves, are {}",
            targets.join(", "),
            rows.join(", ")
        );
    }
    let wanted = |target: &str| {
        arguments.only.is_empty() || arguments.only.iter().any(|only| only == target)
    };
    let Measured {
        device,
        mut rows,
        mut failed,
    } = targets::measure(arguments.quick, &wanted)?;
    if wanted("T4") {
        match instructions::measure(arguments.callgrind_out.as_deref()) {
            Ok(counted) => rows.extend(counted),
            Err(error) => {
                failed = true;
                rows.push(Row::absent(
                    "T4",
                    "instructions per launch",
                    format!("FAILED: {error:#}"),
                ));
            }
        }
    }
    rows.sort_by_key(Row::number);
    println!("{device}");
    print!("{}", Table(&rows));
    if let Some(path) = &arguments.json {
        write(path, &json::write(&device, &rows))?;
    }
    if let Some(path) = &arguments.svg {
        write(path, &chart::draw(&rows))?;
    }
    Ok(!failed)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
