//! `cargo xtask tidy`: the rules of this repository that no compiler knows, checked over every file
//! of the tree.

mod allow_list;
mod layers;
mod rules;
mod scenarios;
mod sources;

use anyhow::{Context, Result, bail};

use crate::process;
use allow_list::AllowList;
use layers::Layers;

/// The layers of each crate.
const LAYERS: &str = "xtask/layers.txt";

/// Checks all rules; prints each breach on a line of its own, and fails if there is any.
pub(crate) fn run() -> Result<()> {
    let sources = sources::read_all(&process::root())?;
    let mut problems = rules::check(
        &sources,
        &list("xtask/unsafe-files.txt")?,
        &list("xtask/long-files.txt")?,
    );
    for layers in Layers::parse(LAYERS, &read(LAYERS)?)? {
        problems.extend(layers.breaches(&sources));
    }
    problems.extend(scenarios::breaches(&sources, &read(scenarios::LIST)?));
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!(
            "{} found by tidy",
            if problems.len() == 1 {
                "1 breach".into()
            } else {
                format!("{} breaches", problems.len())
            }
        );
    }
    println!("{} files are tidy", sources.len());
    Ok(())
}

/// Reads the list of exceptions at `path`.
fn list(path: &'static str) -> Result<AllowList> {
    AllowList::parse(path, &read(path)?)
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(process::root().join(path))
        .with_context(|| format!("cannot read {path}"))
}
