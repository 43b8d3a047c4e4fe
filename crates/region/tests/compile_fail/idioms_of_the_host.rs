//! Idioms of `ndarray` that device arrays do not support, with the equivalents that the errors
//! suggest.

use millstream_region::{RegionExt, Result, region};
use ndarray::{Array1, Array2, ArrayViewMut1, array, s};

#[region]
fn function_of_an_element(x: &Array1<f32>) -> Array1<f32> {
    (x * 2.0).mapv(f32::sqrt) //~ "write `.mapv(|v| v.sqrt())`"
}

#[region]
fn closure_of_an_element(x: &Array1<f32>) -> Array1<f32> {
    x.mapv(|v: f32| v * 2.0) //~ "omit the element type"
}

#[region]
fn choice_by_an_element(x: &Array1<f32>) -> Array1<f32> {
    x.mapv(|v| if v > 0.0 { v } else { 0.0 }) //~ "write `v.greater(0.0).where_cond(yes, no)`"
}

#[region]
fn cast_of_an_element(x: &Array1<f32>) -> Array1<f64> {
    x.abs().mapv(|v| (v + 1.0) as f64) //~ "write `.cast::<f64>()`"
}

#[region]
fn greater_of_an_element(x: &Array1<f32>) -> Array1<f32> {
    let above = x.mapv(|v| (v - 1.0).max(0.0)); //~ "write `.maximum(…)`"
    above + x.mapv(|v| v.min(1.0)) //~ "write `.minimum(…)`"
}

#[region]
fn greater_of_a_number(x: &Array1<f32>) -> Array1<f32> {
    let size = -x.abs().max(1.0); //~ "write `.maximum(…)`"
    let product = x * 2.0;
    size + product.min(0.5) //~ "write `.minimum(…)`"
}

#[region]
fn dereferenced_element(x: &Array1<f32>) -> Array1<f32> {
    x.map(|v| *v * 2.0) //~ "write `v` without `*`"
        + x.mapv(|&v| v * 2.0) //~ "write `v` without `&`"
}

#[region]
fn mapped_in_place(x: &mut Array1<f32>) {
    x.mapv_inplace(f32::abs); //~ "write `.mapv_inplace(|v| v.abs())`"
}

#[region]
fn assigned_to_a_temporary_view(x: &mut Array2<f32>, y: &Array1<f32>) {
    x.slice_mut(s![0, ..]) += y; //~ "write `.slice_mut(…).add_assign(…)`"
    x.row_mut(1) = y; //~ "write `.row_mut(…).assign(…)`"
    x.column_mut(1) %= y; //~ "write `let mut part = ….column_mut(…); part %= …`"
}

#[region]
fn iterated(x: &Array1<f32>) -> Array1<f32> {
    let _ = x.iter().map(|v| v * 2.0).sum::<f32>(); //~ E0277 "`outer_iter()` iterates over"
    x.clone()
}

#[region]
fn integers_beside_floats(x: &Array1<f32>, y: &Array1<f64>) -> Array1<f32> {
    let mut twice = x * 2; //~ E0277 "`2.0` instead of `2`"
    twice -= 1; //~ E0277 "`2.0` instead of `2`"
    y / 2; //~ E0277 "an array of `f64` cannot be combined with an integer"
    twice
}

#[region]
fn two_types(x: &Array1<f32>, y: &Array1<f64>) -> Array1<f32> {
    let _ = x + y; //~ E0277 "`cast::<f32>()` on this"
    let mut product = x.clone();
    product *= y; //~ E0277 "an array of `f32` cannot be combined with an array of `f64`"
    product.maximum(y) //~ E0277 "`cast` converts between types"
}

#[region]
fn view_to_write(mut x: ArrayViewMut1<f32>) { //~ "declare the parameter as `&mut Array…`"
    x += 1.0;
}

#[region]
fn operand_of_the_host(x: &Array1<f32>) -> Array1<f32> {
    x + array![1.0, 2.0] //~ E0277 "copy it to the device with `g.array(&host)`"
}

#[region]
fn assigned_from_the_host(x: &mut Array1<f32>) {
    *x *= &Array1::from_vec(vec![1.0_f32]); //~ E0277 "a host array cannot be an operand"
}

#[region]
fn compared_with_the_host(x: &Array1<f32>) -> Array1<f32> {
    x.maximum(&array![1.0_f32]) //~ E0277 "`g.array(&host)` copies a host array"
}

#[region]
fn chosen_from_the_host(x: &Array1<f32>) -> Array1<f32> {
    let mask = x.less(0.0);
    let _ = mask.where_cond(array![1.0_f32], array![2.0_f32]); //~ E0277 "selects from device"
    x.clone()
}

#[region]
fn shifted_floats(x: &Array1<f32>) -> Array1<f32> {
    x << 1.0 //~ E0369
}

#[region]
fn one_answer(x: &Array1<f32>) -> Array1<f32> {
    if x.sum() > 0.0 { //~ E0277 "to decide once, ask for a value"
        return x.clone();
    }
    x * 2.0
}

/// Breaks the same rules in closures, where the errors of the types give the same advice.
fn in_a_closure(device: &millstream::Device) -> Result<()> {
    let x = array![1.0_f32];
    device.region(|g| g.array(&x) * 2)?.wait()?; //~ E0277 "`2.0` instead of `2`"
    device.region(|g| 1.0 - g.array(&x).iter().sum::<f32>() * g.array(&x))?.wait()?; //~ E0277
    device.region(|g| g.array(&x) + &x)?.wait()?; //~ E0277 "copy it to the device with"
    let mapped = device.region(|g| {
        g.array(&x).mapv(|v| if *v > 0.0 { v * 2.0 } else { v * 1.0 }) //~ E0277 "selects element"
    })?;
    mapped.wait()?;
    Ok(())
}

fn main() {}
