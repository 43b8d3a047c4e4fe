//! The reports of a program: what the library wrote to the file of `MILLSTREAM_REPORT`.
//!
//! A process appends a line when it opens the driver, one for each problem that it finds, some with
//! the work done so far, and one with all at its end, which a process lacks that ended by `abort`,
//! `_exit` or a signal.

use std::ffi::OsStr;

use serde_json::{Value, json};

use crate::executable::Executable;

/// The remark on a program without a report.
pub(crate) const NO_REPORT: &str = "no report: no process of the program opened the driver";

/// The reports of the processes that opened the driver.
#[derive(Default)]
pub(crate) struct Reports {
    /// The last line of each process, in the order in which they opened the driver.
    processes: Vec<Value>,
    /// The number of processes without a last line, which stands for their problems so far.
    pub(crate) unfinished: usize,
    /// Set if the library has said that the program uses NVIDIA's runtime library.
    names_runtime: bool,
}

impl Reports {
    /// Reads the lines of a file. A line that a process did not finish is left out.
    pub(crate) fn parse(text: &str) -> Self {
        let mut reports = Self::default();
        for line in text.lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let process = line["process"].clone();
            if line["runtime"] == true {
                reports.names_runtime = true;
                continue;
            }
            if line["opened"] == true {
                reports.unfinished += 1;
                reports.processes.push(json!({
                    "process": process, "problems": [], "dropped": 0, "suppressed": 0,
                }));
                continue;
            }
            // A program that replaces itself by another keeps the number of its process.
            let mut known = reports.processes.iter_mut().rev();
            let Some(known) = known.find(|known| known["process"] == process) else {
                // Another `millstream run`, which the program has called, adds last lines only.
                if line["found"] != true {
                    reports.processes.push(line);
                }
                continue;
            };
            if let Some(problems) = known["problems"].as_array_mut()
                && line["found"] == true
            {
                problems.extend(line["problems"].as_array().into_iter().flatten().cloned());
            } else if line["dropped"].is_null() {
                known["work"] = line["work"].clone();
            } else {
                *known = line;
                reports.unfinished = reports.unfinished.saturating_sub(1);
            }
        }
        reports
    }

    /// Returns whether no process opened the driver.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    pub(crate) fn has_problems(&self) -> bool {
        let mut problems = self.processes.iter().map(|process| &process["problems"]);
        problems.any(|problems| problems.as_array().is_none_or(|list| !list.is_empty()))
    }

    /// Returns the problems of all processes. One that several processes have is counted.
    pub(crate) fn problems(&self) -> Vec<Value> {
        let mut found: Vec<Value> = Vec::new();
        let lists = self.processes.iter().map(|process| &process["problems"]);
        for problem in lists.flat_map(|list| list.as_array().into_iter().flatten()) {
            match found
                .iter_mut()
                .find(|known| known["key"] == problem["key"])
            {
                Some(known) => {
                    let count = |problem: &Value| problem["count"].as_u64().unwrap_or(1);
                    known["count"] = (count(known) + count(problem)).into();
                }
                None => found.push(problem.clone()),
            }
        }
        found
    }

    /// Returns the work of each process.
    pub(crate) fn work(&self) -> impl Iterator<Item = &Value> {
        self.processes.iter().map(|process| &process["work"])
    }

    /// Returns the remark on processes without a last line.
    pub(crate) fn unfinished_note(&self) -> Option<String> {
        (self.unfinished > 0).then(|| {
            format!(
                "{} of the processes that opened the driver did not end by `exit`: problems of \
                 work that they had not waited for, leaks and counts are not reported",
                self.unfinished
            )
        })
    }

    /// Returns the line about a failed program that is linked with NVIDIA's runtime library, unless
    /// the library has said it.
    pub(crate) fn runtime_advice(&self, program: &OsStr) -> Option<&'static str> {
        if self.names_runtime {
            return None;
        }
        Executable::find(program)?.runtime_advice()
    }

    pub(crate) fn lines(&self) -> String {
        let lines = self.processes.iter().map(|process| format!("{process}\n"));
        lines.collect()
    }
}
