//! The repository's folders, and running other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

/// True if no build is repeated: see [`build_once`].
static BUILDS_ONCE: AtomicBool = AtomicBool::new(false);

/// The settings of cargo for a build that is not repeated: neither the state for the next one nor
/// line tables.
const BUILT_ONCE: [(&str, &str); 2] =
    [("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")];

/// Makes all later [commands](command) build for one use, which is faster.
pub(crate) fn build_once() {
    BUILDS_ONCE.store(true, Ordering::Relaxed);
}

/// Returns the root of the repository. The environment variable that cargo sets when it runs this
/// program precedes the path at build time, because two checkouts that share a target folder share
/// this program too.
pub(crate) fn root() -> PathBuf {
    let built_in = || env!("CARGO_MANIFEST_DIR").into();
    let mut folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(built_in));
    folder.pop();
    folder
}

pub(crate) fn target_folder() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Reads the file at `path` below the root.
pub(crate) fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// Creates the command `program`, to be run in the root.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    if BUILDS_ONCE.load(Ordering::Relaxed) {
        command.envs(BUILT_ONCE);
    }
    command
}

/// Creates a command of cargo with these words, to be run in the root.
pub(crate) fn cargo(words: &str) -> Command {
    let mut cargo = command("cargo");
    cargo.args(words.split_whitespace());
    cargo
}

/// Installs the command `cargo NAME`, of the package `cargo-NAME`, if it is missing.
pub(crate) fn install_command(name: &str) -> Result<()> {
    if succeeds(&mut cargo(&format!("{name} --version"))) {
        return Ok(());
    }
    // What runs once is not worth optimising.
    run(&mut cargo(&format!(
        "install cargo-{name} --locked --debug"
    )))
}

/// Installs packages of Python into a folder, without those that they depend on.
pub(crate) fn pip(folder: &Path, packages: &[&str]) -> Result<()> {
    let mut pip = command("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
    run(pip.arg(folder).args(packages))
}

/// Writes a file, with the folder that it lies in.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().expect("a file lies in a folder");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, contents))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a generated file unless it is up to date, or returns false if it is only to be checked.
pub(crate) fn update(path: &Path, name: &str, text: &str, only_checks: bool) -> Result<bool> {
    if std::fs::read_to_string(path).is_ok_and(|found| found == text) {
        println!("{name} is up to date");
    } else if only_checks {
        return Ok(false);
    } else {
        std::fs::write(path, text).with_context(|| format!("cannot write {name}"))?;
        println!("{name} written");
    }
    Ok(true)
}

pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// Runs `command` without input and output, and returns whether it succeeds.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = silent.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs `command` with inherited input and output. If it does not succeed, the error names the
/// command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// Runs `command` and returns its standard output. Its standard error is inherited.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !output.status.success() {
        bail!("{} failed ({})", line(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed text that is not UTF-8", line(command)))
}

/// Formats `command` as a shell would show it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
