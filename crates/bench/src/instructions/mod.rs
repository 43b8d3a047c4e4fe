//! T4: the number of instructions per launch, counted by valgrind with a driver that does nothing.

mod cases;
mod program;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use cases::CASES;
use cases::{Case, Pattern};

use crate::report::{Goal, Row};

/// The maximum ratio between the instructions for the most and the fewest live arrays that counts
/// as constant.
const FLAT: f64 = 1.05;

/// Runs the case of this name; valgrind starts the program with it.
pub(crate) fn run_case(name: &str) -> Result<()> {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.with_context(|| format!("there is no case {name}"))?;
    program::run(case, case.counted())
}

/// Counts all cases. `profiles` is the folder for callgrind's files, if they are wanted.
pub(crate) fn measure(profiles: Option<&Path>) -> Result<Vec<Row>> {
    if !has_valgrind() {
        return Ok(vec![Row::absent(
            "T4",
            "instructions per launch",
            "valgrind is not installed",
        )]);
    }
    let [without, without_peer, tracked @ ..] = &CASES;
    let (raw, raw_peer) = (count(without, profiles)?, count(without_peer, profiles)?);
    let mut rows = Vec::new();
    let mut flat = Vec::new();
    for case in tracked {
        let figure = count(case, profiles)?;
        if case.pattern == Pattern::OneStream {
            flat.push(figure);
        }
        rows.push(match case.pattern {
            // A region does more work than the raw launch, so there is no raw figure.
            pattern if pattern.is_region() => {
                Row::judged("T4", case.what(), "instructions", figure, case.goal)
            }
            Pattern::PeerCopy => Row::count(
                "T4",
                case.what(),
                "instructions",
                figure,
                raw_peer,
                case.goal,
            ),
            _ => Row::count("T4", case.what(), "instructions", figure, raw, case.goal),
        });
    }
    let (fewest, most) = (flat[0], flat[flat.len() - 1]);
    rows.push(Row::judged(
        "T4",
        "launch, 1 stream, 1000000 live arrays against 10",
        "ratio",
        most / fewest,
        Goal::AtMost(FLAT),
    ));
    Ok(rows)
}

fn has_valgrind() -> bool {
    let version = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// Returns the number of instructions per launch or region.
fn count(case: &Case, profiles: Option<&Path>) -> Result<f64> {
    let out = match profiles {
        Some(folder) => folder.join(format!("callgrind.out.{}", case.name)),
        None => "/dev/null".into(),
    };
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*counted_launches*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .args(["count", case.name])
        .output()
        .context("cannot start valgrind")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind failed at case {}: {printed}", case.name);
    }
    let collected =
        collected(&printed).with_context(|| format!("valgrind printed no count: {printed}"))?;
    ensure!(
        collected > 0,
        "valgrind counted no instructions of case {}: build this program with its symbols",
        case.name
    );
    Ok(collected as f64 / case.counted() as f64)
}

/// Parses the count at the end of callgrind's output: `==42== Collected : 123456`.
fn collected(printed: &str) -> Option<u64> {
    let line = printed
        .lines()
        .find_map(|line| line.split_once("Collected :"))?
        .1;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_parsed() {
        let printed = "==7== Events    : Ir\n==7== Collected : 2469120\n==7== \n\
                       ==7== I   refs:      2,469,120\n";
        assert_eq!(collected(printed), Some(2_469_120));
        assert_eq!(collected("==7== I refs: 12\n"), None);
    }

    #[test]
    fn every_case_runs_without_valgrind() {
        for case in CASES.iter().filter(|case| case.live <= 1_000) {
            program::run(case, 16).unwrap();
        }
    }
}
