//! Uploads: the source is captured in page-locked memory before the call returns.

#![allow(unsafe_code, reason = "submits copies from blocks that it holds")]

use std::{collections::VecDeque, panic::Location, ptr::copy_nonoverlapping};

use bytemuck::Pod;

use super::{crew::Transfer, same_length, staged::Staged};
use crate::{
    Buffer, Result, Stream, WriteOperand,
    context::{Awaited, Operation, ToDevice, point_behind, submit},
    error::OperationKind,
    memory::{Carved, Span, Touch},
    tracker::{AccessKind, Sequence},
};

impl Stream {
    /// An array on the device with the elements of `source`.
    ///
    /// The source is captured before this returns and may be changed or dropped at once. The copy
    /// itself runs when the stream gets to it.
    ///
    /// A large source is captured in pieces, with the help of other threads, each piece on its way
    /// to the device as soon as it is captured. The call blocks only where as much has been
    /// captured as the [staging limit](crate::Device::set_staging_limit) allows: until the device
    /// has got to some of that. [`upload_owned`](Self::upload_owned) returns at once however large
    /// the source is.
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

    /// Copies the elements of `source` into an array that is there already. The source is captured
    /// before this returns.
    ///
    /// # Errors
    ///
    /// If the lengths differ, the target is on another device, page-locked memory cannot be had, or
    /// the device is lost.
    #[track_caller]
    pub fn upload_into<T: Pod>(&self, source: &[T], target: impl WriteOperand<T>) -> Result<()> {
        self.upload_watched(source, &target, None, Location::caller(), |_| ())
    }

    /// As [`upload_into`](Self::upload_into), for someone on the host who waits: `submitted` is
    /// told the number of each piece's ticket, those before a failure included.
    pub(crate) fn upload_watched<T: Pod>(
        &self,
        source: &[T],
        target: &impl WriteOperand<T>,
        awaited: Option<&Awaited>,
        location: &'static Location<'static>,
        submitted: impl FnMut(Sequence),
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

    /// Captures and uploads piece by piece. The pieces are captured by several threads, and
    /// submitted by this one in their order.
    pub(super) fn upload_pieces(
        &self,
        source: &[u8],
        target: &Span<'_>,
        awaited: Option<&Awaited>,
        location: &'static Location<'static>,
        mut submitted: impl FnMut(Sequence),
    ) -> Result<()> {
        let (device, stream) = (self.device_state(), self.state());
        let tuning = device.tuning();
        if source.is_empty() {
            return Ok(());
        }
        if source.len() <= tuning.small_bytes {
            return self
                .upload_small(source, target, awaited, location)
                .map(submitted);
        }
        // Dropped in reverse order, also by an error or a panic: all is captured before the blocks
        // are given back.
        let mut capturing: VecDeque<(Option<u64>, Touch<'_>, Staged, Span<'_>)> = VecDeque::new();
        let transfer = Transfer::new(tuning, tuning.upload_past_caches);
        let pieces = source.chunks(tuning.piece_bytes);
        let mut pieces = pieces.zip(target.pieces(tuning.piece_bytes)).peekable();
        loop {
            while capturing.len() < tuning.capturing_max
                && let Some((piece, _)) = pieces.peek()
            {
                let staged = match Staged::try_new(device, stream, piece.len())? {
                    Some(staged) => staged,
                    // Those that are captured go first: their blocks may be all that there is to
                    // wait for.
                    None if !capturing.is_empty() => break,
                    None => Staged::new(device, stream, piece.len())?,
                };
                let Some((piece, span)) = pieces.next() else {
                    break;
                };
                let driver = &device.driver;
                let touch =
                    Touch::writes(driver, staged.pointer(), piece.len(), "upload", location);
                // SAFETY: the source is borrowed until this returns, and the block, which is as
                // large as the piece, is not given back before the transfer is over.
                let number =
                    unsafe { transfer.copy(piece.as_ptr(), staged.pointer(), piece.len()) };
                capturing.push_back((number, touch, staged, span));
            }
            let Some((number, touch, mut staged, span)) = capturing.pop_front() else {
                return Ok(());
            };
            if let Some(number) = number {
                transfer.finish(number);
            }
            drop(touch);
            let command = ToDevice {
                target: span.pointer(),
                source: staged.pointer(),
                bytes: span.bytes.len(),
            };
            let operation = upload_operation(&span, awaited, location);
            // SAFETY: the span lies within its allocation, and `staged` gives the block back to the
            // pool with this operation's ticket, so that nobody uses it before the copy is done.
            let (sequence, ()) = unsafe { submit(device, stream, operation, command) }?;
            staged.used_by(stream.ticket(sequence));
            // So that the block can be used again while the stream is busy. Without a point that is
            // found out later.
            point_behind(device, stream, sequence).ok();
            submitted(sequence);
        }
    }

    /// Uploads from a part of a block that small uploads of the stream share; gives the ticket's
    /// number.
    fn upload_small(
        &self,
        source: &[u8],
        target: &Span<'_>,
        awaited: Option<&Awaited>,
        location: &'static Location<'static>,
    ) -> Result<Sequence> {
        let (device, stream) = (self.device_state(), self.state());
        let mut carved = Carved::new(device, stream, source.len())?;
        let touch = Touch::writes(
            &device.driver,
            carved.pointer(),
            source.len(),
            "upload",
            location,
        );
        // SAFETY: the part is ours alone, at least as large as the source, and not part of it.
        unsafe { copy_nonoverlapping(source.as_ptr(), carved.pointer(), source.len()) };
        drop(touch);
        let command = ToDevice {
            target: target.pointer(),
            source: carved.pointer(),
            bytes: source.len(),
        };
        let operation = upload_operation(target, awaited, location);
        // SAFETY: the span lies within its allocation, and its section is not given back before
        // this operation is done.
        let (sequence, ()) = unsafe { submit(device, stream, operation, command) }?;
        carved.used_by(sequence);
        Ok(sequence)
    }
}

fn upload_operation<'a>(
    target: &Span<'a>,
    awaited: Option<&Awaited>,
    location: &'static Location<'static>,
) -> Operation<'a> {
    Operation {
        kind: OperationKind::HostToDevice,
        label: "upload",
        location,
        bytes: target.bytes.len() as u64,
        accesses: [target.access(AccessKind::Write)].into(),
        awaited: awaited.cloned(),
    }
}
