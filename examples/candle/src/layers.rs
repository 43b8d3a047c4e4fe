//! The layers as custom operations of candle: on its arrays of the host, and on those of a GPU.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Error, Layout, Result, Shape};
use millstream::{Buffer, Device, LaunchConfig, Pending, Stream, View, ViewMut};

use crate::kernels::decode;

/// The device, stream and kernels of all layers.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) device: Device,
    stream: Stream,
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

    /// Copies the first elements of an array of the host to the device.
    fn upload(&self, storage: &CpuStorage, len: usize) -> Result<Buffer<f32>> {
        let values = &storage.as_slice::<f32>()?[..len];
        self.stream.upload(values).map_err(Error::wrap)
    }

    /// Copies what `body` computes to an array of the host.
    fn download(
        &self,
        len: usize,
        body: impl FnOnce(ViewMut<'_, f32>) -> Result<()>,
    ) -> Result<CpuStorage> {
        let mut out = self.stream.zeros(len).map_err(Error::wrap)?;
        body(out.view_mut())?;
        let values = self.stream.download(&out).and_then(Pending::wait);
        Ok(CpuStorage::F32(values.map_err(Error::wrap)?))
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

/// Arrays of candle on a GPU, as views of Millstream. candle's stream waits for what uses them.
#[cfg(feature = "cuda")]
mod gpu {
    use candle_core::{CudaStorage, Error, Result, backend::BackendStorage as _};
    use millstream::{View, ViewMut};
    use millstream_cudarc::{with_slice, with_slice_mut};

    use super::Shared;

    pub(super) fn with_input<R>(
        shared: &Shared,
        storage: &CudaStorage,
        body: impl FnOnce(View<'_, f32>) -> R,
    ) -> Result<R> {
        with_slice(&shared.device, storage.as_cuda_slice::<f32>()?, body).map_err(Error::wrap)
    }

    /// Makes an array that `body` fills.
    pub(super) fn with_output(
        shared: &Shared,
        like: &CudaStorage,
        len: usize,
        body: impl FnOnce(ViewMut<'_, f32>) -> Result<()>,
    ) -> Result<CudaStorage> {
        let device = like.device();
        let mut out = device.cuda_stream().alloc_zeros(len).map_err(Error::wrap)?;
        with_slice_mut(&shared.device, &mut out, body).map_err(Error::wrap)??;
        Ok(CudaStorage::wrap_cuda_slice(out, device.clone()))
    }
}

/// A gated unit: the second half of each row, multiplied by the `silu` of the first.
pub(crate) struct GatedUnit(pub(crate) Shared);

impl GatedUnit {
    /// Returns the rows and columns of the result.
    fn shape(layout: &Layout) -> Result<(usize, usize)> {
        match matrix(layout)? {
            (rows, columns) if columns % 2 == 0 => Ok((rows, columns / 2)),
            (_, columns) => candle_core::bail!("{columns} columns have no two halves"),
        }
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
        let shape @ (rows, width) = Self::shape(layout)?;
        let both = self.0.upload(storage, 2 * rows * width)?;
        let enqueue = |out: ViewMut<'_, f32>| self.enqueue(shape, both.view(), out);
        let out = self.0.download(rows * width, enqueue)?;
        Ok((out, shape.into()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        storage: &candle_core::CudaStorage,
        layout: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        let shape @ (rows, width) = Self::shape(layout)?;
        let out = gpu::with_output(&self.0, storage, rows * width, |out| {
            gpu::with_input(&self.0, storage, |both| self.enqueue(shape, both, out))?
        })?;
        Ok((out, shape.into()))
    }
}

/// Normalisation by the root of the mean of the squares of each row.
pub(crate) struct Normalise(pub(crate) Shared);

impl Normalise {
    fn enqueue(
        &self,
        (rows, width): (usize, usize),
        (x, weight): (View<'_, f32>, View<'_, f32>),
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
        let shape = matrix(x_layout)?;
        vector(weight_layout, shape.1)?;
        let x = self.0.upload(x, shape.0 * shape.1)?;
        let weight = self.0.upload(weight, shape.1)?;
        let out = self.0.download(shape.0 * shape.1, |out| {
            self.enqueue(shape, (x.view(), weight.view()), out)
        })?;
        Ok((out, shape.into()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &candle_core::CudaStorage,
        x_layout: &Layout,
        weight: &candle_core::CudaStorage,
        weight_layout: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        let shape = matrix(x_layout)?;
        vector(weight_layout, shape.1)?;
        let out = gpu::with_output(&self.0, x, shape.0 * shape.1, |out| {
            gpu::with_input(&self.0, x, |x| {
                gpu::with_input(&self.0, weight, |weight| {
                    self.enqueue(shape, (x, weight), out)
                })?
            })?
        })?;
        Ok((out, shape.into()))
    }
}
