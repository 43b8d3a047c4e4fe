//! PyTorch's figures, from a Python program that runs where Python has it.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{json, report::Row};

/// The program, which needs no file of its own on the machine that runs it.
const PROGRAM: &str = include_str!("../python/torch_rows.py");
/// The targets that it has something to say about.
const TARGETS: [&str; 6] = ["T3", "T6", "T7", "T8", "T9", "T15"];
/// Its exit status where there is no PyTorch, or no GPU for it.
const NO_PYTORCH: i32 = 3;

/// PyTorch's rows of the wanted targets, with the raw figures of `ours` where the work is the same;
/// none without PyTorch.
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
        eprintln!("no python3: no figures of PyTorch");
        return Ok(Vec::new());
    };
    let mut input = python.stdin.take().context("python3 has no input")?;
    input.write_all(PROGRAM.as_bytes())?;
    drop(input);
    let output = python.wait_with_output()?;
    if output.status.code() == Some(NO_PYTORCH) {
        eprintln!("python3 has no PyTorch with a GPU: no figures of it");
        return Ok(Vec::new());
    }
    ensure!(
        output.status.success(),
        "the program for PyTorch failed ({})",
        output.status
    );
    json::read(&String::from_utf8(output.stdout)?, ours)
}
