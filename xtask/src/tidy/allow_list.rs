//! Lists of exceptions to a rule: a path and a reason on each line. An exception without a
//! violation is itself a violation.

use anyhow::{Result, bail};

pub(super) struct AllowList {
    /// The list's own path, for messages.
    name: &'static str,
    /// Paths relative to the root. A path that ends with `/` covers the whole folder.
    paths: Vec<String>,
}

impl AllowList {
    /// Parses a list. Empty lines and lines that start with `#` are ignored.
    pub(super) fn parse(name: &'static str, text: &str) -> Result<AllowList> {
        let mut paths = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once(char::is_whitespace) {
                Some((path, _reason)) => paths.push(path.to_owned()),
                None => bail!("{name}:{number}: an exception without a reason"),
            }
        }
        Ok(AllowList { name, paths })
    }

    /// Returns the violations that no exception covers, and a message for each exception without a
    /// violation. `violations` pairs the path of a file with its message.
    pub(super) fn unexcepted(&self, violations: &[(&str, String)]) -> Vec<String> {
        let covers = |entry: &String, path: &str| {
            path == entry || entry.ends_with('/') && path.starts_with(entry.as_str())
        };
        let unlisted = violations
            .iter()
            .filter(|(path, _)| !self.paths.iter().any(|entry| covers(entry, path)));
        let stale = self
            .paths
            .iter()
            .filter(|entry| !violations.iter().any(|(path, _)| covers(entry, path)));
        let mut problems: Vec<_> = unlisted
            .map(|(_, message)| format!("{message} (exceptions: {})", self.name))
            .collect();
        problems
            .extend(stale.map(|entry| {
                format!("{}: {entry} needs no exception: remove the line", self.name)
            }));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_covers_its_files_and_folders_only() {
        let list =
            AllowList::parse("list", "# comment\n\na/b.rs  because\na/ui/ all of them\n").unwrap();
        let violation = |path: &'static str| (path, format!("{path} violates it"));
        let violations = [
            violation("a/b.rs"),
            violation("a/ui/x.rs"),
            violation("a/b.rs.rs"),
            violation("c.rs"),
        ];
        let problems = list.unexcepted(&violations);
        assert_eq!(
            problems,
            [
                "a/b.rs.rs violates it (exceptions: list)",
                "c.rs violates it (exceptions: list)"
            ]
        );
    }

    #[test]
    fn a_stale_exception_is_reported() {
        let list = AllowList::parse("list", "a/b.rs because\na/ui/ all of them\n").unwrap();
        assert_eq!(
            list.unexcepted(&[("a/b.rs", String::new())]),
            ["list: a/ui/ needs no exception: remove the line"]
        );
    }

    #[test]
    fn an_exception_without_a_reason_is_an_error() {
        let refused = AllowList::parse("list", "a.rs why\nb.rs\n")
            .map(|_| ())
            .unwrap_err();
        assert_eq!(refused.to_string(), "list:2: an exception without a reason");
    }
}
