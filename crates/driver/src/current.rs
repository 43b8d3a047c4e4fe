//! A guard for the calling thread's current context.
//!
//! The current context belongs to the thread, and other code changes it between two of our calls:
//! `cuCtxSetCurrent`, `cudaSetDevice` and a framework's device guard all do. Nothing about it is
//! therefore cached. Code that needs a current context reads the present one (`cuCtxGetCurrent`,
//! about 10 ns) and changes it only if it differs.

#![allow(unsafe_code, reason = "makes contexts current")]

use std::fmt;

use crate::{ContextHandle, Driver, DriverError};

/// The null handle, which `cuCtxGetCurrent` returns when there is no current context.
const NONE: ContextHandle = ContextHandle::from_raw(0);

/// A guard that keeps a context current on the calling thread and restores the previous one on
/// drop.
///
/// If there was no current context before, the new one stays current: other code of the thread
/// expects none, and the next call need not set it again.
///
/// ```
/// use millstream_driver::{CurrentContext, DeviceOrdinal, Driver, cuda::Cuda};
/// if let Ok(cuda) = Cuda::load() {
///     let context = cuda.primary_context_retain(DeviceOrdinal::from_raw(0))?;
///     // SAFETY: the context was retained just now, and is not released here.
///     let current = unsafe { CurrentContext::enter(&*cuda, context) }?;
///     assert_eq!(cuda.current_context()?, context);
///     drop(current); // restores the context that other code had made current
/// }
/// # Ok::<(), millstream_driver::DriverError>(())
/// ```
#[must_use = "dropping the guard restores the previous context"]
pub struct CurrentContext<'a, D: Driver + ?Sized> {
    driver: &'a D,
    /// The context to restore.
    before: Option<ContextHandle>,
}

impl<'a, D: Driver + ?Sized> CurrentContext<'a, D> {
    /// Makes `context` current on the calling thread.
    ///
    /// # Errors
    ///
    /// [`DriverError`] with the driver's result; `NOT_SUPPORTED` unless the driver is libcuda.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    #[inline]
    pub unsafe fn enter(driver: &'a D, context: ContextHandle) -> Result<Self, DriverError> {
        let before = driver.current_context()?;
        if before == context {
            return Ok(Self {
                driver,
                before: None,
            });
        }
        // SAFETY: the caller vouches for the context.
        unsafe { driver.make_current(context) }?;
        Ok(Self {
            driver,
            before: (before != NONE).then_some(before),
        })
    }
}

impl<D: Driver + ?Sized> Drop for CurrentContext<'_, D> {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // An error means that the owner of that context has destroyed it meanwhile, so there is
            // nothing to restore.
            // SAFETY: the context was current on this thread when the guard was created. Its owner
            // destroys it, if at all, on this thread or after this thread has stopped using it, and
            // the driver returns an error for a handle that it does not know.
            let _ = unsafe { self.driver.make_current(before) };
        }
    }
}

impl<D: Driver + ?Sized> fmt::Debug for CurrentContext<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentContext")
            .field("before", &self.before)
            .finish_non_exhaustive()
    }
}
