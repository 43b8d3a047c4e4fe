//! `cargo xtask suites FOLDER`: builds and runs other people's programs from a folder of checkouts
//! (HeCBench, gpu-rodinia, cuda-samples, ggml) with `millstream-nvcc` and `millstream run`, and
//! compares the outcomes with the lists in `xtask/suites`, whose scripts do the work.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process;

/// The arguments of `cargo xtask suites`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder of the checkouts; then suites, or programs as SUITE:PROGRAM; --seed N, --some N,
    /// --jobs N, --record.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds the commands, and runs the programs with a toolkit whose nvcc is ours.
pub(crate) fn run(options: &Options) -> Result<()> {
    process::run(&mut process::cargo("build --quiet -p millstream-cli"))?;
    let tools = process::target_folder().join("debug");
    let toolkit = tools.join("toolkit");
    process::remove_folder(&toolkit)?;
    let nvcc = std::env::var_os("MILLSTREAM_NVCC").map(PathBuf::from);
    let nvcc = nvcc
        .context("MILLSTREAM_NVCC must name nvcc")?
        .canonicalize()?;
    let real = nvcc.ancestors().nth(2).context("nvcc lies in a toolkit")?;
    std::fs::create_dir_all(toolkit.join("bin"))?;
    let own = [(tools.join("millstream-nvcc"), "bin/nvcc")];
    let theirs = ["include", "lib64", "nvvm"].map(|name| (real.join(name), name));
    #[cfg(unix)]
    for (file, name) in own.into_iter().chain(theirs) {
        std::os::unix::fs::symlink(file, toolkit.join(name))?;
    }
    let mut script = process::command("python3");
    script.arg("xtask/suites/suites.py").arg(tools);
    process::run(script.args(&options.arguments))
}
