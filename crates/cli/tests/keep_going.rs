//! `millstream run --keep-going`.

use std::{fs, process::Output};

use crate::run::{has, millstream, program, report};

#[test]
fn one_run_lists_all_faults_of_a_kernel_on_request() {
    let ptx = program().with_file_name("faulty.ptx");
    let kernel = ".version 8.0\n.target sm_75\n.address_size 64\n\
        .visible .entry vecadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n) {\n\
        st.global.u32 [8], 1;\nst.global.u32 [18], 1;\ntrap;\n}\n";
    fs::write(&ptx, kernel).unwrap();
    let output = |words: &str| {
        let mut command = millstream(words, program());
        command.arg(&ptx).arg("ordered").output().unwrap()
    };
    let errors = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
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
