//! Summands on a mesh, which no region takes and no method reads before they are reduced.

use millstream_region::{Mesh, Partial, Replicated, Sharded, region};
use ndarray::{Array1, Array2, Axis};

#[region(mesh)]
fn sums(x: &Sharded<Array2<f32>, 0>) -> Partial<Array1<f32>> {
    x.sum_axis(Axis(0))
}

#[region(mesh)]
fn scaled(x: &Sharded<Array2<f32>, 0>, by: &Replicated<Array1<f32>>) -> Sharded<Array2<f32>, 0> {
    x * by
}

#[region(mesh)] //~ E0277 "its `all_reduce` and `reduce_scatter` make an array"
fn of_summands(x: &Partial<Array1<f32>>) -> Partial<Array1<f32>> { //~ E0277 "holds summands"
    x * 2.0
}

#[region(mesh)]
fn of_another_layout(x: &Sharded<Array2<f32>, 1>) -> Sharded<Array2<f32>, 1> {
    x * 2.0
}

#[region(mesh)] //~ E0277 "cannot be the result of a region of a mesh"
fn of_the_host(x: &Sharded<Array2<f32>, 0>) -> Array2<f32> {
    x * 2.0
}

fn forgotten(mesh: &Mesh, x: &Sharded<Array2<f32>, 0>) -> millstream_region::Result<()> {
    let sum = sums(mesh, x)?;
    scaled(mesh, x, &sum)?; //~ E0308
    let of_rows: Replicated<Array1<f32>> = sums(mesh, x)?; //~ E0308
    of_another_layout(mesh, x)?; //~ E0308
    println!("{}", sum.to_host()?); //~ E0599
    Ok(())
}

fn main() {}
