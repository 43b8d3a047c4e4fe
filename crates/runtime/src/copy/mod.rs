//! Data transfers: upload, download, copy, fill, zeros.

#![allow(unsafe_code, reason = "submits copies between memory that it holds")]

mod copy_2d;
mod copy_threads;
mod download;
mod fill;
mod host_copy;
mod overlapping;
mod owned_upload;
mod peer;
mod pending_download;
mod prefetch;
mod source_capture;
mod staged_block;
mod staged_peer;
mod texture;
mod upload;

use std::{panic::Location, sync::Arc};

use bytemuck::Pod;

pub use owned_upload::OwnedSource;
pub(crate) use pending_download::PendingDownload;

use crate::{
    Result, Stream, UsageError, UsageErrorKind,
    array::{CopyOperand, Span},
    array::{CopySource, CopyTarget},
    context::{
        AtCaller, Command, CopyOnDevice, CopyToDevice, CopyToHost, HostWaiter, Operation, submit,
    },
    error::OperationKind,
    multi_device::submit_crossing,
    page_locked::PinnedSpan,
    tracker::{AccessKind, Accesses},
};

impl Stream {
    /// Copies an array or a texture to another of the same length: on the device, to or from
    /// [`Pinned`](crate::Pinned) memory, or between this stream's device and another of the same
    /// driver. That of a texture is on the device.
    ///
    /// A copy between devices uses their link, or is staged through page-locked host memory in
    /// chunks. Page-locked memory may belong to any device of the driver. Like every operation of
    /// the stream a copy runs after earlier operations of the stream and before later ones.
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::new().devices(2));
    /// let one = Device::open_simulated(&gpu, 0)?.stream()?;
    /// let other = Device::open_simulated(&gpu, 1)?.stream()?;
    /// let source = one.upload(&[1_u32, 2, 3])?;
    /// let mut target = other.zeros::<u32>(3)?;
    /// other.copy(&source, &mut target)?;
    /// assert_eq!(other.download(&target)?.wait()?, [1, 2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the lengths differ, an operand is on a device that is not the stream's and not of the
    /// same driver, both are on the host, or a device is lost. A copy between page-locked memory
    /// and an array is an error unless the array is on the stream's device.
    #[track_caller]
    #[doc(alias("cuMemcpyAsync", "cudaMemcpyAsync", "memcpy_dtod", "copy_"))]
    pub fn copy<T: Pod>(
        &self,
        source: impl CopySource<T>,
        target: impl CopyTarget<T>,
    ) -> Result<()> {
        let location = Location::caller();
        let (from, to) = (source.source(), target.source());
        self.copy_operands(&from, &to, size_of::<T>(), location)
            .at_caller("copy", location)
    }

    fn copy_operands(
        &self,
        from: &CopyOperand<'_>,
        to: &CopyOperand<'_>,
        element_bytes: usize,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let elements = |operand: &CopyOperand<'_>| {
            let bytes = match operand {
                CopyOperand::Device(span) | CopyOperand::Texture(span) => span.0.bytes.len(),
                CopyOperand::Pinned(operand) => operand.bytes.len(),
            };
            bytes.checked_div(element_bytes).unwrap_or(0)
        };
        same_length("copy", elements(from), elements(to))?;
        match (from, to) {
            (CopyOperand::Texture(_), _) | (_, CopyOperand::Texture(_)) => {
                self.copy_texels(from, to, location)
            }
            (CopyOperand::Device(from), CopyOperand::Device(to)) => {
                self.copy_spans(&from.0, &to.0, location)
            }
            (CopyOperand::Pinned(from), CopyOperand::Device(to)) => {
                let to = &to.0;
                self.reaches_host("copy", 0, from)?;
                self.same_device("copy", 1, &to.allocation.device)?;
                let bytes = from.bytes.len();
                let command = CopyToDevice {
                    target: to.pointer(),
                    source: from.pointer(),
                    bytes,
                };
                let accesses = [from.access(AccessKind::Read), to.access(AccessKind::Write)].into();
                let kind = OperationKind::HostToDevice;
                self.submit_copy(kind, bytes, accesses, Some(from), location, command)
            }
            (CopyOperand::Device(from), CopyOperand::Pinned(to)) => {
                let from = &from.0;
                self.same_device("copy", 0, &from.allocation.device)?;
                self.reaches_host("copy", 1, to)?;
                let bytes = to.bytes.len();
                let command = CopyToHost {
                    target: to.pointer(),
                    source: from.pointer(),
                    bytes,
                };
                let accesses = [from.access(AccessKind::Read), to.access(AccessKind::Write)].into();
                let kind = OperationKind::DeviceToHost;
                self.submit_copy(kind, bytes, accesses, Some(to), location, command)
            }
            (CopyOperand::Pinned(_), CopyOperand::Pinned(_)) => {
                Err(UsageError::new("copy", UsageErrorKind::BothOnHost).into())
            }
        }
    }

    /// Returns an error unless the stream's device can access the page-locked memory, which all
    /// devices of its driver can (unified addressing).
    fn reaches_host(
        &self,
        operation: &'static str,
        operand: usize,
        pinned: &PinnedSpan<'_>,
    ) -> Result<(), UsageError> {
        match pinned.device.shares_driver(self.device_state()) {
            true => Ok(()),
            false => self.same_device(operation, operand, pinned.device),
        }
    }

    /// Copies a span in device memory to another of the same length: on this stream's device, or
    /// between it and another of the same driver.
    pub(crate) fn copy_spans(
        &self,
        from: &Span<'_>,
        to: &Span<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let (source, target) = (&from.allocation.device, &to.allocation.device);
        if self.crosses(source, target) {
            return self.copy_peer(from, to, location);
        }
        self.same_device("copy", 0, source)?;
        self.same_device("copy", 1, target)?;
        if from.overlaps(to) {
            return Err(UsageError::new("copy", UsageErrorKind::SOURCE_AND_TARGET).into());
        }
        let bytes = from.bytes.len();
        let command = CopyOnDevice {
            target: to.pointer(),
            source: from.pointer(),
            bytes,
        };
        let accesses = [from.access(AccessKind::Read), to.access(AccessKind::Write)].into();
        let kind = OperationKind::DeviceToDevice;
        self.submit_copy(kind, bytes, accesses, None, location, command)
    }

    fn submit_copy(
        &self,
        kind: OperationKind,
        bytes: usize,
        accesses: Accesses<'_>,
        pinned: Option<&PinnedSpan<'_>>,
        location: &'static Location<'static>,
        command: impl Command<Output = ()>,
    ) -> Result<()> {
        let device = self.device_state();
        let owner = pinned.map_or(device, |operand| operand.device);
        if bytes == 0 {
            device.check_alive()?;
            return owner.check_alive();
        }
        let host_waiter = pinned.map(|operand| HostWaiter {
            alive: Arc::downgrade(operand.alive),
            chained: true,
        });
        let mut operation = Operation {
            kind,
            label: "copy",
            location,
            bytes: bytes as u64,
            accesses,
            host_waiter,
        };
        if Arc::ptr_eq(owner, device) {
            // SAFETY: the accesses name all memory that the copy accesses: spans within their
            // allocations, and pinned memory that its pool does not reuse before this operation is
            // done.
            return unsafe { submit(device, self.state(), &mut operation, command) }.map(drop);
        }
        // SAFETY: as above. Every device can access page-locked memory.
        unsafe { submit_crossing(self.state(), &mut operation, &[device, owner], command) }
            .map(drop)
    }
}

pub(crate) fn same_length(
    operation: &'static str,
    source_len: usize,
    target_len: usize,
) -> Result<(), UsageError> {
    if source_len == target_len {
        return Ok(());
    }
    Err(UsageError::new(
        operation,
        UsageErrorKind::Length {
            source_len,
            target_len,
        },
    ))
}
