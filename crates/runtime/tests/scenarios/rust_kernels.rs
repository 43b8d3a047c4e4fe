//! Scenario K9: kernels that were written in Rust.

#![allow(unsafe_code, reason = "declares and launches kernels")]

use millstream::signature;

use crate::scenarios::prelude::*;

/// Kernels in Rust, compiled by rustc: a slice is one parameter with its address and its length.
const SLICES: &str = include_str!("../../src/guide/slices.ptx");

/// The same kernel as other compilers of Rust make it: address and length are two parameters.
const APART: &str = include_str!("slices_apart.ptx");

millstream::kernels! {
    // SAFETY: the kernels are those of slices.rs, which access what their slices have.
    #[kernel(abi = "rust")]
    unsafe mod in_rust from SLICES {
        safe fn saxpy(a: f32, x: &[f32], y: &mut [f32])
            requires grid.blocks.y * grid.blocks.z * grid.block.y * grid.block.z == 1;
        safe fn count_from(out: &mut [u32], first: u32)
            requires grid.blocks.y * grid.blocks.z * grid.block.y * grid.block.z == 1;
    }
}

#[run_by(scenario, |harness|)]
fn k09_slices_of_a_kernel_in_rust_are_checked_against_either_form() -> Result<()> {
    for ptx in [SLICES, APART] {
        let module = harness.device.module(Ptx::text("slices.ptx", ptx))?;
        let count = module.function::<signature!(abi = "rust"; &mut [u32], u32)>("count_from")?;
        let stream = harness.stream();
        let mut out = stream.zeros::<u32>(5)?;
        // SAFETY: the kernel accesses what its slice has, in a grid of one dimension.
        unsafe { count.launch(&stream, (1, 32), (out.slice_mut(1..4), 7)) }?;
        assert_eq!(stream.values(&out)?, [0, 7, 8, 9, 0]);
        // Without the lengths the signature is another.
        let wrong = module.function::<signature!(&mut [u32], u32)>("count_from");
        assert!(matches!(problem(wrong), UsageErrorKind::Signature { .. }));
    }
    Ok(())
}

#[run_by(scenario, |harness|)]
fn k09_kernels_in_rust_are_declared_like_others() -> Result<()> {
    let kernels = in_rust::load(&harness.device)?;
    let [stream, other] = harness.streams();
    let n = 1000;
    let x = stream.upload(&vec![2.0_f32; n])?;
    let mut y = other.upload(&vec![1.0_f32; n + 10])?;
    // More threads than elements, and slices of different lengths.
    kernels.saxpy(&stream, n + 500, 3.0, &x, &mut y)?;
    let mut expected = vec![7.0; n];
    expected.extend([1.0; 10]);
    assert_eq!(other.values(&y)?, expected);
    let mut out = other.zeros::<u32>(n)?;
    kernels.count_from(&other, n, &mut out, 5)?;
    let expected: Vec<u32> = (5..5 + n as u32).collect();
    assert_eq!(stream.values(&out)?, expected);
    Ok(())
}

/// The kernels of the example `rust_kernels`: slices of one parameter, and of two.
const EXAMPLE: &str = include_str!("../../../../examples/rust_kernels/kernels.ptx");

millstream::kernels! {
    // SAFETY: the kernels are those of the example, which access what their slices have.
    #[kernel(abi = "rust")]
    unsafe mod example from EXAMPLE {
        safe fn escape_times(
            times: &mut [u32], width: u32, left: f32, top: f32, step: f32, most: u32
        ) requires grid.blocks.y * grid.blocks.z * grid.block.y * grid.block.z == 1;

        safe fn histogram(times: &[u32], bins: &mut [u32])
            requires grid.blocks.y * grid.blocks.z * grid.block.y * grid.block.z == 1;
    }
}

#[run_by(scenario, |harness|)]
fn k09_kernels_of_one_module_may_take_their_slices_in_either_form() -> Result<()> {
    let kernels = example::load(&harness.device)?;
    let [stream, other] = harness.streams();
    // The points -3, -2, …, 2 of the real axis: those beyond -2 and 1/4 escape.
    let mut times = stream.zeros::<u32>(6)?;
    kernels.escape_times(&stream, 6, &mut times, 6, -3.0, 0.0, 1.0, 9)?;
    let mut bins = other.zeros::<u32>(4)?;
    // More threads than elements, and numbers beyond the last bin.
    kernels.histogram(&other, 100, &times, &mut bins)?;
    assert_eq!(stream.values(&times)?, [1, 9, 9, 9, 3, 2]);
    assert_eq!(stream.values(&bins)?, [0, 1, 1, 4]);
    Ok(())
}
