//! GitHub's annotations: problems as workflow commands, which show in the changes of a pull
//! request.

use std::fmt::Write as _;

use clap::ValueEnum;
use millstream_driver::printable;
use serde_json::Value;

use crate::{
    program::{FOLDER_PREFIX, REPORT_VARIABLE},
    sarif::{Root, list, text},
    settings::variable,
};

/// GitHub shows no more of one step.
const SHOWN_MAX: usize = 10;

/// The condition for annotations.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum When {
    /// In a workflow (`GITHUB_ACTIONS` is `true`), but not within another run.
    Auto,
    Always,
    Never,
}

impl When {
    pub(crate) fn applies(self) -> bool {
        // A run around this one reads the report, and annotates.
        let is_nested =
            || variable(REPORT_VARIABLE).is_some_and(|file| file.contains(FOLDER_PREFIX));
        let in_workflow = || variable("GITHUB_ACTIONS").as_deref() == Some("true") && !is_nested();
        self == Self::Always || (self == Self::Auto && in_workflow())
    }
}

/// Returns a line for each problem, at its first place within the repository.
pub(crate) fn lines(problems: &[Value], repeat: &str, root: &Root) -> String {
    let mut lines = String::new();
    for problem in problems.iter().take(SHOWN_MAX) {
        let frames = list(&problem["places"]).flat_map(|place| list(&place["frames"]));
        let mut inside = frames.filter_map(|frame| Some((root.relative(frame)?, &frame["line"])));
        let place = inside.next().map_or_else(String::new, |(file, line)| {
            format!("file={},line={line},", property(&file.to_string_lossy()))
        });
        let level = match text(&problem["severity"]) {
            "note" => "notice",
            level => level,
        };
        let title = property(&format!("millstream: {}", text(&problem["kind"])));
        let message = message(&format!(
            "{}\nTo repeat it: {repeat}",
            text(&problem["text"])
        ));
        let _ = writeln!(lines, "::{level} {place}title={title}::{message}");
    }
    lines
}

/// Escapes the text of a workflow command.
fn message(text: &str) -> String {
    let text = printable(text).replace('%', "%25");
    text.replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_annotation_has_the_place_within_the_repository_and_no_line_break() {
        let places = ["/else/a.c", "/r/lib/é%,:.c"];
        let places = places.map(|file| json!({ "frames": [{ "file": file, "line": 7 }] }));
        let race = json!({
            "kind": "UseAfterFree", "severity": "note", "text": "a:\n  b", "places": places,
        });
        let expected = "::notice file=lib/é%25%2C%3A.c,line=7,title=millstream%3A UseAfterFree\
                        ::a:%0A  b%0ATo repeat it: run 100%25\n";
        assert_eq!(
            lines(std::slice::from_ref(&race), "run 100%", &Root("/r".into())),
            expected
        );
        let outside = lines(&[race], "", &Root("/r/sub".into()));
        assert!(outside.starts_with("::notice title="), "{outside}");
    }
}
