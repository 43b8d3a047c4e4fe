//! `millstream run` with programs of numba-cuda. `cargo xtask ci` installs the packages of
//! `numba/requirements.txt` and runs these tests.

use std::process::{Command, Output};

/// Runs a program of the folder `numba`, with the interpreter that the environment names.
fn run(program: &str, arguments: &[&str]) -> Output {
    let python = std::env::var_os("MILLSTREAM_NUMBA").expect("MILLSTREAM_NUMBA is an interpreter");
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libmillstream_libcuda.so");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/numba");
    Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(["run".as_ref(), "--library".as_ref(), library.as_os_str()])
        .args(["--quiet", "--exit-code", "3", "--"])
        .args([python.as_os_str(), "-W".as_ref(), "ignore".as_ref()])
        .arg(format!("{folder}/{program}"))
        .args(arguments)
        .output()
        .unwrap()
}

fn reports(run: &Output, parts: &[&str]) {
    let report = String::from_utf8_lossy(&run.stderr);
    for part in parts {
        assert!(report.contains(part), "no `{part}` in:\n{report}");
    }
}

fn is_clean(run: &Output) {
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert_eq!(String::from_utf8_lossy(&run.stderr), "");
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

#[test]
#[ignore = "needs numba-cuda"]
fn a_race_of_two_streams_of_numba_is_reported_with_its_lines() {
    let run = run("streams.py", &[]);
    assert_eq!(run.status.code(), Some(3), "{run:?}");
    let parts = [
        "1. Race: ",
        "kernel `__main__::double(Array<float",
        &format!("{}, writes", place("double[16, 256, first](")),
        &format!("{}, reads", place("double[16, 256, second](")),
        "missing: stream 2 ",
    ];
    reports(&run, &parts);
}

#[test]
#[ignore = "needs numba-cuda"]
fn two_streams_of_numba_with_an_event_between_them_are_clean() {
    is_clean(&run("streams.py", &["ordered"]));
}

#[test]
#[ignore = "needs numba-cuda"]
fn an_access_out_of_bounds_of_numba_is_reported_with_its_line() {
    let run = run("pointers.py", &[]);
    assert_ne!(run.status.code(), Some(0), "{run:?}");
    reports(&run, &["KernelFault: ", "axpy", &place("axpy[1, 32](")]);
}

#[test]
#[ignore = "needs numba-cuda"]
fn arrays_that_are_long_enough_for_the_kernel_are_clean() {
    is_clean(&run("pointers.py", &["mended"]));
}
