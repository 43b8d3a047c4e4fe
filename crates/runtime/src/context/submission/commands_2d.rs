//! Commands for pitched copies.

#![allow(unsafe_code, reason = "makes the driver calls that enqueue work")]

use millstream_driver::{Copy2d, DriverError, GraphNode, Memory2d, PeerCopy, PeerCopy2d, Side2d};

use super::commands::{Command, CopyPeer, DriverStream};
use crate::context::recording::{DOWNLOAD, HOST_MEMORY, NodeSink, NotRecorded};

/// A pitched copy (rule 52: one operation that leaves the bytes between rows untouched). It is not
/// empty, and at least one side is on the device.
pub(crate) struct CopyRows {
    pub(crate) copy: Copy2d,
    /// The maximum pitch of the driver, in bytes. Copies with longer pitches are enqueued row by
    /// row.
    pub(crate) pitch_bytes_max: usize,
}

impl Command for CopyRows {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let Copy2d {
            source,
            target,
            width_bytes,
            height,
        } = self.copy;
        let gapless = |side: &Side2d| side.pitch_bytes == width_bytes;
        if height == 1 || (gapless(&source) && gapless(&target)) {
            // SAFETY: by this function's contract.
            return unsafe {
                enqueue_range(
                    driver_stream,
                    source.memory,
                    target.memory,
                    width_bytes * height,
                )
            };
        }
        let (driver, context, stream) = driver_stream.parts();
        if source.pitch_bytes.max(target.pitch_bytes) <= self.pitch_bytes_max {
            // SAFETY: by this function's contract.
            return unsafe { driver.copy_2d_async(context, &self.copy, stream) };
        }
        for row in 0..height {
            let (from, to) = (row_of(source, row), row_of(target, row));
            // SAFETY: by this function's contract.
            unsafe { enqueue_range(driver_stream, from, to, width_bytes) }?;
        }
        Ok(())
    }

    fn record(self, _: DriverStream<'_>, sink: &mut dyn NodeSink) -> Result<(), NotRecorded> {
        let Copy2d { source, target, .. } = self.copy;
        match (source.memory, target.memory) {
            (Memory2d::Device(_), Memory2d::Device(_)) => {}
            (Memory2d::Device(_), Memory2d::Host(_)) => {
                return Err(NotRecorded::Refused(DOWNLOAD));
            }
            (Memory2d::Host(_), _) => return Err(NotRecorded::Refused(HOST_MEMORY)),
        }
        if source.pitch_bytes.max(target.pitch_bytes) <= self.pitch_bytes_max {
            sink.add(&GraphNode::Copy(self.copy));
            return Ok(());
        }
        for row in 0..self.copy.height {
            let row = |side: Side2d| Side2d {
                memory: row_of(side, row),
                pitch_bytes: self.copy.width_bytes,
            };
            sink.add(&GraphNode::Copy(Copy2d {
                source: row(source),
                target: row(target),
                height: 1,
                ..self.copy
            }));
        }
        Ok(())
    }
}

/// A pitched copy between the memory of two devices. It is not empty.
pub(crate) struct CopyPeerRows {
    pub(crate) copy: PeerCopy2d,
    /// The maximum pitch of the driver, in bytes. Copies with longer pitches are enqueued row by
    /// row.
    pub(crate) pitch_bytes_max: usize,
}

impl Command for CopyPeerRows {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let copy = self.copy;
        let PeerCopy2d {
            target_pitch_bytes,
            source_pitch_bytes,
            row_bytes,
            rows,
            ..
        } = copy;
        let range = |row: usize, bytes: usize| {
            CopyPeer(PeerCopy {
                target: copy.target.offset((row * target_pitch_bytes) as u64),
                target_context: copy.target_context,
                source: copy.source.offset((row * source_pitch_bytes) as u64),
                source_context: copy.source_context,
                bytes,
            })
        };
        let gapless = source_pitch_bytes == row_bytes && target_pitch_bytes == row_bytes;
        if rows == 1 || gapless {
            // SAFETY: by this function's contract.
            return unsafe { range(0, rows * row_bytes).enqueue(driver_stream) };
        }
        let (driver, context, stream) = driver_stream.parts();
        if source_pitch_bytes.max(target_pitch_bytes) <= self.pitch_bytes_max {
            // SAFETY: by this function's contract.
            return unsafe { driver.copy_peer_2d_async(context, &copy, stream) };
        }
        for row in 0..rows {
            // SAFETY: by this function's contract.
            unsafe { range(row, row_bytes).enqueue(driver_stream) }?;
        }
        Ok(())
    }
}

fn row_of(side: Side2d, row: usize) -> Memory2d {
    let offset = row * side.pitch_bytes;
    match side.memory {
        Memory2d::Device(first) => Memory2d::Device(first.offset(offset as u64)),
        Memory2d::Host(first) => Memory2d::Host(first.wrapping_add(offset)),
    }
}

/// Enqueues a copy of contiguous bytes.
///
/// # Safety
///
/// The contract of [`Command::enqueue`].
unsafe fn enqueue_range(
    driver_stream: DriverStream<'_>,
    source: Memory2d,
    target: Memory2d,
    bytes: usize,
) -> Result<(), DriverError> {
    let (driver, context, stream) = driver_stream.parts();
    match (source, target) {
        (Memory2d::Device(source), Memory2d::Device(target)) => {
            // SAFETY: by this function's contract.
            unsafe { driver.copy_device_to_device_async(context, target, source, bytes, stream) }
        }
        (Memory2d::Host(source), Memory2d::Device(target)) => {
            // SAFETY: by this function's contract.
            unsafe { driver.copy_host_to_device_async(context, target, source, bytes, stream) }
        }
        (Memory2d::Device(source), Memory2d::Host(target)) => {
            // SAFETY: by this function's contract.
            unsafe { driver.copy_device_to_host_async(context, target, source, bytes, stream) }
        }
        (Memory2d::Host(_), Memory2d::Host(_)) => {
            unreachable!("at least one side of the copy is on the device")
        }
    }
}
