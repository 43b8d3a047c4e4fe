//! The problems of the program: reports of the simulator and wrong handles, each kind once with a
//! count.

use std::fmt::Write as _;

use millstream_driver::printable;
use rustc_hash::FxHashMap;
use serde_json::json;

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
    /// The number of different problems that were left out on request.
    suppressed: u64,
}

/// A problem, with the number of times it happened.
#[derive(Debug)]
struct Problem {
    text: String,
    count: u64,
}

impl Problems {
    /// Adds a problem, or counts it if one is known that differs only in its numbers: the numbers
    /// of operations, addresses and sizes.
    pub(crate) fn add(&mut self, text: String) {
        self.add_several(text, 1);
    }

    /// Adds a problem that happened `count` times.
    pub(crate) fn add_several(&mut self, text: String, count: u64) {
        let key = without_numbers(&text);
        if let Some(&index) = self.known.get(&key) {
            self.list[index].count += count;
        } else if self.list.len() == KEPT_MAX {
            self.dropped += count;
        } else {
            self.known.insert(key, self.list.len());
            self.list.push(Problem { text, count });
        }
    }

    /// Counts problems that cannot be listed.
    pub(crate) fn drop_several(&mut self, count: u64) {
        self.dropped += count;
    }

    /// Rewrites the text of each problem.
    pub(crate) fn rewrite(&mut self, rewritten: impl Fn(&str) -> String) {
        for problem in &mut self.list {
            problem.text = rewritten(&problem.text);
        }
    }

    /// Leaves the problems out that have such a text.
    pub(crate) fn suppress(&mut self, is_known: impl Fn(&str) -> bool) {
        let before = self.list.len();
        self.list.retain(|problem| !is_known(&problem.text));
        self.suppressed += (before - self.list.len()) as u64;
        self.known.clear();
    }

    /// Returns the problems of this process as a line of JSON.
    pub(crate) fn to_json(&self) -> String {
        let list = self.list.iter();
        let list = list.map(|problem| json!({ "text": problem.text, "count": problem.count }));
        let line = json!({
            "process": std::process::id(),
            "problems": list.collect::<Vec<_>>(),
            "dropped": self.dropped,
            "suppressed": self.suppressed,
        });
        format!("{line}\n")
    }

    /// Returns the report about all problems; empty if there are none.
    pub(crate) fn report(&self) -> String {
        let mut report = String::new();
        if self.suppressed > 0 {
            let count = self.suppressed;
            let _ = writeln!(report, "millstream: different problems suppressed: {count}");
        }
        if self.list.is_empty() {
            return report;
        }
        let _ = match self.list.len() {
            1 => writeln!(report, "millstream: 1 problem"),
            count => writeln!(report, "millstream: {count} different problems"),
        };
        for (index, problem) in self.list.iter().enumerate() {
            let _ = writeln!(report, "{}. {}", index + 1, problem.text);
            if problem.count > 1 {
                let more = problem.count - 1;
                let _ = writeln!(report, "  and {more} more that differ only in numbers");
            }
        }
        if self.dropped > 0 {
            let _ = writeln!(report, "and {} more of other kinds", self.dropped);
        }
        printable(&report)
    }
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

    #[test]
    fn a_name_does_not_move_the_cursor_of_a_terminal() {
        let mut problems = Problems::default();
        problems.add("no kernel `a\x1b[2J`\r\n  missing: x".into());
        let expected = "millstream: 1 problem\n1. no kernel `a\u{fffd}[2J`\u{fffd}\n  missing: x\n";
        assert_eq!(problems.report(), expected);
    }

    #[test]
    fn problems_that_differ_only_in_numbers_are_listed_once() {
        let mut problems = Problems::default();
        problems.add("operation 3, kernel `add1`, writes 0x7f00".into());
        problems.add("operation 4, kernel `add1`, writes 0x7f80".into());
        problems.add("operation 5, kernel `add2`, writes 0x7f80".into());
        assert_eq!(
            problems.report(),
            "millstream: 2 different problems\n\
             1. operation 3, kernel `add1`, writes 0x7f00\n  \
             and 1 more that differ only in numbers\n\
             2. operation 5, kernel `add2`, writes 0x7f80\n"
        );
    }

    #[test]
    fn problems_at_different_lines_are_different() {
        let mut problems = Problems::default();
        for line in [3, 4, 4] {
            problems.add(format!("kernel `k` at a.py:{line} reads 4 bytes"));
            problems.add(format!("kernel `k` faults in line {line} with 4 bytes"));
        }
        assert_eq!(problems.list.len(), 4);
        assert_eq!(problems.list[3].count, 2);
    }

    #[test]
    fn the_list_is_bounded_and_a_clean_program_has_no_report() {
        let mut problems = Problems::default();
        assert_eq!(problems.report(), "");
        for index in 0..KEPT_MAX + 7 {
            problems.add(format!("name{index}"));
        }
        assert_eq!(problems.list.len(), KEPT_MAX);
        assert!(problems.report().ends_with("and 7 more of other kinds\n"));
    }
}
