//! Invalid arguments of region functions.

use millstream::Device;
use millstream_region::{Result, region};
use ndarray::{Array1, array};

#[region]
fn double(x: &mut Array1<f32>, by: &Array1<f32>) {
    *x *= by;
}

#[region]
fn first(all: &[Array1<f32>]) -> Array1<f32> {
    all[0].clone()
}

#[region]
fn at_a_time(times: &[std::time::Instant]) {} //~ E0277 "cannot be an item of a list"

fn main() -> Result<()> {
    let device = Device::open(millstream::Select::Auto)?;
    let (mut x, by) = (array![1.0_f32], array![2.0_f32]);
    double(&device, &x, &by)?.wait()?; //~ E0277 "it is `&mut` of an array"
    double(&device, &mut x, &array![2.0_f64])?.wait()?; //~ E0271
    double(&device, &mut x, &array![[2.0_f32]])?.wait()?; //~ E0277
    first(&device, &[array![2.0_f64]])?.wait()?; //~ E0271
    first(&device, &by)?.wait()?; //~ E0277 E0271
    double(&by, &mut x, &by)?; //~ E0277 E0277 "the first argument is `&Device`"
    Ok(())
}
