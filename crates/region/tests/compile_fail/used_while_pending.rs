//! C5: an array that a region changes cannot be used, moved or changed by another region before the
//! result is waited for.

use millstream::Device;
use millstream_region::{Pending, Result, region};
use ndarray::{Array1, array};

#[region]
fn double(x: &mut Array1<f32>) {
    *x *= 2.0;
}

#[region]
fn exchange(x: &mut Array1<f32>, y: &mut Array1<f32>) {
    std::mem::swap(x, y);
}

fn read(device: &Device) -> Result<()> {
    let mut x = array![1.0, 2.0];
    let pending = double(device, &mut x)?;
    println!("{x}"); //~ E0502
    pending.wait()
}

fn moved(device: &Device) -> Result<()> {
    let mut x = array![1.0, 2.0];
    let pending = double(device, &mut x)?;
    drop(x); //~ E0505
    pending.wait()
}

fn again(device: &Device) -> Result<()> {
    let mut x = array![1.0, 2.0];
    let pending = double(device, &mut x)?;
    double(device, &mut x)?.wait()?; //~ E0499
    pending.wait()
}

fn twice(device: &Device) -> Result<()> {
    let mut x = array![1.0, 2.0];
    exchange(device, &mut x, &mut x)?.wait() //~ E0499
}

fn outlived(device: &Device) -> Result<Pending<'_, ()>> {
    let mut x = array![1.0, 2.0];
    double(device, &mut x) //~ E0515
}

fn main() {}
