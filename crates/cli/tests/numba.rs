//! `millstream run` with programs of numba-cuda, which pip installs from its registry. Without the
//! registry the tests are ignored, and their names say why.

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        fs,
        path::{Path, PathBuf},
        process::{Command, Output},
    };

    use libtest_mimic::Trial;

    /// The packages, in fixed versions. nvJitLink is left out, because it makes machine code.
    const PACKAGES: [&str; 8] = [
        "cuda-bindings==13.5.0",
        "cuda-core==1.2.2",
        "numba==0.68.1",
        "numba-cuda==0.30.4",
        "numpy==2.4.6",
        "nvidia-cuda-nvrtc==13.0.88",
        "nvidia-cuda-runtime==13.0.96",
        "nvidia-nvvm==13.0.88",
    ];

    /// Words in pip's errors about a registry that cannot be reached.
    const UNREACHABLE: [&str; 4] = [
        "connection broken",
        "Connection error",
        "Failed to establish",
        "Max retries",
    ];

    /// The variable with the folder of the packages, if it is not the usual one.
    const FOLDER: &str = "MILLSTREAM_NUMBA_FOLDER";

    /// The reason for which tests are ignored.
    const IGNORED: &str = "the package registry is not reachable";

    /// The test of the other tests without the registry.
    const WITHOUT_REGISTRY: &str = "without_the_registry_every_test_says_that_it_is_ignored";

    /// An interpreter with the packages.
    #[derive(Clone)]
    struct Python(PathBuf);

    impl Python {
        /// Installs the packages, unless an earlier run did. `None` if the registry is not
        /// reachable.
        fn install() -> Option<Self> {
            let usual = || Path::new(env!("CARGO_TARGET_TMPDIR")).join("numba");
            let folder = std::env::var_os(FOLDER).map_or_else(usual, PathBuf::from);
            let python = folder.join("bin/python");
            let stamp = folder.join("packages.txt");
            let packages = PACKAGES.join("\n");
            if fs::read_to_string(&stamp).is_ok_and(|installed| installed == packages) {
                return Some(Self(python));
            }
            let made = Command::new("python3")
                .args(["-m", "venv"])
                .arg(&folder)
                .output();
            let made = made.expect("python3 is not installed");
            assert!(made.status.success(), "{made:?}");
            let pip = Command::new(&python)
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                ])
                .args(["--retries", "1", "--timeout", "20"])
                .args(PACKAGES)
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&pip.stderr);
            if !pip.status.success() && UNREACHABLE.iter().any(|words| errors.contains(words)) {
                return None;
            }
            assert!(pip.status.success(), "{errors}");
            fs::write(&stamp, packages).unwrap();
            Some(Self(python))
        }

        /// Runs a program of the folder `numba`.
        fn run(&self, program: &str, arguments: &[&str]) -> Run {
            let test = std::env::current_exe().unwrap();
            let library = test.with_file_name("libmillstream_libcuda.so");
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/numba");
            let output = Command::new(env!("CARGO_BIN_EXE_millstream"))
                .args(["run".as_ref(), "--library".as_ref(), library.as_os_str()])
                .args(["--exit-code", "3", "--"])
                .args([self.0.as_os_str(), "-W".as_ref(), "ignore".as_ref()])
                .arg(format!("{folder}/{program}"))
                .args(arguments)
                .output()
                .unwrap();
            Run(output)
        }
    }

    struct Run(Output);

    impl Run {
        /// Requires that the report names each of these.
        fn reports(&self, parts: &[&str]) {
            let report = String::from_utf8_lossy(&self.0.stderr);
            for part in parts {
                assert!(report.contains(part), "no `{part}` in:\n{report}");
            }
        }

        fn is_clean(&self) {
            assert_eq!(self.0.status.code(), Some(0), "{:?}", self.0);
            assert_eq!(String::from_utf8_lossy(&self.0.stderr), "");
        }
    }

    /// Returns the place of a line of `streams.py` or `pointers.py`, as a report has it.
    fn place(start: &str) -> String {
        let programs = [
            ("streams.py", include_str!("numba/streams.py")),
            ("pointers.py", include_str!("numba/pointers.py")),
        ];
        let found = programs.iter().find_map(|(name, text)| {
            let line = text.lines().position(|line| line.starts_with(start))?;
            Some(format!("{name}:{} (<module>)", line + 1))
        });
        found.unwrap_or_else(|| panic!("no program has `{start}`"))
    }

    /// Runs these tests with a registry that refuses every connection, and requires that each says
    /// why it is ignored.
    fn run_without_registry() {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--skip", WITHOUT_REGISTRY])
            .env(FOLDER, folder.path())
            .env("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
            .env("PIP_EXTRA_INDEX_URL", "")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&run.stdout);
        let tests = output.lines().filter(|line| line.starts_with("test ["));
        let tests: Vec<_> = tests.collect();
        assert_eq!((tests.len(), run.status.code()), (4, Some(0)), "{output}");
        for test in tests {
            assert!(test.starts_with(&format!("test [{IGNORED}] ")), "{test}");
            assert!(test.ends_with(" ... ignored"), "{test}");
        }
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(errors.contains(IGNORED), "{errors}");
    }

    pub(super) fn trials() -> Vec<Trial> {
        let python = Python::install();
        if python.is_none() {
            eprintln!("numba-cuda was not tested: {IGNORED}");
        }
        let trial = |name: &str, body: fn(&Python)| {
            let python = python.clone();
            let ignored = python.is_none();
            let run = move || {
                body(&python.expect("the test is ignored without the registry"));
                Ok(())
            };
            let kind = if ignored { IGNORED } else { "" };
            Trial::test(name, run)
                .with_ignored_flag(ignored)
                .with_kind(kind)
        };
        vec![
            trial(
                "a_race_of_two_streams_of_numba_is_reported_with_its_lines",
                |python| {
                    let run = python.run("streams.py", &[]);
                    assert_eq!(run.0.status.code(), Some(3), "{:?}", run.0);
                    run.reports(&[
                        "1. Race: ",
                        "kernel `__main__::double(Array<float",
                        &format!("{}, writes", place("double[16, 256, first](")),
                        &format!("{}, reads", place("double[16, 256, second](")),
                        "missing: stream 2 never waits for anything recorded on stream 1",
                    ]);
                },
            ),
            trial(
                "two_streams_of_numba_with_an_event_between_them_are_clean",
                |python| {
                    python.run("streams.py", &["ordered"]).is_clean();
                },
            ),
            trial(
                "an_access_out_of_bounds_of_numba_is_reported_with_its_line",
                |python| {
                    let run = python.run("pointers.py", &[]);
                    assert_ne!(run.0.status.code(), Some(0), "{:?}", run.0);
                    run.reports(&["KernelFault: ", "axpy", &place("axpy[1, 32](")]);
                },
            ),
            trial(
                "arrays_that_are_long_enough_for_the_kernel_are_clean",
                |python| {
                    python.run("pointers.py", &["mended"]).is_clean();
                },
            ),
            Trial::test(WITHOUT_REGISTRY, || {
                run_without_registry();
                Ok(())
            }),
        ]
    }
}

fn main() -> std::process::ExitCode {
    let arguments = libtest_mimic::Arguments::from_args();
    #[cfg(target_os = "linux")]
    let trials = linux::trials();
    #[cfg(not(target_os = "linux"))]
    let trials = Vec::new();
    libtest_mimic::run(&arguments, trials).exit_code()
}
