//! Where the repository is, and how the chores run other programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the repository. Cargo says where it is when it runs this program, and that is
/// believed before what was true when the program was built: two checkouts that share an output
/// folder share the program, too.
pub(crate) fn root() -> PathBuf {
    let built_in = || env!("CARGO_MANIFEST_DIR").into();
    let mut folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(built_in));
    folder.pop();
    folder
}

/// Cargo's output folder.
pub(crate) fn target_folder() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The command `program`, to be run in the root.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Runs `command` with this program's own input and output; anything but success is an error that
/// names the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// Runs `command` and returns what it printed; its errors go to this program's.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !output.status.success() {
        bail!("{} failed ({})", line(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed something else than UTF-8", line(command)))
}

/// `command` as one would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
