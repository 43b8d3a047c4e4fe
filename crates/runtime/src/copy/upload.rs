//! Uploads: the source is captured in page-locked memory before the call returns.

#![allow(unsafe_code, reason = "submits copies from blocks that it holds")]

use std::panic::Location;

use bytemuck::Pod;
use smallvec::smallvec;

use super::{PIECE_BYTES, same_length, staged::Staged};
use crate::{
    Buffer, Result, Stream, WriteOperand,
    device::Awaited,
    memory::Span,
    submit::{Operation, ToDevice, submit},
    timeline::Kind,
    tracker::AccessKind,
};

impl Stream {
    /// An array on the device with the elements of `source`.
    ///
    /// The source is captured before this returns and may be changed or dropped at once. The copy itself runs when the
    /// stream gets to it.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or the device is lost.
    #[track_caller]
    pub fn upload<T: Pod>(&self, source: &[T]) -> Result<Buffer<T>> {
        let location = Location::caller();
        let mut target = Buffer::new(
            self.device_state(),
            self.state(),
            source.len(),
            "upload",
            location,
        )?;
        self.upload_pieces(
            bytemuck::cast_slice(source),
            &target.view_mut().span,
            None,
            location,
            |_| (),
        )?;
        Ok(target)
    }

    /// Copies the elements of `source` into an array that is there already. The source is captured before this returns.
    ///
    /// # Errors
    ///
    /// If the lengths differ, the target is on another device, page-locked memory cannot be had, or the device is lost.
    #[track_caller]
    pub fn upload_into<T: Pod>(&self, source: &[T], target: impl WriteOperand<T>) -> Result<()> {
        self.upload_watched(source, &target, None, Location::caller(), |_| ())
    }

    /// As [`upload_into`](Self::upload_into), for someone on the host who waits: `submitted` is told the number of each
    /// piece's ticket, those before a failure included.
    pub(crate) fn upload_watched<T: Pod>(
        &self,
        source: &[T],
        target: &impl WriteOperand<T>,
        awaited: Option<&Awaited>,
        location: &'static Location<'static>,
        submitted: impl FnMut(u64),
    ) -> Result<()> {
        let place = target.place();
        same_length("upload_into", source.len(), target.len())?;
        self.same_device("upload_into", 0, &place.0.allocation.device)?;
        self.upload_pieces(
            bytemuck::cast_slice(source),
            &place.0,
            awaited,
            location,
            submitted,
        )
    }

    /// Captures and uploads piece by piece.
    pub(super) fn upload_pieces(
        &self,
        source: &[u8],
        target: &Span<'_>,
        awaited: Option<&Awaited>,
        location: &'static Location<'static>,
        mut submitted: impl FnMut(u64),
    ) -> Result<()> {
        let device = self.device_state();
        for (piece, span) in source.chunks(PIECE_BYTES).zip(target.pieces(PIECE_BYTES)) {
            let mut staged = Staged::of(device, self.state(), piece)?;
            let command = ToDevice {
                target: span.pointer(),
                source: staged.pointer(),
                bytes: piece.len(),
            };
            let operation = Operation {
                kind: Kind::HostToDevice,
                label: "upload",
                location,
                bytes: piece.len() as u64,
                accesses: smallvec![span.access(AccessKind::Write)],
                awaited: awaited.cloned(),
            };
            // SAFETY: the span lies within its allocation, and `staged` gives the block back to the pool with this
            // operation's ticket, so that nobody uses it before the copy is done.
            let (sequence, ()) = unsafe { submit(device, self.state(), operation, command) }?;
            staged.used_by(self.state().ticket(sequence));
            submitted(sequence);
        }
        Ok(())
    }
}
