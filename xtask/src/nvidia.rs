//! `cargo xtask nvidia`: builds the benchmarks beside NVIDIA's cuda-core and cuda-async, and runs
//! them: without arguments on the drop-in driver, to see that all of them work, and with arguments
//! on the machine's GPU.
//!
//! `crates/bench/nvidia` is a workspace of its own, because NVIDIA's crates generate their bindings
//! from CUDA's headers with libclang. Both come from Python's package registry.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{clients::install, process, runs::PassedOn};

const MANIFEST: &str = "crates/bench/nvidia/Cargo.toml";
pub(crate) const NAME: &str = "millstream-bench-nvidia";
/// The headers, of the CUDA version that the oldest supported driver of NVIDIA's crates has, and
/// libclang.
const WHEELS: [&str; 5] = [
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-curand==10.4.0.35",
    "libclang==18.1.1",
];

pub(crate) fn run(options: &PassedOn) -> Result<()> {
    let mut build = process::cargo("build --release --manifest-path");
    build
        .arg(MANIFEST)
        .env("CARGO_TARGET_DIR", process::target_folder());
    set_toolkit(&mut build)?;
    process::run(&mut build)?;
    let mut program = process::command(&executable().to_string_lossy());
    if options.arguments.is_empty() {
        let driver = install::driver(&folder(), None)?;
        program.arg("--small");
        program.env("LD_LIBRARY_PATH", driver);
    }
    process::run(program.args(&options.arguments))
}

fn folder() -> PathBuf {
    process::target_folder().join("nvidia")
}

/// Installs the headers and libclang, and names their folders to the build of NVIDIA's crates.
pub(crate) fn set_toolkit(build: &mut Command) -> Result<()> {
    let toolkit = folder().join("nvidia/cu13");
    let libclang = folder().join("clang/native");
    if !toolkit.join("include/curand.h").is_file() || !libclang.is_dir() {
        process::pip(&folder(), &WHEELS)?;
    }
    // The package has libclang without the compiler's own headers.
    let headers = process::output(process::command("gcc").arg("-print-file-name=include"))?;
    build
        .env("CUDA_TOOLKIT_PATH", toolkit)
        .env("LIBCLANG_PATH", libclang)
        .env("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{}", headers.trim()));
    Ok(())
}

/// Returns the path of the program, which need not exist.
pub(crate) fn executable() -> PathBuf {
    process::target_folder().join("release").join(NAME)
}
