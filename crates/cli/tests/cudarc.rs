//! The published crate `cudarc` as a client of the library.
//!
//! cudarc keeps one event for the last reader of an array. When a second stream reads it, the event
//! of the first is recorded again there, and a writer no longer waits for the first reader.

#![allow(
    unsafe_code,
    reason = "launches kernels through cudarc, which trusts its caller"
)]

#[cfg(target_os = "linux")]
#[path = "harness/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod harness;

use std::{error::Error, process::ExitCode, sync::Arc};

use cudarc::{
    driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg as _},
    nvrtc::Ptx,
};

const COUNT: usize = 4096;

/// Adds the values to themselves on a stream.
fn read(
    stream: &Arc<CudaStream>,
    add: &CudaFunction,
    values: &CudaSlice<f32>,
) -> Result<CudaSlice<f32>, Box<dyn Error>> {
    let mut sum = stream.alloc_zeros::<f32>(COUNT)?;
    let count = COUNT as u64;
    let mut launch = stream.launch_builder(add);
    launch.arg(values).arg(values).arg(&mut sum).arg(&count);
    // SAFETY: the kernel has these parameters and stays within the arrays.
    unsafe { launch.launch(LaunchConfig::for_num_elems(COUNT as u32)) }?;
    Ok(sum)
}

/// Two streams read an array, and a third one overwrites it: after both with `mended`, else only
/// after the second.
fn client(mended: bool) -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let ptx = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../kernels/vecadd.ptx"
    ));
    let add = context.load_module(Ptx::from_src(ptx))?;
    let add = add.load_function("vecadd")?;
    let writer = context.new_stream()?;
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let mut values = writer.clone_htod(&vec![1.5_f32; COUNT])?;
    let sums = [read(&first, &add, &values)?, read(&second, &add, &values)?];
    if mended {
        writer.join(&first)?;
    }
    writer.memset_zeros(&mut values)?;
    for (sum, stream) in sums.iter().zip([&first, &second]) {
        assert_eq!(stream.clone_dtoh(sum)?, [3.0; COUNT]);
    }
    assert_eq!(writer.clone_dtoh(&values)?, [0.0; COUNT]);
    Ok(())
}

#[cfg(target_os = "linux")]
fn trials() -> Vec<libtest_mimic::Trial> {
    use harness::Program;
    use libtest_mimic::Trial;

    let run = |mode: &str| Program::this().run(&["client", mode], &[]);
    vec![
        Trial::test("cudarc_s_lost_reader_is_reported", move || {
            let run = run("lost");
            run.succeeded();
            let report = &run.errors;
            for part in [
                "millstream: 1 problem\n1. Race: ",
                "fill (16384 bytes), at ",
                "kernel `vecadd`, at ",
                "missing: stream 1 never waits for anything recorded on stream 2",
            ] {
                assert!(report.contains(part), "no `{part}` in:\n{report}");
            }
            Ok(())
        }),
        Trial::test("a_writer_that_waits_for_both_readers_is_clean", move || {
            run("mended").is_clean();
            Ok(())
        }),
    ]
}

/// The library takes the place of the driver on Linux only.
#[cfg(not(target_os = "linux"))]
fn trials() -> Vec<libtest_mimic::Trial> {
    Vec::new()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", mode] => match client(mode == "mended") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{error}");
                ExitCode::FAILURE
            }
        },
        _ => libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials()).exit_code(),
    }
}
