//! Prices options by the Black-Scholes formula: one function, on a device (as one kernel) and with
//! `ndarray` on the CPU.

mod model;

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;
use millstream::{Device, Select};
use ndarray::{Array1, Zip};

/// Prices European call options on a device and on the CPU, and compares the results.
///
/// The environment variable MILLSTREAM_DEVICE chooses the device: `cuda:0` or `sim`. Without it,
/// the first GPU is used, or the simulated device if there is none.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The number of options.
    #[arg(long, default_value_t = 1_000_000)]
    options: usize,
    /// The risk-free interest rate, per year.
    #[arg(long, default_value_t = 0.03)]
    interest: f64,
    /// The volatility, per year.
    #[arg(long, default_value_t = 0.2)]
    volatility: f64,
}

/// The largest allowed difference between prices of the device and of the CPU, relative to the
/// share's price: rounding of logarithms and powers.
const OFF_MAX: f64 = 1e-13;

fn main() -> Result<()> {
    let agrees = run(&Arguments::parse())?;
    ensure!(agrees, "the device and the CPU do not agree");
    Ok(())
}

/// Prices the options on both; returns whether they agree.
fn run(arguments: &Arguments) -> Result<bool> {
    let device = Device::open(Select::Auto)?;
    println!("device: {}, {}", device.name(), device.selection_reason());
    let count = arguments.options;
    let prices = Array1::linspace(10.0, 200.0, count);
    let strikes = Array1::from_shape_fn(count, |option| 50.0 + (option * 37 % 100) as f64);
    let years = Array1::from_shape_fn(count, |option| 0.1 + (option * 11 % 40) as f64 / 10.0);
    let (interest, volatility) = (arguments.interest, arguments.volatility);

    let start = Instant::now();
    let calls =
        model::on_device::call(&device, &prices, &strikes, &years, interest, volatility)?.wait()?;
    println!(
        "on the device: {count} options in {:.1} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    let start = Instant::now();
    let expected = model::on_cpu::call(&prices, &strikes, &years, interest, volatility);
    println!(
        "on the CPU:    {count} options in {:.1} ms",
        start.elapsed().as_secs_f64() * 1e3
    );

    let off = Zip::from(&calls)
        .and(&expected)
        .and(&prices)
        .fold(0.0_f64, |off, one, other, price| {
            off.max((one - other).abs() / price)
        });
    println!("the prices differ by {off:.1e} of the share's at most");
    Ok(off <= OFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_prices_as_the_cpu_does() {
        let arguments = Arguments {
            options: 10_007,
            interest: 0.03,
            volatility: 0.2,
        };
        assert!(run(&arguments).unwrap());
    }
}
