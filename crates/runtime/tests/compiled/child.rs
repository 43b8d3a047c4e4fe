//! Child processes, which compile one source with another environment and say what happened.

use std::{
    env,
    path::Path,
    process::{Child, Command, Stdio},
};

use millstream::{Cuda, Ptx, driver::nvrtc};

use crate::compiled::{
    device,
    launches::{SCALE, scaled},
};

/// The variable that makes this program a child: the value of the macro `FACTOR`.
const FACTOR: &str = "MILLSTREAM_TEST_FACTOR";

/// What stands before the result in the output, and behind it.
const MARKS: [&str; 2] = ["result: ", "\nend of the result"];

fn print(result: &str) {
    println!("\n{}{result}{}", MARKS[0], MARKS[1]);
}

/// The factor that stands for a module of PTX, which is loaded without a compiler.
pub(crate) const PTX: u32 = 0;

/// Compiles, launches, and prints the result, as the parent asked in the environment.
#[test]
#[ignore = "a process of the other tests"]
fn inner_compilation() {
    let factor = env::var(FACTOR).expect("the parent sets it");
    let device = device();
    if factor == PTX.to_string() {
        let ptx = include_str!("../../../../kernels/vecadd.ptx");
        let module = device
            .module(Ptx::text("vecadd.ptx", ptx))
            .expect("it loads");
        print(&format!("loaded {:?}", module.kernels()));
        return;
    }
    let result = device
        .compile(Cuda::source("scale.cu", SCALE).define("FACTOR", factor))
        .and_then(|module| {
            let values = scaled(&device, &module)?;
            let calls = nvrtc::compilations();
            let cached = module.is_from_cache();
            print(&format!("{values:?} cached {cached} calls {calls}"));
            Ok(())
        });
    if let Err(error) = result {
        print(&format!("refused: {error}"));
    }
}

/// Starts a child that compiles with this factor and cache, and with further variables.
pub(crate) fn start(factor: u32, cache: &Path, variables: &[(&str, &str)]) -> Child {
    start_in(Path::new("."), factor, cache, variables)
}

/// Starts such a child in a working directory.
pub(crate) fn start_in(
    here: &Path,
    factor: u32,
    cache: &Path,
    variables: &[(&str, &str)],
) -> Child {
    let program = env::current_exe().expect("the test's own program");
    Command::new(program)
        .args(["--exact", "compiled::child::inner_compilation"])
        .args(["--ignored", "--nocapture"])
        .current_dir(here)
        .env(FACTOR, factor.to_string())
        .env("MILLSTREAM_KERNEL_CACHE", cache)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the process starts")
}

pub(crate) fn output(child: Child) -> String {
    let output = child.wait_with_output().expect("the process ends");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, result) = text.split_once(MARKS[0]).expect("it prints a result");
    let (result, _) = result.split_once(MARKS[1]).expect("the result ends");
    result.to_owned()
}
