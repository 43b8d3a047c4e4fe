//! libcuda behind the seam: found and loaded at run time, once for the process, never unloaded.
//!
//! [`Cuda::load`] opens NVIDIA's driver library through the system's loader, finds every function that the seam needs,
//! initialises the driver and answers the one [`Cuda`] of this process, which is a [`Driver`]. Nothing of CUDA is needed
//! to build, and a machine without a driver gets a [`LoadError`] that says what was tried.
//!
//! # Current contexts
//!
//! CUDA keeps one *current context* for each host thread, and many functions work in it. The methods of [`Driver`] take
//! the context as an argument, so [`Cuda`] makes it current where the function wants it. It remembers, for each thread,
//! which context it made current last, and calls `cuCtxSetCurrent` only when another one is wanted: an operation costs
//! no `cuCtxGetCurrent`. The context stays current afterwards.
//!
//! So other code on the same thread that changes the current context (`cuCtxSetCurrent`, an unbalanced `cuCtxPushCurrent`
//! or `cuCtxPopCurrent`, the runtime API's `cudaSetDevice` to another device) must either put it back before this thread
//! uses Millstream again, or call [`Cuda::forget_current_context`]. Otherwise the next operation may run in the wrong
//! context, and fails or allocates there. Code that stays with the same device's primary context, as the CUDA runtime
//! API does, changes nothing.
//!
//! # Files
//!
//! `api` declares and finds the functions, `library` opens and initialises, `current` remembers contexts, `calls` is the
//! [`Driver`], `numbers` puts the seam's types into CUDA's, `module` compiles PTX, `host_function` carries closures through a C callback.

pub mod api;
mod calls;
mod current;
mod host_function;
mod library;
mod module;
mod numbers;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Instant,
};

pub use calls::ParamLayout;
pub use library::{Attempt, LoadError, OLDEST_DRIVER_VERSION};

#[cfg(doc)]
use crate::Driver;

/// NVIDIA's driver library, loaded and initialised. There is at most one in a process.
///
/// ```
/// use millstream_driver::{Driver, cuda::Cuda};
/// match Cuda::load() {
///     Ok(cuda) => println!("{} with {} devices", cuda.name(), cuda.device_count()?),
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), millstream_driver::DriverError>(())
/// ```
pub struct Cuda {
    api: api::Api,
    version: i32,
    started: Instant,
}

impl Cuda {
    /// The process's libcuda, loaded and initialised by the first call. Every call gives the same answer: a driver that
    /// was not there at first is not looked for again.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if there is no driver library, it is too old, it cannot be initialised, or it has no device.
    pub fn load() -> Result<Arc<Self>, LoadError> {
        static LOADED: OnceLock<Result<Arc<Cuda>, LoadError>> = OnceLock::new();
        LOADED
            .get_or_init(|| {
                let (api, version) = library::open()?;
                Ok(Arc::new(Self {
                    api,
                    version,
                    started: Instant::now(),
                }))
            })
            .clone()
    }

    /// Makes the next operation of the calling thread set the current context again.
    ///
    /// To be called after other code on this thread may have changed it; see the [module's page](self#current-contexts).
    pub fn forget_current_context() {
        current::forget();
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
