//! Tests in Python: those of numba-cuda, module by module, and single files.
//!
//! pytest runs them with the plugin `outcomes.py`. A module whose process ended before all of its
//! tests ran, because a test crashed or lost the device's context, is continued in a new process.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::outcome::{Outcome, Outcomes};
use super::{Setup, install};
use crate::process;

/// The folders of tests, below those of the installed package.
const FOLDERS: [&str; 2] = ["cudadrv", "cudapy"];

/// The time after which the process of a module is ended.
const LIMIT: Duration = Duration::from_secs(900);

/// The simulated devices: two, because some tests need several.
const DEVICE: &str = "sim:devices=2";

pub(super) fn run(setup: &Setup) -> Result<Outcomes> {
    let python = install::python(&setup.folder, super::REQUIREMENTS)?;
    let modules = modules(&python, &setup.filter)?;
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Outcomes::default());
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some(module) = modules.get(next.fetch_add(1, Ordering::Relaxed)) {
                let start = Instant::now();
                let lines = of_module(module).run(setup)?;
                let mut outcomes = outcomes.lock().expect("no thread panics with the lock");
                outcomes.add_lines(&lines);
                if lines.is_empty() {
                    outcomes.add(module, Outcome::Skipped("the module has no tests".into()));
                }
                println!("{module}: {:.0} s", start.elapsed().as_secs_f64());
            }
            Ok(())
        };
        let workers: Vec<_> = (0..setup.jobs).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        let results: Vec<_> = joined.map(|it| it.expect("workers do not panic")).collect();
        results.into_iter().collect::<Result<()>>()
    })?;
    Ok(outcomes
        .into_inner()
        .expect("no thread panics with the lock"))
}

fn of_module(module: &str) -> Tests {
    let name = format!("numba.cuda.tests.{module}");
    Tests {
        name: module.to_owned(),
        arguments: vec!["--pyargs".into(), name.into()],
        variables: Vec::new(),
    }
}

/// Returns the test modules whose names contain the filter, as `cudapy.test_array`.
fn modules(python: &Path, filter: &str) -> Result<Vec<String>> {
    let ask = "import numba.cuda.tests as t; print(list(t.__path__)[0])";
    let folder = process::output(Command::new(python).args(["-c", ask]))?;
    let mut modules = Vec::new();
    for name in FOLDERS {
        let folder = Path::new(folder.trim()).join(name);
        let problem = || format!("cannot list {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(problem)? {
            let path = entry.with_context(problem)?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let module = format!("{name}.{stem}");
            let is_test = stem.starts_with("test_") && path.extension().is_some_and(|e| e == "py");
            if is_test && module.contains(filter) {
                modules.push(module);
            }
        }
    }
    modules.sort();
    Ok(modules)
}

/// Tests that pytest runs in one process, if none of them ends it.
pub(super) struct Tests {
    /// The name of the file of outcomes.
    pub(super) name: String,
    pub(super) arguments: Vec<OsString>,
    /// Further environment variables.
    pub(super) variables: Vec<(String, OsString)>,
}

impl Tests {
    /// Runs the tests, in as many processes as it takes, and returns the lines that the plugin
    /// wrote.
    pub(super) fn run(&self, setup: &Setup) -> Result<String> {
        let python = install::python(&setup.folder, super::REQUIREMENTS)?;
        let folder = setup.folder.join("outcomes");
        std::fs::create_dir_all(&folder).context("cannot create the folder of outcomes")?;
        let outcomes = folder.join(format!("{}.tsv", self.name));
        // Of an earlier run.
        let _ = std::fs::remove_file(&outcomes);
        let read = || std::fs::read_to_string(&outcomes).unwrap_or_default();
        loop {
            let before = read();
            let ended = self.run_process(setup, &python, &outcomes)?;
            let after = read();
            if ended || after == before {
                return Ok(after);
            }
        }
    }

    /// Runs the tests that have no line in the file, and returns whether all of them ended well.
    fn run_process(&self, setup: &Setup, python: &Path, outcomes: &Path) -> Result<bool> {
        let log = std::fs::File::create(outcomes.with_extension("log"));
        let log = log.context("cannot create a log file")?;
        let errors = log.try_clone().context("cannot share a log file")?;
        let mut pytest = Command::new(python);
        pytest
            .current_dir(&setup.folder)
            .args([
                "-m",
                "pytest",
                "-q",
                "--tb=short",
                "--import-mode=importlib",
            ])
            .args(["-p", "no:cacheprovider", "-p", "outcomes"])
            .args(&self.arguments)
            .env("LD_LIBRARY_PATH", &setup.driver)
            .env("PYTHONPATH", process::root().join("xtask/clients"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("MILLSTREAM_DEVICE", DEVICE)
            .env("MILLSTREAM_OUTCOMES", outcomes)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        let mut child = pytest.spawn().context("cannot start pytest")?;
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().context("cannot wait for pytest")? {
                // 0: all passed; 5: no test was left to run.
                return Ok(matches!(status.code(), Some(0 | 5)));
            }
            if start.elapsed() > LIMIT {
                child.kill().context("cannot end pytest")?;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
