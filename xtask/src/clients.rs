//! `cargo xtask clients`: runs the tests of other people's projects on the drop-in driver, and
//! compares the outcomes with checked-in lists.
//!
//! Each project comes from its package registry, in a fixed version, and is installed below cargo's
//! target folder; none of its code is checked in. `xtask/clients/*.txt` list the tests that do not
//! pass, each with the party that the reason concerns and the reason. A test that does not pass and
//! is not listed is an error, and so is a listed test that passes.

mod crates;
pub(crate) mod install;
mod list;
mod outcome;
mod programs;
mod python;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::process;
use list::List;
use outcome::Outcomes;

/// The packages of the Python projects, with their versions.
const REQUIREMENTS: &str = "xtask/clients/requirements.txt";

/// The arguments of `cargo xtask clients`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only these projects.
    #[arg(long, value_enum)]
    only: Vec<Client>,
    /// Run only test modules whose name contains this text; the list is then not compared with
    /// tests of other modules.
    #[arg(long, default_value = "")]
    filter: String,
    /// The number of processes.
    #[arg(long)]
    jobs: Option<usize>,
    /// Use this library; otherwise it is built.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

/// A project whose tests run on the drop-in driver.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Client {
    /// The unit tests of cudarc.
    Cudarc,
    /// The tests of RustaCUDA.
    Rustacuda,
    /// The tests of unmtx-gpu, whose kernels NVRTC compiles.
    UnmtxGpu,
    /// The tests of NVIDIA's cuda-async.
    CudaAsync,
    /// The tests of numba-cuda's driver interface and of its compiler.
    Numba,
    /// Programs over NVIDIA's cuda.core.
    Core,
    /// Kernels compiled by Triton, with a stand-in for `ptxas`.
    Triton,
}

/// What the runs of all projects have in common.
struct Setup {
    /// The folder in which the projects are installed.
    folder: PathBuf,
    /// The folder in which the loader finds the library under the driver's names.
    driver: PathBuf,
    filter: String,
    jobs: usize,
}

/// Installs the projects and runs their tests.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = process::target_folder().join("clients");
    let jobs = options
        .jobs
        .or_else(|| Some(std::thread::available_parallelism().ok()?.get()));
    let setup = Setup {
        driver: install::driver(&folder, options.library.as_deref())?,
        folder,
        filter: options.filter.clone(),
        jobs: jobs.unwrap_or(1),
    };
    let mut wrong = Vec::new();
    for client in Client::value_variants() {
        if !options.only.is_empty() && !options.only.contains(client) {
            continue;
        }
        let outcomes = match client {
            Client::Cudarc => crates::run(&setup, crates::CUDARC)?,
            Client::Rustacuda => crates::run(&setup, crates::RUSTACUDA)?,
            Client::UnmtxGpu => crates::run(&setup, crates::UNMTX_GPU)?,
            Client::CudaAsync => crates::run(&setup, crates::CUDA_ASYNC)?,
            Client::Numba => python::run(&setup)?,
            Client::Core => programs::core(&setup)?,
            Client::Triton => programs::triton(&setup)?,
        };
        let named = client.to_possible_value().context("no project is hidden")?;
        if !compare(named.get_name(), &setup, &outcomes)? {
            wrong.push(named.get_name().to_owned());
        }
    }
    if !wrong.is_empty() {
        bail!("the outcomes differ from the lists: {}", wrong.join(", "));
    }
    Ok(())
}

/// Prints how the outcomes differ from the project's list, and returns whether they agree.
fn compare(name: &str, setup: &Setup, outcomes: &Outcomes) -> Result<bool> {
    let path = format!("xtask/clients/{name}.txt");
    let list =
        List::parse(&process::read(&path)?).with_context(|| format!("cannot read {path}"))?;
    let differences = list.compare(outcomes, &setup.filter);
    for difference in &differences {
        println!("{name}: {difference}");
    }
    println!("{name}: {}, {}", outcomes.summary(), list.summary());
    Ok(differences.is_empty())
}
