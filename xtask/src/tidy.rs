//! `cargo xtask tidy`: rules of this repository that the compiler does not check, applied to every
//! file.

mod allow_list;
mod cycles;
mod layers;
mod modules;
mod prose;
mod rules;
mod scenarios;
mod sources;

use anyhow::{Result, bail};

use crate::{package, process};
use allow_list::AllowList;
use layers::Layers;

/// The file that lists the layers of each crate.
const LAYERS: &str = "xtask/layers.txt";

/// The file that lists the crates without import cycles.
const CYCLES: &str = "xtask/cycles.txt";

/// Checks all rules. Prints each violation on its own line, and fails if there are any.
pub(crate) fn run() -> Result<()> {
    package::check_copies()?;
    let sources = sources::read_all(&process::root())?;
    let mut problems = rules::check(
        &sources,
        &list("xtask/unsafe-files.txt")?,
        &list("xtask/long-files.txt")?,
    );
    problems.extend(prose::check(
        &sources,
        &list("xtask/ruled-out-phrases.txt")?,
        &list("xtask/wide-lines.txt")?,
    ));
    for layers in Layers::parse(LAYERS, &process::read(LAYERS)?)? {
        problems.extend(layers.violations(&sources));
    }
    let crates = process::read(CYCLES)?;
    for folder in crates.lines().filter(|line| !line.starts_with('#')) {
        problems.extend(cycles::violations(folder, &sources));
    }
    problems.extend(scenarios::breaches(
        &sources,
        &process::read(scenarios::LIST)?,
    ));
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!(
            "{} found by tidy",
            if problems.len() == 1 {
                "1 violation".into()
            } else {
                format!("{} violations", problems.len())
            }
        );
    }
    println!("{} files are tidy", sources.len());
    Ok(())
}

/// Reads the list of exceptions at `path`.
fn list(path: &'static str) -> Result<AllowList> {
    AllowList::parse(path, &process::read(path)?)
}
