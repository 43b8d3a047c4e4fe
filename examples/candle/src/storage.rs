//! candle's arrays as views of Millstream: those of the host are copied, those of a GPU are used in
//! place.

use candle_core::{CpuStorage, Error, Result};
use millstream::{Pending, View, ViewMut};

use crate::layers::Shared;

/// An array of candle that a layer reads, or makes beside another.
pub(crate) trait Storage: Sized {
    /// Calls `body` with the first `len` elements.
    fn with_elements<R>(
        &self,
        shared: &Shared,
        len: usize,
        body: impl FnOnce(View<'_, f32>) -> Result<R>,
    ) -> Result<R>;

    /// Makes an array of `len` elements, which `body` fills, where this one is.
    fn make_beside(
        &self,
        shared: &Shared,
        len: usize,
        body: impl FnOnce(ViewMut<'_, f32>) -> Result<()>,
    ) -> Result<Self>;
}

impl Storage for CpuStorage {
    fn with_elements<R>(
        &self,
        shared: &Shared,
        len: usize,
        body: impl FnOnce(View<'_, f32>) -> Result<R>,
    ) -> Result<R> {
        let elements = &self.as_slice::<f32>()?[..len];
        let copy = shared.stream.upload(elements).map_err(Error::wrap)?;
        body(copy.view())
    }

    fn make_beside(
        &self,
        shared: &Shared,
        len: usize,
        body: impl FnOnce(ViewMut<'_, f32>) -> Result<()>,
    ) -> Result<Self> {
        let mut made = shared.stream.zeros(len).map_err(Error::wrap)?;
        body(made.view_mut())?;
        let values = shared.stream.download(&made).and_then(Pending::wait);
        Ok(Self::F32(values.map_err(Error::wrap)?))
    }
}

/// candle's stream waits for what uses its arrays.
#[cfg(feature = "cuda")]
mod gpu {
    use candle_core::{CudaStorage, Error, Result, backend::BackendStorage as _};
    use millstream::{View, ViewMut};
    use millstream_cudarc::{with_slice, with_slice_mut};

    use super::{Shared, Storage};

    impl Storage for CudaStorage {
        fn with_elements<R>(
            &self,
            shared: &Shared,
            len: usize,
            body: impl FnOnce(View<'_, f32>) -> Result<R>,
        ) -> Result<R> {
            let slice = self.as_cuda_slice::<f32>()?;
            let body = |all: View<'_, f32>| body(all.slice(..len));
            with_slice(&shared.device, slice, body).map_err(Error::wrap)?
        }

        fn make_beside(
            &self,
            shared: &Shared,
            len: usize,
            body: impl FnOnce(ViewMut<'_, f32>) -> Result<()>,
        ) -> Result<Self> {
            let device = self.device();
            let mut made = device.cuda_stream().alloc_zeros(len).map_err(Error::wrap)?;
            with_slice_mut(&shared.device, &mut made, body).map_err(Error::wrap)??;
            Ok(Self::wrap_cuda_slice(made, device.clone()))
        }
    }
}
