//! `millstream run --keep-going` and `--init on`.

use std::{fs, process::Output};

use crate::run::{has, millstream, program, report};

/// Writes a kernel with this body to a file, and returns a function that runs a program with it
/// under words of `millstream`.
fn with_kernel(name: &str, body: &str) -> impl Fn(&str) -> Output {
    let ptx = program().with_file_name(name);
    let kernel = format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
        .visible .entry vecadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n) {{\n\
        {body}\n}}\n"
    );
    fs::write(&ptx, kernel).unwrap();
    move |words| {
        let mut command = millstream(words, program());
        command.arg(&ptx).arg("ordered").output().unwrap()
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn one_run_lists_all_faults_of_a_kernel_on_request() {
    let body = "st.global.u32 [8], 1;\nst.global.u32 [18], 1;\ntrap;";
    let output = with_kernel("faulty.ptx", body);
    let lines = |text: &str| [5, 6, 7].map(|line| text.contains(&format!("line {line} of")));
    let all = report(&output("run --keep-going"), 1);
    has(
        &all,
        &["3 different problems", "failures at this line: 4096"],
    );
    assert_eq!(lines(&all), [true; 3], "{all}");
    assert_eq!(lines(&errors(&output("run"))), [true, false, false]);
    let checked = errors(&output("check --keep-going"));
    has(&checked, &["millstream run --", " --keep-going --"]);
}

#[test]
fn uses_of_shared_memory_that_was_never_written_are_found_on_request() {
    let body = ".reg .b32 %r<1>; .reg .b64 %d<1>; .shared .align 4 .b8 tile[4];\n\
        ld.param.u64 %d0, [c]; ld.shared.u32 %r0, [tile];\nst.global.u32 [%d0], %r0;";
    let output = with_kernel("uninitialised.ptx", body);
    let found = "global memory receives uninitialised bytes 0..4 of `tile`";
    has(&report(&output("run --init on"), 1), &[found]);
    assert!(!errors(&output("run")).contains(found));
    let checked = errors(&output("check --init on"));
    has(&checked, &[found, "millstream run --", " --init on --"]);
}
