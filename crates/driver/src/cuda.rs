//! libcuda behind the seam: found and loaded at run time, once for the process, never unloaded.
//!
//! [`Cuda::load`] opens NVIDIA's driver library through the system's loader, finds every function
//! that the seam needs, initialises the driver and answers the one [`Cuda`] of this process, which
//! is a [`Driver`]. Nothing of CUDA is needed to build, and a machine without a driver gets a
//! [`LoadError`] that says what was tried.
//!
//! # Current contexts
//!
//! CUDA keeps one *current context* for each host thread, and many functions work in it. The
//! methods of [`Driver`] take the context as an argument. Those that name a stream or an event
//! besides (launches, records, waits, queries, allocations in stream order) take the context from
//! that handle and leave the thread's alone. For all others [`Cuda`] asks for the current context,
//! makes its own current if it is another, and puts the other back when the call is over
//! ([`CurrentContext`]); a thread without a current context keeps ours. So other code of the thread
//! may change the current context between any two calls (`cuCtxSetCurrent`, the runtime API's
//! `cudaSetDevice`), and finds its own unchanged.
//!
//! # Files
//!
//! `api` declares and finds the functions, `library` opens and initialises, `calls` is the
//! [`Driver`], `numbers` puts the seam's types into CUDA's, `module` compiles PTX, `host_function`
//! carries closures through a C callback, and `fork` notes forked children, in which every call is
//! refused.

pub mod api;
mod calls;
#[cfg(test)]
mod current_tests;
mod fork;
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
use crate::{CurrentContext, Driver};

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
    /// The process's libcuda, loaded and initialised by the first call. Every call gives the same
    /// answer: a driver that was not there at first is not looked for again.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if there is no driver library, it is too old, it cannot be initialised, or it
    /// has no device.
    pub fn load() -> Result<Arc<Self>, LoadError> {
        static LOADED: OnceLock<Result<Arc<Cuda>, LoadError>> = OnceLock::new();
        LOADED
            .get_or_init(|| {
                let (api, version) = library::open()?;
                fork::watch();
                Ok(Arc::new(Self {
                    api,
                    version,
                    started: Instant::now(),
                }))
            })
            .clone()
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
