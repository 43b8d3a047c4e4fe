//! `cargo xtask kernels`: compiles CUDA C++ to the PTX that is checked in beside it, without a GPU
//! or the CUDA toolkit.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process;

/// The start of the first line of a source that this task compiles; NVRTC options for that source
/// may follow. PTX of other sources is compiled elsewhere.
const MARKER: &str = "// nvrtc:";

/// The folders of the sources.
const FOLDERS: [&str; 7] = [
    "kernels",
    "crates/collective/src/kernels",
    "crates/runtime/src/guide",
    "crates/sim/benches/speed",
    "crates/sim/tests/ptx/compiled",
    "crates/sim/tests/races/within",
    "crates/region/kernels",
];

/// The default compiler options: the oldest architecture that Millstream supports, and C++03,
/// because with a newer C++ NVRTC 12.0 adds forty unused variables of `<nv/target>` to each module.
const OPTIONS: [&str; 2] = ["--gpu-architecture=compute_75", "--std=c++03"];

/// The arguments of `cargo xtask kernels`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if some PTX differs from the compiler's output.
    #[arg(long)]
    check: bool,
    /// The kernels to compile (`photo` for kernels/photo.cu); all by default.
    names: Vec<String>,
}

/// Compiles or checks the chosen sources.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut stale = Vec::new();
    for (source, own_options) in all_chosen(&options.names)? {
        let target = source.with_extension("ptx");
        let name = target
            .strip_prefix(process::root())
            .unwrap_or(&target)
            .display()
            .to_string();
        let ptx = compile(&source, &own_options)?;
        if !process::update(&target, &name, &ptx, options.check)? {
            stale.push(name);
        }
    }
    if !stale.is_empty() {
        bail!(
            "the PTX differs from the compiler's output; run `cargo xtask kernels`: {}",
            stale.join(", ")
        );
    }
    Ok(())
}

/// Lists the sources to compile in all folders. Each name must match one of them.
fn all_chosen(names: &[String]) -> Result<Vec<(PathBuf, Vec<String>)>> {
    let mut sources = Vec::new();
    for folder in FOLDERS {
        sources.extend(chosen(&process::root().join(folder), names)?);
    }
    if let Some(unknown) = names
        .iter()
        .find(|name| !sources.iter().any(|(path, _)| is_named(path, name)))
    {
        bail!(
            "no source {unknown}.cu that starts with `{MARKER}` is in {}",
            FOLDERS.join(" or ")
        );
    }
    Ok(sources)
}

/// Lists the sources to compile in `folder`, in order of their names, each with its own options.
fn chosen(folder: &Path, names: &[String]) -> Result<Vec<(PathBuf, Vec<String>)>> {
    let mut sources = Vec::new();
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cu") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            sources.extend(own_options(&text).map(|options| (path, options)));
        }
    }
    sources.sort();
    sources.retain(|(path, _)| names.is_empty() || names.iter().any(|name| is_named(path, name)));
    Ok(sources)
}

fn is_named(path: &Path, name: &str) -> bool {
    path.file_stem().is_some_and(|stem| stem == name)
}

/// Returns the options on a source's first line, or `None` if this task does not compile it.
fn own_options(source: &str) -> Option<Vec<String>> {
    let options = source.lines().next()?.strip_prefix(MARKER)?;
    Some(options.split_whitespace().map(str::to_owned).collect())
}

fn compile(source: &Path, own_options: &[String]) -> Result<String> {
    let wheels = process::target_folder().join("nvrtc");
    let mut python = process::command("python3");
    python
        .arg("xtask/nvrtc.py")
        .arg(wheels)
        .arg(source)
        .args(
            OPTIONS
                .iter()
                .filter(|option| !is_overridden(option, own_options)),
        )
        .args(own_options);
    process::output(&mut python)
}

/// Returns whether a source's own options override this one: `--std` may be given only once.
fn is_overridden(option: &str, own_options: &[String]) -> bool {
    let name = |option: &str| option.split('=').next().map(str::to_owned);
    own_options.iter().any(|own| name(own) == name(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_source_gives_its_options() {
        assert_eq!(own_options("// nvrtc:\ncode"), Some(vec![]));
        assert_eq!(
            own_options("// nvrtc: --fmad=false -G\n"),
            Some(vec!["--fmad=false".into(), "-G".into()])
        );
        assert_eq!(own_options("code\n// nvrtc:"), None);
        assert_eq!(own_options(""), None);
    }

    #[test]
    fn only_marked_sources_are_chosen() {
        let folder = process::root().join("kernels");
        let all = chosen(&folder, &[]).unwrap();
        let has = |name: &str| all.iter().any(|(path, _)| path.ends_with(name));
        assert!(has("photo.cu") && has("gate.cu") && !has("saxpy.cu"));
        assert_eq!(chosen(&folder, &["photo".into()]).unwrap().len(), 1);
        let error = all_chosen(&["saxpy".into()]).unwrap_err();
        assert!(error.to_string().contains("saxpy.cu"), "{error}");
        assert_eq!(all_chosen(&["services".into()]).unwrap().len(), 1);
    }
}
