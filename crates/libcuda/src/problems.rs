//! The problems of the program: reports of the simulator and wrong handles, each kind once with a
//! count. A problem is reported when it is found, so that its report survives the process; and
//! again at the end, if standard error was another file then: pytest keeps what a test prints.

use std::fmt::Write as _;

use millstream_driver::printable;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// The number of different problems that are kept. Later ones are only counted.
const KEPT_MAX: usize = 1000;

/// The list of problems.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    /// The indices in `list`, by the texts without numbers.
    known: FxHashMap<String, usize>,
    /// The number of problems beyond [`KEPT_MAX`].
    dropped: u64,
}

/// The identity of an open file: its device and its number there.
pub(crate) type FileId = (u64, u64);

/// Returns the identity of standard error, if the system tells it.
pub(crate) fn standard_error() -> Option<FileId> {
    #[cfg(target_os = "linux")]
    if let Ok(file) = std::fs::metadata("/proc/self/fd/2") {
        use std::os::unix::fs::MetadataExt as _;
        return Some((file.dev(), file.ino()));
    }
    None
}

/// A problem, with the number of times it happened.
#[derive(Debug)]
struct Problem {
    /// The report as JSON: kind, severity, text and places. `None` for a problem that is left out
    /// on request.
    report: Option<Value>,
    count: u64,
    /// The file to which the report was printed.
    printed_to: Option<FileId>,
}

impl Problems {
    /// Adds a problem, or counts it if one is known that differs only in its numbers: the numbers
    /// of operations, addresses and sizes. Returns the report about a new one, which is the result
    /// of `shown`, or `None` to leave it out.
    pub(crate) fn add(
        &mut self,
        text: &str,
        count: u64,
        shown: impl FnOnce(&str) -> Option<Value>,
    ) -> Option<Found<'_>> {
        let key = without_numbers(text);
        if let Some(&index) = self.known.get(&key) {
            self.list[index].count += count;
            return None;
        }
        if self.list.len() == KEPT_MAX {
            self.dropped += count;
            return None;
        }
        self.known.insert(key, self.list.len());
        let report = shown(text);
        self.list.push(Problem {
            report,
            count,
            printed_to: standard_error(),
        });
        let number = self.shown().count();
        let report = self.list.last()?.report.as_ref()?;
        Some(Found { number, report })
    }

    /// Counts problems that cannot be listed.
    pub(crate) fn drop_several(&mut self, count: u64) {
        self.dropped += count;
    }

    /// Returns the reports that are not left out, with their counts.
    fn shown(&self) -> impl Iterator<Item = (&Value, u64)> {
        let list = self.list.iter();
        list.filter_map(|problem| Some((problem.report.as_ref()?, problem.count)))
    }

    /// Returns the number of different problems that are left out on request.
    fn suppressed(&self) -> usize {
        self.list.len() - self.shown().count()
    }

    /// Returns the last line of the process, with the work that it has done.
    pub(crate) fn to_json(&self, work: &Value) -> Value {
        let list = self.shown();
        json!({
            "problems": list.map(|(report, count)| counted(report, count)).collect::<Vec<_>>(),
            "dropped": self.dropped,
            "suppressed": self.suppressed(),
            "work": work,
        })
    }

    /// Returns the numbers of problems, which follow the reports about each; empty if there are
    /// none. Reports that were printed to another file than `standard_error` are repeated.
    pub(crate) fn summary(&self, standard_error: Option<FileId>) -> String {
        let shown = self.list.iter().filter(|problem| problem.report.is_some());
        let mut summary: String = (1..)
            .zip(shown)
            .filter(|(_, problem)| problem.printed_to != standard_error)
            .filter_map(|(number, problem)| {
                let report = problem.report.as_ref()?;
                Some(Found { number, report }.report())
            })
            .collect();
        if self.suppressed() > 0 {
            let count = self.suppressed();
            let _ = writeln!(
                summary,
                "millstream: different problems suppressed: {count}"
            );
        }
        let _ = match self.shown().count() {
            0 => return summary,
            1 => writeln!(summary, "millstream: 1 problem"),
            count => writeln!(summary, "millstream: {count} different problems"),
        };
        for (index, (_, count)) in self.shown().enumerate().filter(|(_, it)| it.1 > 1) {
            let (number, more) = (index + 1, count - 1);
            let _ = writeln!(
                summary,
                "{number}. and {more} more that differ only in numbers"
            );
        }
        if self.dropped > 0 {
            let _ = writeln!(summary, "and {} more of other kinds", self.dropped);
        }
        summary
    }
}

/// A problem that was not known before.
pub(crate) struct Found<'a> {
    /// Counted from 1.
    number: usize,
    report: &'a Value,
}

impl Found<'_> {
    pub(crate) fn report(&self) -> String {
        let text = self.report["text"].as_str().unwrap_or_default();
        printable(&format!("millstream: {}. {text}\n", self.number))
    }

    pub(crate) fn to_json(&self) -> Value {
        let problems = [counted(self.report, 1)];
        json!({ "found": true, "problems": problems })
    }
}

/// Returns a report with the number of times that its problem happened, and with its text without
/// numbers: reports of several processes that agree in it are about one problem.
fn counted(report: &Value, count: u64) -> Value {
    let mut report = report.clone();
    report["count"] = count.into();
    report["key"] = without_numbers(report["text"].as_str().unwrap_or_default()).into();
    report
}

/// Returns the text with the numbers of operations, addresses and sizes replaced by one sign.
/// Digits inside of a name stay, and numbers of lines: those after a colon or the word `line`.
fn without_numbers(text: &str) -> String {
    let mut rest = text;
    let mut result = String::with_capacity(text.len());
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(first) = rest.chars().next() {
        let end = if in_word(first) {
            rest.find(|c| !in_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(end);
        let is_line = result.ends_with(':') || result.ends_with("line ");
        result += if first.is_ascii_digit() && !is_line {
            "#"
        } else {
            token
        };
        rest = after;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(problems: &mut Problems, text: &str) -> Option<String> {
        let found = problems.add(text, 1, |text| Some(json!({ "text": text })));
        found.map(|found| found.report())
    }

    #[test]
    fn a_name_does_not_move_the_cursor_of_a_terminal() {
        let report = add(
            &mut Problems::default(),
            "no kernel `a\x1b[2J`\r\n  missing: x",
        );
        let expected = "millstream: 1. no kernel `a\u{fffd}[2J`\u{fffd}\n  missing: x\n";
        assert_eq!(report.as_deref(), Some(expected));
    }

    #[test]
    fn problems_that_differ_only_in_numbers_are_reported_once_and_counted() {
        let mut problems = Problems::default();
        assert_eq!(problems.summary(standard_error()), "");
        let first = add(&mut problems, "operation 3, kernel `add1`, writes 0x7f00");
        let expected = "millstream: 1. operation 3, kernel `add1`, writes 0x7f00\n";
        assert_eq!(first.as_deref(), Some(expected));
        assert_eq!(
            add(&mut problems, "operation 4, kernel `add1`, writes 0x7f80"),
            None
        );
        assert_eq!(
            problems.add("left out", 1, |_| None).map(|it| it.number),
            None
        );
        let other = add(&mut problems, "operation 5, kernel `add2`, writes 0x7f80");
        assert!(other.unwrap().starts_with("millstream: 2. "));
        assert_eq!(
            problems.summary(standard_error()),
            "millstream: different problems suppressed: 1\nmillstream: 2 different problems\n\
             1. and 1 more that differ only in numbers\n"
        );
    }

    #[test]
    fn a_report_that_another_file_has_is_repeated_at_the_end() {
        let mut problems = Problems::default();
        problems.add("left out", 1, |_| None);
        let report = add(&mut problems, "read of a freed array").unwrap();
        let number = "millstream: different problems suppressed: 1\nmillstream: 1 problem\n";
        assert_eq!(problems.summary(standard_error()), number);
        assert_eq!(problems.summary(Some((0, 0))), report + number);
    }

    #[test]
    fn problems_at_different_lines_are_different() {
        let mut problems = Problems::default();
        for line in [3, 4, 4] {
            add(
                &mut problems,
                &format!("kernel `k` at a.py:{line} reads 4 bytes"),
            );
            add(
                &mut problems,
                &format!("kernel `k` faults in line {line} with 4 bytes"),
            );
        }
        let counts: Vec<_> = problems.shown().map(|(_, count)| count).collect();
        assert_eq!(counts, [1, 1, 2, 2]);
    }

    #[test]
    fn the_list_is_bounded() {
        let mut problems = Problems::default();
        for index in 0..KEPT_MAX + 7 {
            add(&mut problems, &format!("name{index}"));
        }
        assert_eq!(problems.list.len(), KEPT_MAX);
        assert!(
            problems
                .summary(standard_error())
                .ends_with("and 7 more of other kinds\n")
        );
    }
}
