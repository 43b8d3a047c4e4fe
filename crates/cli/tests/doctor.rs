//! `millstream doctor` with libraries that tell only their versions, in an environment of Python
//! that the test makes, and with the simulated driver in the place of NVIDIA's.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::harness::shim;

const SOURCE: &str = "
int nvrtcVersion(int *a, int *b) { return *a = MAJOR, *b = MINOR, 0; }
int nvvmVersion(int *a, int *b) { return *a = MAJOR, *b = MINOR, 0; }
int cublasGetProperty(int part, int *value) { return *value = part ? MINOR : MAJOR, 0; }
int cudaRuntimeGetVersion(int *value) { return *value = MAJOR * 1000 + MINOR * 10, 0; }
int ncclGetVersion(int *value) { return *value = MAJOR * 10000 + MINOR * 100 + 9, 0; }
";

/// Compiles a library of a version in a folder of the environment's packages.
fn library(environment: &Path, file: &str, (major, minor): (i32, i32)) {
    let file = environment.join("lib/python3.11/site-packages").join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let source = environment.join("versions.c");
    fs::write(&source, SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args([format!("-DMAJOR={major}"), format!("-DMINOR={minor}")]);
    gcc.args(["-shared", "-fPIC", "-o"]).arg(file).arg(source);
    assert!(gcc.status().unwrap().success());
}

fn doctor(environment: &Path, options: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_millstream"));
    doctor.arg("doctor").args(options).env_clear();
    doctor
        .env("LD_LIBRARY_PATH", shim())
        .env("VIRTUAL_ENV", environment);
    doctor
        .env("PATH", environment.join("bin"))
        .env("MILLSTREAM_CUDA", "12.4");
    doctor.envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn libraries_are_found_with_their_versions_and_what_does_not_fit_has_a_remedy() {
    let own = tempfile::tempdir().unwrap();
    let environment = own.path();
    let nvcc = environment.join("bin/nvcc");
    fs::create_dir(environment.join("bin")).unwrap();
    fs::write(&nvcc, "#!/bin/sh\necho 'release 12.0, V12.0.76'\n").unwrap();
    let packages = environment.join("lib/python3.11/site-packages");
    library(environment, "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", (12, 8));
    library(
        environment,
        "nvidia/cuda_runtime/lib/libcudart.so.13",
        (13, 0),
    );
    library(environment, "nvidia/nccl/lib/libnccl.so.2", (2, 28));
    let cublas = packages.join("nvidia/cublas/lib/libcublas.so.12");
    fs::create_dir_all(cublas.parent().unwrap()).unwrap();
    fs::write(&cublas, "no library").unwrap();
    fs::create_dir_all(packages.join("numba/cuda")).unwrap();
    fs::write(packages.join("numba/cuda/__init__.py"), "").unwrap();
    let output = doctor(
        environment,
        &["--json"],
        &[("CUDA_HOME", "/nowhere/\u{1b}")],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["fits"], false);
    let line = |report: &Value, name: &str| {
        let checks = report["checks"].as_array().unwrap().iter();
        let mut named = checks.filter(|check| check["name"] == name);
        let [state, version, text, remedy] = ["state", "version", "text", "remedy"].map(|key| {
            named.clone().next().unwrap_or_else(|| panic!("no {name}"))[key].to_string()
        });
        assert!(named.nth(1).is_none());
        format!("{state} {version} {text} {remedy}").replace('"', "")
    };
    for (name, parts) in [
        ("driver", ["found 12.4 ", "which is simulated"]),
        ("cuda:0", ["found", "compute capability 9.0"]),
        ("simulated driver", ["found", "libmillstream_libcuda.so"]),
        ("NVRTC", ["wrong 12.8 ", "nvidia-cuda-nvrtc-cu12==12.4.*"]),
        ("libcudart", ["wrong 13.0 ", "nvidia-cuda-runtime-cu12"]),
        (
            "libNVVM",
            ["wrong null not found: for numba", "nvidia-cuda-nvcc-cu12"],
        ),
        ("cuBLAS", ["wrong null ", "too short"]),
        ("NCCL", ["found 2.28 ", "libnccl.so.2 null"]),
        ("nvcc", ["wrong null ", "chmod +x "]),
        ("CUDA_HOME", ["wrong", "there is no such folder"]),
    ] {
        let line = line(&report, name);
        assert!(
            parts.iter().all(|part| line.contains(part)),
            "{name}: {line}"
        );
    }
    let text = doctor(environment, &[], &[("CUDA_HOME", "/nowhere/\u{1b}")]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("\u{2717} CUDA_HOME") && !text.contains('\u{1b}'),
        "{text}"
    );

    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(nvcc, fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir_all(packages.join("nvidia/cuda_runtime")).unwrap();
    library(environment, "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", (12, 4));
    library(
        environment,
        "nvidia/cuda_runtime/lib/libcudart.so.12",
        (12, 8),
    );
    library(
        environment,
        "nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so",
        (2, 0),
    );
    library(environment, "nvidia/cublas/lib/libcublas.so.12", (12, 4));
    let output = doctor(environment, &["--json"], &[]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &report["fits"]),
        (Some(0), &true.into()),
        "{report}"
    );
    for (name, version) in [
        ("NVRTC", "12.4"),
        ("libcudart", "12.8"),
        ("libNVVM", "2.0"),
        ("cuBLAS", "12.4"),
        ("nvcc", "12.0"),
    ] {
        let line = line(&report, name);
        assert!(
            line.starts_with(&format!("found {version} ")),
            "{name}: {line}"
        );
    }
    // A device that does not exist.
    let output = doctor(environment, &[], &[("MILLSTREAM_DEVICE", "cuda:7")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
