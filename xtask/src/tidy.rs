//! `cargo xtask tidy`: rules of this repository that the compiler does not check, applied to every
//! file.

mod allow_list;
mod cycles;
mod layers;
mod modules;
mod picture;
mod prose;
mod rules;
mod scenarios;
mod sizes;
mod sources;

use anyhow::{Context, Result, bail};

use crate::{package, process};
use allow_list::AllowList;
use layers::Layers;
use sizes::RustLines;

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
    problems.extend(prose::check(&sources, &list("xtask/wide-lines.txt")?));
    let layers = Layers::parse(LAYERS, &process::read(LAYERS)?)?;
    for layers in &layers {
        problems.extend(layers.violations(&sources));
    }
    if picture::draw(&layers)? != process::read(picture::PATH)? {
        problems.push(format!(
            "{}: differs from {LAYERS}: run `cargo xtask layers`",
            picture::PATH
        ));
    }
    problems.extend(sizes::violations(&sources));
    let lines = RustLines::of(&sources);
    problems.extend(lines.above(&process::read(sizes::CEILING)?)?);
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
    println!("{} files are tidy, {lines}", sources.len());
    Ok(())
}

pub(crate) fn draw_layers() -> Result<()> {
    let layers = Layers::parse(LAYERS, &process::read(LAYERS)?)?;
    let path = process::root().join(picture::PATH);
    std::fs::write(path, picture::draw(&layers)?).context("cannot write the picture")
}

fn list(path: &'static str) -> Result<AllowList> {
    AllowList::parse(path, &process::read(path)?)
}
