//! Uploads: the source is captured in page-locked memory before the call returns.

#![allow(unsafe_code, reason = "submits copies from blocks that it holds")]

use std::{collections::VecDeque, panic::Location, ptr::copy_nonoverlapping};

use bytemuck::Pod;

use super::{copy_threads::Transfer, same_length, staged_block::StagedBlock};
use crate::{
    Buffer, Error, Result, Stream, WriteOperand,
    array::Span,
    context::{
        AtCaller, CopyToDevice, HostWaiter, Operation, imports::note_overwritten, submit,
        sync_point_after,
    },
    error::OperationKind,
    page_locked::{HostAccessGuard, Suballocation},
    tracker::{AccessKind, Sequence},
};

impl Stream {
    /// Creates an array on the device with the elements of `source`.
    ///
    /// The source is captured before the call returns and may be changed or dropped at once. The
    /// copy itself runs in stream order.
    ///
    /// A large source is captured in chunks, with the help of other threads, and each chunk is
    /// enqueued as soon as it is captured. At the [staging
    /// limit](crate::Device::set_staging_limit) the call blocks until the device has copied some of
    /// the captured chunks. [`upload_owned`](Self::upload_owned) returns at once however large the
    /// source is.
    ///
    /// ```
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let mut numbers = vec![1.0_f32, 2.0, 3.0];
    /// let buffer = stream.upload(&numbers)?;
    /// numbers.fill(0.0); // the upload has them already
    /// assert_eq!(stream.download(&buffer)?.wait()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If memory is exhausted, or the device is lost.
    #[track_caller]
    #[doc(alias(
        "cuMemcpyHtoDAsync",
        "memcpy_stod",
        "htod_copy",
        "clone_htod",
        "from_numpy"
    ))]
    pub fn upload<T: Pod>(&self, source: &[T]) -> Result<Buffer<T>> {
        self.upload_at(source, Location::caller())
    }

    /// Uploads like [`upload`](Self::upload), with an explicit source line.
    fn upload_at<T: Pod>(
        &self,
        source: &[T],
        location: &'static Location<'static>,
    ) -> Result<Buffer<T>> {
        let mut target = Buffer::new(
            self.device_state(),
            self.state(),
            source.len(),
            "upload",
            location,
        )?;
        self.upload_chunks(
            bytemuck::cast_slice(source),
            &target.view_mut().span,
            None,
            location,
            |_| (),
        )?;
        Ok(target)
    }

    /// Uploads the elements of `source` into an existing array. The source is captured before the
    /// call returns.
    ///
    /// ```
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let mut buffer = stream.zeros::<u8>(4)?;
    /// stream.upload_into(&[7, 8], buffer.slice_mut(2..))?;
    /// assert_eq!(stream.download(&buffer)?.wait()?, [0, 0, 7, 8]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the lengths differ, the target is on another device, page-locked memory cannot be
    /// allocated, or the device is lost.
    #[track_caller]
    #[doc(alias("memcpy_htod", "htod_sync_copy_into"))]
    pub fn upload_into<T: Pod>(&self, source: &[T], target: impl WriteOperand<T>) -> Result<()> {
        self.upload_watched(source, &target, None, Location::caller(), |_| ())
    }

    /// Like [`upload_into`](Self::upload_into), for a host waiter: calls `submitted` with the
    /// sequence number of each submitted chunk, also if a later one fails.
    pub(crate) fn upload_watched<T: Pod>(
        &self,
        source: &[T],
        target: &impl WriteOperand<T>,
        host_waiter: Option<&HostWaiter>,
        location: &'static Location<'static>,
        submitted: impl FnMut(Sequence),
    ) -> Result<()> {
        let operand = target.operand();
        let source_bytes = bytemuck::cast_slice(source);
        let fits = same_length("upload_into", source.len(), target.len());
        fits.and_then(|()| self.same_device("upload_into", 0, &operand.0.allocation.device))
            .map_err(Error::from)
            .and_then(|()| {
                self.upload_chunks(source_bytes, &operand.0, host_waiter, location, submitted)
            })
            .at_caller("upload_into", location)
    }

    /// Uploads bytes once, now, if the stream is recording: its graph copies them from this array
    /// at each replay.
    pub(super) fn recorded_snapshot(
        &self,
        source: &[u8],
        location: &'static Location<'static>,
    ) -> Result<Option<Buffer<u8>>> {
        let Some(recorder) = self.device_state().recorder_of(self.state()) else {
            return Ok(None);
        };
        let snapshot = recorder.eager().upload_at(source, location)?;
        recorder.keep_constant(snapshot.shared_memory());
        Ok(Some(snapshot))
    }

    /// Captures and uploads chunk by chunk. Several threads capture the chunks; this one submits
    /// them in order.
    pub(super) fn upload_chunks(
        &self,
        source: &[u8],
        target: &Span<'_>,
        host_waiter: Option<&HostWaiter>,
        location: &'static Location<'static>,
        mut submitted: impl FnMut(Sequence),
    ) -> Result<()> {
        let (device, stream) = (self.device_state(), self.state());
        let staging_options = device.staging_options();
        if source.is_empty() {
            return Ok(());
        }
        if let Some(snapshot) = self.recorded_snapshot(source, location)? {
            return self.copy_spans(&snapshot.view().span, target, location);
        }
        if source.len() <= staging_options.small_bytes {
            return self
                .upload_small(source, target, host_waiter, location)
                .map(submitted);
        }
        // Dropped in reverse order, also after an error or a panic: the captures finish before the
        // blocks are returned.
        let mut capturing: VecDeque<(Option<u64>, HostAccessGuard<'_>, StagedBlock, Span<'_>)> =
            VecDeque::new();
        let transfer = Transfer::new(staging_options, staging_options.upload_non_temporal);
        let chunks = source.chunks(staging_options.chunk_bytes);
        let mut chunks = chunks
            .zip(target.chunks(staging_options.chunk_bytes))
            .peekable();
        loop {
            while capturing.len() < staging_options.capturing_max
                && let Some((chunk, _)) = chunks.peek()
            {
                let staged = match StagedBlock::try_new(device, stream, chunk.len())? {
                    Some(staged) => staged,
                    // Captured chunks are submitted first: their blocks may be the only ones to
                    // wait for.
                    None if !capturing.is_empty() => break,
                    None => StagedBlock::new(device, stream, chunk.len())?,
                };
                let Some((chunk, span)) = chunks.next() else {
                    break;
                };
                let driver = &device.driver;
                let host_access = HostAccessGuard::writes(
                    driver,
                    staged.pointer(),
                    chunk.len(),
                    "upload",
                    location,
                );
                // SAFETY: the source is borrowed until this returns, and the block, which is as
                // large as the chunk, is not returned before the transfer is finished.
                let number =
                    unsafe { transfer.copy(chunk.as_ptr(), staged.pointer(), chunk.len()) };
                capturing.push_back((number, host_access, staged, span));
            }
            let Some((number, host_access, mut staged, span)) = capturing.pop_front() else {
                note_overwritten(device, &target.access(AccessKind::Write));
                return Ok(());
            };
            if let Some(number) = number {
                transfer.finish(number);
            }
            drop(host_access);
            let command = CopyToDevice {
                target: span.pointer(),
                source: staged.pointer(),
                bytes: span.bytes.len(),
            };
            let mut operation = upload_operation(&span, host_waiter, location);
            // SAFETY: the span lies within its allocation, and `staged` returns the block to the
            // pool with this operation's ticket, so that it is not reused before the copy is
            // complete.
            let (sequence, ()) = unsafe { submit(device, stream, &mut operation, command) }?;
            staged.used_by(stream.ticket(sequence));
            // Allows reusing the block while the stream is busy. If recording fails, it is reused
            // later.
            sync_point_after(device, stream, sequence).ok();
            submitted(sequence);
        }
    }

    /// Uploads through the stream's staging arena. Returns the sequence number.
    fn upload_small(
        &self,
        source: &[u8],
        target: &Span<'_>,
        host_waiter: Option<&HostWaiter>,
        location: &'static Location<'static>,
    ) -> Result<Sequence> {
        let (device, stream) = (self.device_state(), self.state());
        let mut suballocation = Suballocation::new(device, stream, source.len())?;
        let host_access = HostAccessGuard::writes(
            &device.driver,
            suballocation.pointer(),
            source.len(),
            "upload",
            location,
        );
        // SAFETY: this call owns the part, which is at least as large as the source and does not
        // overlap it.
        unsafe { copy_nonoverlapping(source.as_ptr(), suballocation.pointer(), source.len()) };
        drop(host_access);
        let command = CopyToDevice {
            target: target.pointer(),
            source: suballocation.pointer(),
            bytes: source.len(),
        };
        let mut operation = upload_operation(target, host_waiter, location);
        // SAFETY: the span lies within its allocation, and its arena is not returned to the pool
        // before this operation is done.
        let (sequence, ()) = unsafe { submit(device, stream, &mut operation, command) }?;
        suballocation.used_by(sequence);
        Ok(sequence)
    }
}

fn upload_operation<'a>(
    target: &Span<'a>,
    host_waiter: Option<&HostWaiter>,
    location: &'static Location<'static>,
) -> Operation<'a> {
    Operation {
        kind: OperationKind::HostToDevice,
        label: "upload",
        location,
        bytes: target.bytes.len() as u64,
        accesses: [target.access(AccessKind::Write)].into(),
        host_waiter: host_waiter.cloned(),
    }
}
