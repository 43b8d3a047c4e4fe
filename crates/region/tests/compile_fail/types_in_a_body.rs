//! Array types named in a body: the signature names host arrays, but the body has device arrays.

use millstream_region::region;
use ndarray::{Array1, Array2};

#[region]
fn named_by_the_host(x: &Array1<f32>) -> Array1<f32> {
    let y: Array1<f32> = x * 2.0; //~ E0308
    x.clone()
}

#[region]
fn made_by_the_host(x: &Array1<f32>) -> Array1<f32> {
    Array1::from_vec(vec![0.0, 0.0]) //~ E0308
}

#[region]
fn made_by_the_full_name(x: &Array1<f32>) -> Array1<f32> {
    ndarray::Array1::zeros(2) //~ E0308
}

#[region]
fn of_other_axes(x: &Array2<f32>) -> Array1<f32> {
    x * 2.0 //~ E0308
}

fn main() {}
