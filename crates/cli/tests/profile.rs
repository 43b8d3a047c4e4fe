//! `--profile-sim`, and the line on a terminal about a kernel that runs for long.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    harness::library,
    run::{VECTOR_ADDITION, millstream, program, report},
};

#[test]
fn a_profile_has_the_kernels_of_all_runs_whatever_ends_the_program() {
    let json = program().with_file_name("profile.jsonl");
    let run = format!("run --json {} --profile-sim", json.display());
    for (words, mode, code, launches, fills) in [
        (&*run, "ordered", 0, "1", "1"),
        (&run, "racy", 1, "1", "1"),
        (&run, "abort", 134, "1", "1"),
        (&run, "late", 134, "2", "1"),
        ("check --runs 5 --profile-sim", "ordered", 0, "5", "5"),
    ] {
        let output = millstream(words, program())
            .args([VECTOR_ADDITION, mode])
            .output();
        let found = report(&output.unwrap(), code);
        for (end, count) in [("  vecadd", launches), ("  (copies and fills)", fills)] {
            let line = found
                .lines()
                .find(|line| line.ends_with(end))
                .expect(&found);
            assert_eq!(line.split_whitespace().nth(3), Some(count), "{found}");
        }
        assert_eq!(
            found.matches("the simulated device took ").count(),
            1,
            "{found}"
        );
        assert_eq!(
            found.contains("so far as processes reported it"),
            code == 134,
            "{found}"
        );
        let line: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let rows = line["work"]["profile"]["rows"].as_array().expect("no rows");
        assert!(rows.iter().any(|row| row["kernel"] == "vecadd"), "{line}");
    }
}

#[test]
fn on_a_terminal_one_line_about_a_long_kernel_is_rewritten_and_erased() {
    if Command::new("script").arg("--version").output().is_err() {
        return;
    }
    let ptx = program().with_file_name("half.ptx");
    let kernel = ".version 8.0\n.target sm_75\n.address_size 64\n\
        .visible .entry vecadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n) {\n\
        .reg .u32 %r<2>; .reg .pred %p;\n mov.u32 %r1, %ctaid.x; setp.lt.u32 %p, %r1, 8;\n\
        @%p bra DONE;\nWAIT:\n bra WAIT;\nDONE:\n ret;\n}\n";
    fs::write(&ptx, kernel).unwrap();
    let words = [
        Path::new(env!("CARGO_BIN_EXE_millstream")),
        "run --steps 30000000 --library".as_ref(),
        &library(),
        "--".as_ref(),
        program(),
        &ptx,
    ];
    let words = words.map(|word| word.display().to_string()).join(" ");
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &words, "/dev/null"]);
    terminal
        .env("MILLSTREAM_PROGRESS", "0.05")
        .env_remove("MILLSTREAM_DEVICE");
    let output = terminal.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let line = "8 of 16 blocks done in 0 s by kernel `vecadd`";
    let (_, rest) = shown.split_once(&format!("\r{line:79}\r")).expect(&shown);
    let (erased, _) = rest.split_once("millstream: 1. KernelFault").expect(&shown);
    assert!(erased.ends_with(&format!("\r{:79}\r", "")), "{shown:?}");
    assert!(!shown.contains("has been running"), "{shown}");
}
