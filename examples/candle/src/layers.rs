//! The layers as custom operations of candle: on its arrays of the host, and on those of a GPU.

use std::sync::Arc;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, CustomOp1, CustomOp2, Error, Layout, Result, Shape};
use millstream::{Device, LaunchConfig, Stream, View, ViewMut};

use crate::{kernels::decode, storage::Storage};

/// The device, stream and kernels of all layers.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    kernels: Arc<decode::Kernels>,
}

impl Shared {
    pub(crate) fn new(candle: &candle_core::Device) -> Result<Self> {
        let device = device_of(candle)?;
        Ok(Self {
            stream: device.stream().map_err(Error::wrap)?,
            kernels: Arc::new(decode::load(&device).map_err(Error::wrap)?),
            device,
        })
    }
}

/// The device of Millstream for candle's: the same GPU, or a simulated one for the host.
fn device_of(candle: &candle_core::Device) -> Result<Device> {
    match candle {
        #[cfg(feature = "cuda")]
        candle_core::Device::Cuda(device) => {
            millstream_cudarc::device_of(device.cuda_stream().context()).map_err(Error::wrap)
        }
        _ => Device::simulated().map_err(Error::wrap),
    }
}

/// Returns the rows and columns of a contiguous matrix.
fn matrix(layout: &Layout) -> Result<(usize, usize)> {
    match layout.contiguous_offsets() {
        Some((0, _)) => layout.shape().dims2(),
        _ => candle_core::bail!("the layer needs a contiguous matrix"),
    }
}

/// Checks that a layout is contiguous, with this number of elements.
fn vector(layout: &Layout, len: usize) -> Result<()> {
    match layout.contiguous_offsets() {
        Some((0, end)) if end == len => Ok(()),
        _ => candle_core::bail!("the layer needs {len} contiguous weights"),
    }
}

/// A gated unit: the second half of each row, multiplied by the `silu` of the first.
pub(crate) struct GatedUnit(pub(crate) Shared);

impl GatedUnit {
    fn forward<S: Storage>(&self, storage: &S, layout: &Layout) -> Result<(S, Shape)> {
        let shape @ (rows, width) = match matrix(layout)? {
            (rows, columns) if columns % 2 == 0 => (rows, columns / 2),
            (_, columns) => candle_core::bail!("{columns} columns have no two halves"),
        };
        let out = storage.make_beside(&self.0, rows * width, |out| {
            let enqueue = |both: View<'_, f32>| self.enqueue(shape, both, out);
            storage.with_elements(&self.0, 2 * rows * width, enqueue)
        })?;
        Ok((out, shape.into()))
    }

    fn enqueue(
        &self,
        (rows, width): (usize, usize),
        both: View<'_, f32>,
        mut out: ViewMut<'_, f32>,
    ) -> Result<()> {
        let Shared {
            stream, kernels, ..
        } = &self.0;
        for row in 0..rows {
            let both = both.slice(2 * width * row..2 * width * (row + 1));
            let out = out.slice_mut(width * row..width * (row + 1));
            let launched = kernels.activate(stream, width, both, out, width as u32);
            launched.map_err(Error::wrap)?;
        }
        Ok(())
    }
}

impl CustomOp1 for GatedUnit {
    fn name(&self) -> &'static str {
        "gated unit"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward(storage, layout)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        self.forward(storage, layout)
    }
}

/// Normalisation by the root of the mean of the squares of each row.
pub(crate) struct Normalise(pub(crate) Shared);

impl Normalise {
    fn forward<S: Storage>(
        &self,
        (x, x_layout): (&S, &Layout),
        (weight, weight_layout): (&S, &Layout),
    ) -> Result<(S, Shape)> {
        let shape @ (rows, width) = matrix(x_layout)?;
        vector(weight_layout, width)?;
        let out = x.make_beside(&self.0, rows * width, |out| {
            x.with_elements(&self.0, rows * width, |x| {
                let enqueue = |weight: View<'_, f32>| self.enqueue(shape, x, weight, out);
                weight.with_elements(&self.0, width, enqueue)
            })
        })?;
        Ok((out, shape.into()))
    }

    fn enqueue(
        &self,
        (rows, width): (usize, usize),
        x: View<'_, f32>,
        weight: View<'_, f32>,
        mut out: ViewMut<'_, f32>,
    ) -> Result<()> {
        let Shared {
            stream, kernels, ..
        } = &self.0;
        for row in 0..rows {
            let part = width * row..width * (row + 1);
            let (x, out) = (x.slice(part.clone()), out.slice_mut(part));
            let warp = LaunchConfig::new([1; 3], [32, 1, 1]);
            let launched = kernels.normalise(stream, warp, x, &weight, out, width as u32);
            launched.map_err(Error::wrap)?;
        }
        Ok(())
    }
}

impl CustomOp2 for Normalise {
    fn name(&self) -> &'static str {
        "normalise"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.forward((x, x_layout), (weight, weight_layout))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        x_layout: &Layout,
        weight: &CudaStorage,
        weight_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.forward((x, x_layout), (weight, weight_layout))
    }
}
