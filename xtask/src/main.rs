//! `cargo xtask`: the development tasks of this repository, in one program that needs only Rust,
//! gcc and Python.

mod breakages;
mod ci;
mod clients;
mod cuda_table;
mod driver_page;
mod gpu;
mod install_paths;
mod kernels;
mod mutants;
mod nvidia;
mod package;
mod pages;
mod process;
mod python;
mod release;
mod repeat;
mod runs;
mod targets;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The development tasks of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", version, about)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all checks that a change must pass before it is merged, stopping at the first failure.
    Ci,
    /// Measure the library's overhead against raw driver calls; `cargo xtask bench --help` lists
    /// the options.
    Bench(runs::PassedOn),
    /// Apply patches with deliberate faults, one after another, and check that the tests fail.
    Breakages(breakages::Options),
    /// Try changes of the code with cargo-mutants, and list those that no test notices.
    Mutants(mutants::Options),
    /// Check rules of this repository that the compiler does not check.
    Tidy,
    /// Draw the crates and their layers from `xtask/layers.txt`, as docs/layers.svg.
    Layers,
    /// Compile the kernels whose first line starts with `// nvrtc:` to the PTX beside them.
    Kernels(kernels::Options),
    /// Generate the tables of CUDA's driver functions and device attributes from its headers.
    CudaTable(cuda_table::Options),
    /// Write the page that lists the functions of the driver API.
    DriverPage,
    /// Run the tests of other people's projects on the drop-in driver.
    Clients(clients::Options),
    /// Run the tests that Miri supports in Miri; needs a nightly toolchain with Miri.
    Miri,
    /// Check that the workspace compiles with the oldest Rust that it supports.
    Msrv,
    /// Run the scenarios of several devices with 4 and 8 simulated devices.
    Devices,
    /// Package the published crates, build them from their packages, and run README's first program
    /// with them.
    Package,
    /// Build what users download: the packages, and the command `millstream` as wheels and
    /// archives.
    Release,
    /// Build and run other people's CUDA programs from a folder of checkouts.
    Suites(runs::PassedOn),
    /// Install the command in each way that the pages in docs/without-a-gpu have, in empty folders,
    /// and run their commands.
    InstallPaths(install_paths::Options),
    /// List changes of the public interface since a revision that versions do not allow.
    Semver(runs::SemverOptions),
    /// Run the tests in which shuttle schedules every step of every thread.
    Shuttle,
    /// Check that the crates compile for Windows, macOS and Linux on aarch64.
    Targets,
    /// Build the package for Python and run its tests.
    Python,
    /// Test and run the example with layers of candle.
    Candle,
    /// Build and run the benchmarks beside NVIDIA's cuda-core and cuda-async.
    Nvidia(runs::PassedOn),
    /// Run random programs for a given time.
    Programs(runs::ProgramsOptions),
    /// Run the tests many times, under load and on one core too, and print how often each failed.
    Repeat(repeat::Options),
    /// Run the whole of the suites of which each day's tests run a share, and the long tests.
    Whole,
    /// Bundle the programs that use a GPU in gpu-bundle/, a folder that needs only a driver.
    Gpu(gpu::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Ci => ci::run(),
        Task::Bench(options) => runs::bench(&options),
        Task::Breakages(options) => breakages::run(&options),
        Task::Mutants(options) => mutants::run(&options),
        Task::Tidy => tidy::run(),
        Task::Layers => tidy::draw_layers(),
        Task::Kernels(options) => kernels::run(&options),
        Task::CudaTable(options) => cuda_table::run(&options),
        Task::DriverPage => driver_page::run(),
        Task::Clients(options) => clients::run(&options),
        Task::Miri => runs::miri(),
        Task::Msrv => targets::msrv(),
        Task::Devices => runs::devices(),
        Task::Package => package::run(),
        Task::Release => release::run(),
        Task::Suites(options) => runs::suites(options.arguments),
        Task::InstallPaths(options) => install_paths::run(&options),
        Task::Semver(options) => runs::semver(&options),
        Task::Shuttle => runs::shuttle(),
        Task::Targets => targets::run(),
        Task::Python => python::run(),
        Task::Candle => runs::candle(),
        Task::Nvidia(options) => nvidia::run(&options),
        Task::Programs(options) => runs::programs(&options),
        Task::Repeat(options) => repeat::run(&options),
        Task::Whole => runs::whole(),
        Task::Gpu(options) => gpu::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Errors are printed without a backtrace, even with RUST_BACKTRACE, because they concern
        // the repository and not this program.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
