//! The command `millstream-nvcc`, with a script in the place of nvcc.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

/// Prints its name and its arguments, one a line.
const SCRIPT: &str = "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\"\nexit 7\n";

/// A folder with a toolkit `cuda kit`.
fn toolkit() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let [bin, lib] = ["cuda kit/bin", "cuda kit/lib"].map(|name| folder.path().join(name));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    fs::write(lib.join("libcudart.so.13"), "").unwrap();
    let nvcc = bin.join("nvcc");
    fs::write(&nvcc, SCRIPT).unwrap();
    fs::set_permissions(&nvcc, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, nvcc)
}

/// Returns the exit status, and the text of both outputs.
fn run(folder: &Path, arguments: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream-nvcc"));
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command.env("HOME", folder).current_dir(folder);
    command
        .args(arguments.split(' '))
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn nvcc_gets_the_arguments_for_ptx_and_the_shared_runtime_library() {
    let (folder, nvcc) = toolkit();
    let named = ("MILLSTREAM_NVCC", nvcc.to_str().unwrap());
    let at = |name: &str| folder.path().join(name);
    fs::write(at("OPTIONS"), "-arch=sm_90\n-DA=b -optf MORE").unwrap();
    fs::write(at("MORE"), "'-DC=d e' \"\\\"f\\\"\" -cudart static").unwrap();
    fs::write(at("CYCLE"), "--options-file=CYCLE").unwrap();
    let cache = at(".cache/millstream/nvcc-");
    let lines = include_str!("nvcc.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (given, expected) = line.split_once(" => ").unwrap();
        let (expected, ptx) = expected.split_once(" PTX ").unwrap();
        let ptx = format!("-gencode=arch=compute_{ptx},code=compute_{ptx}");
        let expected = format!(
            "{expected} {ptx} -cudadevrt=none -cudart shared -L{}",
            cache.display()
        );
        let (status, output) = run(folder.path(), given, &[named]);
        assert!(
            output.replace('\n', " ").contains(&expected),
            "{line}: {output}"
        );
        assert_eq!(status, Some(7));
    }
    let flags = [named, ("NVCC_APPEND_FLAGS", "-cudart none '-DA=b c'")];
    let output = run(folder.path(), "a.o", &flags).1;
    assert!(
        output.contains("\na.o\n-DA=b c\n") && output.contains("-cudart\nnone\n"),
        "{output}"
    );

    let library = run(folder.path(), "--millstream-library", &[named]).1;
    let library = library.trim_end();
    let script = fs::read_to_string(library).unwrap();
    assert!(
        script.contains("/cuda kit/lib/libcudart.so.13\" )"),
        "{script}"
    );
    assert_eq!(
        script,
        fs::read_to_string(library.replace("_static.a", ".so")).unwrap()
    );
    let output = run(folder.path(), "x/libcudart_static.a", &[named]).1;
    assert_eq!(output.lines().nth(1), Some(library));
}

#[test]
fn the_compiler_is_found_in_a_toolkit_and_on_the_path_but_is_never_this_program() {
    let (folder, nvcc) = toolkit();
    let [home, bin] = [2, 1].map(|up| nvcc.ancestors().nth(up).unwrap().to_str().unwrap());
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    symlink(env!("CARGO_BIN_EXE_millstream-nvcc"), own.join("nvcc")).unwrap();
    let path = format!("{}:{bin}:/usr/bin:/bin", own.display());
    for variable in [("CUDA_HOME", home), ("CUDA_PATH", home), ("PATH", &path)] {
        let found = run(folder.path(), "--version", &[variable]).1;
        let start = format!("{}\n--version\n", nvcc.display());
        assert!(found.starts_with(&start), "{variable:?}: {found}");
    }
    fs::write(folder.path().join("CYCLE"), "--options-file=CYCLE").unwrap();
    let named = ("MILLSTREAM_NVCC", nvcc.to_str().unwrap());
    for row in [
        "a.cu|MILLSTREAM_NVCC|/no\n/nvcc|millstream-nvcc: MILLSTREAM_NVCC names /no",
        "a.cu|XDG_CACHE_HOME|/dev/null/x|cannot write to /dev/null/x/millstream",
        "-optf CYCLE|A|b|files of options name each other",
        "-optf none|A|b|cannot read none: ",
    ] {
        let row: Vec<_> = row.split('|').collect();
        let (status, error) = run(folder.path(), row[0], &[named, (row[1], row[2])]);
        assert!(error.contains(row[3]), "{error}");
        assert_eq!(status, Some(1));
    }
    let (_, error) = run(folder.path(), "a.cu", &[("CUDA_HOME", "/no/such")]);
    let is_installed = Path::new("/usr/local/cuda/bin/nvcc").exists();
    assert!(
        is_installed || error.contains("pip install nvidia-cuda-nvcc "),
        "{error}"
    );
}
