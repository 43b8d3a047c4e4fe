//! Functions that cannot be regions, and structs that cannot be on a device.

use millstream_region::{OnDevice, Sharded, region};
use ndarray::Array1;

#[region]
async fn awaited(x: &Array1<f32>) {} //~ "its result can be awaited"

struct Model;

impl Model {
    #[region]
    fn of_a_value(&self) {} //~ "a region function has no `self`"
}

#[region(fast)] //~ "takes no arguments, or `mesh`"
fn hurried() {}

#[region(mesh)]
fn changed(x: &mut Sharded<Array1<f32>, 0>) -> Sharded<Array1<f32>, 0> { //~ "changes no argument"
    x * 2.0
}

#[region(mesh)]
fn nothing(x: &Sharded<Array1<f32>, 0>) {} //~ "returns an array"

#[derive(OnDevice)]
enum Either { //~ "derived for structs"
    One,
}

#[derive(OnDevice)]
struct Layer<'a>(&'a Array1<f32>); //~ "has no lifetimes"

fn main() {}
