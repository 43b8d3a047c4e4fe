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
        Command, CopyOnDevice, CopyToDevice, CopyToHost, DeviceState, HostWaiter, Operation, submit,
    },
    error::OperationKind,
    page_locked::PinnedSpan,
    tracker::{AccessKind, Accesses},
};

impl Stream {
    /// Copies an array to another of the same length: on the device, to or from
    /// [`Pinned`](crate::Pinned) memory, or between this stream's device and another of the same
    /// driver.
    ///
    /// A copy between devices is staged through page-locked host memory in chunks. Like every
    /// operation of the stream it runs after earlier operations of the stream and before later
    /// ones.
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
    /// same driver, page-locked memory is on another device, both are on the host, or a device is
    /// lost.
    #[track_caller]
    pub fn copy<T: Pod>(
        &self,
        source: impl CopySource<T>,
        target: impl CopyTarget<T>,
    ) -> Result<()> {
        let (from, to) = (source.source(), target.source());
        same_length("copy", elements::<T>(&from), elements::<T>(&to))?;
        let location = Location::caller();
        if let (CopyOperand::Device(from), CopyOperand::Device(to)) = (&from, &to) {
            return self.copy_spans(&from.0, &to.0, location);
        }
        self.same_device("copy", 0, device_of(&from))?;
        self.same_device("copy", 1, device_of(&to))?;
        match (from, to) {
            (CopyOperand::Pinned(from), CopyOperand::Device(to)) => {
                let to = to.0;
                let bytes = from.bytes();
                let command = CopyToDevice {
                    target: to.pointer(),
                    source: from.pointer,
                    bytes,
                };
                let accesses = [from.access(AccessKind::Read), to.access(AccessKind::Write)].into();
                self.submit_copy(
                    OperationKind::HostToDevice,
                    bytes,
                    accesses,
                    Some(&from),
                    location,
                    command,
                )
            }
            (CopyOperand::Device(from), CopyOperand::Pinned(to)) => {
                let from = from.0;
                let bytes = to.bytes();
                let command = CopyToHost {
                    target: to.pointer,
                    source: from.pointer(),
                    bytes,
                };
                let accesses = [from.access(AccessKind::Read), to.access(AccessKind::Write)].into();
                self.submit_copy(
                    OperationKind::DeviceToHost,
                    bytes,
                    accesses,
                    Some(&to),
                    location,
                    command,
                )
            }
            (CopyOperand::Pinned(_), CopyOperand::Pinned(_)) => {
                Err(UsageError::new("copy", UsageErrorKind::BothOnHost).into())
            }
            (CopyOperand::Device(_), CopyOperand::Device(_)) => {
                unreachable!("copies between device arrays are handled above")
            }
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
        if bytes == 0 {
            return self.device_state().check_alive();
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
        // SAFETY: the accesses name all memory that the copy accesses: spans within their
        // allocations, and pinned memory that its pool does not reuse before this operation is
        // done.
        unsafe { submit(self.device_state(), self.state(), &mut operation, command) }.map(drop)
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

fn elements<T>(operand: &CopyOperand<'_>) -> usize {
    let bytes = match operand {
        CopyOperand::Device(operand) => operand.0.bytes.len(),
        CopyOperand::Pinned(operand) => operand.bytes(),
    };
    bytes.checked_div(size_of::<T>()).unwrap_or(0)
}

fn device_of<'a>(operand: &'a CopyOperand<'_>) -> &'a Arc<DeviceState> {
    match operand {
        CopyOperand::Device(operand) => &operand.0.allocation.device,
        CopyOperand::Pinned(operand) => operand.device,
    }
}
