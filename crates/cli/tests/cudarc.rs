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
fn run(mode: &str, variables: &[(&str, &str)]) -> Run {
    let arguments = ["--exact", "cudarc::inner_client", "--ignored"];
    let variables = [&[(MODE, mode)], variables].concat();
    Program::this().run(&arguments, &variables)
}

/// V5: the edge that is proposed is the event that cudarc loses, of the first reader.
#[test]
fn v05_cudarc_s_lost_reader_is_reported_with_its_event() {
    let run = run("lost", &[]);
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
    let proposal = report.split("to order them: record an event after operation ");
    let proposal = proposal.last().unwrap();
    let (after, rest) = proposal.split_once(' ').unwrap();
    let text = "on stream 2 and make stream 1 wait for it before operation ";
    let rest = rest.strip_prefix(text).expect(report);
    let (before, end) = rest.split_once(' ').unwrap();
    assert!(end.starts_with("(checked: the race is gone, no other appears)"));
    let device = format!("sim:edges={after}-{before}");
    let tried = self::run("lost", &[("MILLSTREAM_DEVICE", &device)]);
    tried.is_clean();
}

#[test]
fn a_writer_that_waits_for_both_readers_is_clean() {
    let run = run("mended", &[]);
    run.is_clean();
    assert!(run.output.contains(" 1 passed"), "{}", run.output);
}
