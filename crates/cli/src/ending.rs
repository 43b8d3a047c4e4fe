//! The end of `run` and `check`: the SARIF file, annotations, and a line that says how much was
//! checked.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write as _},
    path::Path,
    process::{ExitCode, ExitStatus},
};

use millstream_driver::printable;
use millstream_sim::{Profile, TimeSpent};
use serde_json::{Value, json};

use crate::{
    annotations,
    program::{ProgramArguments, Schedule, cannot},
    reports::Reports,
    sarif::{self, Root},
    say,
};

/// The work of the runs so far, and what is written at the end.
pub(crate) struct Ending<'a> {
    arguments: &'a ProgramArguments,
    root: Root,
    /// The numbers of schedules, operations and launches.
    counts: [u64; 3],
    kernels: BTreeSet<String>,
    profile: Profile,
    /// True if a process ended without its last line.
    is_partial: bool,
}

impl<'a> Ending<'a> {
    /// Writes a SARIF file without results, which stays if this command is killed.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn prepare(
        arguments: &'a ProgramArguments,
        schedule: &Schedule,
    ) -> Result<Self, String> {
        let ending = Self {
            arguments,
            root: Root::find(),
            counts: [0; 3],
            kernels: BTreeSet::new(),
            profile: Profile::default(),
            is_partial: false,
        };
        ending.write_sarif(schedule, &[], json!({ "executionSuccessful": false }))?;
        Ok(ending)
    }

    /// Adds the work of a run.
    pub(crate) fn add(&mut self, reports: &Reports) {
        self.counts[0] += 1;
        self.is_partial |= reports.unfinished > 0;
        for work in reports.work() {
            self.counts[1] += work["operations"].as_u64().unwrap_or(0);
            for (kernel, count) in work["launches"].as_object().into_iter().flatten() {
                self.counts[2] += count.as_u64().unwrap_or(0);
                self.kernels.insert(kernel.clone());
            }
            let profile = &work["profile"];
            self.profile.elapsed_ns += profile["elapsed_ns"].as_u64().unwrap_or(0);
            for row in profile["rows"].as_array().into_iter().flatten() {
                let names = ["count", "thread_instructions", "ns"];
                let [count, thread_instructions, ns] =
                    names.map(|it| row[it].as_u64().unwrap_or(0));
                let spent = TimeSpent {
                    count,
                    thread_instructions,
                    ns,
                };
                self.profile
                    .add(row["kernel"].as_str().unwrap_or_default(), spent);
            }
        }
    }

    /// Writes the end of the command, whose last run was that of a schedule. A `failure` is a
    /// problem of its own unless that run has others. Returns the exit status.
    pub(crate) fn finish(
        &self,
        schedule: &Schedule,
        reports: &Reports,
        failure: Option<String>,
        code: u8,
    ) -> Result<ExitCode, String> {
        let mut problems = reports.problems();
        if let Some(text) = failure.filter(|_| problems.is_empty()) {
            problems.push(json!({ "kind": "ProgramFailed", "severity": "error", "text": text }));
        }
        let notes = reports.unfinished_note().into_iter();
        let notes = notes.map(|note| json!({ "level": "warning", "message": { "text": note } }));
        let invocation = json!({
            "executionSuccessful": true,
            "exitCode": code,
            "toolExecutionNotifications": notes.collect::<Vec<_>>(),
        });
        if self.profile != Profile::default() {
            let least = ["", "so far as processes reported it, "][usize::from(self.is_partial)];
            say(format!("{least}{}", self.profile).trim_end());
        } else if self.arguments.profile_sim && !reports.is_empty() {
            say("no profile: no process ended by `exit` or waited for the device");
        }
        if self.arguments.annotate.applies() {
            let repeat = self.arguments.command_line(schedule);
            let lines = annotations::lines(&problems, &repeat, &self.root);
            let _ = io::stderr().write_all(lines.as_bytes());
        }
        if !self.arguments.quiet && !reports.is_empty() {
            let is_checked = !self.arguments.device(schedule)?.contains("race=off");
            let end = if problems.is_empty() {
                ": no problems"
            } else {
                ""
            };
            say(&(self.summary(is_checked) + end));
        }
        self.write_sarif(schedule, &problems, invocation)?;
        Ok(ExitCode::from(code))
    }

    fn write_sarif(
        &self,
        schedule: &Schedule,
        problems: &[Value],
        mut invocation: Value,
    ) -> Result<(), String> {
        let Some(file) = &self.arguments.sarif else {
            return Ok(());
        };
        let repeat = printable(&self.arguments.command_line(schedule));
        invocation["commandLine"] = repeat.clone().into();
        let device = self.arguments.device(schedule)?;
        let properties = json!({ "repeat": repeat, "device": device });
        let words = self.arguments.program.iter();
        let mut files = words.filter_map(|word| Path::new(word).canonicalize().ok());
        let program = files.find(|file| file.starts_with(&self.root.0));
        let program = program.unwrap_or_else(|| (&self.arguments.program[0]).into());
        let of = (invocation, &properties);
        let document = sarif::document(problems, of, &program, &self.root);
        fs::write(file, format!("{document:#}\n")).map_err(|error| cannot("write", file, &error))
    }

    fn summary(&self, is_checked: bool) -> String {
        let [schedules, operations, launches] = self.counts;
        let count = |number: u64, noun: &str| match number {
            1 => format!("1 {noun}"),
            _ if noun.ends_with("ch") => format!("{number} {noun}es"),
            _ => format!("{number} {noun}s"),
        };
        let operations = count(operations, "operation");
        if launches == 0 {
            let waited = ["", " or waited for none"][usize::from(self.is_partial)];
            return format!(
                "no kernel was checked: the program opened the driver, but launched none{waited} \
                 ({operations})"
            );
        }
        let least = ["", "at least "][usize::from(self.is_partial)];
        let launches = least.to_owned() + &count(launches, "launch");
        let (kernels, schedules) = (self.kernels.len() as u64, count(schedules, "schedule"));
        let kernels = count(kernels, "kernel");
        let work = format!("{launches} of {kernels} ({operations} in all) under {schedules}");
        match is_checked {
            true => format!("checked {work}"),
            false => format!("ran {work}, without a check for races"),
        }
    }
}

/// Returns the program's exit status; 128 and the signal's number for a program that a signal
/// ended, as shells do.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 | signal as u8;
    }
    status.code().map_or(1, |code| code as u8)
}
