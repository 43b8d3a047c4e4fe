//! Lists of exceptions to a rule: one path and the reason for it a line. An exception that nothing
//! needs is a breach itself.

use anyhow::{Result, bail};

/// The exceptions to one rule.
pub(super) struct AllowList {
    /// The list's own path, for messages.
    name: &'static str,
    /// Paths relative to the root; one that ends with `/` stands for everything below it.
    paths: Vec<String>,
}

impl AllowList {
    /// Reads a list from its text. Empty lines, and those that start with `#`, say nothing.
    pub(super) fn parse(name: &'static str, text: &str) -> Result<AllowList> {
        let mut paths = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once(char::is_whitespace) {
                Some((path, _reason)) => paths.push(path.to_owned()),
                None => bail!("{name}:{number}: a path without a reason"),
            }
        }
        Ok(AllowList { name, paths })
    }

    /// What is wrong, given the files that break the rule, each with its message: those that are no
    /// exception, and the exceptions that no file needs.
    pub(super) fn problems(&self, breaches: &[(&str, String)]) -> Vec<String> {
        let covers = |entry: &String, path: &str| {
            path == entry || entry.ends_with('/') && path.starts_with(entry.as_str())
        };
        let unlisted = breaches
            .iter()
            .filter(|(path, _)| !self.paths.iter().any(|entry| covers(entry, path)));
        let stale = self
            .paths
            .iter()
            .filter(|entry| !breaches.iter().any(|(path, _)| covers(entry, path)));
        let mut problems: Vec<_> = unlisted
            .map(|(_, message)| format!("{message} (exceptions: {})", self.name))
            .collect();
        problems.extend(
            stale.map(|entry| format!("{}: {entry} needs no exception (any more)", self.name)),
        );
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_excuses_its_files_and_folders_only() {
        let list =
            AllowList::parse("list", "# comment\n\na/b.rs  because\na/ui/ all of them\n").unwrap();
        let breach = |path: &'static str| (path, format!("{path} breaks it"));
        let breaches = [
            breach("a/b.rs"),
            breach("a/ui/x.rs"),
            breach("a/b.rs.rs"),
            breach("c.rs"),
        ];
        let problems = list.problems(&breaches);
        assert_eq!(
            problems,
            [
                "a/b.rs.rs breaks it (exceptions: list)",
                "c.rs breaks it (exceptions: list)"
            ]
        );
    }

    #[test]
    fn a_stale_exception_is_a_problem() {
        let list = AllowList::parse("list", "a/b.rs because\na/ui/ all of them\n").unwrap();
        assert_eq!(
            list.problems(&[("a/b.rs", String::new())]),
            ["list: a/ui/ needs no exception (any more)"]
        );
    }

    #[test]
    fn an_exception_has_a_reason() {
        let refused = AllowList::parse("list", "a.rs why\nb.rs\n")
            .map(|_| ())
            .unwrap_err();
        assert_eq!(refused.to_string(), "list:2: a path without a reason");
    }
}
