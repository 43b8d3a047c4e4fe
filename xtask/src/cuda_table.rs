//! `cargo xtask cuda-table`: generates the tables of CUDA's driver functions and device attributes
//! from the headers that NVIDIA publishes. The headers' licence forbids to check them in.

mod attributes;
mod functions;
mod headers;

use anyhow::{Result, bail};

use crate::process;
use headers::Headers;

/// The package of the headers, and its version: that of the newest driver that the drop-in library
/// can stand for.
const PACKAGE: (&str, &str) = ("nvidia-cuda-runtime", "13.5.37");

/// The arguments of `cargo xtask cuda-table`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if a checked-in table differs from the headers.
    #[arg(long)]
    check: bool,
}

/// Returns the newest version of the package in the registry, if it can be asked.
fn newest() -> Option<String> {
    let mut pip = process::command("python3");
    pip.args(["-m", "pip", "index", "versions", PACKAGE.0]);
    let output = pip.output().ok().filter(|output| output.status.success())?;
    version_in(&String::from_utf8_lossy(&output.stdout), PACKAGE.0).map(str::to_owned)
}

/// Returns the version in pip's line `package (version)`.
fn version_in<'a>(answer: &'a str, package: &str) -> Option<&'a str> {
    let line = answer.lines().find_map(|line| line.strip_prefix(package))?;
    line.trim().strip_prefix('(')?.strip_suffix(')')
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let (name, version) = PACKAGE;
    let headers = Headers::install(&format!("{name}=={version}"))?;
    match newest() {
        Some(newest) if newest != version => {
            println!("newer headers exist: {name} {newest}, the tables are of {version}");
        }
        Some(_) => println!("{name} {version} is the newest"),
        None => println!("the registry does not answer: whether newer headers exist is unknown"),
    }
    let tables = [
        (
            "crates/libcuda/src/versions/table.txt",
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
        if !process::update(&target, path, &text, options.check)? {
            stale.push(path);
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

#[cfg(test)]
mod tests {
    #[test]
    fn the_newest_version_is_read_from_the_answer_of_pip() {
        let answer = "a-package (13.5.37)\nAvailable versions: 13.5.37, 13.4.92\n";
        assert_eq!(super::version_in(answer, "a-package"), Some("13.5.37"));
        assert_eq!(super::version_in("ERROR: none", "a-package"), None);
    }
}
