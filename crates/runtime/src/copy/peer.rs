//! Copies between devices: over the link between them, or staged through the host.

#![allow(unsafe_code, reason = "submits copies between memory that it holds")]

use std::{panic::Location, sync::Arc};

use millstream_driver::{PeerCopy, PeerCopy2d};

use crate::{
    Result, Stream,
    array::{Span, Span2d},
    context::{Command, CopyPeer, CopyPeerRows, DeviceState, Operation},
    error::OperationKind,
    multi_device::{copies_directly, submit_crossing},
    tracker::{Access, AccessKind},
};

impl Stream {
    /// Copies a span to another of the same length, between two devices of one driver, one of them
    /// the stream's device.
    pub(super) fn copy_peer(
        &self,
        from: &Span<'_>,
        to: &Span<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let (source, target) = (&from.allocation.device, &to.allocation.device);
        let bytes = from.bytes.len();
        if bytes == 0 {
            source.check_alive()?;
            return target.check_alive();
        }
        if !copies_directly(source, target)? {
            return self.copy_peer_staged(&from.clone().into(), &to.clone().into(), location);
        }
        let command = CopyPeer(PeerCopy {
            target: to.pointer(),
            target_context: target.context,
            source: from.pointer(),
            source_context: source.context,
            bytes,
        });
        let (read, written) = (from.access(AccessKind::Read), to.access(AccessKind::Write));
        // SAFETY: the command copies these bytes, which lie within their allocations, and the
        // devices access each other's memory.
        unsafe { self.submit_peer((read, source), (written, target), bytes, command, location) }
    }

    /// Copies rows like [`copy_peer`](Self::copy_peer). Both spans are in device memory and have
    /// the same rows and row length.
    pub(super) fn copy_peer_rows(
        &self,
        from: &Span2d<'_>,
        to: &Span2d<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let (Some(first), Some(target_first)) = (from.pointer(), to.pointer()) else {
            unreachable!("both spans are in device memory");
        };
        let (source, target) = (from.device(), to.device());
        if from.is_empty() {
            source.check_alive()?;
            return target.check_alive();
        }
        if !copies_directly(source, target)? {
            return self.copy_peer_staged(from, to, location);
        }
        let command = CopyPeerRows {
            copy: PeerCopy2d {
                target: target_first,
                target_pitch_bytes: to.pitch_bytes,
                target_context: target.context,
                source: first,
                source_pitch_bytes: from.pitch_bytes,
                source_context: source.context,
                row_bytes: from.row_bytes,
                rows: from.rows,
            },
            pitch_bytes_max: self.device_state().limits.pitch_bytes,
        };
        let (read, written) = (from.access(AccessKind::Read), to.access(AccessKind::Write));
        let bytes = from.bytes();
        // SAFETY: the command copies these rows, which lie within their allocations, and the
        // devices access each other's memory.
        unsafe { self.submit_peer((read, source), (written, target), bytes, command, location) }
    }

    /// Submits a copy of `bytes` bytes over the link between two devices, one of them the stream's.
    /// Each access is to memory of the device beside it.
    ///
    /// # Safety
    ///
    /// As for [`submit_crossing`].
    #[inline]
    unsafe fn submit_peer(
        &self,
        (read, source): (Access<'_>, &Arc<DeviceState>),
        (written, target): (Access<'_>, &Arc<DeviceState>),
        bytes: usize,
        command: impl Command,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let mut operation = Operation::new(OperationKind::DeviceToDevice, "copy", location);
        operation.bytes = bytes as u64;
        operation.accesses.push(read);
        operation.accesses.push(written);
        let ours = self.device_state();
        let other = if Arc::ptr_eq(ours, source) {
            target
        } else {
            source
        };
        // SAFETY: by this function's contract.
        unsafe { submit_crossing(self.state(), &mut operation, &[ours, other], command) }.map(drop)
    }

    /// Returns whether one of two arrays is on the stream's device and the other on another device
    /// of the same driver.
    #[inline]
    pub(super) fn crosses(&self, from: &Arc<DeviceState>, to: &Arc<DeviceState>) -> bool {
        let ours = self.device_state();
        !Arc::ptr_eq(from, to)
            && (Arc::ptr_eq(ours, from) || Arc::ptr_eq(ours, to))
            && from.shares_driver(to)
    }
}
