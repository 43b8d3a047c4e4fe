//! `millstream run` with programs that nvcc compiles. `MILLSTREAM_NVCC` names one or several nvcc,
//! as `PATH` does. Those of the packages `nvidia-cuda-nvcc`, `nvidia-nvvm`, `nvidia-cuda-crt`,
//! `nvidia-cuda-runtime` and `nvidia-cuda-cccl` will do, with a link `libcudart.so` beside
//! `libcudart.so.13`, and one `lib64` beside `lib`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::{harness::shim, run::millstream};

const SHARED: &str = "-cudart shared -gencode arch=compute_75,code=compute_75";
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cuda");

/// Compiles files of the folder `cuda` with each nvcc.
fn compiled(files: &[&str], options: &str) -> Vec<PathBuf> {
    let all = std::env::var_os("MILLSTREAM_NVCC").expect("MILLSTREAM_NVCC is a path of nvcc");
    let compile = |(index, nvcc): (usize, PathBuf)| {
        let folder = shim().join(format!("nvcc-{index}"));
        fs::create_dir_all(&folder).unwrap();
        let unique = options.replace(['=', ',', ' '], "_");
        let program = folder.join(format!("{}-{unique}", files[0]));
        let mut command = Command::new(&nvcc);
        command
            .current_dir(FOLDER)
            .args(["-g", "-lineinfo", "-o"])
            .arg(&program);
        let path = std::env::var_os("PATH").unwrap();
        let folders = [nvcc.parent().unwrap().into()]
            .into_iter()
            .chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap());
        let status = command
            .args(options.split(' '))
            .args(files)
            .status()
            .unwrap();
        assert!(status.success(), "{}", nvcc.display());
        program
    };
    std::env::split_paths(&all)
        .enumerate()
        .map(compile)
        .collect()
}

fn run(program: &Path, arguments: &[&str]) -> (Output, String) {
    let output = millstream("run --quiet", program)
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, errors)
}

/// Requires the right result without a report.
fn is_right(programs: &[PathBuf]) {
    for program in programs {
        let (output, errors) = run(program, &[]);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "right\n",
            "{errors}"
        );
        assert_eq!(errors, "", "{}", program.display());
    }
}

#[test]
#[ignore = "needs nvcc"]
fn a_vector_addition_of_nvcc_is_right_and_its_race_is_reported_with_its_lines() {
    let programs = compiled(&["add.cu"], SHARED);
    is_right(&programs);
    let source = fs::read_to_string(format!("{FOLDER}/add.cu")).unwrap();
    let line = |mark: &str| {
        source
            .lines()
            .position(|line| line.ends_with(mark))
            .unwrap()
            + 1
    };
    for program in programs {
        let (output, errors) = run(&program, &["race"]);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        for (kernel, mark) in [
            (
                "add(float const*, float const*, float*, int)",
                "// the first",
            ),
            ("twice<float>(float*, int)", "// the second"),
        ] {
            let place = format!(
                "kernel `{kernel}`, at {FOLDER}/add.cu:{} (main), ",
                line(mark)
            );
            assert!(errors.contains(&place), "no {place} in {errors}");
        }
    }
}

#[test]
#[ignore = "needs nvcc"]
fn files_of_relocatable_device_code_share_functions_symbols_and_managed_variables() {
    let options = format!("{SHARED} -rdc=true");
    is_right(&compiled(&["separate.cu", "separate_other.cu"], &options));
}

#[test]
#[ignore = "needs nvcc"]
fn textures_and_surfaces_of_the_runtime_api_have_the_right_values() {
    is_right(&compiled(&["textures.cu"], SHARED));
}

#[test]
#[ignore = "needs nvcc, and minutes"]
fn cub_and_thrust_are_right_and_have_no_race() {
    is_right(&compiled(&["libraries.cu"], SHARED));
}

#[test]
#[ignore = "needs nvcc"]
fn a_program_that_is_linked_statically_or_has_no_ptx_is_told_how_to_build_it() {
    for (options, advice) in [
        (
            "-gencode arch=compute_75,code=compute_75",
            "linked statically, as nvcc does",
        ),
        (
            "-cudart shared -gencode arch=compute_75,code=sm_75",
            "compile to PTX too",
        ),
    ] {
        for program in compiled(&["add.cu"], options) {
            let (output, errors) = run(&program, &[]);
            assert_ne!(output.status.code(), Some(0));
            let lines = errors
                .lines()
                .filter(|line| line.contains("code=compute_75"));
            let lines: Vec<_> = lines.collect();
            assert!(lines.len() == 1 && lines[0].contains(advice), "{errors}");
        }
    }
}
