//! The same work with cudarc's safe layer, for comparison.

#![allow(unsafe_code, reason = "launches through cudarc's unsafe method")]

use std::sync::Arc;

use anyhow::Result;
use cudarc::{
    driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg},
    nvrtc::Ptx,
};

use crate::raw::BLOCK;

/// A context of cudarc. It is the device's primary context, which Millstream uses too, but cudarc
/// counts its own streams only.
pub(crate) struct Cudarc {
    context: Arc<CudaContext>,
    vecadd: CudaFunction,
}

impl Cudarc {
    pub(crate) fn open() -> Result<Self> {
        let context = CudaContext::new(0)?;
        let module = context.load_module(Ptx::from_src(include_str!("../kernels/vecadd.ptx")))?;
        let vecadd = module.load_function("vecadd")?;
        Ok(Self { context, vecadd })
    }

    /// Returns cudarc's default stream. cudarc uses no events as long as it has no other stream.
    pub(crate) fn default_stream(&self) -> Arc<CudaStream> {
        self.context.default_stream()
    }

    /// Creates a stream, after which cudarc records events and waits for them.
    pub(crate) fn stream(&self) -> Result<Arc<CudaStream>> {
        Ok(self.context.new_stream()?)
    }

    /// Enqueues `c = a + b`.
    #[inline]
    pub(crate) fn vecadd(
        &self,
        stream: &Arc<CudaStream>,
        a: &CudaSlice<f32>,
        b: &CudaSlice<f32>,
        c: &mut CudaSlice<f32>,
    ) -> Result<()> {
        let elements = a.len().min(b.len()).min(c.len());
        let n = elements as u64;
        let config = LaunchConfig {
            grid_dim: (u32::try_from(n.div_ceil(u64::from(BLOCK)))?, 1, 1),
            block_dim: (BLOCK, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = stream.launch_builder(&self.vecadd);
        launch.arg(a).arg(b).arg(c).arg(&n);
        // SAFETY: the arguments are those of vecadd.cu, whose threads touch `n` elements of each
        // array.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}
