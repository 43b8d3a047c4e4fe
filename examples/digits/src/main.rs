//! Learns to read handwritten digits: the same functions as regions on a device, and with `ndarray`
//! on the CPU.
//!
//! The functions are written once, in `model.rs`, without devices, copies or kernels. With
//! `--devices 4`, `parallel.rs` trains on four devices.

mod data;
mod model;
mod parallel;

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;
use millstream::{
    Device, Select,
    sim::{Gpu, SimConfig},
};
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
    /// The number of devices to train on, each with a part of the images. Where there is no
    /// GPU, they are simulated.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    devices: u32,
}

/// The largest allowed difference between probabilities of the device and of the CPU: rounding in
/// sums of 64 and 1,500 products, over hundreds of steps.
const OFF_MAX: f32 = 1e-3;

fn main() -> Result<()> {
    let agrees = run(&Arguments::parse())?;
    ensure!(agrees, "the device and the CPU do not agree");
    Ok(())
}

/// Trains and tests the model on both; returns whether they agree.
fn run(arguments: &Arguments) -> Result<bool> {
    let digits = Digits::read()?;
    let devices = devices(arguments.devices)?;
    let device = &devices[0];
    println!(
        "device: {}, {}; {} of them",
        device.name(),
        device.selection_reason(),
        devices.len()
    );

    let start = Instant::now();
    let (mut weights, mut bias) = untrained();
    let (images, classes) = (&digits.images, &digits.classes);
    let (rate, steps) = (arguments.rate, arguments.steps);
    if devices.len() > 1 {
        (weights, bias) = parallel::train(&devices, images, classes, rate, steps)?;
    } else {
        model::on_device::train(
            device,
            images,
            classes,
            &mut weights,
            &mut bias,
            rate,
            steps,
        )?
        .wait()?;
    }
    let probabilities =
        model::on_device::probabilities(device, &digits.unseen, &weights, &bias)?.wait()?;
    println!(
        "on the device: {:.1} % of {} unseen digits read, {:.2} s",
        100.0 * digits.share_read(&probabilities),
        digits.unseen.nrows(),
        start.elapsed().as_secs_f64()
    );

    let start = Instant::now();
    let (mut weights, mut bias) = untrained();
    model::on_cpu::train(images, classes, &mut weights, &mut bias, rate, steps);
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

/// Opens this many devices: one as MILLSTREAM_DEVICE says, several GPUs, or simulated devices.
fn devices(count: u32) -> Result<Vec<Device>> {
    if count == 1 {
        return Ok(vec![Device::open(Select::Auto)?]);
    }
    let mut devices = Device::all()?;
    if devices.len() >= count as usize {
        devices.truncate(count as usize);
        return Ok(devices);
    }
    let is_simulated = devices.iter().all(Device::is_simulated);
    ensure!(
        is_simulated,
        "there are {} GPUs, not {count}; MILLSTREAM_DEVICE=sim:devices={count} simulates as many",
        devices.len()
    );
    let gpu = Gpu::new(SimConfig::new().devices(count));
    let opened = (0..count as i32).map(|at| Device::open_simulated(&gpu, at));
    Ok(opened.collect::<Result<_, _>>()?)
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
        for devices in [1, 2, 4] {
            let arguments = Arguments {
                steps: 20,
                rate: 2.0,
                devices,
            };
            assert!(run(&arguments).unwrap(), "{devices} devices");
        }
    }

    /// Each gradient is a sum over 1,500 images, whose order of additions depends on the number of
    /// devices: 20 steps of rounded sums differ by less than 1e-5.
    #[test]
    fn every_number_of_devices_learns_the_same_weights() {
        let digits = Digits::read().unwrap();
        let learnt = |count: u32| {
            let devices = devices(count).unwrap();
            let (images, classes) = (&digits.images, &digits.classes);
            parallel::train(&devices, images, classes, 2.0, 20).unwrap()
        };
        let (weights, bias) = learnt(1);
        for count in [2, 4] {
            let (others, other_bias) = learnt(count);
            assert!(
                (&weights - others).iter().all(|off| off.abs() < 1e-5),
                "{count} devices"
            );
            assert!(
                (&bias - other_bias).iter().all(|off| off.abs() < 1e-5),
                "{count} devices"
            );
        }
    }
}
