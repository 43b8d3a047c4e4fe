//! The `millstream` command: which devices there are, and what the simulated device makes of PTX
//! files.

mod devices;
mod ptx;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

/// Looks at devices and PTX files as Millstream sees them.
#[derive(Parser)]
#[command(name = "millstream", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the devices, and which one a program gets that leaves the choice to Millstream.
    ///
    /// The environment variable MILLSTREAM_DEVICE decides for such programs: `cuda:0`, `sim`, or
    /// `sim:` with settings.
    Devices,
    /// Lists the kernels of PTX files, or says why the simulated device cannot run them.
    ///
    /// The exit status is 1 if there is such a file.
    Ptx {
        /// PTX files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Devices => {
            print!("{}", devices::report());
            ExitCode::SUCCESS
        }
        Command::Ptx { files } => {
            let mut status = ExitCode::SUCCESS;
            for file in &files {
                match ptx::report_file(file) {
                    Ok(report) => print!("{report}"),
                    Err(error) => {
                        eprintln!("{error}");
                        status = ExitCode::FAILURE;
                    }
                }
            }
            status
        }
    }
}
