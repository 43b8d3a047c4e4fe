//! The `millstream` command: lists devices and the kernels of PTX files, compiles CUDA C++, and
//! runs programs on the simulated device.

mod annotations;
mod check;
mod compile;
mod devices;
mod doctor;
mod ending;
mod executable;
mod nvcc_search;
mod program;
mod ptx;
mod reports;
mod run;
mod runtime_library;
mod sarif;
mod settings;
#[cfg_attr(not(unix), path = "no_signals.rs")]
mod signals;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use millstream_driver::printable;

const RUN_EXAMPLES: &str = "Examples:
  millstream run -- ./program 1000
  millstream run --require-device --sarif problems.sarif -- python -m pytest
  millstream run --schedule lazy --annotate -- cargo test
  MILLSTREAM_DEVICE=sim:jit=off millstream run -- ./program   # interprets all kernels";

const CHECK_EXAMPLES: &str = "Examples:
  millstream check --runs 50 -- ./program 1000
  millstream check --require-device --sarif problems.sarif -- python -m pytest";

/// Lists the devices and PTX kernels that Millstream can use, and runs CUDA programs without a GPU.
#[derive(Parser)]
#[command(name = "millstream", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the devices, and the default device of programs that choose none.
    ///
    /// The environment variable MILLSTREAM_DEVICE sets the default device: `cuda:0`, `sim`, or
    /// `sim:` with settings. The exit status is 1 if there is no such device.
    Devices,
    /// Says which driver, libraries and compilers of CUDA are found where, and what to do if their
    /// versions do not fit.
    ///
    /// ✓ is found, – is absent, which is no mistake, and ✗ is something to be done. The exit status
    /// is 1 if there is a ✗. Bug reports should have this output.
    #[command(after_help = "Examples:\n  millstream doctor\n  millstream doctor --json | jq .fits")]
    Doctor {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Lists the kernels of PTX files, or the reason why the simulated device cannot run them.
    ///
    /// The exit status is 1 if the simulated device cannot run one of the files.
    Ptx {
        /// The PTX files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Compiles CUDA C++ files to the PTX that `kernels!` takes, with NVRTC.
    ///
    /// The first line of each PTX file holds the hash of its source, which `kernels!` compares when
    /// a program is compiled. NVRTC is found in Python's wheels, in CUDA_HOME, or at
    /// MILLSTREAM_NVRTC; it needs no GPU.
    Compile(compile::Arguments),
    /// Runs a program of CUDA's driver API on the simulated device, and reports its races.
    ///
    /// The exit status is the program's, or that of --exit-code if the program succeeds but the
    /// simulated device found problems.
    #[command(after_help = RUN_EXAMPLES)]
    Run(run::Arguments),
    /// Runs a program under many schedules until one shows a problem, and prints the command that
    /// repeats that run.
    ///
    /// The exit status is 0 if every run succeeds without problems, else that of the run.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(check::Arguments),
    /// Opens the driver, to see whether it takes its options.
    #[command(name = program::PROBE, hide = true)]
    Probe,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let _ = write!(io::stderr(), "{}", printable(&error.to_string()));
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    match arguments.command {
        Command::Devices => devices::print(),
        Command::Doctor { json } => doctor::run(json),
        Command::Ptx { files } => print_reports(files.iter().map(|file| ptx::report_file(file))),
        Command::Compile(arguments) => print_reports([compile::run(&arguments)]),
        Command::Run(arguments) => code_of(run::run(&arguments)),
        Command::Check(arguments) => code_of(check::run(&arguments)),
        Command::Probe => program::open_driver(),
    }
}

/// Prints a text to the standard output. An output that is closed or full is ignored.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().write_all(printable(text).as_bytes());
}

/// Writes a line to standard error, as above.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "millstream: {}", printable(text));
}

/// Prints reports, and problems to standard error. A name in them may have control characters.
fn print_reports(reports: impl IntoIterator<Item = Result<String, String>>) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for report in reports {
        match report {
            Ok(report) => print(&report),
            Err(problem) => {
                let _ = writeln!(io::stderr(), "{}", printable(&problem));
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}

/// Returns the exit status of a task, after printing the problem that ended it.
fn code_of(result: Result<ExitCode, String>) -> ExitCode {
    result.unwrap_or_else(|problem| {
        say(&problem);
        ExitCode::FAILURE
    })
}
