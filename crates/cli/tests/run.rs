//! `millstream run` and `millstream check` with a C program that has a race, or not.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::harness::{Program, library};

/// Compiles the program of two streams, once.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    let compiled = PROGRAM.get_or_init(|| Program::compiled("two_streams"));
    &compiled.path
}

/// Returns a command of `millstream` with this program, whose arguments are to be added.
pub(crate) fn millstream(words: &str, program: &Path) -> Command {
    let (command, options) = words.split_once(' ').unwrap_or((words, ""));
    let mut millstream = Command::new(env!("CARGO_BIN_EXE_millstream"));
    millstream
        .args([
            command.as_ref(),
            "--library".as_ref(),
            library().as_os_str(),
        ])
        .args(options.split_whitespace())
        .args(["--".as_ref(), program.as_os_str()])
        .env_remove("MILLSTREAM_DEVICE");
    millstream
}

/// Runs the program in this mode with options of `millstream run`.
fn run(options: &[&str], mode: &str) -> Output {
    command("run", options, mode)
}

/// Runs the program in this mode with a command of `millstream`.
fn command(name: &str, options: &[&str], mode: &str) -> Output {
    command_with(Path::new(VECTOR_ADDITION), name, options, mode)
}

pub(crate) const VECTOR_ADDITION: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/vecadd.ptx");

/// Runs the program in this mode with the kernel of a PTX file.
fn command_with(ptx: &Path, name: &str, options: &[&str], mode: &str) -> Output {
    // On a busy machine every kernel runs for longer than a moment.
    let seconds = ["0.05", "60"][usize::from(ptx == Path::new(VECTOR_ADDITION))];
    millstream(&format!("{name} {}", options.join(" ")), program())
        .args([ptx.as_os_str(), mode.as_ref()])
        .env("MILLSTREAM_PROGRESS", seconds)
        .output()
        .unwrap()
}

/// Requires that the program ended with this status, and returns the report.
pub(crate) fn report(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    errors(output)
}

/// Requires that a report contains each of these.
pub(crate) fn has(report: &str, parts: &[&str]) {
    for part in parts {
        assert!(report.contains(part), "no `{part}` in:\n{report}");
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_with_a_race_ends_with_the_given_status_and_a_report() {
    let json = program().with_file_name("report.jsonl");
    let json = json.to_str().unwrap();
    let output = run(&["--exit-code", "3", "--json", json], "racy");
    has(&report(&output, 3), &["1. Race: "]);
    let written = fs::read_to_string(json).unwrap();
    assert_eq!(written.lines().count(), 1);
    has(&written, &["kernel `vecadd`, at "]);
    assert_eq!(run(&[], "racy").status.code(), Some(1));
}

#[test]
fn a_report_that_a_test_runner_captured_is_printed_at_the_end() {
    let found = report(&run(&[], "captured"), 1);
    has(&found, &["1. Race: ", "two_streams.c:", "1 problem\n"]);
    assert_eq!(found, report(&run(&[], "racy"), 1));
}

#[test]
fn a_run_within_a_run_counts_as_a_use_of_the_device_and_passes_its_report_on() {
    let json = program().with_file_name("outer.jsonl");
    let words = format!("run --require-device --json {}", json.display());
    for (mode, code) in [("ordered", 0), ("racy", 1)] {
        let mut outer = millstream(&words, Path::new(env!("CARGO_BIN_EXE_millstream")));
        outer
            .args(["run", "--library"])
            .arg(library())
            .arg("--")
            .arg(program());
        report(&outer.args([VECTOR_ADDITION, mode]).output().unwrap(), code);
        let written = fs::read_to_string(&json).unwrap();
        assert_eq!(written.contains("Race: "), mode == "racy", "{written}");
    }
}

#[test]
fn a_clean_program_ends_with_its_own_status_under_every_schedule() {
    for options in [
        ["--schedule", "lazy"],
        ["--seed", "7"],
        ["--memory", "1G"],
        ["--devices", "2"],
        ["--race", "kernels"],
        ["--device", "a100"],
        ["--cuda", "12.9"],
    ] {
        let output = run(&options, "ordered");
        assert_eq!(output.status.code(), Some(0), "{options:?}: {output:?}");
        let checked = "millstream: checked 1 launch of 1 kernel (2 operations in all) under 1 \
                       schedule: no problems\n";
        assert_eq!(errors(&output), checked, "{options:?}");
    }
}

#[test]
fn an_invalid_option_and_a_missing_library_are_named() {
    let output = run(&["--device", "h2000"], "ordered");
    has(&report(&output, 1), &["MILLSTREAM_KIND=`h2000`"]);
    let output = Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(["run", "--library", "/nowhere/libcuda.so", "--", "true"])
        .output()
        .unwrap();
    has(&report(&output, 1), &["/nowhere/libcuda.so"]);
    // A file that the loader does not take, as in a folder without the right to run programs.
    let output = Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(["run", "--library", VECTOR_ADDITION, "--", "true"])
        .output()
        .unwrap();
    let parts = ["driver cannot be loaded: ", "/libcuda.so.1: ", "TMPDIR"];
    has(&report(&output, 1), &parts);
}

#[test]
fn a_report_has_the_lines_of_the_calls_unless_they_are_turned_off() {
    let output = run(&[], "racy");
    let report = errors(&output);
    let line = |call: &str| {
        let source = include_str!("programs/two_streams.c");
        let index = source.lines().position(|line| line.contains(call)).unwrap();
        format!("two_streams.c:{} (main)", index + 1)
    };
    for (start, call) in [
        ("kernel `vecadd`, at ", "cuLaunchKernel("),
        ("fill (16384 bytes), at ", "cuMemsetD32Async(memory"),
        ("cuMemAlloc, at ", "cuMemAlloc_v2(&memory"),
    ] {
        let found = report.lines().find(|line| line.contains(start));
        let found = found.unwrap_or_else(|| panic!("no `{start}` in:\n{report}"));
        assert!(found.contains(&line(call)), "{found}");
    }
    let output = run(&["--no-call-sites"], "racy");
    has(&errors(&output), &["kernel `vecadd` reads"]);
}

#[test]
fn suppressed_problems_are_counted_and_do_not_change_the_status() {
    let file = program().with_file_name("known.txt");
    fs::write(&file, "# known\nRace: *kernel `vecadd`*two_streams.c\n").unwrap();
    let output = run(&["--quiet", "--suppress", file.to_str().unwrap()], "racy");
    let suppressed = "millstream: different problems suppressed: 1\n";
    assert_eq!(report(&output, 0), suppressed);
    fs::write(&file, "Race: *kernel `other`\n").unwrap();
    report(&run(&["--suppress", file.to_str().unwrap()], "racy"), 1);
}

#[test]
fn leaks_are_problems_on_request() {
    let leaky = report(&run(&["--leaks"], "leaky"), 1);
    has(
        &leaky,
        &["Leak: device memory of 16384 bytes", "Leak: stream"],
    );
    assert_eq!(run(&[], "leaky").status.code(), Some(0));
    assert_eq!(run(&["--leaks"], "ordered").status.code(), Some(0));
}

#[test]
fn a_timeline_has_the_operations_with_their_times() {
    let file = program().with_file_name("timeline.json");
    let output = run(&["--timeline", file.to_str().unwrap()], "ordered");
    report(&output, 0);
    let text = fs::read_to_string(&file).unwrap();
    let events = text.strip_prefix("[\n").unwrap().lines();
    let kernel: Vec<_> = events
        .filter(|line| line.contains("kernel `vecadd`"))
        .collect();
    assert_eq!(kernel.len(), 1, "{text}");
    assert!(kernel[0].contains("\"ph\":\"X\""), "{text}");
    assert!(text.contains("fill (16384 bytes)"), "{text}");
}

#[test]
fn unknown_arguments_are_errors_before_the_program_starts() {
    let mark = program().with_file_name("started");
    let run = |words: &str, variable: &str| {
        let (name, value) = variable.split_once('=').unwrap_or(("UNUSED", ""));
        let mut command = millstream(words, Path::new("touch"));
        command.arg(&mark).env(name, value).output().unwrap()
    };
    // The words, a variable of the environment, and the problem that is named.
    for line in include_str!("wrong_arguments.txt").lines() {
        let [words, variable, problem] = line.splitn(3, '|').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let output = run(words, variable);
        assert!(!output.status.success() && !mark.exists(), "{line}");
        has(&errors(&output), &[problem]);
    }
    // The same program runs otherwise, and fails if it must open the driver.
    let required = run("run --require-device", "MILLSTREAM_DEVICE=sim:seed=3");
    assert!(mark.exists());
    has(
        &report(&required, 1),
        &["no process of the program opened the driver"],
    );
    report(&run("run", "MILLSTREAM_DEVICE="), 0);
}

#[test]
fn settings_of_the_environment_are_merged_with_options() {
    let output = millstream("run --schedule lazy --race off --require-device", program())
        .args([VECTOR_ADDITION, "racy"])
        .env("MILLSTREAM_DEVICE", "sim:race=off,memory=1G")
        .output();
    let checked = "millstream: ran 1 launch of 1 kernel (2 operations in all) under 1 schedule, \
                   without a check for races: no problems\n";
    assert_eq!(report(&output.unwrap(), 0), checked);
}

#[test]
fn problems_are_reported_whatever_ends_the_program() {
    let json = program().with_file_name("abrupt.jsonl");
    let ends = [
        "abort",
        "_exit",
        "quick_exit",
        "segfault",
        "kill",
        "host function",
    ];
    for (end, code) in ends.into_iter().zip([134, 1, 1, 139, 137, 134]) {
        let output = run(&["--json", json.to_str().unwrap()], end);
        let parts = [
            "millstream: 1. Race: ",
            "two_streams.c:",
            "did not end by `exit`",
        ];
        has(&report(&output, code), &parts);
        let written = fs::read_to_string(&json).unwrap();
        assert_eq!(written.lines().count(), 1, "{end}");
        has(&written, &["kernel `vecadd`, at "]);
    }
}

#[test]
fn a_check_tries_both_readings_of_the_rules_and_names_the_rule() {
    let found = report(&command("check", &[], "early"), 3);
    has(
        &found,
        &[
            "(`pageable_download` as documented",
            " --rules pageable_download -- ",
        ],
    );
    let observed = ["--rules", "observed", "--runs", "4"];
    report(&command("check", &observed, "early"), 0);
    report(
        &run(&["--rules", "strict", "--schedule", "lazy"], "early"),
        3,
    );
}

#[test]
fn the_list_of_devices_fails_if_the_chosen_one_does_not_exist() {
    for (device, code) in [("sim", 0), ("sim:devices=x", 1), ("cuda:99", 1), ("gpu", 1)] {
        let output = Command::new(env!("CARGO_BIN_EXE_millstream"))
            .arg("devices")
            .env("MILLSTREAM_DEVICE", device)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{device}");
        let listed = String::from_utf8_lossy(&output.stdout);
        assert!(listed.contains("sim:0 Simulated GPU"), "{listed}");
    }
}

#[test]
fn a_check_repeats_the_program_and_prints_the_command_of_the_run_with_a_problem() {
    let output = command("check", &["--runs", "5"], "ordered");
    let all = "millstream: checked 5 launches of 1 kernel (10 operations in all) under 5 \
               schedules: no problems\n";
    assert_eq!(report(&output, 0), all);
    let output = command("check", &["--exit-code", "4"], "racy");
    let found = report(&output, 4);
    let (_, repeat) = found
        .split_once("millstream: run 1 of 20 has problems")
        .unwrap();
    has(repeat, &["  millstream run --", " --schedule timed -- "]);
}

#[test]
fn a_kernel_that_never_ends_is_named_while_it_runs_and_fails_with_its_line() {
    let ptx = program().with_file_name("endless.ptx");
    let kernel = ".version 8.0\n.target sm_75\n.address_size 64\n\
        .visible .entry vecadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n) {\n\
        WAIT:\n bra WAIT;\n}\n";
    fs::write(&ptx, kernel).unwrap();
    let output = command_with(&ptx, "run", &["--steps", "30000000"], "ordered");
    assert_ne!(output.status.code(), Some(0), "{output:?}");
    let report = errors(&output);
    let named = "millstream: kernel `vecadd` has been running for ";
    has(&report, &[named, " s: 0 of 16 blocks done; "]);
    assert!(!report.contains('\r'), "{report:?}");
    let failed = report.lines().find(|line| line.contains("KernelFault"));
    let failed = failed.unwrap_or_else(|| panic!("no fault in:\n{report}"));
    has(failed, &["kernel `vecadd`", "line 6 of the PTX"]);
    has(failed, &["30000000 warp instructions"]);
    let output = command_with(&ptx, "check", &["--steps", "1000"], "ordered");
    let report = errors(&output);
    has(&report, &["millstream run --", " --steps 1000 --"]);
    assert!(!report.contains(named), "{report}");
}

/// Starts `millstream` with a shell script in the place of a program, in a folder of its own that
/// `TMPDIR` names by a relative path. Returns the process and the folder, once the script has
/// called `begin`. That is no program, because a shell ignores SIGINT while one of its programs
/// ends.
fn start(command: &str, script: &str) -> (Child, PathBuf, TempDir) {
    let own = tempfile::tempdir_in(program().parent().unwrap()).unwrap();
    fs::create_dir(own.path().join("tmp")).unwrap();
    let begun = own.path().join("begun");
    let mut millstream = Command::new("bash");
    let child = millstream
        // A shell in the background, and `nohup`, make their programs ignore some of the signals.
        .args([
            "-c",
            "umask 0; exec env --default-signal=HUP,INT,TERM \"$0\" \"$@\"",
        ])
        .args([env!("CARGO_BIN_EXE_millstream"), command])
        .args(["--library".as_ref(), library().as_os_str()])
        .args(["--", "bash", "-c"])
        .arg(format!(
            "begin() {{ echo $LD_LIBRARY_PATH > {}; }}; cd /; {script}",
            begun.display()
        ))
        .env("TMPDIR", "tmp")
        .env_remove("LD_LIBRARY_PATH")
        .current_dir(&own)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let mut path = String::new();
    while !path.ends_with('\n') {
        assert!(start.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
        path = fs::read_to_string(&begun).unwrap_or_default();
    }
    (child, path.trim_end().into(), own)
}

#[test]
fn the_temporary_folder_is_private_absolute_and_removed_at_every_signal() {
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        for command in ["run", "check"] {
            let name = format!("{command}-{signal}");
            let (mut child, folder, _own) = start(command, "begin; sleep 60 & wait");
            assert!(folder.is_absolute(), "{folder:?}");
            assert_eq!(folder.parent().unwrap().file_name().unwrap(), "tmp");
            let random = folder.file_name().unwrap().to_str().unwrap();
            assert_ne!(random, format!("millstream-run-{}", child.id()));
            let mode = fs::metadata(&folder).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700, "{folder:?}");
            let kill = Command::new("kill")
                .args(["-s", signal, &child.id().to_string()])
                .status();
            assert!(kill.unwrap().success());
            let status = child.wait().unwrap();
            assert_eq!(status.code(), Some(128 + number), "{name}: {status:?}");
            assert!(!folder.exists(), "{name}: {folder:?}");
        }
    }
}

#[test]
fn a_program_that_handles_a_signal_ends_with_its_own_status() {
    let script = "trap 'exit 7' TERM; begin; while :; do sleep 0.05; done";
    let (mut child, folder, _own) = start("run", script);
    let id = child.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(!folder.exists());
}

#[test]
fn names_are_printed_without_control_characters() {
    let folder = TempDir::new().unwrap();
    let [file, missing] = ["\x1b[2J.ptx", "\x1b[3J"].map(|name| folder.path().join(name));
    let kernel = ".version 8.0\n.target sm_75\n.address_size 64\n";
    fs::write(&file, format!("{kernel}.visible .entry k() {{ ret; }}")).unwrap();
    let (file, missing) = (file.to_str().unwrap(), missing.to_str().unwrap());
    let library = library();
    let library = library.to_str().unwrap();
    let arguments: [&[&str]; 7] = [
        &["ptx", file],
        &["ptx", missing],
        &["devices"],
        &["devices", missing],
        &["run", "--library", library, "--", missing],
        &[
            "run",
            "--library",
            library,
            "--device",
            missing,
            "--",
            "true",
        ],
        &[
            "check",
            "--library",
            library,
            "--",
            "bash",
            "-c",
            "exit 1",
            missing,
        ],
    ];
    let is_printed_raw = |arguments: &&[&str]| {
        let by_variable = *arguments == ["devices"];
        let device = ["sim", "\x1b[2J"][usize::from(by_variable)];
        let output = Command::new(env!("CARGO_BIN_EXE_millstream"))
            .args(*arguments)
            .env("MILLSTREAM_DEVICE", device)
            .output()
            .unwrap();
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        // With its feature `color`, clap removes the characters itself.
        let is_shown = ["\u{fffd}[", "unexpected argument"].map(|part| printed.contains(part));
        printed.contains('\x1b') || is_shown == [false; 2]
    };
    let wrong: Vec<_> = arguments.into_iter().filter(is_printed_raw).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn an_output_that_is_full_does_not_end_the_command() {
    for words in [
        "devices",
        "doctor",
        "ptx /nowhere.ptx",
        "run -- true",
        "check -- true",
        "run",
    ] {
        let full = || fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.args(words.split(' ')).stdout(full()).stderr(full());
        // A panic ends with 101.
        let status = command.status().unwrap();
        assert!(
            (0..3).contains(&status.code().unwrap()),
            "{words}: {status}"
        );
    }
}
