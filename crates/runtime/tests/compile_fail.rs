//! What the compiler refuses for us: each program in `compile_fail/` is refused exactly where and as its comments say.
//!
//! `//~ E0499` at the end of a line stands for one error of that number there, `//~ "text"` for one that has no number and
//! whose message has that text. Numbers and lines hold from one version of rustc to the next and whatever else the crates
//! come to offer, as whole messages would not.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The package of the programs: what a user's would be, with the versions that are locked here and no access to a registry.
const MANIFEST: &str = r#"[package]
name = "refused"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
millstream = { path = "MILLSTREAM" }
"#;

/// An error that a program has, or is to have.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Refusal {
    program: String,
    line: usize,
    /// The error's number, or its message.
    what: String,
}

#[test]
#[cfg_attr(miri, ignore = "starts other programs")]
fn what_must_not_compile_is_refused_and_for_the_right_reason() {
    let programs = programs();
    assert!(programs.len() > 20);
    let mut expected: Vec<Refusal> = programs.iter().flat_map(|program| marked(program)).collect();
    let mut messages = String::new();
    for (refusal, message) in compile(&programs) {
        let met = expected.iter().position(|expected| matches(expected, &refusal));
        match met {
            Some(at) => drop(expected.swap_remove(at)),
            None => messages.push_str(&message),
        }
    }
    expected.sort();
    assert!(
        expected.is_empty() && messages.is_empty(),
        "not refused: {expected:#?}\nrefused otherwise:\n{messages}"
    );
}

fn matches(expected: &Refusal, refusal: &Refusal) -> bool {
    let place = |refusal: &Refusal| (refusal.program.clone(), refusal.line);
    place(expected) == place(refusal) && refusal.what.contains(&expected.what)
}

/// The programs, in the order of their names.
fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let entries = fs::read_dir(folder).expect("the programs are there");
    let mut programs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    programs.sort();
    programs
}

fn name(program: &Path) -> String {
    program.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The refusals that a program's comments announce.
fn marked(program: &Path) -> Vec<Refusal> {
    let source = fs::read_to_string(program).unwrap();
    let mut marked = Vec::new();
    for (number, line) in source.lines().enumerate() {
        let Some((_, marks)) = line.split_once("//~ ") else {
            continue;
        };
        let quoted = marks.strip_prefix('"').and_then(|marks| marks.strip_suffix('"'));
        let whats = quoted.map_or_else(|| marks.split(' ').collect(), |text| vec![text]);
        marked.extend(whats.into_iter().map(|what| Refusal {
            program: name(program),
            line: number + 1,
            what: what.to_owned(),
        }));
    }
    marked
}

/// Checks all programs as binaries of one package, and gives every error with the message as the compiler shows it.
fn compile(programs: &[PathBuf]) -> Vec<(Refusal, String)> {
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    fs::create_dir_all(&package).unwrap();
    let mut manifest = MANIFEST.replace("MILLSTREAM", &runtime.to_string_lossy());
    for program in programs {
        let (name, path) = (name(program), program.to_string_lossy());
        manifest.push_str(&format!("\n[[bin]]\nname = \"{name}\"\npath = \"{path}\"\n"));
    }
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    fs::copy(runtime.join("../../Cargo.lock"), package.join("Cargo.lock")).unwrap();

    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "check",
        "--offline",
        "--keep-going",
        "--bins",
        "--message-format=json",
    ]);
    cargo
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", package.join("target"));
    let output = cargo.output().expect("cargo starts, since it has started this");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("could not compile"),
        "the programs were not reached:\n{errors}"
    );

    let lines = String::from_utf8_lossy(&output.stdout);
    let reports = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
    reports.filter_map(|report: Value| refusal(&report)).collect()
}

/// What a line of cargo's report says of an error with a place; the closing remarks that some errors exist have none.
fn refusal(report: &Value) -> Option<(Refusal, String)> {
    let message = report
        .get("message")
        .filter(|message| message["level"] == "error")?;
    let spans = message["spans"].as_array()?;
    let place = spans.iter().find(|span| span["is_primary"] == true)?;
    let refusal = Refusal {
        program: report["target"]["name"].as_str()?.to_owned(),
        line: usize::try_from(place["line_start"].as_u64()?).ok()?,
        what: message["code"]["code"]
            .as_str()
            .or(message["message"].as_str())?
            .to_owned(),
    };
    Some((refusal, message["rendered"].as_str()?.to_owned()))
}
