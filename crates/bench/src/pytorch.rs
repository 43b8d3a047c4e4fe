//! PyTorch's figures, measured by a Python program if PyTorch is installed.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{json, report::Row};

/// The Python program, passed on standard input so that a measuring machine needs no file.
const PROGRAM: &str = include_str!("../python/torch_rows.py");
/// The targets that the program measures.
const TARGETS: [&str; 6] = ["T3", "T6", "T7", "T8", "T9", "T15"];
/// The program's exit status if PyTorch or a GPU for it is missing.
const NO_PYTORCH: i32 = 3;

/// Returns PyTorch's rows of the wanted targets, with the raw figures of the rows in `ours` that
/// measure the same. Without PyTorch there are none.
pub(crate) fn measure(
    quick: bool,
    wanted: &dyn Fn(&str) -> bool,
    ours: &[Row],
) -> Result<Vec<Row>> {
    let targets: Vec<_> = TARGETS
        .into_iter()
        .filter(|target| wanted(target))
        .collect();
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let python = Command::new("python3")
        .arg("-")
        .args(targets)
        .args(quick.then_some("--quick"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        eprintln!("PyTorch is not measured: there is no python3");
        return Ok(Vec::new());
    };
    let mut input = python.stdin.take().context("python3 has no input")?;
    input.write_all(PROGRAM.as_bytes())?;
    drop(input);
    let output = python.wait_with_output()?;
    if output.status.code() == Some(NO_PYTORCH) {
        eprintln!("PyTorch is not measured: python3 has no PyTorch that can use a GPU");
        return Ok(Vec::new());
    }
    ensure!(
        output.status.success(),
        "the program for PyTorch failed ({})",
        output.status
    );
    json::read(&String::from_utf8(output.stdout)?, ours)
}
