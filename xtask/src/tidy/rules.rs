//! The rules themselves: each takes all files and gives a line for every breach.

use super::allow_list::AllowList;
use super::sources::{Source, is_word};

/// The most lines a file may have without a reason.
const LINES_MAX: usize = 500;

/// The folders whose mention makes a source depend on the machine that it was written on.
const MACHINE_FOLDERS: [&str; 4] = ["home", "root", "tmp", "srv"];

/// Words that only some files of a folder may use.
struct Reserved {
    /// What must not occur in code; comments and strings may name it.
    needles: &'static [&'static str],
    /// The start of the paths that the rule is for.
    folder: &'static str,
    /// The starts of the paths that are excepted.
    allowed: &'static [&'static str],
    /// Why.
    reason: &'static str,
}

/// Events of `tracing`, whose subscriber is the user's code.
const EVENTS: [&str; 5] = [
    "tracing::error!",
    "tracing::warn!",
    "tracing::info!",
    "tracing::debug!",
    "tracing::trace!",
];

const RESERVED: [Reserved; 4] = [
    Reserved {
        needles: &[
            ".launch_kernel(",
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
        reason: "only `submission` enqueues work, since whatever passes it by is not tracked",
    },
    Reserved {
        needles: &["HashMap", "HashSet"],
        folder: "crates/sim/src/",
        allowed: &[],
        reason: "the simulator must not depend on hash order: use BTreeMap, BTreeSet or a Vec",
    },
    Reserved {
        needles: &EVENTS,
        folder: "crates/runtime/src/",
        allowed: &["crates/runtime/src/disposal.rs"],
        reason: "a subscriber must not run under a lock: use `disposal::log!`",
    },
    Reserved {
        needles: &EVENTS,
        folder: "crates/region/src/",
        allowed: &[],
        reason: "a subscriber must not run under a lock: use `millstream::__log!`",
    },
];

/// Every breach of every rule, as `path:line: what`.
pub(super) fn check(
    sources: &[Source],
    unsafe_files: &AllowList,
    long_files: &AllowList,
) -> Vec<String> {
    let mut problems = unsafe_files.problems(&per_file(sources, unsafe_code));
    problems.extend(long_files.problems(&per_file(sources, too_long)));
    for source in sources {
        problems.extend(missing_introduction(source));
        problems.extend(
            RESERVED
                .iter()
                .flat_map(|rule| reserved_words(source, rule)),
        );
        problems.extend(machine_paths(source));
    }
    problems
}

/// The files that break a rule that knows exceptions, each with its message.
fn per_file(sources: &[Source], rule: fn(&Source) -> Option<String>) -> Vec<(&str, String)> {
    sources
        .iter()
        .filter_map(|source| Some((source.path.as_str(), rule(source)?)))
        .collect()
}

/// Every Rust file says first what it is for, unless it is a script or was generated.
fn missing_introduction(source: &Source) -> Option<String> {
    let first = source.text.lines().next().unwrap_or("");
    let excused = first.starts_with("#!/") || first.contains("@generated");
    (source.is_rust() && !first.starts_with("//!") && !excused).then(|| {
        format!(
            "{}:1: the first line must be `//!` and say what the file is for",
            source.path
        )
    })
}

/// Unsafe code is for few files, and each of them is known.
fn unsafe_code(source: &Source) -> Option<String> {
    let is_unsafe = |line: &str| {
        line.split(|letter| !is_word(letter))
            .any(|word| word == "unsafe")
    };
    let (number, _) = (1..)
        .zip(source.code.lines())
        .find(|(_, line)| source.is_rust() && is_unsafe(line))?;
    Some(format!(
        "{}:{number}: `unsafe` in a file that is not known for it",
        source.path
    ))
}

/// A file is one idea.
fn too_long(source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    (lines > LINES_MAX).then(|| format!("{}:{lines}: more than {LINES_MAX} lines", source.path))
}

/// Some words belong to some files.
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
            .needles
            .iter()
            .filter(move |needle| line.contains(*needle));
        found.map(move |needle| format!("{path}:{number}: `{needle}`: {}", rule.reason))
    });
    uses.collect()
}

/// Sources other than tests name no folder of one machine.
fn machine_paths(source: &Source) -> Vec<String> {
    if source.path.contains("/tests/") {
        return Vec::new();
    }
    let lines = (1..)
        .zip(source.text.lines())
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]");
    let breaches = lines.filter_map(|(number, line)| {
        let folder = MACHINE_FOLDERS
            .iter()
            .find(|folder| names_root_folder(line, folder))?;
        Some(format!(
            "{}:{number}: names /{folder}, a folder that other machines may not have",
            source.path
        ))
    });
    breaches.collect()
}

/// Whether `line` has the absolute path of `folder`, a folder of the file system's root, or of
/// something in it.
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

    /// The breaches in one file, without exceptions.
    fn breaches(path: &str, text: &str) -> Vec<String> {
        let none = || AllowList::parse("list", "").unwrap();
        check(&[Source::new(path, text.to_owned())], &none(), &none())
    }

    #[test]
    fn a_file_that_keeps_all_rules_has_no_breach() {
        assert_eq!(
            breaches(
                "crates/runtime/src/a.rs",
                "//! For a.\n\n/// unsafe HashMap\nfn f() { \"unsafe\" }\n"
            ),
            [""; 0]
        );
    }

    #[test]
    fn the_first_line_is_an_introduction() {
        assert_eq!(breaches("a.rs", "fn f() {}\n").len(), 1);
        assert_eq!(breaches("a.rs", "").len(), 1);
        assert_eq!(
            breaches("a.rs", "#!/usr/bin/env run-cargo-script\n"),
            [""; 0]
        );
        assert_eq!(breaches("a.rs", "// @generated by something\n"), [""; 0]);
        assert_eq!(breaches("a.py", "print()\n"), [""; 0]);
    }

    #[test]
    fn unsafe_is_found_as_a_word_in_code() {
        assert_eq!(
            breaches(
                "a.rs",
                "//! A.\n#![deny(unsafe_code)]\nfn f() { unsafe { g() } }\n"
            ),
            ["a.rs:3: `unsafe` in a file that is not known for it (exceptions: list)"]
        );
        assert_eq!(breaches("a.rs", "//! A.\n#[unsafe(no_mangle)]\n").len(), 1);
        assert_eq!(
            breaches("a.rs", "//! unsafe\nfn not_unsafe() {} // unsafe\n"),
            [""; 0]
        );
    }

    #[test]
    fn known_unsafe_files_are_excused_and_stale_entries_are_not() {
        let list = AllowList::parse("list", "a.rs reads registers\nb.rs nothing\n").unwrap();
        let none = AllowList::parse("none", "").unwrap();
        let sources = [
            Source::new("a.rs", "//! A.\nunsafe fn f() {}\n".into()),
            Source::new("b.rs", "//! B.\n".into()),
        ];
        assert_eq!(
            check(&sources, &list, &none),
            ["list: b.rs needs no exception (any more)"]
        );
    }

    #[test]
    fn only_submit_enqueues() {
        let text = "//! A.\nfn f() {\n    driver\n        .launch_kernel(x);\n}\n";
        let found = breaches("crates/runtime/src/launch.rs", text);
        assert!(
            found.len() == 1
                && found[0].starts_with("crates/runtime/src/launch.rs:4: `.launch_kernel(`"),
            "{found:?}"
        );
        assert_eq!(
            breaches("crates/runtime/src/context/submission/kernel.rs", text),
            [""; 0]
        );
        assert_eq!(breaches("crates/sim/src/launch.rs", text), [""; 0]);
    }

    #[test]
    fn events_are_logged_where_no_lock_is_held() {
        let text = "//! A.\nfn f() {\n    tracing::warn!(1);\n}\n";
        for path in ["crates/runtime/src/a.rs", "crates/region/src/a.rs"] {
            assert_eq!(breaches(path, text).len(), 1, "{path}");
        }
        assert_eq!(breaches("crates/runtime/src/disposal.rs", text), [""; 0]);
    }

    #[test]
    fn the_simulator_has_no_hash_order() {
        assert_eq!(
            breaches(
                "crates/sim/src/a.rs",
                "//! A.\nuse std::collections::{HashMap, HashSet};\n"
            )
            .len(),
            2
        );
        assert_eq!(
            breaches(
                "crates/runtime/src/a.rs",
                "//! A.\nuse std::collections::HashMap;\n"
            ),
            [""; 0]
        );
    }

    #[test]
    fn long_files_need_a_reason() {
        let lines = |count| format!("//! A.\n{}", "\n".repeat(count - 1));
        assert_eq!(breaches("a.rs", &lines(LINES_MAX)), [""; 0]);
        assert_eq!(
            breaches("a.rs", &lines(LINES_MAX + 1)),
            ["a.rs:501: more than 500 lines (exceptions: list)"]
        );
    }

    #[test]
    fn machine_paths_are_found_outside_tests() {
        for line in ["\"/tmp/x\"", "cd /srv/main", "out=/home", "(/root/.cargo)"] {
            assert_eq!(breaches("a.sh", line).len(), 1, "{line}");
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
            assert_eq!(breaches("a.sh", line), [""; 0], "{line}");
        }
        assert_eq!(
            breaches(
                "a.rs",
                "//! A.\n#[cfg(test)]\nmod tests { const X: &str = \"/tmp/x\"; }\n"
            ),
            [""; 0]
        );
        assert_eq!(breaches("crates/x/tests/a.rs", "//! /tmp/x\n"), [""; 0]);
    }
}
