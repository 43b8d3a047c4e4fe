//! C6: unsupported operations do not compile, and never fall back to the CPU.

use std::collections::HashMap;

use millstream_region::region;
use ndarray::{Array1, Array2, ArrayD};

#[region]
fn functions_of_integers(x: &Array1<i32>) -> Array1<i32> {
    x.exp() //~ E0599 "`i32: Float`"
}

#[region]
fn arithmetic_of_truths(x: &Array1<bool>) -> Array1<bool> {
    x + x //~ E0369
}

#[region]
fn mixed_types(x: &Array1<f32>, y: &Array1<f64>) -> Array1<f64> {
    x + y //~ E0277 "`cast::<f32>()` on this one"
}

fn bump(x: f32) -> f32 {
    x + 1.0
}

#[region]
fn a_function_of_the_host(x: &Array1<f32>) -> Array1<f32> {
    x.mapv(bump) //~ E0631
}

#[region]
fn columns(x: &Array2<f32>) -> Array1<f32> {
    x.sum_axis(ndarray::Axis(0)).to_vec().into() //~ E0599
}

fn main() {}
