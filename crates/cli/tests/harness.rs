//! Compiles programs and runs them with the library in the place of the driver.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

pub(crate) struct Program {
    pub(crate) path: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Returns the path of the library, which Cargo builds for these tests.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("libmillstream_libcuda.so")
}

/// Returns the folder in which the library has the names under which programs look for a driver.
pub(crate) fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let folder = scratch();
        for name in ["libcuda.so.1", "libcuda.so"] {
            std::os::unix::fs::symlink(library(), folder.join(name)).unwrap();
        }
        folder
    })
}

/// Creates an empty folder for this process.
fn scratch() -> PathBuf {
    let name = format!("libcuda-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Left over by an earlier process with the same id.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

impl Program {
    pub(crate) fn compiled(name: &str) -> Self {
        Self::compiled_with(name, &[])
    }

    /// Compiles a program with further arguments of the compiler, each program under its own name.
    pub(crate) fn compiled_with(name: &str, arguments: &[&str]) -> Self {
        let source = format!("{}/tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
        let unique = std::thread::current()
            .name()
            .unwrap_or("main")
            .replace(':', "-");
        let path = shim().join(format!("{name}-{unique}"));
        let compiler = Command::new("gcc")
            .args([
                "-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread",
            ])
            .args(["-o".as_ref(), path.as_os_str()])
            .arg(source)
            .args(["-L".as_ref(), shim().as_os_str()])
            .args(["-l:libcuda.so.1", "-ldl"])
            .args(arguments)
            .output()
            .expect("gcc is not installed");
        let errors = String::from_utf8_lossy(&compiler.stderr);
        assert!(compiler.status.success(), "{errors}");
        Self { path }
    }

    pub(crate) fn this() -> Self {
        let path = std::env::current_exe().unwrap();
        Self { path }
    }

    pub(crate) fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        let output = Command::new(&self.path)
            .args(arguments)
            .env("LD_LIBRARY_PATH", shim())
            .env_remove("MILLSTREAM_DEVICE")
            .env_remove("MILLSTREAM_KIND")
            .env_remove("MILLSTREAM_CUDA")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        Run {
            code: output.status.code(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Run {
    /// Requires that the program ended by itself with status 0.
    pub(crate) fn succeeded(&self) {
        assert_eq!(self.code, Some(0), "{self:?}");
    }

    /// Requires success without a report.
    pub(crate) fn is_clean(&self) {
        self.succeeded();
        assert_eq!(self.errors, "");
    }
}
