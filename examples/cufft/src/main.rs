//! A Fourier transform by NVIDIA's cuFFT as a tracked operation of Millstream: it waits for what
//! fills its input, and later operations wait for it. No other stream of the program has to.
//!
//! It needs a GPU and cuFFT: `cargo run --release -p cufft`. Without them it says what is missing.

#![allow(unsafe_code, reason = "vouches for the accesses of a call of cuFFT")]

mod library;

use std::{cell::OnceCell, f32::consts::TAU};

use anyhow::{Result, ensure};
use millstream::{
    Device, Select,
    interop::{ForeignOperand, read, write},
};
use num_complex::Complex32;

use library::Plan;

const LEN: usize = 1 << 12;
/// The waves of the signal: cycles, and height.
const WAVES: [(usize, f32); 3] = [(3, 1.0), (40, 0.5), (700, 0.25)];

fn main() -> Result<()> {
    let device = Device::open(Select::Auto)?;
    if device.is_simulated() {
        println!("skipped: cuFFT needs a GPU, and this is {device}");
        return Ok(());
    }
    let library = match library::load() {
        Ok(library) => library,
        Err(tried) => {
            println!("skipped: cuFFT is not there (tried {tried})");
            return Ok(());
        }
    };
    let (loading, transforming) = (device.stream()?, device.stream()?);
    let value = |i: usize| {
        let turn = |cycles: usize| (cycles * i % LEN) as f32 / LEN as f32 * TAU;
        WAVES
            .iter()
            .map(|&(cycles, height)| height * turn(cycles).cos())
            .sum()
    };
    let samples: Vec<f32> = (0..LEN).map(value).collect();
    let plan = OnceCell::new();
    // The first call only plans, because that needs the device's context too.
    // SAFETY: nothing is enqueued.
    unsafe {
        transforming.foreign("cufft_plan", [] as [ForeignOperand<'_>; 0], |_| {
            let made = Plan::new(&library, LEN)?;
            let _ = plan.set(made);
            Ok::<_, library::CufftError>(())
        })
    }?;
    let Some(plan) = plan.get() else {
        unreachable!("the plan is made")
    };
    let signal = loading.upload(&samples)?;
    let mut spectrum = transforming.zeros::<Complex32>(LEN / 2 + 1)?;
    let mut work = transforming.zeros::<u8>(plan.work_bytes.max(1))?;
    let operands = [read(&signal), write(&mut spectrum), write(&mut work)];
    // SAFETY: the call enqueues to the given stream, and accesses its three operands.
    unsafe { transforming.foreign("cufft_r2c", operands, |call| plan.enqueue(call)) }?;
    // Waits for the transform, on the device.
    let found = loading.download(&spectrum)?.wait()?;
    for (cycles, height) in WAVES {
        let wave = found[cycles].norm_sqr().sqrt() * 2.0 / LEN as f32;
        println!("{cycles:4} cycles: {wave:.4}");
        ensure!((wave - height).abs() < 1e-3, "expected {height}");
    }
    Ok(())
}
