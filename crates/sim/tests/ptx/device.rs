//! A simulated or real GPU that runs the PTX files through the driver seam.
#![allow(unsafe_code, reason = "the seam's methods trust their caller")]

use std::ffi::c_void;
use std::sync::Arc;

use libtest_mimic::Failed;
use millstream_driver::cuda::Cuda;
use millstream_driver::{
    ContextHandle, DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, LaunchDims, ModuleHandle,
    StreamHandle,
};
use millstream_sim::{Gpu, SimConfig, exec::Jit};
use millstream_testkit::share;

pub(crate) struct TestDevice {
    driver: Arc<dyn Driver>,
    /// The simulated GPU, or `None` on a real one.
    pub(crate) simulated: Option<Gpu>,
    context: ContextHandle,
    stream: StreamHandle,
    ordinal: DeviceOrdinal,
}

impl TestDevice {
    /// Opens the GPU of this number, or a new simulated GPU.
    pub(crate) fn open(cuda: Option<i32>) -> Result<Self, Failed> {
        let (driver, simulated): (Arc<dyn Driver>, _) = match cuda {
            Some(_) => (Cuda::load().map_err(|error| error.to_string())?, None),
            None => {
                // The results are the same either way, so each day tests one of them.
                let jit = [Jit::Off, Jit::AtOnce][(share::day() % 2) as usize];
                let gpu = Gpu::new(SimConfig::new().jit(jit));
                (Arc::new(gpu.clone()), Some(gpu))
            }
        };
        let ordinal = DeviceOrdinal::from_raw(cuda.unwrap_or(0));
        let context = driver.primary_context_retain(ordinal)?;
        // SAFETY: the context was just retained, and is never released.
        let stream = unsafe { driver.stream_create(context, true, 0) }?;
        Ok(Self {
            driver,
            simulated,
            context,
            stream,
            ordinal,
        })
    }

    /// Returns the compute capability, for example 90 for `sm_90`.
    pub(crate) fn architecture(&self) -> Result<i32, Failed> {
        let attribute = |attribute| self.driver.device_attribute(self.ordinal, attribute);
        let major = attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?;
        Ok(10 * major + attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?)
    }

    /// Loads a PTX text. Returns the text of the error if loading fails.
    pub(crate) fn load(&self, source: &str) -> Result<ModuleHandle, String> {
        // SAFETY: the context is alive, and the image is text.
        unsafe { self.driver.module_load(self.context, source.as_bytes()) }
            .map_err(|error| error.to_string())
    }

    /// Loads a PTX text and its kernel `k`, if it has one. Returns the text of the first error.
    pub(crate) fn load_kernel(&self, source: &str) -> Result<(), String> {
        let module = self.load(source)?;
        // SAFETY: the context and the module are alive.
        let Ok(kernel) = (unsafe { self.driver.module_function(self.context, module, "k") }) else {
            return Ok(());
        };
        // SAFETY: the function is one of this context.
        unsafe { self.driver.function_load(self.context, kernel) }
            .map_err(|error| error.to_string())
    }

    /// Allocates device memory with this content.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<DevicePtr, Failed> {
        // SAFETY: the context is alive.
        let memory = unsafe { self.driver.mem_alloc(self.context, bytes.len()) }?;
        // SAFETY: the memory is as long as the source, and no other code has its address; the
        // synchronisation below keeps the source alive until it is read.
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
        // SAFETY: the memory has this many bytes, and the stream that used it has been
        // synchronised.
        unsafe {
            self.driver
                .copy_device_to_host(self.context, target.as_mut_ptr(), memory, bytes)
        }?;
        Ok(target)
    }

    /// Launches a kernel and waits for it. Each argument is passed as its bytes; the PTX files are
    /// responsible for the memory that their kernels access.
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
        // SAFETY: each argument of the run line has a pointer to words that hold it.
        unsafe {
            self.driver
                .launch_kernel(self.context, function, dims, self.stream, &pointers)
        }
        .map_err(text)?;
        // SAFETY: the stream is alive.
        unsafe { self.driver.stream_synchronize(self.context, self.stream) }.map_err(text)
    }
}
