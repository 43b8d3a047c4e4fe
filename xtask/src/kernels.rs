//! `cargo xtask kernels`: compiles CUDA C++ to the PTX that is checked in beside it, without a GPU
//! or the CUDA toolkit.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process;

/// What the first line of a source starts with that this chore compiles; NVRTC options for that
/// file alone may follow. Sources without it come from elsewhere, and so does their PTX.
const MARKER: &str = "// nvrtc:";

/// Where the sources are.
const FOLDERS: [&str; 3] = [
    "kernels",
    "crates/sim/tests/ptx/compiled",
    "crates/region/kernels",
];

/// What every source is compiled with, unless it asks for another C++: the oldest architecture that
/// Millstream supports, and an older C++, since with a newer one NVRTC 12.0 puts forty unused
/// variables of `<nv/target>` into each module.
const OPTIONS: [&str; 2] = ["--gpu-architecture=compute_75", "--std=c++03"];

/// What `cargo xtask kernels` is told.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if some PTX is not what its source gives.
    #[arg(long)]
    check: bool,
    /// The kernels to compile (`photo` for kernels/photo.cu); all by default.
    names: Vec<String>,
}

/// Compiles, or checks, the chosen sources.
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
        let same = std::fs::read_to_string(&target).is_ok_and(|found| found == ptx);
        match (same, options.check) {
            (true, _) => println!("{name} is what its source gives"),
            (false, true) => stale.push(name),
            (false, false) => {
                std::fs::write(&target, ptx).with_context(|| format!("cannot write {name}"))?;
                println!("{name} written");
            }
        }
    }
    if !stale.is_empty() {
        bail!(
            "not what the source gives, `cargo xtask kernels` writes it anew: {}",
            stale.join(", ")
        );
    }
    Ok(())
}

/// The sources to compile in all folders; each name must be one of theirs.
fn all_chosen(names: &[String]) -> Result<Vec<(PathBuf, Vec<String>)>> {
    let mut sources = Vec::new();
    for folder in FOLDERS {
        sources.extend(chosen(&process::root().join(folder), names)?);
    }
    let is_named =
        |path: &Path, name: &String| path.file_stem().is_some_and(|stem| stem == name.as_str());
    if let Some(unknown) = names
        .iter()
        .find(|name| !sources.iter().any(|(path, _)| is_named(path, name)))
    {
        bail!(
            "{unknown}.cu is not in {}, or does not start with `{MARKER}`",
            FOLDERS.join(" or ")
        );
    }
    Ok(sources)
}

/// The sources to compile in `folder`, in order of their names, each with its own options.
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
    let is_named =
        |path: &Path, name: &String| path.file_stem().is_some_and(|stem| stem == name.as_str());
    sources.retain(|(path, _)| names.is_empty() || names.iter().any(|name| is_named(path, name)));
    Ok(sources)
}

/// The options that a source asks for on its first line, or nothing if it is not for this chore.
fn own_options(source: &str) -> Option<Vec<String>> {
    let options = source.lines().next()?.strip_prefix(MARKER)?;
    Some(options.split_whitespace().map(str::to_owned).collect())
}

/// The PTX of one source.
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
                .filter(|option| !replaced(option, own_options)),
        )
        .args(own_options);
    process::output(&mut python)
}

/// Whether a source's own options say otherwise: `--std` can be given only once.
fn replaced(option: &str, own_options: &[String]) -> bool {
    let name = |option: &str| option.split('=').next().map(str::to_owned);
    own_options.iter().any(|own| name(own) == name(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_chooses_a_source_and_its_options() {
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
        let refused = all_chosen(&["saxpy".into()]).unwrap_err();
        assert!(refused.to_string().contains("saxpy.cu"), "{refused}");
        assert_eq!(all_chosen(&["services".into()]).unwrap().len(), 1);
    }
}
