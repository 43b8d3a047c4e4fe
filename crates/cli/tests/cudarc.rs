//! The published crate `cudarc` as a client of the library.
//!
//! cudarc keeps one event for the last reader of an array. When a second stream reads it, the event
//! of the first is recorded again there, and a writer no longer waits for the first reader.

#![allow(unsafe_code, reason = "launches kernels through cudarc")]

use std::{env, error::Error, sync::Arc};

use cudarc::{
    driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg as _},
    nvrtc::Ptx,
};

use crate::harness::{Program, Run};

const COUNT: usize = 4096;

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

/// The variable that says how the client runs.
const MODE: &str = "MILLSTREAM_TEST_CLIENT";

#[test]
#[ignore = "the client, which the other tests start"]
fn inner_client() -> Result<(), Box<dyn Error>> {
    client(env::var(MODE)? == "mended")
}

/// Runs the client in a process in which the library takes the place of the driver.
fn run(mode: &str) -> Run {
    let arguments = ["--exact", "cudarc::inner_client", "--ignored"];
    Program::this().run(&arguments, &[(MODE, mode)])
}

#[test]
fn cudarc_s_lost_reader_is_reported() {
    let run = run("lost");
    run.succeeded();
    let report = &run.errors;
    for part in [
        "millstream: 1. Race: ",
        "fill (16384 bytes), at ",
        "kernel `vecadd`, at ",
        "missing: stream 1 ",
    ] {
        assert!(report.contains(part), "no `{part}` in:\n{report}");
    }
}

#[test]
fn a_writer_that_waits_for_both_readers_is_clean() {
    let run = run("mended");
    run.is_clean();
    assert!(run.output.contains(" 1 passed"), "{}", run.output);
}
