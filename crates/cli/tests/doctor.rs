//! `millstream doctor` with libraries that tell only their versions, in an environment of Python
//! that the test makes, and with the simulated driver in the place of NVIDIA's.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::harness::shim;

/// Compiles a library of a version, such as `12.8`, in a folder of NVIDIA's packages.
fn library(packages: &Path, file: &str, version: &str) {
    let file = packages.join("nvidia").join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let (major, minor) = version.split_once('.').unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args([format!("-DMAJOR={major}"), format!("-DMINOR={minor}")]);
    gcc.args(["-shared", "-fPIC", "-o"]).arg(file);
    gcc.arg(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/programs/versions.c"
    ));
    assert!(gcc.status().unwrap().success());
}

fn doctor(environment: &Path, option: &str, (name, value): (&str, &str)) -> Output {
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_millstream"));
    doctor
        .arg("doctor")
        .args(option.split_whitespace())
        .env_clear();
    doctor
        .env("LD_LIBRARY_PATH", shim())
        .env("VIRTUAL_ENV", environment);
    doctor
        .env("PATH", environment.join("bin"))
        .env("MILLSTREAM_CUDA", "12.4");
    doctor.env(name, value).output().unwrap()
}

/// Runs it, which ends with this status, and returns a function from names to their lines.
fn lines(environment: &Path, home: &str, code: i32) -> impl Fn(&str) -> String {
    let output = doctor(environment, "--json", ("CUDA_HOME", home));
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["fits"], code == 0);
    move |name| {
        let checks = report["checks"].as_array().unwrap().iter();
        let named: Vec<_> = checks.filter(|check| check["name"] == name).collect();
        assert_eq!(named.len(), 1, "{name}: {report}");
        let words = ["state", "version", "text", "remedy"].map(|key| named[0][key].to_string());
        words.join(" ").replace('"', "")
    }
}

#[test]
fn libraries_are_found_with_their_versions_and_what_does_not_fit_has_a_remedy() {
    let own = tempfile::tempdir().unwrap();
    let packages = own.path().join("lib/python3.11/site-packages");
    let nvcc = own.path().join("bin/nvcc");
    for (file, version) in [
        ("cuda_nvrtc/lib/libnvrtc.so.12", "12.8"),
        ("cuda_runtime/lib/libcudart.so.13", "13.0"),
        ("nccl/lib/libnccl.so.2", "2.28"),
        ("cublas/lib/libcublas.so.12", "12.8"),
    ] {
        library(&packages, file, version);
    }
    for (file, text) in [
        (
            packages.join("nvidia/cublas/lib/libcublas.so.12"),
            "no library",
        ),
        (packages.join("numba/cuda/__init__.py"), ""),
        (nvcc.clone(), "#!/bin/sh\necho 'release 12.0, V12.0.76'\n"),
    ] {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let found = lines(own.path(), "/nowhere/\u{1b}", 1);
    for line in include_str!("doctor.txt").lines() {
        let mut parts = line.split('|');
        let text = found(parts.next().unwrap());
        assert!(parts.all(|part| text.contains(part)), "{line}: {text}");
    }
    let text = doctor(own.path(), "", ("CUDA_HOME", "/nowhere/\u{1b}")).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("✗ CUDA_HOME") && !text.contains('\u{1b}'),
        "{text}"
    );

    fs::set_permissions(nvcc, fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir_all(packages.join("nvidia/cuda_runtime")).unwrap();
    library(&packages, "cuda_nvrtc/lib/libnvrtc.so.12", "12.4");
    library(&packages, "cuda_runtime/lib/libcudart.so.12", "12.8");
    library(&packages, "cuda_nvcc/nvvm/lib64/libnvvm.so", "2.0");
    library(&packages, "cublas/lib/libcublas.so.12", "12.4");
    let found = lines(own.path(), "/", 0);
    let names = [
        "NVRTC 12.4",
        "libcudart 12.8",
        "libNVVM 2.0",
        "cuBLAS 12.4",
        "nvcc 12.0",
    ];
    for (name, version) in names.map(|name| name.split_once(' ').unwrap()) {
        let text = found(name);
        assert!(
            text.starts_with(&format!("found {version} ")),
            "{name}: {text}"
        );
    }
    let output = doctor(own.path(), "", ("MILLSTREAM_DEVICE", "cuda:7"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
