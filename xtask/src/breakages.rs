//! `cargo xtask breakages`: mutation testing with deliberate faults, each of which a named test
//! must detect.
//!
//! A test that cannot fail proves nothing. Each patch in `xtask/breakages` therefore breaks the
//! code on purpose. Its header states the rule that the tests defend, the fault, the test command
//! to run, and the tests that must fail:
//!
//! ```text
//! Rule: sound: a write waits for every earlier reader of its bytes
//! Breaks: the tracker forgets all readers of an array but the last
//! Test: -p millstream --lib tracker
//! Fails: every_conflict_is_ordered
//! ```
//!
//! `Test` holds the arguments of `cargo test`; with `shuttle` in front of them the runtime is built
//! as for `cargo xtask shuttle`. `Fails` lists tests, separated by commas, each by the end of its
//! path. The word `hang` instead means that the command must not end: it is killed after `Limit`, a
//! number of seconds. `Rule` begins with one of [`patch::KINDS`] or with the number of a rule of
//! CUDA in the guide, as in `rule 17`. The task applies one patch after another to a copy of the
//! repository in cargo's target folder.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};

use self::patch::{Breakage, Outcome};
use crate::{process, runs::SHUTTLE};

mod patch;

pub(crate) use self::patch::failed_tests;

/// The folder of the patches.
const FOLDER: &str = "xtask/breakages";

/// The patched code is compiled for few tests. The crates with settings of their own stay as built.
const UNOPTIMISED: &str = "profile.dev.opt-level=0";
/// A patched simulated device, which would take longest to optimise.
const HARDLY_OPTIMISED: &str = "profile.dev.package.millstream-sim.opt-level=1";

/// The arguments of `cargo xtask breakages`.
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Run only the patches whose names contain one of these words, or whose rules begin with one.
    names: Vec<String>,
    /// Only check that every patch applies.
    #[arg(long)]
    check: bool,
    /// List the patches, and the rule and the fault of each.
    #[arg(long)]
    list: bool,
    /// Run so many of the patches, whose turn it is today: all come round.
    #[arg(long, value_name = "N")]
    some: Option<usize>,
}

/// Runs the two patches whose turn it is today.
pub(crate) fn run_some() -> Result<()> {
    run(&Options {
        some: Some(2),
        ..Options::default()
    })
}

/// Applies every patch in turn and runs its tests.
pub(crate) fn run(options: &Options) -> Result<()> {
    let breakages = read(&process::root().join(FOLDER))?;
    let names = &options.names;
    let mut wanted: Vec<&Breakage> = breakages
        .iter()
        .filter(|breakage| {
            let is_named =
                |name: &String| breakage.name.contains(name) || breakage.rule.starts_with(name);
            names.is_empty() || names.iter().any(is_named)
        })
        .collect();
    ensure!(
        !wanted.is_empty(),
        "no patch in {FOLDER} has a name with, or a rule that begins with, {}",
        names.join(" or ")
    );
    if let Some(number) = options.some {
        wanted = turn(wanted, number, days_since_1970()?);
    }
    if options.list {
        for breakage in &wanted {
            println!(
                "{}\n    {}\n    {}",
                breakage.name, breakage.rule, breakage.breaks
            );
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

/// Returns the `number` patches whose turn it is on this day. Those for shuttle have none: they
/// would build all dependencies anew.
///
/// Neighbours in the order of their test commands share a turn, because they share a build.
fn turn(mut breakages: Vec<&Breakage>, number: usize, day: usize) -> Vec<&Breakage> {
    breakages.retain(|breakage| !breakage.with_shuttle);
    breakages.sort_by(|a, b| (&a.test, &a.name).cmp(&(&b.test, &b.name)));
    let turns = breakages.chunks(number.max(1));
    turns
        .clone()
        .nth(day % turns.len())
        .unwrap_or_default()
        .to_vec()
}

/// Returns today's number, which chooses the turn.
pub(crate) fn days_since_1970() -> Result<usize> {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(usize::try_from(time.as_secs() / (24 * 60 * 60))?)
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
/// Unchanged files keep their modification times, so that cargo rebuilds only the changed ones. A
/// new copy has those of the originals, beside a copy of what cargo has built from them.
fn checkout() -> Result<PathBuf> {
    let tree = process::target_folder().join("breakages/tree");
    let is_new = !tree.exists();
    if is_new {
        copy_libraries(&tree.with_file_name("target/debug"))?;
    }
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
        if is_new {
            copy_time(&source, &target)?;
        }
    }
    remove_untracked(&tree, &tree, &files)?;
    Ok(tree)
}

/// Copies the libraries in cargo's folder of debug builds, and what tells cargo they are fresh.
/// Programs are left out: each patch builds its own.
fn copy_libraries(target: &Path) -> Result<()> {
    let built = process::target_folder().join("debug");
    if target.exists() {
        fs::remove_dir_all(target)?;
    }
    copy_folder(
        &built.join(".fingerprint"),
        &target.join(".fingerprint"),
        &|_| true,
    )?;
    copy_folder(&built.join("build"), &target.join("build"), &|_| true)?;
    let is_library = |file: &Path| file.extension().is_some();
    copy_folder(&built.join("deps"), &target.join("deps"), &is_library)
}

/// Copies the wanted files in a folder, if it exists, with their modification times.
fn copy_folder(source: &Path, target: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Result<()> {
    let Ok(entries) = fs::read_dir(source) else {
        return Ok(());
    };
    fs::create_dir_all(target)?;
    for entry in entries {
        let entry = entry?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&from, &to, is_wanted)?;
        } else if is_wanted(&from) {
            fs::copy(&from, &to)?;
            copy_time(&from, &to)?;
        }
    }
    Ok(())
}

/// Gives a file the modification time of another.
fn copy_time(source: &Path, target: &Path) -> Result<()> {
    let time = fs::metadata(source)?.modified()?;
    Ok(fs::File::options()
        .append(true)
        .open(target)?
        .set_modified(time)?)
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
        let mut cargo = process::command("cargo");
        cargo
            .current_dir(tree)
            .args(["test", "--no-fail-fast", "--offline"])
            .args(["--config", UNOPTIMISED])
            .args(build)
            .args(extra)
            .env("CARGO_TARGET_DIR", tree.with_file_name("target"))
            .stdin(Stdio::null())
            .stdout(fs::File::create(&log)?)
            .stderr(fs::File::create(tree.with_file_name("errors.txt"))?);
        if breakage.in_simulator {
            cargo.args(["--config", HARDLY_OPTIMISED]);
        }
        if breakage.with_shuttle {
            cargo
                .envs(SHUTTLE)
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
pub(crate) fn status_within(command: &mut Command, limit: Duration) -> Result<Option<bool>> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.spawn().context("cannot start cargo")?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if start.elapsed() > limit {
            // The test program is a child of cargo, so the whole process group is killed; the
            // children of cargo-mutants have groups of their own, which it ends when interrupted.
            let group = format!("-{}", child.id());
            process::run(Command::new("kill").args(["-INT", "--", &group]))?;
            std::thread::sleep(Duration::from_secs(2));
            process::run(Command::new("kill").args(["-KILL", "--", &group]))?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_has_its_turn() {
        let names = ["a", "b", "c", "d", "e"];
        let breakages = names.map(|name| Breakage::parse(name, patch::tests::PATCH).unwrap());
        let on_day = |day| {
            let turn = turn(breakages.iter().collect(), 2, day);
            turn.iter().map(|breakage| breakage.name.as_str()).collect()
        };
        let days: Vec<Vec<&str>> = (0..4).map(on_day).collect();
        let expected: [&[&str]; 4] = [&["a", "b"], &["c", "d"], &["e"], &["a", "b"]];
        assert_eq!(days, expected);
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
