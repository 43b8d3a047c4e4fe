//! Kernels compiled at run time: scenarios K1 to K4. On the simulated device or, with
//! `MILLSTREAM_DEVICE=cuda:0`, on a GPU. The tests that need NVRTC are ignored by `cargo test`;
//! `cargo xtask ci` runs them.

mod cache;
mod child;
mod errors;
mod launches;
mod times;

use std::{env, error::Error};

use millstream::{Device, Select};

type Outcome = Result<(), Box<dyn Error>>;

/// Returns whether the tests run on a GPU.
fn on_gpu() -> bool {
    env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda"))
}

fn device() -> Device {
    let device = if on_gpu() {
        Device::open(Select::Auto)
    } else {
        Device::simulated()
    };
    device.expect("the device opens")
}
