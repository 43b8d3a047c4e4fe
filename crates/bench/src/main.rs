//! `millstream-bench`: measures what the library costs, each figure beside the same work written directly against the driver.

mod instructions;
mod null;
mod report;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

use report::Table;

/// Measures Millstream, and prints each figure beside that of the same work without it.
#[derive(Parser)]
#[command(name = "millstream-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Measure only these targets: `T4`, `T6,T7`.
    #[arg(long, value_name = "TARGETS", value_delimiter = ',')]
    only: Vec<String>,
    /// Leave callgrind's files of T4 in this folder, for callgrind_annotate.
    #[arg(long, value_name = "FOLDER")]
    callgrind_out: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Run one case of T4, for valgrind to count.
    #[command(hide = true)]
    Count {
        /// Its name.
        case: String,
    },
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some(Command::Count { case }) = &arguments.command {
        return instructions::run_case(case);
    }
    let wanted = |target: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == target);
    let mut rows = Vec::new();
    if wanted("T4") {
        rows.extend(instructions::measure(arguments.callgrind_out.as_deref())?);
    }
    print!("{}", Table(&rows));
    Ok(())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
