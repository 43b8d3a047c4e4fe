//! Products in regions that are launched as graphs.

use half::{bf16, f16};
use millstream::Device;
use millstream_region::{Array, Float, Keep, ProductPrecision, RegionExt};
use ndarray::{Array2, Ix2};

use crate::product::{Outcome, builtin::device, evaluate};

/// The number of calls: the third one makes a graph, and the later ones launch it.
const CALLS: usize = 6;

/// Returns a matrix of small integers, of which sums are exact in any order and in TF32.
fn integers<T: Float>(
    device: &Device,
    (rows, columns): (usize, usize),
    call: usize,
) -> Result<Array<T, Ix2>, millstream_region::Error> {
    let integer = |(row, column): (usize, usize)| ((row * 5 + column * 3 + call) % 7) as f32 - 2.0;
    let singles = Array::from_host(device, &Array2::from_shape_fn((rows, columns), integer))?;
    Array::from_host(device, &singles.cast::<T>().to_host()?)
}

/// Calls a region of four products, or three if the precisions are one, with other arrays each
/// time. Functions of the last are computed with it. Returns all results as `f64`.
fn results<T: Float>(
    device: &Device,
    precision: ProductPrecision,
) -> Result<Vec<Array2<f64>>, millstream_region::Error> {
    let mut all = Vec::new();
    for call in 0..CALLS {
        let a = integers::<T>(device, (128, 64), call)?;
        let b = integers::<T>(device, (64, 96), call + 3)?;
        let (sums, product, transposed, layer) = evaluate(device, |g| {
            let (a, b) = (g.array(&a), g.array(&b));
            let product = a.dot_with(&b, precision);
            let sums = &product + &product.row(1);
            let layer = (b.t().dot_with(&b, precision) - &product.row(2) * T::from_whole(2)).relu();
            (
                Keep(sums.relu()),
                Keep(a.dot(&b)),
                Keep(b.t().dot_with(&a.t(), precision)),
                Keep(layer),
            )
        })?;
        for result in [sums, product, transposed, layer] {
            all.push(result.cast::<f64>().to_host()?);
        }
    }
    Ok(all)
}

fn compare<T: Float>(precision: ProductPrecision) -> Outcome {
    let (device, gpu) = device()?;
    let replayed = results::<T>(&device, precision)?;
    device.set_region_graphs(false);
    let launched = results::<T>(&device, precision)?;
    drop(device);
    if replayed != launched {
        let name = std::any::type_name::<T>();
        return Err(format!("a graph of products of {name} in {precision:?} differs").into());
    }
    match gpu.map(|gpu| gpu.reports()) {
        Some(reports) if !reports.is_empty() => Err(format!("{reports:?}").into()),
        _ => Ok(()),
    }
}

#[test]
fn replayed_products_are_those_of_separate_launches() -> Outcome {
    compare::<f32>(ProductPrecision::Full)?;
    compare::<f32>(ProductPrecision::Tf32)?;
    compare::<f64>(ProductPrecision::Full)?;
    compare::<f16>(ProductPrecision::Full)?;
    compare::<bf16>(ProductPrecision::Full)
}
