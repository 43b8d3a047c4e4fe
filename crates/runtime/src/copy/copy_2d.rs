//! Copies and fills of rectangles.

#![allow(unsafe_code, reason = "submits copies of rectangles that it holds")]

use std::{panic::Location, sync::Arc};

use bytemuck::Pod;
use millstream_driver::{Copy2d, Side2d};

use super::{PendingDownload, staged_block::StagedBlock};
use crate::{
    Error, Pending, Result, Stream, UsageError, UsageErrorKind,
    array::{CopySource2d, CopyTarget2d},
    array::{Span2d, check_rows},
    context::{
        AtCaller, CopyRows, DeviceState, HostWaiter, Operation, RepeatedRows,
        imports::note_overwritten, submit,
    },
    error::OperationKind,
    tracker::AccessKind,
};

impl Stream {
    /// Copies a rectangle to another of the same rows and columns: on the device, to or from
    /// [`Pinned`](crate::Pinned) memory, or between this stream's device and another of the same
    /// driver. The copy neither accesses the bytes between the rows nor
    /// waits for their uses.
    ///
    /// ```
    /// # let stream = millstream::Device::simulated()?.stream()?;
    /// let small = stream.upload(&[1, 2, 3, 4])?;
    /// let mut large = stream.zeros::<i32>(3 * 4)?;
    /// stream.copy_2d(small.view_2d(2, 2)?, large.view_2d_mut(3, 4)?.rect_mut(1.., 1..3)?)?;
    /// assert_eq!(stream.download(&large)?.wait()?, [0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If rows or columns differ, the two share bytes, one is on a device that is not the stream's
    /// and not of the same driver, both are on the host, or a device is lost. Page-locked memory
    /// may belong to any device of the driver, if the other rectangle is on the stream's.
    #[track_caller]
    #[doc(alias("cuMemcpy2DAsync", "cudaMemcpy2DAsync"))]
    pub fn copy_2d<T: Pod>(
        &self,
        source: impl CopySource2d<T>,
        target: impl CopyTarget2d<T>,
    ) -> Result<()> {
        let location = Location::caller();
        let (from, to) = (source.operand_2d().0, target.operand_2d().0);
        same_shape::<T>(&from, &to)
            .map_err(Error::from)
            .and_then(|()| self.copy_rows(&from, &to, location))
            .at_caller("copy_2d", location)
    }

    fn copy_rows(
        &self,
        from: &Span2d<'_>,
        to: &Span2d<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let on_host = from.pinned().is_some() || to.pinned().is_some();
        if !on_host && self.crosses(from.device(), to.device()) {
            return self.copy_peer_rows(from, to, location);
        }
        for (operand, span_2d) in [from, to].into_iter().enumerate() {
            match span_2d.pinned() {
                Some(pinned) => self.reaches_host("copy_2d", operand, pinned)?,
                None => self.same_device("copy_2d", operand, span_2d.device())?,
            }
        }
        let kind = match (from.pinned(), to.pinned()) {
            (None, None) => OperationKind::DeviceToDevice,
            (Some(_), None) => OperationKind::HostToDevice,
            (None, Some(_)) => OperationKind::DeviceToHost,
            (Some(_), Some(_)) => {
                return Err(UsageError::new("copy_2d", UsageErrorKind::BothOnHost).into());
            }
        };
        if from.overlaps(to) {
            return Err(UsageError::new("copy_2d", UsageErrorKind::SOURCE_AND_TARGET).into());
        }
        let command = copy_of_rows(self.device_state(), from, from.side(), to.side());
        let accesses = [from.access(AccessKind::Read), to.access(AccessKind::Write)].into();
        let pinned = from.pinned().or(to.pinned());
        self.submit_copy(kind, from.bytes(), accesses, pinned, location, command)
    }

    /// Uploads rows of `source`, which begin `pitch` elements apart, into a rectangle on the
    /// device, whose shape is the number and the length of the rows. The source is captured before
    /// the call returns.
    ///
    /// ```
    /// # let stream = millstream::Device::simulated()?.stream()?;
    /// let mut image = stream.zeros::<u8>(2 * 4)?;
    /// stream.upload_2d(&[1, 2, 0, 3, 4], 3, image.view_2d_mut(2, 4)?.rect_mut(.., 2..)?)?;
    /// assert_eq!(stream.download(&image)?.wait()?, [0, 0, 1, 2, 0, 0, 3, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the source has too few elements, its rows would overlap, the target is on the host or on
    /// another device, page-locked memory cannot be allocated, or the device is lost.
    #[track_caller]
    pub fn upload_2d<T: Pod>(
        &self,
        source: &[T],
        pitch: usize,
        target: impl CopyTarget2d<T>,
    ) -> Result<()> {
        let location = Location::caller();
        let to = target.operand_2d().0;
        check_rows(
            "upload_2d",
            target.rows(),
            target.cols(),
            pitch,
            source.len(),
        )?;
        self.on_this_device("upload_2d", &to, location)?;
        if to.is_empty() {
            return self.device_state().check_alive();
        }
        let row_of = |row: usize| {
            let start = row * pitch;
            bytemuck::cast_slice::<T, u8>(&source[start..start + target.cols()])
        };
        let rows_per_piece =
            (self.device_state().staging_options().chunk_bytes / to.row_bytes).max(1);
        for start in (0..to.rows).step_by(rows_per_piece) {
            let rows = start..start.saturating_add(rows_per_piece).min(to.rows);
            let chunk = to.part(rows.clone(), 0..to.row_bytes);
            // A single row may exceed the chunk size.
            if let (1, Some(span)) = (rows.len(), chunk.as_span()) {
                self.upload_chunks(row_of(start), &span, None, location, |_| ())?;
            } else {
                self.upload_rows(rows.map(row_of), &chunk, location)?;
            }
        }
        note_overwritten(self.device_state(), &to.access(AccessKind::Write));
        Ok(())
    }

    /// Captures rows and enqueues their upload as one chunk.
    fn upload_rows<'s>(
        &self,
        rows: impl Iterator<Item = &'s [u8]>,
        target: &Span2d<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let device = self.device_state();
        if device.recorder_of(self.state()).is_some() {
            let bytes: Vec<u8> = rows.flatten().copied().collect();
            return self.record_rows(&bytes, target, location);
        }
        let mut staged =
            StagedBlock::of_rows(device, self.state(), target.bytes(), rows, location)?;
        let source = Side2d::host(staged.pointer(), target.row_bytes);
        let command = copy_of_rows(device, target, source, target.side());
        let mut operation = Operation {
            kind: OperationKind::HostToDevice,
            label: "upload",
            location,
            bytes: target.bytes() as u64,
            accesses: [target.access(AccessKind::Write)].into(),
            host_waiter: None,
        };
        // SAFETY: the rows lie within their allocation, and `staged` returns the block to the pool
        // with this operation's ticket, so that it is not reused before the copy is complete.
        let (sequence, ()) = unsafe { submit(device, self.state(), &mut operation, command) }?;
        staged.used_by(self.state().ticket(sequence));
        Ok(())
    }

    /// Records the upload of rows, which follow each other in `bytes`.
    fn record_rows(
        &self,
        bytes: &[u8],
        target: &Span2d<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let Some(snapshot) = self.recorded_snapshot(bytes, location)? else {
            return self.device_state().check_alive();
        };
        let from = snapshot.view().span;
        let source = Side2d::device(from.pointer(), target.row_bytes);
        let command = copy_of_rows(self.device_state(), target, source, target.side());
        let accesses = [
            from.access(AccessKind::Read),
            target.access(AccessKind::Write),
        ];
        let kind = OperationKind::DeviceToDevice;
        self.submit_copy(kind, bytes.len(), accesses.into(), None, location, command)
    }

    /// Downloads the elements of a rectangle on the device, row after row without gaps. The future
    /// does not wait for later work of the stream.
    ///
    /// # Errors
    ///
    /// If the source is on the host or on another device, page-locked memory cannot be allocated,
    /// or the device is lost.
    #[track_caller]
    pub fn download_2d<T: Pod>(&self, source: impl CopySource2d<T>) -> Result<Pending<Vec<T>>> {
        let location = Location::caller();
        let from = source.operand_2d().0;
        self.on_this_device("download_2d", &from, location)?;
        let alive = Arc::new(());
        let (device, stream) = (Arc::clone(self.device_state()), Arc::clone(self.state()));
        if from.is_empty() {
            device.check_alive()?;
            return Ok(Pending::ready(Vec::new));
        }
        let staged = StagedBlock::new(&device, &stream, from.bytes())?;
        let target = Side2d::host(staged.pointer(), from.row_bytes);
        let command = copy_of_rows(self.device_state(), &from, from.side(), target);
        let mut operation = Operation {
            kind: OperationKind::DeviceToHost,
            label: "download",
            location,
            bytes: from.bytes() as u64,
            accesses: [from.access(AccessKind::Read)].into(),
            host_waiter: Some(HostWaiter {
                alive: Arc::downgrade(&alive),
                chained: false,
            }),
        };
        // SAFETY: the rows lie within their allocation, the block is large enough for them, and
        // `staged` returns it to the pool with this operation's ticket, so that it is not reused
        // before the copy is complete.
        let (sequence, ()) = unsafe { submit(&device, &stream, &mut operation, command) }?;
        let mut download = PendingDownload::new(&device, &stream, from.bytes(), location);
        download.push(sequence, staged, 0, from.bytes());
        download.depend_on(
            from.access(AccessKind::Read)
                .history
                .provenance
                .unsettled()?,
        );
        let len = from.bytes() / size_of::<T>();
        Ok(self.pending_vector(download, len, alive))
    }

    /// Sets every element of a rectangle on the device to `value`. The fill neither accesses the
    /// bytes between the rows nor waits for their uses.
    ///
    /// # Errors
    ///
    /// If the target is on the host or on another device, or the device is lost.
    #[track_caller]
    #[doc(alias("cuMemsetD2D8Async", "cudaMemset2DAsync"))]
    pub fn fill_2d<T: Pod>(&self, target: impl CopyTarget2d<T>, value: T) -> Result<()> {
        let location = Location::caller();
        let to = target.operand_2d().0;
        self.on_this_device("fill_2d", &to, location)?;
        let Some(first) = to.pointer().filter(|_| !to.is_empty()) else {
            return self.device_state().check_alive();
        };
        let value = bytemuck::bytes_of(&value);
        if let Some(span) = to.as_span() {
            return self.fill_span(&span, value, location);
        }
        let row = to.part(0..1, 0..to.row_bytes);
        if let Some(row) = row.as_span() {
            self.fill_span(&row, value, location)?;
        }
        let command = RepeatedRows {
            first,
            row_bytes: to.row_bytes,
            pitch_bytes: to.pitch_bytes,
            rows: to.rows,
            pitch_bytes_max: self.device_state().limits.pitch_bytes,
        }
        .fill();
        let mut operation = Operation {
            kind: OperationKind::Fill,
            label: "fill",
            location,
            bytes: to.bytes() as u64,
            accesses: [to.access(AccessKind::Write)].into(),
            host_waiter: None,
        };
        // SAFETY: the command accesses only the rows, which lie within their allocation.
        unsafe { submit(self.device_state(), self.state(), &mut operation, command) }.map(drop)
    }

    /// Returns a usage error if the rectangle is not in the memory of the stream's device.
    fn on_this_device(
        &self,
        operation: &'static str,
        span_2d: &Span2d<'_>,
        location: &'static Location<'static>,
    ) -> Result<(), UsageError> {
        if span_2d.pinned().is_some() {
            let problem = UsageErrorKind::OnHost { operand: 0 };
            return Err(UsageError::new(operation, problem).at(location));
        }
        self.same_device(operation, 0, span_2d.device())
            .map_err(|error| error.at(location))
    }
}

/// Creates the command that copies rows of this shape on a stream of `device`.
pub(super) fn copy_of_rows(
    device: &DeviceState,
    shape: &Span2d<'_>,
    source: Side2d,
    target: Side2d,
) -> CopyRows {
    CopyRows {
        copy: Copy2d {
            source,
            target,
            width_bytes: shape.row_bytes,
            height: shape.rows,
        },
        pitch_bytes_max: device.limits.pitch_bytes,
    }
}

/// Returns a usage error unless both have the same rows and columns.
fn same_shape<T>(source: &Span2d<'_>, target: &Span2d<'_>) -> Result<(), UsageError> {
    if (source.rows, source.row_bytes) == (target.rows, target.row_bytes) {
        return Ok(());
    }
    let cols = |span_2d: &Span2d<'_>| span_2d.row_bytes.checked_div(size_of::<T>()).unwrap_or(0);
    let problem = UsageErrorKind::Shape {
        source_rows: source.rows,
        source_cols: cols(source),
        target_rows: target.rows,
        target_cols: cols(target),
    };
    Err(UsageError::new("copy_2d", problem))
}
