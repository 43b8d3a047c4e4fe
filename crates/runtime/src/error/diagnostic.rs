//! Messages of the compiler, parsed from its log and shown with their source lines.

use std::fmt;

use millstream_driver::printable;

/// The severity of a [`Diagnostic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A note on another message.
    Note,
    /// A warning: the program was compiled.
    Warning,
    /// An error.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A message of the compiler about a source. `Display` shows it with the source line, as rustc
/// does.
///
/// ```
/// # fn report(error: &millstream::error::CompileError) {
/// for diagnostic in error.diagnostics() {
///     println!("{}:{}: {}", diagnostic.file, diagnostic.line, diagnostic.message);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The file, by the name that was given for it, or by its path.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, if the compiler tells it.
    pub column: Option<usize>,
    /// The message.
    pub message: String,
    /// The source line, if it is known.
    pub source_line: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            severity,
            file,
            line,
            column,
            message,
            source_line,
        } = self;
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        let head = format!("{severity}: {message}\n{margin}--> {file}:{line}");
        f.write_str(&printable(&head))?;
        if let Some(column) = column {
            write!(f, ":{column}")?;
        }
        let Some(text) = source_line else {
            return Ok(());
        };
        // Tabs are shown as spaces, so that the mark stands below its column.
        let shown = printable(text).replace('\t', " ");
        write!(f, "\n{margin} |\n{number} | {}", shown.trim_end())?;
        if let Some(column) = column {
            let marked = marked_len(&shown, *column);
            let indent = " ".repeat(column.saturating_sub(1));
            write!(f, "\n{margin} | {indent}{}", "^".repeat(marked))?;
        }
        Ok(())
    }
}

/// Returns the length of the identifier or number at a column, at least 1.
fn marked_len(line: &str, column: usize) -> usize {
    let word = line.chars().skip(column.saturating_sub(1));
    let word = word.take_while(|c| c.is_alphanumeric() || *c == '_');
    word.count().max(1)
}

/// Parses a log of NVRTC. `line_of` returns a line of a file, if the caller knows its text.
///
/// A message begins with `FILE(LINE): SEVERITY: TEXT`, where the severity may have a number
/// (`error #20:`, `warning #177-D:`), and ends before an empty line. Newer versions end it with a
/// copy of the source line and a line with `^`, both indented by two more spaces.
pub(crate) fn parse(log: &str, line_of: impl Fn(&str, usize) -> Option<String>) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let mut lines = log.lines();
    while let Some(text) = lines.next() {
        let Some(mut diagnostic) = parse_head(text) else {
            continue;
        };
        let rest = lines.by_ref().take_while(|text| !text.trim().is_empty());
        let mut rest: Vec<_> = rest.collect();
        diagnostic.source_line = line_of(&diagnostic.file, diagnostic.line);
        if let [.., copy, mark] = rest[..]
            && mark.trim() == "^"
        {
            diagnostic.column = column(mark);
            let copy = copy.strip_prefix(INDENT).unwrap_or(copy);
            diagnostic
                .source_line
                .get_or_insert_with(|| copy.to_owned());
            rest.truncate(rest.len() - 2);
        }
        for text in rest {
            diagnostic.message.push_str("\n  ");
            diagnostic.message.push_str(text.trim());
        }
        diagnostics.push(diagnostic);
    }
    diagnostics
}

/// The indentation of NVRTC's copy of a source line.
const INDENT: &str = "  ";

fn column(mark: &str) -> Option<usize> {
    let at = mark.chars().position(|c| c == '^')?;
    Some(at.checked_sub(INDENT.len())? + 1)
}

/// Parses the first line of a message.
fn parse_head(text: &str) -> Option<Diagnostic> {
    let (place, rest) = text.split_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    let (severity, message) = rest.split_once(':')?;
    // "catastrophic error", "error #20", "warning #177-D".
    let severity = match severity.split('#').next()?.trim() {
        "error" | "catastrophic error" | "fatal error" => Severity::Error,
        "warning" => Severity::Warning,
        "note" | "remark" => Severity::Note,
        _ => return None,
    };
    Some(Diagnostic {
        severity,
        file: file.to_owned(),
        line: line.parse().ok()?,
        column: None,
        message: message.trim().to_owned(),
        source_line: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "one\n\tint unused;\nthree\n    y[i] = valeus[i];\n";

    fn parsed(log: &str) -> Vec<Diagnostic> {
        parse(log, |file, line| {
            let line = SOURCE.lines().nth(line.checked_sub(1)?)?;
            (file == "k.cu").then(|| line.to_owned())
        })
    }

    #[test]
    fn messages_of_either_version_have_file_line_and_text() {
        let log = "k.cu(4): error: identifier \"valeus\" is undefined\n\n\
                   k.cu(2): warning #177-D: variable \"unused\" was declared but never referenced\n\
                   \x20 \tint unused;\n  \t    ^\n\n\
                   Remark: The warnings can be suppressed with \"-diag-suppress <number>\"\n\n\
                   1 error detected in the compilation of \"k.cu\".\n";
        let [first, second] = &parsed(log)[..] else {
            panic!("two messages")
        };
        assert_eq!(
            (first.severity, first.line, first.column),
            (Severity::Error, 4, None)
        );
        assert_eq!(
            first.to_string(),
            "error: identifier \"valeus\" is undefined\n --> k.cu:4\n  |\n4 |     y[i] = valeus[i];"
        );
        assert_eq!(
            (second.severity, second.column),
            (Severity::Warning, Some(6))
        );
        assert_eq!(
            second.to_string(),
            "warning: variable \"unused\" was declared but never referenced\n --> k.cu:2:6\n  |\n\
             2 |  int unused;\n  |      ^^^^^^"
        );
    }

    #[test]
    fn further_lines_of_a_message_belong_to_it() {
        let log = "other.h(10): error: no instance of function \"f\" matches\n\
                   \x20           argument types are: (int)\n  f(1);\n  ^\n\n";
        let [only] = &parsed(log)[..] else {
            panic!("one message")
        };
        assert_eq!(
            only.to_string(),
            "error: no instance of function \"f\" matches\n  argument types are: (int)\n  \
             --> other.h:10:1\n   |\n10 | f(1);\n   | ^"
        );
    }

    #[test]
    fn lines_that_are_no_messages_are_passed_over() {
        assert_eq!(
            parsed("nvrtc: error: unrecognized option --foo found\n"),
            []
        );
        assert_eq!(
            parsed("k.cu(x): error: no line\nk.cu(1): rumour: none\n"),
            []
        );
        assert_eq!(parsed(""), []);
    }
}
