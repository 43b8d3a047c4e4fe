//! libcuda as a [`Driver`], loaded at run time, once per process, and never unloaded.
//!
//! A program that links to libcuda does not start on a machine without it. Millstream therefore
//! needs no CUDA to build: [`Cuda::load`] opens NVIDIA's driver library through the system's
//! loader, looks up every function that [`Driver`] needs, initialises the driver and returns the
//! [`Cuda`] of this process. On a machine without a driver it returns a [`LoadError`] that lists
//! every attempt.
//!
//! # Current contexts
//!
//! CUDA keeps one *current context* for each host thread, and many functions work in it. The
//! methods of [`Driver`] take the context as an argument. A function that takes a stream or an
//! event (launches, records, waits, queries, allocations in stream order) finds the context in that
//! handle, so the thread's current context does not change. For all other functions [`Cuda`] reads
//! the current context, replaces it if it differs, and restores it after the call
//! ([`CurrentContext`]); a thread without a current context keeps the new one. Other code of the
//! thread may therefore change the current context between any two calls (`cuCtxSetCurrent`, the
//! runtime API's `cudaSetDevice`), and its own context stays current after each call.
//!
//! # Files
//!
//! `functions` lists the functions, `api` declares and looks them up, `library` opens and
//! initialises the library, `calls` implements [`Driver`], `convert` translates argument types,
//! `module` validates PTX, `host_function` passes closures through a C callback, and `fork` detects
//! forked children, in which every call returns an error.

pub mod api;
mod array;
mod calls;
mod convert;
#[cfg(test)]
mod current_tests;
mod fork;
mod functions;
mod host_function;
mod library;
mod module;
mod structures;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Instant,
};

pub use calls::ParamLayout;
pub use library::{Attempt, LoadError, OLDEST_DRIVER_VERSION};

#[cfg(doc)]
use crate::{CurrentContext, Driver};

/// NVIDIA's driver library, loaded and initialised. A process has at most one.
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
    /// Returns the process's libcuda. The first call loads and initialises it, and every later call
    /// returns the same result: a driver that was missing at first is not searched for again.
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
