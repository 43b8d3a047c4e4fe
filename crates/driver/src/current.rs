//! The calling thread's current context: set for a while, and put back if it was another library's.
//!
//! The current context belongs to the thread, not to this library: `cuCtxSetCurrent` of other code,
//! `cudaSetDevice` and a framework's device guard all change it between two of our calls. Nothing
//! about it is therefore cached. Code that needs a current context asks for the present one
//! (`cuCtxGetCurrent`, some 10 ns) and changes it only if it differs.

#![allow(unsafe_code, reason = "makes contexts current")]

use std::fmt;

use crate::{ContextHandle, Driver, DriverError};

/// The absence of a current context, as `cuCtxGetCurrent` answers it.
const NONE: ContextHandle = ContextHandle::from_raw(0);

/// A context that is current on the calling thread until this is dropped.
///
/// Dropping it puts back the context that was current before. Where there was none, the new one
/// stays: other code of the thread expects none, and the next call saves setting it again.
///
/// ```
/// use millstream_driver::{CurrentContext, DeviceOrdinal, Driver, cuda::Cuda};
/// if let Ok(cuda) = Cuda::load() {
///     let context = cuda.primary_context_retain(DeviceOrdinal::from_raw(0))?;
///     // SAFETY: the context was retained just now, and is not released here.
///     let current = unsafe { CurrentContext::enter(&*cuda, context) }?;
///     assert_eq!(cuda.current_context()?, context);
///     drop(current); // a context that other code had made current is current again
/// }
/// # Ok::<(), millstream_driver::DriverError>(())
/// ```
#[must_use = "the context may be put back when this is dropped"]
pub struct CurrentContext<'a, D: Driver + ?Sized> {
    driver: &'a D,
    /// The context to put back.
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
            // A failure means that its owner has destroyed that context meanwhile: there is nothing
            // to put back. SAFETY: the context was current on this thread when this was made; its
            // owner destroys it, if at all, on this thread or after this thread is done with it,
            // and the driver refuses a handle that it does not know.
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
