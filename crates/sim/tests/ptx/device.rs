//! A simulated or real GPU that runs the PTX files through the driver seam.
#![allow(unsafe_code, reason = "passes the arguments of kernels")]

use std::ffi::c_void;
use std::sync::Arc;

use libtest_mimic::Failed;
use millstream_driver::cuda::Cuda;
use millstream_driver::{
    DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, DriverError, LaunchDims, ModuleHandle,
    StreamHandle,
};
use millstream_sim::{Gpu, SimConfig, exec::Jit};
use millstream_testkit::share;

use crate::harness::{Harness, Host};

pub(crate) struct TestDevice {
    harness: Harness,
    /// The simulated GPU, or `None` on a real one.
    pub(crate) simulated: Option<Gpu>,
    stream: StreamHandle,
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
        let harness = Harness::open(driver, DeviceOrdinal::from_raw(cuda.unwrap_or(0)))?;
        let stream = harness.stream_create(true, 0)?;
        Ok(Self {
            harness,
            simulated,
            stream,
        })
    }

    /// Returns the compute capability, for example 90 for `sm_90`.
    pub(crate) fn architecture(&self) -> Result<i32, Failed> {
        let Harness { driver, device, .. } = &self.harness;
        let attribute = |attribute| driver.device_attribute(*device, attribute);
        let major = attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?;
        Ok(10 * major + attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?)
    }

    /// Loads a PTX text. Returns the text of the error if loading fails.
    pub(crate) fn load(&self, source: &str) -> Result<ModuleHandle, String> {
        text(self.harness.module_load(source.as_bytes()))
    }

    /// Loads a PTX text and its kernel `k`, if it has one. Returns the text of the first error.
    pub(crate) fn load_kernel(&self, source: &str) -> Result<(), String> {
        let module = self.load(source)?;
        let Ok(kernel) = self.harness.module_function(module, "k") else {
            return Ok(());
        };
        text(self.harness.function_load(kernel))
    }

    /// Allocates device memory with this content.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<DevicePtr, Failed> {
        let memory = self.harness.mem_alloc(bytes.len())?;
        self.harness.upload_now(memory, Host::of(bytes))?;
        self.harness.context_synchronize()?;
        Ok(memory)
    }

    pub(crate) fn free(&self, memory: DevicePtr) -> Result<(), Failed> {
        Ok(self.harness.mem_free(memory)?)
    }

    pub(crate) fn get(&self, memory: DevicePtr, bytes: usize) -> Result<Vec<u8>, Failed> {
        let target = Host::pageable(bytes);
        self.harness.download_now(target, memory)?;
        Ok(target.read())
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
        let function = text(self.harness.module_function(module, kernel))?;
        let pointers: Vec<*const c_void> = arguments
            .iter()
            .map(|words| words.as_ptr().cast())
            .collect();
        // SAFETY: each argument of the run line has a pointer to words that hold it.
        text(unsafe {
            self.harness
                .launch_kernel(function, dims, self.stream, &pointers)
        })?;
        text(self.harness.stream_synchronize(self.stream))
    }
}

fn text<T>(answer: Result<T, DriverError>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}
