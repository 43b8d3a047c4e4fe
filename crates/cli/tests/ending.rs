//! The SARIF file, the annotations and the last line of `millstream run` and `millstream check`.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path, process::Command};

use serde_json::{Value, json};

use crate::harness::library;
use crate::run::{VECTOR_ADDITION, has, millstream, program, report};

/// Returns the SARIF run that a command writes, which ends with this status, and its messages.
fn sarif(command: &mut Command, file: &Path, code: i32) -> (Value, String) {
    let output = command.output().unwrap();
    let errors = report(&output, code);
    let text = fs::read_to_string(file).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let run = document["runs"][0].clone();
    assert_eq!(run["invocations"][0]["exitCode"], code, "{text}");
    (run, errors)
}

/// Returns a command with a SARIF file in a folder of its own.
fn with_file(words: &str, program: &Path) -> (Command, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let option = format!(" --sarif {}", folder.path().join("a.sarif").display());
    let command = millstream(&(words.to_owned() + &option), program);
    (command, folder)
}

/// Runs the program of two streams in a mode.
fn modes(words: &str, mode: &str, code: i32) -> (Value, String) {
    let (mut command, folder) = with_file(words, program());
    command.args([VECTOR_ADDITION, mode]);
    sarif(&mut command, &folder.path().join("a.sarif"), code)
}

/// Returns the number of the line of the program with a call.
fn line(call: &str) -> u64 {
    let source = include_str!("programs/two_streams.c");
    let index = source.lines().position(|line| line.contains(call));
    index.unwrap() as u64 + 1
}

#[test]
fn a_sarif_file_is_complete_whatever_ends_the_program() {
    let ends = [
        ("racy", 1),
        ("abort", 134),
        ("_exit", 1),
        ("kill", 137),
        ("fork", 1),
    ];
    for (end, code) in ends {
        let (run, errors) = modes("run", end, code);
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), 1, "{end}: {run}");
        let result = &results[0];
        assert_eq!(result["ruleId"], "Race");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["region"]["startLine"], line("cuLaunchKernel("));
        let other = &result["relatedLocations"][1]["physicalLocation"];
        assert_eq!(
            other["region"]["startLine"],
            line("cuMemsetD32Async(memory")
        );
        let file = "crates/cli/tests/programs/two_streams.c";
        for place in [place, other] {
            assert_eq!(place["artifactLocation"]["uri"], file);
        }
        let (is_abrupt, notes) = (!["racy", "fork"].contains(&end), &run["invocations"][0]);
        let notes = notes["toolExecutionNotifications"].as_array().unwrap();
        assert_eq!(notes.len(), usize::from(is_abrupt), "{end}: {notes:?}");
        let counts = ["checked 1 launch", "checked at least 1 launch"][usize::from(is_abrupt)];
        has(&errors, &[counts]);
    }
}

#[test]
fn a_check_writes_the_race_of_the_run_that_shows_it_once_with_its_schedule() {
    let (run, _) = modes("check --exit-code 4", "racy", 4);
    assert_eq!(run["results"].as_array().map(Vec::len), Some(1), "{run}");
    assert_eq!(
        run["results"][0]["properties"]["device"],
        "sim:schedule=timed"
    );
    let (run, errors) = modes("check --runs 3", "ordered", 0);
    assert_eq!(run["results"], json!([]));
    has(&errors, &["checked 3 launches of 1 kernel", "3 schedules"]);
    // The program finds the mistake itself.
    let (run, _) = modes("check --rules strict", "early", 3);
    let result = &run["results"][0];
    assert_eq!(result["ruleId"], "ProgramFailed");
    has(
        result["properties"]["device"].as_str().unwrap(),
        &["rules=strict"],
    );
    has(
        result["message"]["text"].as_str().unwrap(),
        &["ended with status 3"],
    );
}

#[test]
fn processes_of_one_command_share_their_races_and_add_their_launches() {
    let (mut command, folder) = with_file("run --schedule lazy", Path::new("bash"));
    let twice = r#""$0" "$1" racy; cd /; "$0" "$1" racy"#;
    command
        .args(["-c", twice])
        .arg(program())
        .arg(VECTOR_ADDITION);
    command.env("MILLSTREAM_DEVICE", "sim:memory=1G");
    let (run, errors) = sarif(&mut command, &folder.path().join("a.sarif"), 1);
    assert_eq!(run["results"].as_array().map(Vec::len), Some(1), "{run}");
    assert_eq!(run["results"][0]["occurrenceCount"], 2);
    let device = "sim:memory=1G,schedule=lazy";
    assert_eq!(run["results"][0]["properties"]["device"], device);
    has(&errors, &["checked 2 launches of 1 kernel (4 operations"]);
}

#[test]
fn a_report_without_places_stands_at_the_program() {
    let (run, _) = modes("run --no-call-sites", "racy", 1);
    let place = &run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert!(
        place["uri"].as_str().unwrap().contains("/two_streams-"),
        "{place}"
    );
}

#[test]
fn a_mistake_in_the_arguments_of_a_call_is_at_the_call() {
    let (run, _) = modes("run", "wrong", 1);
    let line_of = |result: usize| {
        let place = &run["results"][result]["locations"][0]["physicalLocation"];
        place["region"]["startLine"].clone()
    };
    assert_eq!(line_of(0), line("cuStreamDestroy_v2((Handle)4)"), "{run}");
    assert_eq!(line_of(1), line("cuMemsetD32Async(sum"), "{run}");
}

#[test]
fn a_mistake_in_a_kernel_is_at_the_line_of_its_source() {
    let ptx = program().with_file_name("loc.ptx");
    let kernel = ".version 8.0\n.target sm_75\n.address_size 64\n.file 1 \"a (1).cu\"\n\
        .visible .entry vecadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n) {\n\
        .reg .b64 %rd1;\n.loc 1 17 3\nmov.u64 %rd1, 8;\nst.global.u64 [%rd1], %rd1;\nret;\n}\n";
    fs::write(&ptx, kernel).unwrap();
    let (mut command, folder) = with_file("run", program());
    command.arg(&ptx).arg("ordered").current_dir(folder.path());
    let (run, _) = sarif(&mut command, &folder.path().join("a.sarif"), 2);
    let [kernel, launch] = ["locations", "relatedLocations"]
        .map(|places| &run["results"][0][places][0]["physicalLocation"]);
    assert_eq!(kernel["region"]["startLine"], 17, "{run}");
    let file = folder.path().canonicalize().unwrap().join("a%20%281%29.cu");
    let uri = kernel["artifactLocation"]["uri"].as_str().unwrap();
    assert!(
        Path::new(uri.trim_start_matches("file://")) == file || uri == "a%20%281%29.cu",
        "{uri}"
    );
    assert_eq!(launch["region"]["startLine"], line("cuLaunchKernel("));
}

#[test]
fn annotations_are_on_in_a_workflow_and_by_request() {
    let race = format!(
        "::error file=crates/cli/tests/programs/two_streams.c,line={},title=millstream%3A \
         Race::Race: ",
        line("cuLaunchKernel(")
    );
    for (words, workflow, is_on) in [
        ("run", "true", true),
        ("run", "", false),
        ("run --annotate=never", "true", false),
        ("check --annotate", "false", true),
    ] {
        let mut command = millstream(words, Path::new(env!("CARGO_BIN_EXE_millstream")));
        // Within another run, that one annotates.
        command
            .args(["run", "--library"])
            .arg(library())
            .arg("--")
            .arg(program());
        command.args([VECTOR_ADDITION, "racy"]);
        let output = command
            .env("GITHUB_ACTIONS", workflow)
            .env("MILLSTREAM_REPORT", "/dev/null")
            .output()
            .unwrap();
        let errors = report(&output, 1);
        let lines: Vec<_> = errors
            .lines()
            .filter(|line| line.starts_with("::"))
            .collect();
        assert_eq!(lines.len(), usize::from(is_on), "{words} {errors}");
        assert!(
            lines.iter().all(|line| line.starts_with(&race)),
            "{lines:?}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_written_in_the_end_is_named_behind_the_rest() {
    let (mut command, folder) = with_file("run --annotate", Path::new("bash"));
    command
        .args(["-c", r#""$0" "$1" racy; rm -r "$2""#])
        .arg(program());
    let output = command.arg(VECTOR_ADDITION).arg(folder.path()).output();
    has(
        &report(&output.unwrap(), 1),
        &["::error file=", "checked 1 launch", "cannot write "],
    );
}

#[test]
fn a_program_that_launches_nothing_is_named() {
    let (_, idle) = modes("run", "idle", 0);
    has(
        &idle,
        &["no kernel was checked: the program opened the driver"],
    );
    let (_, quiet) = modes("run -q", "idle", 0);
    assert_eq!(quiet, "");
}

#[test]
fn paths_that_are_not_unicode_are_written_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(OsStr::from_bytes(b"\xff,:% p"));
    fs::create_dir(&odd).unwrap();
    let (copy, file) = (odd.join("p"), odd.join("a.sarif"));
    fs::copy(program(), &copy).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(["run", "--no-call-sites", "--annotate", "--library"]);
    command.arg(library()).arg("--sarif").arg(&file);
    command.arg("--").arg(&copy).args([VECTOR_ADDITION, "racy"]);
    command.current_dir(&odd).env_remove("GITHUB_WORKSPACE");
    let (run, messages) = sarif(&mut command, &file, 1);
    let place = &run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(
        *place,
        json!({ "uri": "p", "uriBaseId": "SRCROOT" }),
        "{messages}"
    );
    let root = run["originalUriBaseIds"]["SRCROOT"]["uri"]
        .as_str()
        .unwrap();
    assert!(root.ends_with("/%FF%2C%3A%25%20p/"), "{root}");
}

#[test]
#[ignore = "needs the package jsonschema, and the official schema in the crate serde-sarif"]
fn a_sarif_file_follows_the_official_schema() {
    let folder = tempfile::tempdir().unwrap();
    let manifest =
        "[package]\nname = \"s\"\n[lib]\npath = \"s\"\n[dependencies]\nserde-sarif = \"=0.8.0\"";
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    let mut cargo = Command::new("cargo");
    cargo
        .args(["metadata", "--format-version", "1"])
        .current_dir(&folder);
    let metadata: Value = serde_json::from_slice(&cargo.output().unwrap().stdout).unwrap();
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let package = packages
        .find(|package| package["name"] == "serde-sarif")
        .unwrap();
    let source = Path::new(package["manifest_path"].as_str().unwrap());
    let script = "import json, sys, jsonschema; jsonschema.validate(json.load(sys.stdin), \
                  json.load(open(sys.argv[1])))";
    for (words, mode, code) in [
        ("run", "racy", 1),
        ("run", "idle", 0),
        ("run --no-call-sites", "kill", 137),
        ("check --rules strict", "early", 3),
    ] {
        let (mut command, own) = with_file(words, program());
        command.args([VECTOR_ADDITION, mode]);
        let file = own.path().join("a.sarif");
        sarif(&mut command, &file, code);
        let mut python = Command::new(std::env::var_os("MILLSTREAM_NUMBA").unwrap());
        python
            .args(["-c", script])
            .arg(source.with_file_name("src/schema.json"));
        let output = python
            .stdin(fs::File::open(file).unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words} {mode}: {output:?}");
    }
}
