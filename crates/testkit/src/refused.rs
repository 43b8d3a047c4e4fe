//! A harness for programs that must fail to compile, with exactly the errors that their comments
//! announce.
//!
//! `//~ E0499` at the end of a line stands for one error with that code on that line, and
//! `//~ "text"` for one without a code whose message contains that text. `//~ E0277 "text"`
//! requires both: a code, and a text in the message or in the notes below it, which tell the user
//! what to do; such an error may occur several times, because a macro emits a type at several
//! places. Codes, lines and Millstream's own texts stay stable across versions of rustc and as the
//! crates grow, unlike whole messages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The manifest of the programs' package: like a user's, with the versions of this workspace's lock
/// file and without registry access.
const MANIFEST: &str = r#"[package]
name = "refused"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
"#;

/// Programs that must fail to compile.
pub struct Refused<'a> {
    /// The folder of the crate that has the programs in `tests/compile_fail`.
    pub package: &'a Path,
    /// The folder `tmp` within cargo's output folder.
    pub tmp: &'a Path,
    /// The crates of this workspace that the programs use, each with its folder next to the
    /// package's and a feature, or none.
    pub uses: &'a [(&'a str, &'a str, Option<&'a str>)],
    /// Other dependencies, as lines of the manifest.
    pub others: &'a str,
}

/// An expected error of a program.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    program: String,
    line: usize,
    number: Option<String>,
    text: Option<String>,
}

/// A reported error of a program.
struct Refusal {
    program: String,
    line: usize,
    number: Option<String>,
    /// The message as the compiler renders it.
    message: String,
}

impl Refused<'_> {
    /// Compares the reported errors with the expected ones.
    #[track_caller]
    pub fn check(&self) {
        let programs = self.programs();
        let mut marks: Vec<Mark> = programs
            .iter()
            .flat_map(|program| marked(program))
            .collect();
        assert!(
            !marks.is_empty(),
            "the folder has programs with expected errors"
        );
        let mut met: Vec<Mark> = Vec::new();
        let mut messages = String::new();
        for refusal in self.compile(&programs) {
            match marks.iter().position(|mark| mark.is_met_by(&refusal)) {
                Some(at) => met.push(marks.swap_remove(at)),
                None if met
                    .iter()
                    .any(|mark| mark.text.is_some() && mark.is_met_by(&refusal)) => {}
                None => messages.push_str(&refusal.message),
            }
        }
        marks.sort();
        assert!(
            marks.is_empty() && messages.is_empty(),
            "missing errors: {marks:#?}\nunexpected errors:\n{messages}"
        );
    }

    /// Returns the programs, sorted by name.
    fn programs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.package.join("tests/compile_fail"))
            .expect("the crate has a folder tests/compile_fail");
        let mut programs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        programs.sort();
        programs
    }

    /// Checks all programs as binaries of one package and returns every error.
    fn compile(&self, programs: &[PathBuf]) -> Vec<Refusal> {
        let folder = self.package.file_name().expect("the crate has a folder");
        let package = self.tmp.join("compile_fail").join(folder);
        fs::create_dir_all(&package).unwrap();
        let workspace = fs::read_to_string(self.package.join("../../Cargo.toml")).unwrap();
        let profiles = workspace
            .find("[profile.dev]")
            .expect("the workspace has profiles");
        let mut manifest = String::from(MANIFEST);
        // Without the simulated device, which takes the longest to check.
        for (name, folder, feature) in self.uses {
            let path = self.package.join("..").join(folder);
            let features: Vec<_> = feature.iter().collect();
            let path = path.display();
            manifest.push_str(&format!(
                "{name} = {{ path = \"{path}\", default-features = false, \
                 features = {features:?} }}\n"
            ));
        }
        manifest.push_str(self.others);
        for program in programs {
            let (name, path) = (name(program), program.display());
            manifest.push_str(&format!(
                "\n[[bin]]\nname = \"{name}\"\npath = \"{path}\"\n"
            ));
        }
        // With equal profiles, cargo uses what it has compiled for the workspace.
        manifest.push('\n');
        manifest.push_str(&workspace[profiles..]);
        fs::write(package.join("Cargo.toml"), manifest).unwrap();
        fs::copy(
            self.package.join("../../Cargo.lock"),
            package.join("Cargo.lock"),
        )
        .unwrap();

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
            .env("CARGO_TARGET_DIR", self.tmp.join(".."));
        let output = cargo
            .output()
            .expect("cargo starts: it has also started this test");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("could not compile"),
            "cargo failed before it compiled the programs:\n{errors}"
        );

        let lines = String::from_utf8_lossy(&output.stdout);
        let reports = lines
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        reports
            .filter_map(|report: Value| refusal(&report))
            .collect()
    }
}

impl Mark {
    /// Returns whether the reported error is the expected one; a mark without a code matches only
    /// errors without one.
    fn is_met_by(&self, refusal: &Refusal) -> bool {
        let has_text = |text: &String| refusal.message.contains(text);
        self.program == refusal.program
            && self.line == refusal.line
            && self.number == refusal.number
            && self.text.as_ref().is_none_or(has_text)
    }
}

fn name(program: &Path) -> String {
    program.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Returns the errors that a program's comments announce.
fn marked(program: &Path) -> Vec<Mark> {
    let source = fs::read_to_string(program).unwrap();
    let mut marked = Vec::new();
    for (number, line) in source.lines().enumerate() {
        let Some((_, marks)) = line.split_once("//~ ") else {
            continue;
        };
        let (numbers, text) = match marks.split_once('"') {
            Some((numbers, text)) => (numbers, Some(text.trim_end_matches('"').to_owned())),
            None => (marks, None),
        };
        let mark = |error: Option<&str>| Mark {
            program: name(program),
            line: number + 1,
            number: error.map(str::to_owned),
            text: text.clone(),
        };
        if numbers.is_empty() {
            marked.push(mark(None));
        }
        marked.extend(numbers.split_whitespace().map(|error| mark(Some(error))));
    }
    marked
}

/// Parses a line of cargo's JSON output into an error with a source location. The final summary
/// messages have no location and are skipped.
fn refusal(report: &Value) -> Option<Refusal> {
    let message = report
        .get("message")
        .filter(|message| message["level"] == "error")?;
    let spans = message["spans"].as_array()?;
    let place = spans.iter().find(|span| span["is_primary"] == true)?;
    Some(Refusal {
        program: report["target"]["name"].as_str()?.to_owned(),
        line: usize::try_from(place["line_start"].as_u64()?).ok()?,
        number: message["code"]["code"].as_str().map(str::to_owned),
        message: message["rendered"].as_str()?.to_owned(),
    })
}
