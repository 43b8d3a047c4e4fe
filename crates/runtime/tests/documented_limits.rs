//! Probes of the features that the guide and the README call missing.
//!
//! A row of a table, an item of a list or a paragraph that says "none yet" or "not supported" names
//! probes in a comment, `<!-- probe: NAME, NAME -->`. Each must fail as long as the text stands:
//!
//! | name | probe |
//! |---|---|
//! | `mma.ptx` | a file of `crates/sim/tests/ptx/refused`, which the simulated device refuses |
//! | `cuMemMap` | a function of the driver that `millstream-libcuda` refuses |
//! | `region/absent.rs` | a program in `tests/compile_fail` of a crate, whose test compiles it |
//!
//! If a probe begins to pass, the feature exists: correct the text.

use std::{fs, path::PathBuf};

use millstream::{Device, Ptx, signature};

/// The phrases that need a probe, in lower case.
const PHRASES: [&str; 2] = ["none yet", "not supported"];

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../..", name].iter().collect()
}

fn read(name: &str) -> Result<String, String> {
    fs::read_to_string(path(name)).map_err(|error| format!("{name}: {error}"))
}

/// Runs a probe; an error says why it does not show that the feature is missing.
fn probe(name: &str) -> Result<(), String> {
    if name.ends_with(".ptx") {
        let text = read(&format!("crates/sim/tests/ptx/refused/{name}"))?;
        let device = Device::simulated().map_err(|error| error.to_string())?;
        let loaded = device.module(Ptx::text(name, text));
        // The kernel of a file has one parameter or none.
        let is_loaded = loaded.is_ok_and(|module| {
            !module.kernels().contains(&"k")
                || module.function::<signature!()>("k").is_ok()
                || module.function::<signature!(u64)>("k").is_ok()
        });
        return (!is_loaded).then_some(()).ok_or("it is loaded".into());
    }
    if let Some((package, program)) = name.split_once('/') {
        let program = read(&format!("crates/{package}/tests/compile_fail/{program}"))?;
        let expects = program.contains("//~ ").then_some(());
        return expects.ok_or("the program expects no error".into());
    }
    let refused = read("crates/libcuda/src/refused.rs")?;
    let is_refused = refused.split_whitespace().any(|symbol| symbol == name);
    is_refused.then_some(()).ok_or("it is not refused".into())
}

/// Returns the rows, items and paragraphs of a page outside of code, each with its line number.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let (mut blocks, mut is_code) = (vec![(1, String::new())], false);
    for (number, line) in (1..).zip(page.lines()) {
        is_code ^= line.starts_with("```");
        if line.trim().is_empty() || line.starts_with(['|', '#', '`']) || line.starts_with("- ") {
            blocks.push((number, String::new()));
        }
        let (_, block) = blocks.last_mut().expect("there is a first block");
        if !is_code {
            *block += line.trim();
            block.push(' ');
        }
    }
    blocks
}

/// Returns the blocks of a page that need a probe and name none, and the probes that do not fail.
fn problems(page: &str, probe: impl Fn(&str) -> Result<(), String>) -> Vec<String> {
    let mut problems = Vec::new();
    for (line, block) in blocks(page) {
        let comments = block.split("<!-- probe: ").skip(1);
        let names: Vec<&str> = comments
            .filter_map(|rest| rest.split_once(" -->"))
            .flat_map(|(names, _)| names.split(", "))
            .collect();
        let lower = block.to_lowercase();
        if names.is_empty() && PHRASES.iter().any(|phrase| lower.contains(phrase)) {
            problems.push(format!("line {line} names no probe: {block}"));
        }
        let failed = names.iter().map(|name| (name, probe(name)));
        problems.extend(failed.filter_map(|(name, outcome)| {
            let reason = outcome.err()?;
            Some(format!("line {line}, probe `{name}`: {reason}"))
        }));
    }
    problems
}

#[test]
fn features_that_the_documentation_calls_missing_are_missing() {
    let guide = fs::read_dir(path("crates/runtime/src/guide")).unwrap();
    let mut pages: Vec<PathBuf> = guide.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|kind| kind == "md"));
    pages.push(path("README.md"));
    assert!(pages.len() > 20);
    let mut found = String::new();
    for page in pages {
        for problem in problems(&fs::read_to_string(&page).unwrap(), probe) {
            found += &format!("{}, {problem}\n", page.display());
        }
    }
    assert!(found.is_empty(), "{found}");
}

#[test]
fn texts_without_a_probe_and_probes_that_pass_are_found() {
    let of = |page: &str| {
        problems(page, |name| {
            (name != "works").then_some(()).ok_or("x".into())
        })
    };
    assert!(of("# Terms\n\n| a | `b` |\n| sets | none yet <!-- probe: sets --> |\n").is_empty());
    assert!(of("- Sets are not\n  supported.\n  <!-- probe: sets, bags -->\n").is_empty());
    assert!(of("```text\nnot supported\n```\n").is_empty());
    assert_eq!(
        of("| maps | none <!-- probe: maps --> |\n| sets | none yet |\n").len(),
        1
    );
    assert_eq!(
        of("- Sets are not\n  supported.\n- Maps <!-- probe: maps -->\n").len(),
        1
    );
    assert_eq!(of("| sets | none yet <!-- probe: works --> |").len(), 1);
    let reason = |name: &str| probe(name).unwrap_err();
    assert_eq!(reason("cuInit"), "it is not refused");
    assert_eq!(reason("../files/carry.ptx"), "it is loaded");
    assert!(reason("runtime/missing.rs").contains("No such file"));
}
