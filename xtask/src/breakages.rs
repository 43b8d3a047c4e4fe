//! `cargo xtask breakages`: mutation testing with deliberate faults, each of which a named test
//! must detect.
//!
//! A test that cannot fail proves nothing. Each patch in `xtask/breakages` therefore breaks the
//! code on purpose. Its header states the fault, the test command to run, and the tests that must
//! fail:
//!
//! ```text
//! Breaks: the tracker forgets all readers of an array but the last
//! Test: -p millstream --lib tracker
//! Fails: every_conflict_is_ordered
//! ```
//!
//! `Test` holds the arguments of `cargo test`; with `shuttle` in front of them the runtime is built
//! as for `cargo xtask shuttle`. `Fails` lists tests, separated by commas, each by the end of its
//! path. The word `hang` instead means that the command must not end: it is killed after `Limit`, a
//! number of seconds. The task applies one patch after another to a copy of the repository in
//! cargo's target folder.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{process, shuttle};

/// The folder of the patches.
const FOLDER: &str = "xtask/breakages";

/// The default time limit of a test command, without compilation. A patch may set another.
const LIMIT: Duration = Duration::from_secs(300);

/// The arguments of `cargo xtask breakages`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only the patches whose names contain one of these words.
    names: Vec<String>,
    /// Only check that every patch applies.
    #[arg(long)]
    check: bool,
    /// List the patches and the fault of each.
    #[arg(long)]
    list: bool,
}

/// A patch with a deliberate fault.
#[derive(Debug, PartialEq)]
struct Breakage {
    name: String,
    /// A description of the fault.
    breaks: String,
    /// The arguments of `cargo test`.
    test: Vec<String>,
    /// Set if the runtime is built with shuttle's locks.
    with_shuttle: bool,
    /// The tests that must fail, by the ends of their paths. Empty if the command must hang.
    fails: Vec<String>,
    limit: Duration,
}

impl Breakage {
    /// Parses the header of a patch.
    fn parse(name: &str, text: &str) -> Result<Self> {
        let header = text.split("\ndiff ").next().unwrap_or_default();
        let field = |key: &str| {
            let line = header.lines().find_map(|line| line.strip_prefix(key));
            line.map(|value| value.trim().to_owned())
        };
        let wanted = |key: &str| {
            field(key).with_context(|| format!("{name}: the header has no line `{key} …`"))
        };
        let words = |text: String, separator: char| {
            let words = text.split(separator).map(str::trim).map(str::to_owned);
            words.filter(|word| !word.is_empty()).collect::<Vec<_>>()
        };
        let fails = wanted("Fails:")?;
        let limit = match field("Limit:") {
            Some(seconds) => Duration::from_secs(
                seconds
                    .parse()
                    .with_context(|| format!("{name}: `Limit:`"))?,
            ),
            None => LIMIT,
        };
        let mut test = words(wanted("Test:")?, ' ');
        let with_shuttle = test.first().is_some_and(|word| word == "shuttle");
        if with_shuttle {
            test.remove(0);
        }
        let breakage = Self {
            name: name.to_owned(),
            breaks: wanted("Breaks:")?,
            test,
            with_shuttle,
            fails: if fails == "hang" {
                Vec::new()
            } else {
                words(fails, ',')
            },
            limit,
        };
        ensure!(
            text.contains("\n--- a/"),
            "{name}: the header is followed by no patch"
        );
        Ok(breakage)
    }

    /// Compares the outcome with the one in the header. The error is the difference.
    fn judge(&self, outcome: &Outcome) -> Result<(), String> {
        match outcome {
            Outcome::Hung if self.fails.is_empty() => Ok(()),
            Outcome::Hung => Err(String::from("the tests did not end within the limit")),
            Outcome::Passed => Err(String::from("no test failed")),
            Outcome::NotBuilt => Err(String::from("the patched code does not compile")),
            Outcome::Failed(_) if self.fails.is_empty() => Err(String::from("the tests ended")),
            Outcome::Failed(failed) => {
                let has_failed = |wanted: &&String| {
                    !failed
                        .iter()
                        .any(|test| test == *wanted || test.ends_with(&format!("::{wanted}")))
                };
                let passed: Vec<&str> = self
                    .fails
                    .iter()
                    .filter(has_failed)
                    .map(String::as_str)
                    .collect();
                if passed.is_empty() {
                    return Ok(());
                }
                Err(format!(
                    "did not fail: {}; failed: {failed:?}",
                    passed.join(", ")
                ))
            }
        }
    }
}

/// The outcome of a test command.
#[derive(Debug, PartialEq)]
enum Outcome {
    NotBuilt,
    Passed,
    Failed(BTreeSet<String>),
    Hung,
}

/// Applies every patch in turn and runs its tests.
pub(crate) fn run(options: &Options) -> Result<()> {
    let breakages = read(&process::root().join(FOLDER))?;
    let wanted: Vec<&Breakage> = breakages
        .iter()
        .filter(|breakage| {
            options.names.is_empty()
                || options
                    .names
                    .iter()
                    .any(|name| breakage.name.contains(name))
        })
        .collect();
    ensure!(
        !wanted.is_empty(),
        "no patch in {FOLDER} has a name with {}",
        options.names.join(" or ")
    );
    if options.list {
        for breakage in &wanted {
            println!("{:<40} {}", breakage.name, breakage.breaks);
        }
        return Ok(());
    }
    if options.check {
        return check(&wanted);
    }
    let tree = checkout()?;
    let mut wrong = Vec::new();
    for (number, breakage) in (1..).zip(&wanted) {
        let start = Instant::now();
        let outcome = run_one(&tree, breakage)?;
        let verdict = breakage.judge(&outcome);
        println!(
            "[{number}/{}] {:<40} {:>4.0} s  {}",
            wanted.len(),
            breakage.name,
            start.elapsed().as_secs_f64(),
            verdict.as_ref().map_or_else(
                |why| format!("NOT DETECTED: {why}"),
                |()| String::from("detected")
            )
        );
        if verdict.is_err() {
            wrong.push(breakage.name.as_str());
        }
    }
    ensure!(
        wrong.is_empty(),
        "faults that the named tests do not detect: {}",
        wrong.join(", ")
    );
    Ok(())
}

/// Checks that every patch applies to the working tree.
pub(crate) fn check_all() -> Result<()> {
    check(
        &read(&process::root().join(FOLDER))?
            .iter()
            .collect::<Vec<_>>(),
    )
}

/// Reads all patches, in order of their names.
fn read(folder: &Path) -> Result<Vec<Breakage>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    paths
        .iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "patch")
        })
        .map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            Breakage::parse(&name, &fs::read_to_string(path)?)
        })
        .collect()
}

/// Checks that each of these patches applies to the working tree.
fn check(breakages: &[&Breakage]) -> Result<()> {
    let stale: Vec<&str> = breakages
        .iter()
        .filter(|breakage| {
            !git_apply(&process::root(), breakage, &["--check"]).is_ok_and(|done| done)
        })
        .map(|breakage| breakage.name.as_str())
        .collect();
    ensure!(
        stale.is_empty(),
        "patches that no longer apply: {}; adapt them to the sources",
        stale.join(", ")
    );
    println!("{} patches apply", breakages.len());
    Ok(())
}

/// Runs `git apply` with a patch, and returns whether it succeeded.
///
/// The copy lies within the repository, where git would ignore files outside of the current folder.
/// Git is therefore kept from finding the repository above the copy.
fn git_apply(tree: &Path, breakage: &Breakage, options: &[&str]) -> Result<bool> {
    let patch = process::root()
        .join(FOLDER)
        .join(format!("{}.patch", breakage.name));
    let status = Command::new("git")
        .current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree))
        .arg("apply")
        .args(options)
        .arg(patch)
        .status()
        .context("cannot start git")?;
    Ok(status.success())
}

/// Creates or updates a copy of the files that git tracks.
///
/// Unchanged files keep their modification times, so that cargo rebuilds only the changed ones.
fn checkout() -> Result<PathBuf> {
    let tree = process::target_folder().join("breakages/tree");
    fs::create_dir_all(&tree)?;
    let listed = process::output(process::command("git").args(["ls-files", "--cached", "-z"]))?;
    let files: BTreeSet<&str> = listed.split('\0').filter(|file| !file.is_empty()).collect();
    for file in &files {
        let (source, target) = (process::root().join(file), tree.join(file));
        let Ok(content) = fs::read(&source) else {
            continue;
        };
        if fs::read(&target).is_ok_and(|present| present == content) {
            continue;
        }
        fs::create_dir_all(target.parent().context("a file has a folder")?)?;
        fs::write(&target, content)?;
    }
    remove_untracked(&tree, &tree, &files)?;
    Ok(tree)
}

/// Removes files of an earlier copy that git no longer tracks.
fn remove_untracked(tree: &Path, folder: &Path, files: &BTreeSet<&str>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_untracked(tree, &path, files)?;
        } else if !files.contains(path.strip_prefix(tree)?.to_string_lossy().as_ref()) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Applies one patch to the copy, runs its tests, and reverts the patch.
fn run_one(tree: &Path, breakage: &Breakage) -> Result<Outcome> {
    if !git_apply(tree, breakage, &[])? {
        bail!("the patch {} does not apply", breakage.name);
    }
    let outcome = test(tree, breakage);
    ensure!(
        git_apply(tree, breakage, &["--reverse"])?,
        "the patch {} cannot be reverted",
        breakage.name
    );
    outcome
}

/// Builds and runs the test command.
fn test(tree: &Path, breakage: &Breakage) -> Result<Outcome> {
    let split = breakage.test.iter().position(|word| word == "--");
    let (build, filters) = breakage.test.split_at(split.unwrap_or(breakage.test.len()));
    let log = tree.with_file_name("log.txt");
    let cargo = |extra: &[&str]| -> Result<Command> {
        let mut cargo = Command::new("cargo");
        cargo
            .current_dir(tree)
            .args(["test", "--no-fail-fast", "--offline"])
            .args(build)
            .args(extra)
            .env("CARGO_TARGET_DIR", tree.with_file_name("target"))
            .stdin(Stdio::null())
            .stdout(fs::File::create(&log)?)
            .stderr(fs::File::create(tree.with_file_name("errors.txt"))?);
        if breakage.with_shuttle {
            cargo
                .envs(shuttle::ENVIRONMENT)
                .env("CARGO_TARGET_DIR", tree.with_file_name("shuttle"));
        }
        Ok(cargo)
    };
    if !cargo(&["--no-run"])?
        .status()
        .context("cannot start cargo")?
        .success()
    {
        return Ok(Outcome::NotBuilt);
    }
    let mut command = cargo(&[])?;
    command.args(filters);
    let Some(success) = status_within(&mut command, breakage.limit)? else {
        return Ok(Outcome::Hung);
    };
    if success {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(failed_tests(&fs::read_to_string(&log)?)))
}

/// Returns whether the command succeeds, or `None` if it exceeds the limit and is killed with all
/// its children.
fn status_within(command: &mut Command, limit: Duration) -> Result<Option<bool>> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.spawn().context("cannot start cargo")?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if start.elapsed() > limit {
            // The test program is a child of cargo, so the whole process group is killed.
            let group = format!("-{}", child.id());
            process::run(Command::new("kill").args(["-KILL", "--", &group]))?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Parses the names of the failed tests from the output of test programs.
fn failed_tests(output: &str) -> BTreeSet<String> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        // libtest-mimic, the test harness of some programs, aligns the outcomes in a column.
        .map(str::trim_end)
        .map(|name| {
            name.strip_suffix(" - should panic")
                .unwrap_or(name)
                .to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "Breaks: a reader is forgotten\nTest: -p millstream --lib tracker\nFails: \
                         ordered, others\nLimit: 5\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n";

    #[test]
    fn a_header_is_parsed_and_an_incomplete_one_is_rejected() {
        let breakage = Breakage::parse("reader", PATCH).unwrap();
        assert_eq!(breakage.breaks, "a reader is forgotten");
        assert_eq!(breakage.test, ["-p", "millstream", "--lib", "tracker"]);
        assert!(!breakage.with_shuttle);
        assert_eq!(breakage.fails, ["ordered", "others"]);
        assert_eq!(breakage.limit, Duration::from_secs(5));
        for line in ["Breaks:", "Test:", "Fails:"] {
            let error = Breakage::parse("x", &PATCH.replace(line, "Says:")).unwrap_err();
            assert!(error.to_string().contains(line), "{error}");
        }
        assert!(Breakage::parse("x", &PATCH[..PATCH.find("diff").unwrap()]).is_err());
    }

    #[test]
    fn shuttle_before_the_arguments_is_not_an_argument() {
        let patch = PATCH.replace("Test: -p", "Test: shuttle -p");
        let breakage = Breakage::parse("reader", &patch).unwrap();
        assert!(breakage.with_shuttle);
        assert_eq!(breakage.test, ["-p", "millstream", "--lib", "tracker"]);
    }

    #[test]
    fn a_fault_is_detected_only_by_the_named_tests() {
        let breakage = Breakage::parse("reader", PATCH).unwrap();
        let failed =
            |names: &[&str]| Outcome::Failed(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(
            breakage.judge(&failed(&["a::ordered", "others", "more"])),
            Ok(())
        );
        for outcome in [
            failed(&["a::ordered"]),
            failed(&["disordered", "others"]),
            Outcome::Passed,
            Outcome::Hung,
            Outcome::NotBuilt,
        ] {
            assert!(breakage.judge(&outcome).is_err(), "{outcome:?}");
        }
        let hangs = Breakage::parse("x", &PATCH.replace("ordered, others", "hang")).unwrap();
        assert_eq!(hangs.judge(&Outcome::Hung), Ok(()));
        assert!(hangs.judge(&failed(&["a::ordered"])).is_err());
    }

    #[test]
    fn failed_tests_are_parsed_from_the_output() {
        let output = "test a::b ... ok\ntest a::c ... FAILED\ntest d    ... FAILED\n\
                      test e - should panic ... FAILED\ntest result: FAILED. 1 passed\n";
        let failed = ["a::c", "d", "e"].map(String::from);
        assert_eq!(failed_tests(output), BTreeSet::from(failed));
    }

    #[cfg(unix)]
    #[test]
    fn a_command_beyond_its_limit_is_killed() {
        let within = |script: &str, limit| {
            status_within(
                Command::new("sh").args(["-c", script]),
                Duration::from_secs(limit),
            )
            .unwrap()
        };
        assert_eq!(within("sleep 100", 1), None);
        assert_eq!(within("exit 1", 60), Some(false));
        assert_eq!(within("exit 0", 60), Some(true));
    }
}
