//! Spreads heat over a plate whose rows are spread over all devices: each step is written once, for
//! one device, and the devices exchange their border rows.
//!
//! The equation is in `equation.rs`.

mod equation;
mod picture;

use std::{
    env,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use millstream::{
    Device, Event,
    sim::{Gpu, SimConfig},
};
use millstream_region::Mesh;

use equation::{Plate, heated, place, run};

/// Spreads heat over a plate on all devices, compares the result with that of one device, and draws
/// it.
///
/// The environment variable MILLSTREAM_DEVICE chooses the devices: `cuda:0` is one of them, and
/// `sim:devices=8` a simulated machine. Without it, all GPUs are used, or four simulated devices if
/// there is none.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The number of rows and of columns of the plate.
    #[arg(long, default_value_t = 96, value_parser = clap::value_parser!(u32).range(8..=65_536))]
    size: u32,
    /// The number of steps.
    #[arg(long, default_value_t = 96)]
    steps: usize,
    /// The picture to write.
    #[arg(long, default_value = "out/heat.png")]
    out: PathBuf,
    /// Prints how long the steps take on one device, and on all with as many rows for each.
    #[arg(long)]
    scaling: bool,
}

/// The number of simulated devices where there is no GPU.
const SIMULATED: u32 = 4;

fn main() -> Result<()> {
    let agrees = spread(&Arguments::parse())?;
    ensure!(
        agrees,
        "one device gives other temperatures than all devices"
    );
    Ok(())
}

/// Runs on all devices and on one; returns whether they agree.
fn spread(arguments: &Arguments) -> Result<bool> {
    let devices = devices()?;
    let (all, one) = (on(&devices)?, on(&devices[..1])?);
    println!("devices: {} of {}", devices.len(), devices[0].name());
    let size = arguments.size as usize;
    let plate = heated(size, size);

    let start = Instant::now();
    let found = run(&all, &place(&all, &plate)?, arguments.steps)?.to_host()?;
    println!(
        "{size} × {size} points, {} steps: {:.2} s",
        arguments.steps,
        start.elapsed().as_secs_f64()
    );
    let expected = run(&one, &place(&one, &plate)?, arguments.steps)?.to_host()?;
    let agrees = found == expected;
    if agrees {
        println!("one device gives the same temperatures, to the bit");
    }
    picture::write(&arguments.out, &found)?;
    println!("drawn to {}", arguments.out.display());

    if arguments.scaling {
        let alone = timed(&one, size, arguments.steps)?;
        let together = timed(&all, size, arguments.steps)?;
        println!(
            "{size} rows for each device: {:.3} ms on one, {:.3} ms on {}, efficiency {:.0} %",
            1e3 * alone.as_secs_f64(),
            1e3 * together.as_secs_f64(),
            devices.len(),
            100.0 * alone.as_secs_f64() / together.as_secs_f64()
        );
    }
    Ok(agrees)
}

/// All GPUs, or those that MILLSTREAM_DEVICE names, or simulated devices.
fn devices() -> Result<Vec<Device>> {
    let devices = Device::all()?;
    let is_chosen = env::var_os("MILLSTREAM_DEVICE").is_some();
    if is_chosen || devices.iter().any(|device| !device.is_simulated()) {
        return Ok(devices);
    }
    let gpu = Gpu::new(SimConfig::new().devices(SIMULATED));
    let opened = (0..SIMULATED as i32).map(|at| Device::open_simulated(&gpu, at));
    opened
        .collect::<Result<_, _>>()
        .context("cannot open the simulated devices")
}

fn on(devices: &[Device]) -> Result<Mesh> {
    Ok(Mesh::new(devices.to_vec(), [("rows", devices.len())])?)
}

/// Returns the time that the steps take on the slowest device, measured by events, with `size` rows
/// for each device. The kernels are generated and loaded before.
fn timed(mesh: &Mesh, size: usize, steps: usize) -> Result<Duration> {
    let plate = place(mesh, &heated(size * mesh.devices().len(), size))?;
    let warm = run(mesh, &plate, steps)?;
    let starts = recorded(&warm)?;
    starts.iter().try_for_each(Event::wait)?;
    let starts = recorded(&plate)?;
    let ends = recorded(&run(mesh, &plate, steps)?)?;
    let mut slowest = Duration::ZERO;
    for (start, end) in starts.iter().zip(&ends) {
        slowest = slowest.max(end.elapsed_since(start)?);
    }
    Ok(slowest)
}

/// Records an event on each device behind the work on its rows.
fn recorded(plate: &Plate) -> Result<Vec<Event>> {
    let events = plate.parts().iter().map(|part| Ok(part.record()?));
    events.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_devices_agree_with_one_and_the_picture_is_drawn() {
        let out = env::temp_dir().join(format!("heat-{}.png", std::process::id()));
        let arguments = Arguments {
            size: 16,
            steps: 20,
            out: out.clone(),
            scaling: true,
        };
        assert!(spread(&arguments).unwrap());
        let bytes = std::fs::read(&out).unwrap();
        std::fs::remove_file(&out).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"));
    }
}
