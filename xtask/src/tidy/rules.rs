//! The rules for code. Each returns a message for every violation.

use super::allow_list::AllowList;
use super::sources::{Source, is_word};

/// The maximum number of lines of a file that is not on the list of exceptions.
const LINES_MAX: usize = 500;

/// Root folders whose mention makes a source depend on one machine.
const MACHINE_FOLDERS: [&str; 4] = ["home", "root", "tmp", "srv"];

/// Patterns that are reserved to some files of a folder.
struct Reserved {
    /// The reserved patterns. They may occur in comments and strings.
    patterns: &'static [&'static str],
    /// The prefix of the paths to which the rule applies.
    folder: &'static str,
    /// The prefixes of the paths that are excepted.
    allowed: &'static [&'static str],
    reason: &'static str,
}

/// The macros of `tracing`, whose subscriber is the user's code.
const EVENTS: [&str; 5] = [
    "tracing::error!",
    "tracing::warn!",
    "tracing::info!",
    "tracing::debug!",
    "tracing::trace!",
];

const RESERVED: [Reserved; 4] = [
    Reserved {
        patterns: &[
            ".launch_kernel(",
            ".launch_kernel_with(",
            ".launch_host_function(",
            ".copy_host_to_device_async(",
            ".copy_device_to_host_async(",
            ".copy_device_to_device_async(",
            ".copy_unified_async(",
            ".copy_captured_async(",
            ".memset_async(",
            ".mem_alloc_async(",
            ".mem_free_async(",
            ".stream_wait_event(",
            ".event_record(",
        ],
        folder: "crates/runtime/src/",
        allowed: &["crates/runtime/src/context/submission"],
        reason: "only `submission` may enqueue work, because the tracker sees no other work",
    },
    Reserved {
        patterns: &["HashMap", "HashSet"],
        folder: "crates/sim/src/",
        allowed: &[],
        reason: "the simulator must not depend on hash order: use BTreeMap, BTreeSet or a Vec",
    },
    Reserved {
        patterns: &EVENTS,
        folder: "crates/runtime/src/",
        allowed: &["crates/runtime/src/disposal.rs"],
        reason: "a subscriber must not run under a lock: use `disposal::log!`",
    },
    Reserved {
        patterns: &EVENTS,
        folder: "crates/region/src/",
        allowed: &[],
        reason: "a subscriber must not run under a lock: use `millstream::__log!`",
    },
];

/// Returns every violation of every rule, as `path:line: message`.
pub(super) fn check(
    sources: &[Source],
    unsafe_files: &AllowList,
    long_files: &AllowList,
) -> Vec<String> {
    let mut problems = unsafe_files.unexcepted(&per_file(sources, unsafe_code));
    problems.extend(long_files.unexcepted(&per_file(sources, too_long)));
    for source in sources {
        problems.extend(missing_module_comment(source));
        problems.extend(
            RESERVED
                .iter()
                .flat_map(|rule| reserved_words(source, rule)),
        );
        problems.extend(machine_paths(source));
    }
    problems
}

/// Returns the files that violate a rule with exceptions, each with its message.
fn per_file(sources: &[Source], rule: fn(&Source) -> Option<String>) -> Vec<(&str, String)> {
    sources
        .iter()
        .filter_map(|source| Some((source.path.as_str(), rule(source)?)))
        .collect()
}

/// Requires a module comment at the start of every Rust file, except scripts and generated files.
fn missing_module_comment(source: &Source) -> Option<String> {
    let first = source.text.lines().next().unwrap_or("");
    let excused = first.starts_with("#!/") || first.contains("@generated");
    (source.is_rust() && !first.starts_with("//!") && !excused).then(|| {
        format!(
            "{}:1: the first line must be `//!` and describe the file",
            source.path
        )
    })
}

/// Requires that files with unsafe code are listed.
fn unsafe_code(source: &Source) -> Option<String> {
    let is_unsafe = |line: &str| {
        line.split(|letter| !is_word(letter))
            .any(|word| word == "unsafe")
    };
    let (number, _) = (1..)
        .zip(source.code.lines())
        .find(|(_, line)| source.is_rust() && is_unsafe(line))?;
    Some(format!(
        "{}:{number}: `unsafe` in a file that is not listed",
        source.path
    ))
}

/// Limits the length of a file.
fn too_long(source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    (lines > LINES_MAX && !source.is_markdown())
        .then(|| format!("{}:{lines}: more than {LINES_MAX} lines", source.path))
}

/// Restricts reserved patterns to their files.
fn reserved_words(source: &Source, rule: &Reserved) -> Vec<String> {
    let path = &source.path;
    if !source.is_rust()
        || !path.starts_with(rule.folder)
        || rule.allowed.iter().any(|start| path.starts_with(start))
    {
        return Vec::new();
    }
    let uses = (1..).zip(source.code.lines()).flat_map(|(number, line)| {
        let found = rule
            .patterns
            .iter()
            .filter(move |pattern| line.contains(*pattern));
        found.map(move |pattern| format!("{path}:{number}: `{pattern}`: {}", rule.reason))
    });
    uses.collect()
}

/// Rejects absolute paths of one machine, except in tests.
fn machine_paths(source: &Source) -> Vec<String> {
    if source.path.contains("/tests/") || source.is_markdown() {
        return Vec::new();
    }
    let lines = (1..)
        .zip(source.text.lines())
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]");
    let violations = lines.filter_map(|(number, line)| {
        let folder = MACHINE_FOLDERS
            .iter()
            .find(|folder| names_root_folder(line, folder))?;
        Some(format!(
            "{}:{number}: names /{folder}, a folder that other machines may lack",
            source.path
        ))
    });
    violations.collect()
}

/// Returns whether `line` contains the absolute path of the root folder `folder`, or of a file in
/// it.
fn names_root_folder(line: &str, folder: &str) -> bool {
    line.match_indices(&format!("/{folder}"))
        .any(|(at, found)| {
            let before = line[..at].chars().next_back();
            let after = line[at + found.len()..].chars().next();
            let goes_on = |letter: char| is_word(letter) || letter == '-' || letter == '.';
            !before.is_some_and(|letter| goes_on(letter) || "/~}$)*".contains(letter))
                && !after.is_some_and(goes_on)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the violations in one file, without exceptions.
    fn violations(path: &str, text: &str) -> Vec<String> {
        let none = || AllowList::parse("list", "").unwrap();
        check(&[Source::new(path, text.to_owned())], &none(), &none())
    }

    #[test]
    fn a_file_that_follows_all_rules_has_no_violation() {
        assert_eq!(
            violations(
                "crates/runtime/src/a.rs",
                "//! For a.\n\n/// unsafe HashMap\nfn f() { \"unsafe\" }\n"
            ),
            [""; 0]
        );
    }

    /// Asserts that each text has this number of violations in the file of this path.
    #[track_caller]
    fn assert_counts(cases: &[(&str, &str, usize)]) {
        for (path, text, count) in cases {
            let found = violations(path, text);
            assert_eq!(found.len(), *count, "{path}: {text}: {found:?}");
        }
    }

    #[test]
    fn the_first_line_must_be_a_module_comment() {
        assert_counts(&[
            ("a.rs", "fn f() {}\n", 1),
            ("a.rs", "", 1),
            ("a.rs", "#!/usr/bin/env run-cargo-script\n", 0),
            ("a.rs", "// @generated by something\n", 0),
            ("a.py", "print()\n", 0),
        ]);
    }

    #[test]
    fn unsafe_is_found_as_a_word_in_code() {
        let text = "//! A.\n#![deny(unsafe_code)]\nfn f() { unsafe { g() } }\n";
        assert_eq!(
            violations("a.rs", text),
            ["a.rs:3: `unsafe` in a file that is not listed (exceptions: list)"]
        );
        assert_counts(&[
            ("a.rs", "//! A.\n#[unsafe(no_mangle)]\n", 1),
            ("a.rs", "//! unsafe\nfn not_unsafe() {} // unsafe\n", 0),
        ]);
    }

    #[test]
    fn listed_unsafe_files_are_excepted_and_stale_entries_reported() {
        let list = AllowList::parse("list", "a.rs reads registers\nb.rs nothing\n").unwrap();
        let none = AllowList::parse("none", "").unwrap();
        let sources = [
            Source::new("a.rs", "//! A.\nunsafe fn f() {}\n".into()),
            Source::new("b.rs", "//! B.\n".into()),
        ];
        assert_eq!(
            check(&sources, &list, &none),
            ["list: b.rs needs no exception: remove the line"]
        );
    }

    #[test]
    fn reserved_patterns_are_violations_outside_of_their_files() {
        let launch = "//! A.\nfn f() {\n    driver\n        .launch_kernel(x);\n}\n";
        let found = violations("crates/runtime/src/launch.rs", launch);
        assert!(found[0].starts_with("crates/runtime/src/launch.rs:4: `.launch_kernel(`"));
        let event = "//! A.\nfn f() {\n    tracing::warn!(1);\n}\n";
        let maps = "//! A.\nuse std::collections::{HashMap, HashSet};\n";
        assert_counts(&[
            ("crates/runtime/src/launch.rs", launch, 1),
            ("crates/runtime/src/context/submission/kernel.rs", launch, 0),
            ("crates/sim/src/launch.rs", launch, 0),
            ("crates/runtime/src/a.rs", event, 1),
            ("crates/region/src/a.rs", event, 1),
            ("crates/runtime/src/disposal.rs", event, 0),
            ("crates/sim/src/a.rs", maps, 2),
            ("crates/runtime/src/a.rs", maps, 0),
        ]);
    }

    #[test]
    fn long_files_must_be_listed() {
        let lines = |count| format!("//! A.\n{}", "\n".repeat(count - 1));
        assert_eq!(violations("a.rs", &lines(LINES_MAX)), [""; 0]);
        assert_eq!(
            violations("a.rs", &lines(LINES_MAX + 1)),
            ["a.rs:501: more than 500 lines (exceptions: list)"]
        );
    }

    #[test]
    fn machine_paths_are_rejected_outside_tests() {
        for line in ["\"/tmp/x\"", "cd /srv/main", "out=/home", "(/root/.cargo)"] {
            assert_eq!(violations("a.sh", line).len(), 1, "{line}");
        }
        for line in [
            "src/srv/x",
            "https://x.org/home/",
            "/srvspace/x",
            "../tmp/x",
            "{root}/tmp/x",
            "/srv-list",
            "$x/tmp",
        ] {
            assert_eq!(violations("a.sh", line), [""; 0], "{line}");
        }
        assert_eq!(
            violations(
                "a.rs",
                "//! A.\n#[cfg(test)]\nmod tests { const X: &str = \"/tmp/x\"; }\n"
            ),
            [""; 0]
        );
        assert_eq!(violations("crates/x/tests/a.rs", "//! /tmp/x\n"), [""; 0]);
    }
}
