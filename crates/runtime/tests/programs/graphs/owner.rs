//! Another library: it owns a stream and an allocation, which are adopted.

#![allow(unsafe_code, reason = "calls the driver as another library")]

use std::sync::Arc;

use millstream::{
    driver::{
        CaptureMode, ContextHandle, DeviceOrdinal, DevicePtr, Driver, DriverError, FillPattern,
        ResultCode, StreamHandle,
    },
    sim::Gpu,
};

use super::step::SLAB_BYTES;

/// A library with a stream and an allocation.
pub(super) struct Owner {
    driver: Arc<dyn Driver>,
    context: ContextHandle,
    pub(super) raw: StreamHandle,
    pub(super) slab: DevicePtr,
}

impl Owner {
    pub(super) fn new(gpu: &Gpu) -> Result<Self, DriverError> {
        let driver: Arc<dyn Driver> = gpu.driver();
        let context = driver.primary_context_retain(DeviceOrdinal::from_raw(0))?;
        // SAFETY: the context is retained.
        let raw = unsafe { driver.stream_create(context, true, 0) }?;
        // SAFETY: as above.
        let slab = unsafe { driver.mem_alloc(context, SLAB_BYTES) }?;
        Ok(Self {
            driver,
            context,
            raw,
            slab,
        })
    }

    /// Enqueues a fill of memory that is the owner's, or lent to it.
    pub(super) fn fill(
        &self,
        target: DevicePtr,
        bytes: usize,
        value: u8,
    ) -> Result<(), DriverError> {
        let (driver, pattern) = (&self.driver, FillPattern::U8(value));
        // SAFETY: the memory has this size.
        unsafe { driver.memset_async(self.context, target, pattern, bytes, self.raw) }
    }

    /// Begins a capture of the stream.
    pub(super) fn begin_capture(&self) -> Result<(), DriverError> {
        let (driver, mode) = (&self.driver, CaptureMode::Relaxed);
        // SAFETY: the stream is alive; what is captured has only memory of this owner.
        unsafe { driver.stream_begin_capture(self.context, self.raw, mode) }
    }

    /// Ends the capture, and launches the graph unless the capture has become invalid.
    pub(super) fn end_capture(&self) -> Result<(), DriverError> {
        let (driver, context) = (&self.driver, self.context);
        // SAFETY: the stream is alive.
        let ended = unsafe { driver.stream_end_capture(context, self.raw) };
        let graph = match ended {
            Err(error) if error.code() == ResultCode::STREAM_CAPTURE_INVALIDATED => return Ok(()),
            graph => graph?,
        };
        // SAFETY: the graph is alive.
        let exec = unsafe { driver.graph_instantiate(context, graph) }?;
        // SAFETY: the executable graph is alive, and so is the memory that it uses.
        unsafe { driver.graph_launch(context, exec, self.raw) }?;
        // SAFETY: it is not used again.
        unsafe { driver.graph_exec_destroy(context, exec) }?;
        // SAFETY: as above.
        unsafe { driver.graph_destroy(context, graph) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let (driver, context) = (&self.driver, self.context);
        // SAFETY: nothing uses the stream and the memory any more.
        let _ = unsafe { driver.stream_synchronize(context, self.raw) };
        // SAFETY: as above.
        let _ = unsafe { driver.mem_free(context, self.slab) };
        // SAFETY: as above.
        let _ = unsafe { driver.stream_destroy(context, self.raw) };
    }
}
