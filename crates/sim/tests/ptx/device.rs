//! The device that the files run on, behind the seam that a simulated and a real GPU share.
#![allow(unsafe_code, reason = "the seam's methods trust their caller")]

use std::ffi::c_void;
use std::sync::Arc;

use libtest_mimic::Failed;
use millstream_driver::cuda::Cuda;
use millstream_driver::{
    ContextHandle, DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, LaunchDims, ModuleHandle,
    StreamHandle,
};
use millstream_sim::{Gpu, SimConfig};

/// A device with a stream.
pub(crate) struct TestDevice {
    driver: Arc<dyn Driver>,
    /// The simulated GPU, if it is one.
    pub(crate) simulated: Option<Gpu>,
    context: ContextHandle,
    stream: StreamHandle,
    ordinal: DeviceOrdinal,
}

impl TestDevice {
    /// The GPU of that number, or without one a simulated GPU of its own.
    pub(crate) fn open(cuda: Option<i32>) -> Result<Self, Failed> {
        let (driver, simulated): (Arc<dyn Driver>, _) = match cuda {
            Some(_) => (Cuda::load().map_err(|error| error.to_string())?, None),
            None => {
                let gpu = Gpu::new(SimConfig::new());
                (Arc::new(gpu.clone()), Some(gpu))
            }
        };
        let ordinal = DeviceOrdinal::from_raw(cuda.unwrap_or(0));
        let context = driver.primary_context_retain(ordinal)?;
        // SAFETY: the context was retained just now, and is never released.
        let stream = unsafe { driver.stream_create(context, true, 0) }?;
        Ok(Self {
            driver,
            simulated,
            context,
            stream,
            ordinal,
        })
    }

    /// The compute capability, as in `sm_90`.
    pub(crate) fn architecture(&self) -> Result<i32, Failed> {
        let attribute = |attribute| self.driver.device_attribute(self.ordinal, attribute);
        let major = attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?;
        Ok(10 * major + attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?)
    }

    /// Loads a PTX text; the text of the error if it is refused.
    pub(crate) fn load(&self, source: &str) -> Result<ModuleHandle, String> {
        // SAFETY: the context is alive, and the image is text.
        unsafe { self.driver.module_load(self.context, source.as_bytes()) }
            .map_err(|error| error.to_string())
    }

    /// Device memory that holds `bytes`.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<DevicePtr, Failed> {
        // SAFETY: the context is alive.
        let memory = unsafe { self.driver.mem_alloc(self.context, bytes.len()) }?;
        // SAFETY: the memory is as long as the source, and nobody else knows of it; the wait below
        // keeps the source until it is read.
        unsafe {
            self.driver
                .copy_host_to_device(self.context, memory, bytes.as_ptr(), bytes.len())
        }?;
        // SAFETY: the context is alive.
        unsafe { self.driver.context_synchronize(self.context) }?;
        Ok(memory)
    }

    pub(crate) fn get(&self, memory: DevicePtr, bytes: usize) -> Result<Vec<u8>, Failed> {
        let mut target = vec![0; bytes];
        // SAFETY: the memory has so many bytes, and the stream that used it has been waited for.
        unsafe {
            self.driver
                .copy_device_to_host(self.context, target.as_mut_ptr(), memory, bytes)
        }?;
        Ok(target)
    }

    /// Launches a kernel and waits for it. Each argument is given by its bytes; the files vouch for
    /// what their kernels touch.
    pub(crate) fn launch(
        &self,
        module: ModuleHandle,
        kernel: &str,
        dims: &LaunchDims,
        arguments: &[Vec<u64>],
    ) -> Result<(), String> {
        let text = |error: millstream_driver::DriverError| error.to_string();
        // SAFETY: the module is alive.
        let function =
            unsafe { self.driver.module_function(self.context, module, kernel) }.map_err(text)?;
        let pointers: Vec<*const c_void> = arguments
            .iter()
            .map(|words| words.as_ptr().cast())
            .collect();
        // SAFETY: there is a pointer for each argument of the run line, to words that hold it.
        unsafe {
            self.driver
                .launch_kernel(self.context, function, dims, self.stream, &pointers)
        }
        .map_err(text)?;
        // SAFETY: the stream is alive.
        unsafe { self.driver.stream_synchronize(self.context, self.stream) }.map_err(text)
    }
}
