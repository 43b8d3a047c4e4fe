//! A small model of candle, two of whose layers move to Millstream one after the other. Each
//! version gives the same result.
//!
//! Without a GPU candle computes on the host and Millstream on a simulated device: `cargo run`.
//! With one, both share its memory and streams: `cargo run --release --features cuda`.

mod kernels;
mod layers;
mod storage;

use candle_core::{D, Device, Result, Tensor};

use layers::{GatedUnit, Normalise, Shared};

const ROWS: usize = 6;
const WIDTH: usize = 96;
const HIDDEN: usize = 160;
/// How far the results of two orders of addition may differ, relative to the largest.
const TOLERANCE: f32 = 1e-5;

/// Normalisation, a product, a gated unit and a product.
struct Model {
    scale: Tensor,
    first: Tensor,
    second: Tensor,
}

impl Model {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            scale: numbers(&[WIDTH], device)?,
            first: numbers(&[WIDTH, 2 * HIDDEN], device)?,
            second: numbers(&[HIDDEN, WIDTH], device)?,
        })
    }

    fn normalised(&self, x: &Tensor) -> Result<Tensor> {
        let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
        let normal = x.broadcast_div(&(mean + 1e-5)?.sqrt()?)?;
        normal.broadcast_mul(&self.scale)
    }

    fn with_candle(&self, x: &Tensor) -> Result<Tensor> {
        let both = self.normalised(x)?.matmul(&self.first)?;
        let (gate, up) = (both.narrow(1, 0, HIDDEN)?, both.narrow(1, HIDDEN, HIDDEN)?);
        (gate.silu()? * up)?.matmul(&self.second)
    }

    /// First step: the gated unit is Millstream's, between layers of candle.
    fn with_one_layer(&self, x: &Tensor, shared: &Shared) -> Result<Tensor> {
        let both = self.normalised(x)?.matmul(&self.first)?;
        both.apply_op1_no_bwd(&GatedUnit(shared.clone()))?
            .matmul(&self.second)
    }

    /// Second step: the normalisation is too. Only the products are candle's.
    fn with_two_layers(&self, x: &Tensor, shared: &Shared) -> Result<Tensor> {
        let normal = x.apply_op2_no_bwd(&self.scale, &Normalise(shared.clone()))?;
        let both = normal.matmul(&self.first)?;
        both.apply_op1_no_bwd(&GatedUnit(shared.clone()))?
            .matmul(&self.second)
    }
}

/// Numbers between -1 and 1.
fn numbers(shape: &[usize], device: &Device) -> Result<Tensor> {
    let count = shape.iter().product::<usize>();
    let values = (0..count).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0);
    Tensor::from_iter(values, device)?.reshape(shape)
}

/// candle's device. Its stream is one of its own: CUDA's default stream cannot be shared.
fn candle_device() -> Result<Device> {
    match cfg!(feature = "cuda") {
        true => Device::new_cuda_with_stream(0),
        false => Ok(Device::Cpu),
    }
}

/// Runs all versions, and returns how far the result of each step is from that of candle alone,
/// relative to its largest element.
fn differences(device: &Device, shared: &Shared) -> Result<[(&'static str, f32); 2]> {
    let (model, x) = (Model::new(device)?, numbers(&[ROWS, WIDTH], device)?);
    let expected = model.with_candle(&x)?;
    let largest = expected.abs()?.max_all()?.to_scalar::<f32>()?;
    let difference = |found: Tensor| -> Result<f32> {
        let found = (found - &expected)?.abs()?.max_all()?.to_scalar::<f32>()?;
        Ok(found / largest)
    };
    Ok([
        ("one layer", difference(model.with_one_layer(&x, shared)?)?),
        (
            "two layers",
            difference(model.with_two_layers(&x, shared)?)?,
        ),
    ])
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = candle_device()?;
    let shared = Shared::new(&device)?;
    for (step, difference) in differences(&device, &shared)? {
        assert!(difference < TOLERANCE, "{step}: off by {difference}");
        let device = &shared.device;
        println!("{step} on {device}: within {difference:.1e} of candle alone");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;

    #[test]
    fn each_step_gives_what_candle_gives() {
        let device = candle_device().expect("candle has a device");
        let shared = Shared::new(&device).expect("the kernels load");
        let differences = differences(&device, &shared).expect("all versions run");
        for (step, difference) in differences {
            // A layer that wrote nothing would differ by 1.
            assert!(difference < TOLERANCE, "{step}: off by {difference}");
        }
    }

    #[test]
    fn a_layer_refuses_what_it_cannot_read() {
        let device = candle_device().expect("candle has a device");
        let shared = Shared::new(&device).expect("the kernels load");
        let x = numbers(&[ROWS, WIDTH], &device).expect("a matrix");
        let transposed = x.t().expect("a view");
        let short = numbers(&[WIDTH - 1], &device).expect("a vector");
        let odd = numbers(&[ROWS, 3], &device).expect("a matrix");
        let doubles = x.to_dtype(DType::F64).expect("doubles");
        let unit = || GatedUnit(shared.clone());
        let refused = [
            transposed.apply_op1_no_bwd(&unit()),
            odd.apply_op1_no_bwd(&unit()),
            doubles.apply_op1_no_bwd(&unit()),
            x.apply_op2_no_bwd(&short, &Normalise(shared.clone())),
        ];
        let words = [
            "contiguous matrix",
            "3 columns",
            "dtype",
            "contiguous weights",
        ];
        for (refused, words) in refused.into_iter().zip(words) {
            let error = refused.expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
