//! Other libraries: a Python program for each, which does the same works when it is told to.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// The Python program, passed as an argument so that a measuring machine needs no file.
const PROGRAM: &str = concat!(
    include_str!("../../python/pattern_rows.py"),
    include_str!("../../python/region_rows.py"),
);

/// A library, and the process that measures it.
pub(super) struct Rival {
    pub(super) name: &'static str,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The libraries, by the argument of the program.
pub(super) const NAMES: [&str; 5] = ["torch.compile", "max-autotune", "torch", "jax", "cupy"];

impl Rival {
    /// Starts the program for a library, or returns `None` if the library is missing.
    pub(super) fn start(name: &'static str) -> Result<Option<Self>> {
        let process = Command::new("python3")
            .args(["-c", PROGRAM, name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut process) = process else {
            eprintln!("{name} is not measured: there is no python3");
            return Ok(None);
        };
        let input = process.stdin.take().context("python3 has no input")?;
        let output = process.stdout.take().context("python3 has no output")?;
        let mut rival = Self {
            name,
            process,
            input,
            output: BufReader::new(output),
        };
        match rival.answer() {
            Ok(version) => {
                eprintln!("{name} {version}");
                Ok(Some(rival))
            }
            Err(error) => {
                eprintln!("{name} is not measured: {error:#}");
                Ok(None)
            }
        }
    }

    /// Prepares the work of a row. Returns the reason if the library cannot do it.
    pub(super) fn prepare(&mut self, row: &str) -> Result<Result<(), String>> {
        let answer = self.ask(&format!("prepare {row}"))?;
        Ok(match answer.split_once(' ') {
            Some(("cannot", why)) => Err(why.to_owned()),
            _ => Ok(()),
        })
    }

    /// Does the work, each time until it is complete. Returns the times in nanoseconds.
    pub(super) fn times(&mut self, count: usize) -> Result<Vec<f64>> {
        let answer = self.ask(&format!("times {count}"))?;
        let times = answer.split_whitespace().map(str::parse);
        times.collect::<Result<_, _>>().context(answer)
    }

    /// Does the work several times in a row. Returns the time for each in nanoseconds.
    pub(super) fn in_a_row(&mut self, count: usize) -> Result<f64> {
        let answer = self.ask(&format!("row {count}"))?;
        answer.trim().parse().context(answer)
    }

    fn ask(&mut self, request: &str) -> Result<String> {
        writeln!(self.input, "{request}")?;
        self.input.flush()?;
        self.answer()
            .with_context(|| format!("{}: {request}", self.name))
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        match line.strip_prefix("answer ") {
            Some(answer) => Ok(answer.trim_end().to_owned()),
            None => bail!("the program said {:?}", line.trim_end()),
        }
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // The program ends with its input; an error would only say that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
