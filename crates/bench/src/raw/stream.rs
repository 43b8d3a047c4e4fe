//! A stream of the driver and its operations.

#![allow(unsafe_code, reason = "enqueues work in its own stream")]

use std::{ffi::c_void, sync::Arc};

use anyhow::{Result, ensure};
use millstream_driver::{Completion, FillPattern, LaunchDims, PeerCopy, StreamHandle};

use super::{BLOCK, Raw, RawEvent, RawHost, RawKernel, RawMemory};

/// The maximum number of a kernel's parameters.
const PARAMS_MAX: usize = 5;

#[derive(Debug)]
pub(crate) struct RawStream {
    raw: Arc<Raw>,
    pub(super) handle: StreamHandle,
}

impl RawStream {
    pub(super) fn new(raw: &Arc<Raw>) -> Result<Self> {
        // SAFETY: the context is retained.
        let handle = unsafe { raw.driver.stream_create(raw.context, true, 0) }?;
        Ok(Self {
            raw: Arc::clone(raw),
            handle,
        })
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        let (driver, context) = self.raw.parts();
        // SAFETY: the stream is alive.
        Ok(unsafe { driver.stream_synchronize(context, self.handle) }?)
    }

    pub(crate) fn is_idle(&self) -> Result<bool> {
        let (driver, context) = self.raw.parts();
        // SAFETY: the stream is alive.
        let found = unsafe { driver.stream_query(context, self.handle) }?;
        Ok(found == Completion::Complete)
    }

    /// Launches the kernel for the first `n` numbers of its operands: `c = a + b` for `vecadd`.
    #[inline]
    pub(crate) fn launch<const N: usize>(
        &self,
        kernel: RawKernel,
        operands: [&RawMemory; N],
        n: u64,
    ) -> Result<()> {
        let room = operands
            .iter()
            .all(|operand| n <= (operand.bytes / size_of::<f32>()) as u64);
        ensure!(room, "an operand is shorter than {n} numbers");
        let addresses = operands.map(|operand| operand.pointer.as_raw());
        let mut params = [std::ptr::from_ref(&n).cast::<c_void>(); PARAMS_MAX];
        for (param, address) in params.iter_mut().zip(&addresses) {
            *param = std::ptr::from_ref(address).cast();
        }
        let dims = LaunchDims {
            grid: [u32::try_from(n.div_ceil(u64::from(BLOCK)))?, 1, 1],
            block: [BLOCK, 1, 1],
            shared_bytes: 0,
        };
        let (driver, context) = self.raw.parts();
        // SAFETY: the parameters are those of the kernel, whose threads touch `n` numbers of each
        // operand, which is long enough.
        let launched = unsafe {
            driver.launch_kernel(context, kernel.function, &dims, self.handle, &params[..=N])
        };
        Ok(launched?)
    }

    #[inline]
    pub(crate) fn record(&self, event: &RawEvent) -> Result<()> {
        let (driver, context) = self.raw.parts();
        // SAFETY: event and stream are alive, and of one context.
        Ok(unsafe { driver.event_record(context, event.handle, self.handle) }?)
    }

    #[inline]
    pub(crate) fn wait_for(&self, event: &RawEvent) -> Result<()> {
        let (driver, context) = self.raw.parts();
        // SAFETY: event and stream are alive.
        Ok(unsafe { driver.stream_wait_event(context, self.handle, event.handle) }?)
    }

    /// Enqueues a copy of the first `bytes` of `source` to the start of `target`.
    #[inline]
    pub(crate) fn upload(&self, target: &RawMemory, source: &RawHost, bytes: usize) -> Result<()> {
        self.upload_at(target, 0, source, bytes)
    }

    /// Enqueues a copy of the first `bytes` of `source` to offset `at` of `target`.
    #[inline]
    pub(crate) fn upload_at(
        &self,
        target: &RawMemory,
        at: usize,
        source: &RawHost,
        bytes: usize,
    ) -> Result<()> {
        let pointer = target.part(at, bytes)?;
        ensure!(
            bytes <= source.bytes,
            "the source has {} bytes, fewer than {bytes}",
            source.bytes
        );
        let (driver, context) = self.raw.parts();
        // SAFETY: both are alive until the context is idle, and long enough.
        let copied = unsafe {
            driver.copy_host_to_device_async(
                context,
                pointer,
                source.start.as_ptr(),
                bytes,
                self.handle,
            )
        };
        Ok(copied?)
    }

    /// Enqueues a copy of the first `bytes` of `source` to the start of `target`.
    #[inline]
    pub(crate) fn download(
        &self,
        target: &RawHost,
        source: &RawMemory,
        bytes: usize,
    ) -> Result<()> {
        self.download_at(target, source, 0, bytes)
    }

    /// Enqueues a copy of the `bytes` at offset `at` of `source` to the start of `target`.
    #[inline]
    pub(crate) fn download_at(
        &self,
        target: &RawHost,
        source: &RawMemory,
        at: usize,
        bytes: usize,
    ) -> Result<()> {
        let pointer = source.part(at, bytes)?;
        ensure!(
            bytes <= target.bytes,
            "the target has {} bytes, fewer than {bytes}",
            target.bytes
        );
        let (driver, context) = self.raw.parts();
        // SAFETY: both are alive until the context is idle, and long enough; the host does not read
        // the target meanwhile.
        let copied = unsafe {
            driver.copy_device_to_host_async(
                context,
                target.start.as_ptr(),
                pointer,
                bytes,
                self.handle,
            )
        };
        Ok(copied?)
    }

    /// Enqueues a copy of the first `bytes` of `source` to `target`, of which one may be on another
    /// device. Both allocations must stay alive until the stream is idle.
    #[inline]
    pub(crate) fn copy_peer(
        &self,
        target: &RawMemory,
        source: &RawMemory,
        bytes: usize,
    ) -> Result<()> {
        let copy = PeerCopy {
            target: target.part(0, bytes)?,
            target_context: target.raw.context,
            source: source.part(0, bytes)?,
            source_context: source.raw.context,
            bytes,
        };
        let (driver, context) = self.raw.parts();
        // SAFETY: both are long enough, two allocations of two devices, and freed when their
        // context is idle.
        let copied = unsafe { driver.copy_peer_async(context, &copy, self.handle) };
        Ok(copied?)
    }

    /// Enqueues a copy of the first `bytes` of `source` to `target`. Both allocations must stay
    /// alive until the stream is idle.
    pub(crate) fn copy(&self, target: &RawMemory, source: &RawMemory, bytes: usize) -> Result<()> {
        let (to, from) = (target.part(0, bytes)?, source.part(0, bytes)?);
        ensure!(
            to != from,
            "the source and the target of a copy are the same"
        );
        let (driver, context) = self.raw.parts();
        // SAFETY: both are long enough, two allocations, and freed when the context is idle.
        let copied = unsafe { driver.copy_unified_async(context, to, from, bytes, self.handle) };
        Ok(copied?)
    }

    /// Allocates from the pool, fills the memory with zeros if `fill` is set, and frees it.
    #[inline]
    pub(crate) fn allocate_and_free(&self, bytes: usize, fill: bool) -> Result<()> {
        let (driver, context) = self.raw.parts();
        // SAFETY: the stream is alive.
        let pointer = unsafe { driver.mem_alloc_async(context, bytes, self.handle) }?;
        if fill {
            let pattern = FillPattern::U8(0);
            // SAFETY: the memory was just allocated in this stream.
            unsafe { driver.memset_async(context, pointer, pattern, bytes, self.handle) }?;
        }
        // SAFETY: as above; its only use precedes this in the same stream.
        Ok(unsafe { driver.mem_free_async(context, pointer, self.handle) }?)
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        let (driver, context) = self.raw.parts();
        // SAFETY: its work completes (rule 21), and it is used nowhere else.
        let _ = unsafe { driver.stream_destroy(context, self.handle) };
    }
}
