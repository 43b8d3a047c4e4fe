//! Copies between devices: over the link between them, or staged through the host.

#![allow(unsafe_code, reason = "submits copies between memory that it holds")]

use std::{panic::Location, sync::Arc};

use millstream_driver::PeerCopy2d;

use crate::{
    Result, Stream,
    context::{CopyPeerRows, Crossing, Operation, copies_directly, submit_crossing},
    error::OperationKind,
    memory::Span2d,
    tracker::{AccessKind, Accesses},
};

impl Stream {
    /// Copies rows between two devices of one driver, one of them the stream's device. Both spans
    /// are in device memory and have the same rows and row length.
    pub(super) fn copy_peer(
        &self,
        from: &Span2d<'_>,
        to: &Span2d<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let (Some(source), Some(target)) = (from.pointer(), to.pointer()) else {
            unreachable!("both spans are in device memory");
        };
        if from.is_empty() {
            from.device().check_alive()?;
            return to.device().check_alive();
        }
        if !copies_directly(from.device(), to.device())? {
            let why = "it copies to another device: copy on an ordinary stream, around the replay";
            self.device_state()
                .refuse_recording(self.state(), "copy", why)?;
            return self.copy_peer_staged(from, to, location);
        }
        let command = CopyPeerRows {
            copy: PeerCopy2d {
                target,
                target_pitch_bytes: to.pitch_bytes,
                target_context: to.device().context,
                source,
                source_pitch_bytes: from.pitch_bytes,
                source_context: from.device().context,
                row_bytes: from.row_bytes,
                rows: from.rows,
            },
            pitch_bytes_max: self.device_state().limits.pitch_bytes,
        };
        let operation = Operation {
            kind: OperationKind::DeviceToDevice,
            label: "copy",
            location,
            bytes: from.bytes() as u64,
            accesses: Accesses::default(),
            host_waiter: None,
        };
        let mut crossing = Crossing::new(self.device_state(), operation);
        crossing.push(from.access(AccessKind::Read), from.device());
        crossing.push(to.access(AccessKind::Write), to.device());
        // SAFETY: the rows lie within their allocations, and the devices access each other's
        // memory.
        unsafe { submit_crossing(self.state(), &mut crossing, command) }.map(drop)
    }

    /// Returns whether one of two spans is on the stream's device and the other on another device
    /// of the same driver.
    pub(super) fn crosses(&self, from: &Span2d<'_>, to: &Span2d<'_>) -> bool {
        let (ours, from, to) = (self.device_state(), from.device(), to.device());
        !Arc::ptr_eq(from, to)
            && (Arc::ptr_eq(ours, from) || Arc::ptr_eq(ours, to))
            && from.shares_driver(to)
    }
}
