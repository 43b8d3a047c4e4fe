//! `cargo xtask`: the chores of this repository, as one small program that needs nothing but Rust,
//! gcc and Python.

mod bench;
mod breakages;
mod ci;
mod gpu;
mod kernels;
mod miri;
mod msrv;
mod package;
mod process;
mod programs;
mod shuttle;
mod targets;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", version, about)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run everything that must hold before a change is merged, stopping at the first failure.
    Ci,
    /// Measure what the library costs, beside the same work without it; `cargo xtask bench --help`
    /// says more.
    Bench(bench::Options),
    /// Break the code on purpose, one patch after another, and see the tests fail.
    Breakages(breakages::Options),
    /// Check the rules of this repository that no compiler knows.
    Tidy,
    /// Compile kernels/*.cu whose first line starts with `// nvrtc:` to the PTX beside them.
    Kernels(kernels::Options),
    /// Run in Miri those tests that it can run; needs a nightly toolchain with Miri.
    Miri,
    /// Check that the workspace compiles with the oldest Rust that it supports.
    Msrv,
    /// Package the published crates, build them from their packages, and run README's first program
    /// with them.
    Package,
    /// Run the tests in which every step of every thread is chosen by shuttle.
    Shuttle,
    /// Check that the crates compile for Windows, macOS and Linux on aarch64.
    Targets,
    /// Run random programs for as long as you like.
    Programs(programs::Options),
    /// Gather what is worth running on a GPU in gpu-bundle/, a folder that needs nothing but a
    /// driver.
    Gpu(gpu::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Ci => ci::run(),
        Chore::Bench(options) => bench::run(&options),
        Chore::Breakages(options) => breakages::run(&options),
        Chore::Tidy => tidy::run(),
        Chore::Kernels(options) => kernels::run(&options),
        Chore::Miri => miri::run(),
        Chore::Msrv => msrv::run(),
        Chore::Package => package::run(),
        Chore::Shuttle => shuttle::run(),
        Chore::Targets => targets::run(),
        Chore::Programs(options) => programs::run(&options),
        Chore::Gpu(options) => gpu::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Without a stack trace, whatever RUST_BACKTRACE says: these errors are about the tree, not
        // about this program.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
