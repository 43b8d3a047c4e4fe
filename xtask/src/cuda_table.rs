//! `cargo xtask cuda-table`: generates the tables of CUDA's driver functions and device attributes
//! from the headers that NVIDIA publishes. The headers' licence forbids to check them in.

mod attributes;
mod functions;
mod headers;

use anyhow::{Context, Result, bail};

use crate::process;
use headers::Headers;

/// The package of the headers. Its version is that of the newest driver that the drop-in library
/// can stand for.
const PACKAGE: &str = "nvidia-cuda-runtime==13.0.96";

/// The arguments of `cargo xtask cuda-table`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if a checked-in table differs from the headers.
    #[arg(long)]
    check: bool,
}

/// Writes or checks the tables.
pub(crate) fn run(options: &Options) -> Result<()> {
    let headers = Headers::install(PACKAGE)?;
    let tables = [
        (
            "crates/libcuda/src/versions/table.rs",
            functions::table(&headers)?,
        ),
        (
            "crates/libcuda/src/kinds/numbers.rs",
            attributes::table(&headers)?,
        ),
    ];
    let mut stale = Vec::new();
    for (path, text) in tables {
        let target = process::root().join(path);
        let same = std::fs::read_to_string(&target).is_ok_and(|found| found == text);
        match (same, options.check) {
            (true, _) => println!("{path} is up to date"),
            (false, true) => stale.push(path),
            (false, false) => {
                std::fs::write(&target, text).with_context(|| format!("cannot write {path}"))?;
                println!("{path} written");
            }
        }
    }
    if !stale.is_empty() {
        bail!(
            "tables differ from the headers; run `cargo xtask cuda-table`: {}",
            stale.join(", ")
        );
    }
    Ok(())
}
