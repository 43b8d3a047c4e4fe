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
    kernel: CudaFunction,
}

impl Cudarc {
    pub(crate) fn open() -> Result<Self> {
        Self::with_kernel(include_str!("../kernels/vecadd.ptx"), "vecadd")
    }

    /// Opens a context for a kernel whose parameters are input arrays, an output array, and the
    /// number of elements of each that its threads touch.
    pub(crate) fn with_kernel(ptx: &str, name: &str) -> Result<Self> {
        let context = CudaContext::new(0)?;
        let module = context.load_module(Ptx::from_src(ptx))?;
        let kernel = module.load_function(name)?;
        Ok(Self { context, kernel })
    }

    /// Returns cudarc's default stream. cudarc uses no events as long as it has no other stream.
    pub(crate) fn default_stream(&self) -> Arc<CudaStream> {
        self.context.default_stream()
    }

    /// Creates a stream, after which cudarc records events and waits for them.
    pub(crate) fn stream(&self) -> Result<Arc<CudaStream>> {
        Ok(self.context.new_stream()?)
    }

    /// Launches the kernel: `output = a + b` for `vecadd`, whose inputs are `[a, b]`.
    #[inline]
    pub(crate) fn launch(
        &self,
        stream: &Arc<CudaStream>,
        inputs: &[CudaSlice<f32>],
        output: &mut CudaSlice<f32>,
    ) -> Result<()> {
        let lengths = inputs.iter().map(CudaSlice::len);
        let n = lengths.fold(output.len(), usize::min) as u64;
        let config = LaunchConfig {
            grid_dim: (u32::try_from(n.div_ceil(u64::from(BLOCK)))?, 1, 1),
            block_dim: (BLOCK, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = stream.launch_builder(&self.kernel);
        for input in inputs {
            launch.arg(input);
        }
        launch.arg(output).arg(&n);
        // SAFETY: the arguments are those of the kernel, whose threads touch `n` elements of each
        // array.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}
