//! `millstream run` with a C program that has a race, or not.

#![cfg(target_os = "linux")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

/// Returns the path of the library, which Cargo builds for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("libmillstream_libcuda.so")
}

/// Compiles the program of two streams, once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let name = format!("run-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Left over by an earlier process with the same id.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let driver = folder.join("libcuda.so.1");
        std::os::unix::fs::symlink(library(), &driver).unwrap();
        let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../libcuda/tests/programs");
        let path = folder.join("two_streams");
        let compiler = Command::new("gcc")
            .arg(format!("{programs}/two_streams.c"))
            .args(["-o".as_ref(), path.as_os_str()])
            .args(["-L".as_ref(), folder.as_os_str()])
            .arg("-l:libcuda.so.1")
            .output()
            .expect("gcc is not installed");
        let errors = String::from_utf8_lossy(&compiler.stderr);
        assert!(compiler.status.success(), "{errors}");
        path
    })
}

/// Runs the program in this mode with options of `millstream run`.
fn run(options: &[&str], mode: &str) -> Output {
    let ptx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/vecadd.ptx");
    Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(["run".as_ref(), "--library".as_ref(), library().as_os_str()])
        .args(options)
        .arg("--")
        .arg(program())
        .args([ptx, mode])
        .output()
        .unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_with_a_race_ends_with_the_given_status_and_a_report() {
    let json = program().with_file_name("report.jsonl");
    let json = json.to_str().unwrap();
    let output = run(&["--exit-code", "3", "--json", json], "racy");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(errors(&output).contains("1. Race: "), "{output:?}");
    let report = fs::read_to_string(json).unwrap();
    assert_eq!(report.lines().count(), 1);
    assert!(report.contains("kernel `vecadd` reads"), "{report}");
    assert_eq!(run(&[], "racy").status.code(), Some(1));
}

#[test]
fn a_clean_program_ends_with_its_own_status_under_every_schedule() {
    for options in [
        ["--schedule", "lazy"],
        ["--seed", "7"],
        ["--memory", "1G"],
        ["--device", "a100"],
        ["--cuda", "12.9"],
    ] {
        let output = run(&options, "ordered");
        assert_eq!(output.status.code(), Some(0), "{options:?}: {output:?}");
        assert_eq!(errors(&output), "", "{options:?}");
    }
}

#[test]
fn an_invalid_option_and_a_missing_library_are_named() {
    let output = run(&["--device", "h2000"], "ordered");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("MILLSTREAM_KIND=`h2000`"),
        "{output:?}"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(["run", "--library", "/nowhere/libcuda.so", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors(&output).contains("/nowhere/libcuda.so"),
        "{output:?}"
    );
}
