//! C programs that call the runtime API as programs of nvcc do, over the command's runtime library.

use std::{fs, path::PathBuf, process::Command, sync::OnceLock};

use crate::{
    harness::{Program, shim},
    run::millstream,
};

/// The functions of the library.
const NAMES: &str = include_str!("../../libcudart/src/tables/names.txt");

/// Returns a library for the linker that has nothing but NVIDIA's names and versions.
fn stub(major: u32) -> &'static PathBuf {
    static STUBS: [OnceLock<PathBuf>; 2] = [OnceLock::new(), OnceLock::new()];
    STUBS[major as usize - 12].get_or_init(|| {
        let folder = shim().join(format!("cudart-{major}"));
        fs::create_dir_all(&folder).unwrap();
        let functions = NAMES
            .lines()
            .map(|name| format!("int {name}(void) {{ return 1; }}\n"));
        fs::write(folder.join("stub.c"), functions.collect::<String>()).unwrap();
        let name = format!("libcudart.so.{major}");
        fs::write(folder.join("map"), format!("{name} {{ *; }};\n")).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.current_dir(&folder)
            .args(["-shared", "-fPIC", "stub.c", "-o", &name]);
        gcc.args([
            format!("-Wl,-soname,{name}"),
            "-Wl,--version-script=map".into(),
        ]);
        assert!(gcc.status().unwrap().success());
        folder.join(name)
    })
}

fn compiled(program: &str, major: u32, arguments: &[&str]) -> Program {
    let define = format!("-DMAJOR={major}");
    let library = stub(major).to_str().unwrap();
    Program::compiled_with(program, &[&[define.as_str(), library], arguments].concat())
}

/// Runs a part of the program in both versions. Returns the reports.
fn run(part: &str, code: i32) -> String {
    let reports = [12, 13].map(|major| {
        let program = compiled("cudart_calls", major, &[]);
        let mut command = millstream("run --quiet --devices 2", &program.path);
        let output = command.arg(part).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(printed, "all did\n", "{errors}");
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(!errors.contains("version information"), "{errors}");
        errors
    });
    reports.concat()
}

#[test]
fn calls_of_both_versions_of_the_runtime_return_what_the_documentation_says() {
    let errors = run("all", 1);
    let refused = "cudaIpcGetMemHandle is not supported by the simulated device\n";
    assert_eq!(errors.matches(refused).count(), 2, "{errors}");
    let advice = "compile to PTX too, as with nvcc's `-gencode arch=compute_75,code=compute_75`\n";
    assert_eq!(errors.matches(advice).count(), 2, "{errors}");
    assert!(!errors.contains("Race"), "{errors}");
}

#[test]
fn calls_fail_after_the_loss_of_the_context_until_the_device_is_reset() {
    let errors = run("errors", 1);
    assert_eq!(
        errors.matches("KernelFault: kernel `fault`").count(),
        2,
        "{errors}"
    );
}

#[test]
fn a_forked_process_has_the_driver_unless_its_parent_used_it_before() {
    run("fork", 1);
    run("fork-late", 0);
}

#[test]
fn races_name_the_program_s_lines_and_are_printed_however_it_ends() {
    let program = compiled("cudart_calls", 13, &[]);
    for (end, code) in [("exit", 1), ("_exit", 1), ("abort", 134), ("signal", 137)] {
        let mut command = millstream("run --quiet", &program.path);
        let output = command.arg(end).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        let operations = [
            "kernel `add`, at ",
            "fill (16 bytes), at ",
            "cudaMalloc, at ",
        ];
        for operation in operations {
            let line = errors.split_once(operation).expect(&errors).1;
            let file = line.split_once(".c:").unwrap().0;
            assert!(file.ends_with("/programs/cudart_calls"), "{errors}");
        }
    }
}

#[test]
fn two_versions_of_the_runtime_share_the_device_of_one_process_but_no_error() {
    let folder = shim().join("both");
    fs::create_dir_all(&folder).unwrap();
    let source = format!(
        "{}/tests/programs/cudart_both.c",
        env!("CARGO_MANIFEST_DIR")
    );
    let library = folder.join("libother.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-g", "-DLIBRARY", "-o"])
        .arg(&library);
    gcc.arg(source).arg(stub(12)).arg("-Wl,-soname,libother.so");
    assert!(gcc.status().unwrap().success());
    let path = format!("-Wl,-rpath,{}", folder.display());
    let library = [
        library.to_str().unwrap(),
        "-Wl,--allow-shlib-undefined",
        &path,
    ];
    let program = compiled("cudart_both", 13, &library);
    let output = millstream("run --quiet", &program.path).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "12 and 13 did\n",
        "{output:?}"
    );
    assert_eq!(output.stderr, b"", "{output:?}");
}

#[test]
fn the_runtime_of_the_command_is_used_whatever_path_the_program_has() {
    let folder = stub(13).parent().unwrap().display();
    for tags in ["--enable-new-dtags", "--disable-new-dtags"] {
        let path = format!("-Wl,{tags},-rpath,{folder}");
        let program = compiled("cudart_calls", 13, &[&path]);
        let output = millstream("run --quiet", &program.path)
            .arg("exit")
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "all did\n",
            "{tags}: {output:?}"
        );
    }
}
