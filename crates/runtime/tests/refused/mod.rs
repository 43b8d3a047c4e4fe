//! Programs that the compiler is to refuse, each exactly where and as its comments say.
//!
//! `//~ E0499` at the end of a line stands for one error of that number there, and `//~ "text"` for
//! one that has no number and whose message has that text. `//~ E0277 "text"` has both: a number,
//! and a text of the message or the notes below it, which tell the reader what to do; such an error
//! may come several times, for a macro writes a type at several places. Numbers, lines and our own
//! texts hold from one version of rustc to the next and whatever else the crates come to offer, as
//! whole messages would not.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The package of the programs: what a user's would be, with the versions that are locked here and
/// no access to a registry.
const MANIFEST: &str = r#"[package]
name = "refused"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
"#;

/// Programs that the compiler is to refuse.
pub(crate) struct Refused<'a> {
    /// The folder of the crate with the programs in `tests/compile_fail`.
    pub(crate) package: &'a Path,
    /// A folder to build in.
    pub(crate) scratch: &'a Path,
    /// The crates of this workspace that they use, with their folders beside the package's.
    pub(crate) uses: &'a [(&'a str, &'a str)],
    /// Other crates, as their manifest names them.
    pub(crate) others: &'a str,
}

/// An error that a program is to have.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    program: String,
    line: usize,
    number: Option<String>,
    text: Option<String>,
}

/// An error that a program has.
struct Refusal {
    program: String,
    line: usize,
    number: Option<String>,
    /// As the compiler shows it.
    message: String,
}

impl Refused<'_> {
    /// Compares what is refused with what is marked.
    #[track_caller]
    pub(crate) fn check(&self) {
        let programs = self.programs();
        let mut marks: Vec<Mark> = programs
            .iter()
            .flat_map(|program| marked(program))
            .collect();
        assert!(!marks.is_empty(), "there are programs with marks");
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
            "not refused: {marks:#?}\nrefused otherwise:\n{messages}"
        );
    }

    /// The programs, in the order of their names.
    fn programs(&self) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(self.package.join("tests/compile_fail")).expect("the programs are there");
        let mut programs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        programs.sort();
        programs
    }

    /// Checks all programs as binaries of one package, and gives every error.
    fn compile(&self, programs: &[PathBuf]) -> Vec<Refusal> {
        let package = self.scratch.join("compile_fail");
        fs::create_dir_all(&package).unwrap();
        let mut manifest = String::from(MANIFEST);
        for (name, folder) in self.uses {
            let path = self.package.join("..").join(folder);
            manifest.push_str(&format!("{name} = {{ path = \"{}\" }}\n", path.display()));
        }
        manifest.push_str(self.others);
        for program in programs {
            let (name, path) = (name(program), program.display());
            manifest.push_str(&format!(
                "\n[[bin]]\nname = \"{name}\"\npath = \"{path}\"\n"
            ));
        }
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
            .env("CARGO_TARGET_DIR", package.join("target"));
        let output = cargo
            .output()
            .expect("cargo starts, since it has started this");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("could not compile"),
            "the programs were not reached:\n{errors}"
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
    /// Whether this is the error. One without a number has none.
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

/// The refusals that a program's comments announce.
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

/// What a line of cargo's report says of an error with a place; the closing remarks that some
/// errors exist have none.
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
