//! Loading NCCL: a helpful error without it, a version with it.

use std::{env, process::Command};

use millstream_collective::nccl::{self, NcclLoadError, OLDEST_NCCL_VERSION};

#[test]
fn nccl_loads_or_the_error_lists_the_attempts() {
    match nccl::load() {
        Ok(nccl) => {
            assert!(nccl.version() >= OLDEST_NCCL_VERSION);
            assert!(format!("{nccl:?}").starts_with("NCCL "), "{nccl:?}");
        }
        Err(error @ NcclLoadError::NotFound(_)) => {
            let text = error.to_string();
            assert!(text.contains("libnccl.so.2"), "{text}");
            assert!(text.contains("MILLSTREAM_NCCL"), "{text}");
        }
        // A library was found, so it is meant to be used, and the test must show the error.
        Err(error) => panic!("{error}"),
    }
}

#[test]
#[ignore = "the inner half of the_variable_names_the_only_place"]
fn inner_load() {
    println!("{}", nccl::load().expect_err("the folder does not exist"));
}

#[test]
fn the_variable_names_the_only_place() {
    let program = env::current_exe().expect("the test's own program");
    let output = Command::new(program)
        .args([
            "--exact",
            "nccl::load::inner_load",
            "--include-ignored",
            "--nocapture",
        ])
        .env("MILLSTREAM_NCCL", "/no/such/folder/libnccl.so.2")
        .output()
        .expect("the process starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("NCCL could not be loaded (tried /no/such/folder"),
        "{text}"
    );
}
