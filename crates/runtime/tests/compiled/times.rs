//! The times of compilations and cached loads, beside those of NVRTC and of the driver.

#![allow(unsafe_code, reason = "loads machine code through the driver")]

use std::{
    error::Error,
    time::{Duration, Instant},
};

use millstream::{
    Cuda, Device,
    driver::{
        Driver, cuda,
        nvrtc::{self, Program},
    },
};

use crate::compiled::{Outcome, device, launches::SCALE};

/// The number of times that each measurement is made; the median counts.
const ROUNDS: usize = 9;

/// Returns the median time of `work`, which gets the number of the round.
fn median(mut work: impl FnMut(usize) -> Outcome) -> Result<Duration, Box<dyn Error>> {
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let start = Instant::now();
        work(round)?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[ROUNDS / 2])
}

/// Returns the options with which a device's machine code is compiled.
fn options(device: &Device) -> Result<Vec<String>, Box<dyn Error>> {
    let (major, minor) = device.properties()?.compute_capability;
    Ok(vec![
        format!("--gpu-architecture=sm_{major}{minor}"),
        "--define-macro=FACTOR=2".to_owned(),
        "--generate-line-info".to_owned(),
    ])
}

pub(crate) fn machine_code(device: &Device, source: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let options = options(device)?;
    let program = Program {
        name: "scale.cu",
        source,
        options: &options,
        cubin: true,
        ..Program::default()
    };
    let compiled = nvrtc::load()?.compile(&program)?;
    Ok(compiled.cubin.expect("it was requested"))
}

#[test]
#[ignore = "needs a GPU and NVRTC"]
fn k03_a_cached_load_takes_little_more_than_the_drivers() -> Outcome {
    let device = &device();
    let folder = std::env::temp_dir().join(format!("millstream-times-{}", std::process::id()));
    let image = machine_code(device, SCALE)?;
    let driver = cuda::Cuda::load()?;
    let raw = median(|_| {
        // SAFETY: the device is open, and NVRTC has made the image for it.
        unsafe { driver.module_load_binary(device.as_raw(), &image) }?;
        Ok(())
    })?;
    let load = || {
        let source = Cuda::source("scale.cu", SCALE).define("FACTOR", 2);
        device.compile(source.cache_folder(&folder))
    };
    load()?;
    let cached = median(|_| {
        assert!(load()?.is_from_cache());
        Ok(())
    })?;
    let _ = std::fs::remove_dir_all(&folder);
    println!("cached load {cached:?}, cuModuleLoadDataEx {raw:?}");
    let limit = raw.mul_f64(1.2) + Duration::from_millis(1);
    assert!(cached <= limit, "{cached:?}, more than {limit:?}");
    Ok(())
}

#[test]
#[ignore = "needs a GPU and NVRTC"]
fn k01_a_first_compilation_takes_little_more_than_nvrtcs() -> Outcome {
    let device = &device();
    let image = machine_code(device, SCALE)?;
    let driver = cuda::Cuda::load()?;
    // Other sources each time, so that nothing could be cached anywhere.
    let source = |round: usize| format!("// {round}\n{SCALE}");
    let raw = median(|round| {
        machine_code(device, &source(round))?;
        // SAFETY: the device is open, and NVRTC has made the image for it.
        unsafe { driver.module_load_binary(device.as_raw(), &image) }?;
        Ok(())
    })?;
    let own = median(|round| {
        let source = Cuda::source("scale.cu", source(round)).define("FACTOR", 2);
        device.compile(source.without_cache())?;
        Ok(())
    })?;
    println!("compile {own:?}, NVRTC and cuModuleLoadDataEx {raw:?}");
    let limit = raw + Duration::from_millis(5);
    assert!(own <= limit, "{own:?}, more than {limit:?}");
    Ok(())
}
