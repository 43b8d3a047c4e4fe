//! Learns to read handwritten digits: the same functions as regions on a device, and with `ndarray`
//! on the CPU.
//!
//! The functions are written once, in `model.rs`, without devices, copies or kernels.

mod data;
mod model;

use std::{process::ExitCode, time::Instant};

use anyhow::Result;
use clap::Parser;
use millstream::{Device, Select};
use ndarray::{Array1, Array2, Zip};

use data::Digits;

/// Learns to read handwritten digits on a device and on the CPU, and compares the results.
///
/// The environment variable MILLSTREAM_DEVICE chooses the device: `cuda:0` or `sim`. Without it,
/// the first GPU is used, or the simulated device if there is none.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The number of training steps, each over all images.
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// The learning rate.
    #[arg(long, default_value_t = 2.0)]
    rate: f32,
}

/// The largest allowed difference between probabilities of the device and of the CPU: rounding in
/// sums of 64 and 1,500 products, over hundreds of steps.
const OFF_MAX: f32 = 1e-3;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("error: the device and the CPU do not agree");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Trains and tests the model on both; returns whether they agree.
fn run(arguments: &Arguments) -> Result<bool> {
    let digits = Digits::read()?;
    let device = Device::open(Select::Auto)?;
    println!("device: {}, {}", device.name(), device.selection_reason());

    let start = Instant::now();
    let (mut weights, mut bias) = untrained();
    let (images, classes) = (&digits.images, &digits.classes);
    model::on_device::train(
        &device,
        images,
        classes,
        &mut weights,
        &mut bias,
        arguments.rate,
        arguments.steps,
    )?
    .wait()?;
    let probabilities =
        model::on_device::probabilities(&device, &digits.unseen, &weights, &bias)?.wait()?;
    println!(
        "on the device: {:.1} % of {} unseen digits read, {:.2} s",
        100.0 * digits.share_read(&probabilities),
        digits.unseen.nrows(),
        start.elapsed().as_secs_f64()
    );

    let start = Instant::now();
    let (mut weights, mut bias) = untrained();
    model::on_cpu::train(
        images,
        classes,
        &mut weights,
        &mut bias,
        arguments.rate,
        arguments.steps,
    );
    let expected = model::on_cpu::probabilities(&digits.unseen, &weights, &bias);
    println!(
        "on the CPU:    {:.1} % of {} unseen digits read, {:.2} s",
        100.0 * digits.share_read(&expected),
        digits.unseen.nrows(),
        start.elapsed().as_secs_f64()
    );

    let off = Zip::from(&probabilities)
        .and(&expected)
        .fold(0.0_f32, |off, one, other| off.max((one - other).abs()));
    println!("the probabilities differ by {off:.1e} at most");
    Ok(off <= OFF_MAX)
}

/// Weights and bias of zero.
fn untrained() -> (Array2<f32>, Array1<f32>) {
    (Array2::zeros((64, 10)), Array1::zeros(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_learns_what_the_cpu_learns() {
        let arguments = Arguments {
            steps: 20,
            rate: 2.0,
        };
        assert!(run(&arguments).unwrap());
    }
}
