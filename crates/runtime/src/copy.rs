//! The verbs of data: upload, download, copy, fill, zeros.

#![allow(unsafe_code, reason = "submits copies between memory that it holds")]

use std::{panic::Location, sync::Arc};

use bytemuck::Pod;
use millstream_driver::FillPattern;
use smallvec::{SmallVec, smallvec};

use crate::{
    Buffer, CopySource, CopyTarget, Misuse, Pending, Problem, ReadOperand, Result, Stream, WriteOperand,
    device::{Awaited, DeviceState},
    memory::{AnyPlace, Block, PinnedPlace, Span},
    submit::{Accesses, Command, Fill, Operation, Repeat, ToDevice, ToHost, WithinDevice, submit},
    timeline::Kind,
    tracker::{AccessKind, Ticket},
};

/// Uploads are captured and copied in pieces of this size, so that capturing one overlaps with copying the one before.
const UPLOAD_PIECE_BYTES: usize = 4 << 20;

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
        self.upload_pieces(bytemuck::cast_slice(source), &target.view_mut().span, location)?;
        Ok(target)
    }

    /// Copies the elements of `source` into an array that is there already. The source is captured before this returns.
    ///
    /// # Errors
    ///
    /// If the lengths differ, the target is on another device, page-locked memory cannot be had, or the device is lost.
    #[track_caller]
    pub fn upload_into<T: Pod>(&self, source: &[T], target: impl WriteOperand<T>) -> Result<()> {
        let place = target.place();
        same_length("upload_into", source.len(), target.len())?;
        self.same_device("upload_into", 0, &place.0.allocation.device)?;
        self.upload_pieces(bytemuck::cast_slice(source), &place.0, Location::caller())
    }

    /// The elements of `source`, once all that comes before this is done. Later work of the stream is not waited for.
    ///
    /// # Errors
    ///
    /// If the source is on another device, page-locked memory cannot be had, or the device is lost.
    #[track_caller]
    pub fn download<T: Pod>(&self, source: impl ReadOperand<T>) -> Result<Pending<Vec<T>>> {
        let place = source.place();
        let span = &place.0;
        self.same_device("download", 0, &span.allocation.device)?;
        let device = Arc::clone(self.device_state());
        let (bytes, len) = (span.bytes.len(), source.len());
        let awaited = Arc::new(());
        if bytes == 0 {
            device.check_alive()?;
            return Ok(Pending::new(
                device,
                Arc::clone(self.state()),
                0,
                awaited,
                Vec::new,
            ));
        }
        let mut staged = Staged {
            device: Arc::clone(&device),
            block: Some(device.staging.take(&device, bytes)?),
            uses: SmallVec::new(),
        };
        let command = ToHost {
            target: staged.pointer(),
            source: span.pointer(),
            bytes,
        };
        let operation = Operation {
            kind: Kind::DeviceToHost,
            label: "download",
            location: Location::caller(),
            bytes: bytes as u64,
            accesses: smallvec![span.access(AccessKind::Read)],
            awaited: Some(Awaited {
                alive: Arc::downgrade(&awaited),
                chained: false,
            }),
        };
        // SAFETY: the span lies within its allocation, the block has at least `bytes`, and `staged` gives it back to the
        // pool with this operation's ticket, so that nobody uses it before the copy is done.
        let (sequence, ()) = unsafe { submit(&device, self.state(), operation, command) }?;
        staged.uses.push(self.state().ticket(sequence));
        let finish = move || staged.take(len);
        Ok(Pending::new(
            device,
            Arc::clone(self.state()),
            sequence,
            awaited,
            finish,
        ))
    }

    /// Copies an array to another of the same length: on the device, to or from [`Pinned`](crate::Pinned) memory.
    ///
    /// # Errors
    ///
    /// If the lengths differ, an operand is on another device, both are on the host, or the device is lost.
    #[track_caller]
    pub fn copy<T: Pod>(&self, source: impl CopySource<T>, target: impl CopyTarget<T>) -> Result<()> {
        let (from, to) = (source.source(), target.source());
        same_length("copy", elements::<T>(&from), elements::<T>(&to))?;
        self.same_device("copy", 0, device_of(&from))?;
        self.same_device("copy", 1, device_of(&to))?;
        let location = Location::caller();
        match (from, to) {
            (AnyPlace::Device(from), AnyPlace::Device(to)) => {
                let (from, to) = (from.0, to.0);
                if from.overlaps(&to) {
                    return Err(Misuse::new("copy", Problem::Overlap { first: 0, second: 1 }).into());
                }
                let bytes = from.bytes.len();
                let command = WithinDevice {
                    target: to.pointer(),
                    source: from.pointer(),
                    bytes,
                };
                let accesses = smallvec![from.access(AccessKind::Read), to.access(AccessKind::Write)];
                self.submit_copy(Kind::DeviceToDevice, bytes, accesses, None, location, command)
            }
            (AnyPlace::Pinned(from), AnyPlace::Device(to)) => {
                let to = to.0;
                let bytes = from.bytes();
                let command = ToDevice {
                    target: to.pointer(),
                    source: from.pointer,
                    bytes,
                };
                let accesses = smallvec![from.access(AccessKind::Read), to.access(AccessKind::Write)];
                self.submit_copy(
                    Kind::HostToDevice,
                    bytes,
                    accesses,
                    Some(&from),
                    location,
                    command,
                )
            }
            (AnyPlace::Device(from), AnyPlace::Pinned(to)) => {
                let from = from.0;
                let bytes = to.bytes();
                let command = ToHost {
                    target: to.pointer,
                    source: from.pointer(),
                    bytes,
                };
                let accesses = smallvec![from.access(AccessKind::Read), to.access(AccessKind::Write)];
                self.submit_copy(Kind::DeviceToHost, bytes, accesses, Some(&to), location, command)
            }
            (AnyPlace::Pinned(_), AnyPlace::Pinned(_)) => {
                Err(Misuse::new("copy", Problem::BothOnHost).into())
            }
        }
    }

    /// Sets every element to `value`.
    ///
    /// # Errors
    ///
    /// If the target is on another device, or the device is lost.
    #[track_caller]
    pub fn fill<T: Pod>(&self, target: impl WriteOperand<T>, value: T) -> Result<()> {
        let place = target.place();
        self.same_device("fill", 0, &place.0.allocation.device)?;
        self.fill_span(&place.0, bytemuck::bytes_of(&value), Location::caller())
    }

    /// An array of `len` elements, all bits zero.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or the device is lost.
    #[track_caller]
    pub fn zeros<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        let location = Location::caller();
        let mut target = Buffer::new(self.device_state(), self.state(), len, "zeros", location)?;
        self.fill_span(&target.view_mut().span, &[0], location)?;
        Ok(target)
    }

    /// Captures and uploads piece by piece.
    fn upload_pieces(
        &self,
        source: &[u8],
        target: &Span<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let device = self.device_state();
        for (number, piece) in source.chunks(UPLOAD_PIECE_BYTES).enumerate() {
            let start = target.bytes.start + number * UPLOAD_PIECE_BYTES;
            let span = Span {
                bytes: start..start + piece.len(),
                ..target.clone()
            };
            let block = device.staging.take(device, piece.len())?;
            let mut staged = Staged {
                device: Arc::clone(device),
                block: Some(block),
                uses: SmallVec::new(),
            };
            // SAFETY: the block is ours alone, at least as large as the piece, and not part of it.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), staged.pointer(), piece.len()) };
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
                awaited: None,
            };
            // SAFETY: the span lies within its allocation, and `staged` gives the block back to the pool with this
            // operation's ticket, so that nobody uses it before the copy is done.
            let (sequence, ()) = unsafe { submit(device, self.state(), operation, command) }?;
            staged.uses.push(self.state().ticket(sequence));
        }
        Ok(())
    }

    fn submit_copy(
        &self,
        kind: Kind,
        bytes: usize,
        accesses: Accesses<'_>,
        pinned: Option<&PinnedPlace<'_>>,
        location: &'static Location<'static>,
        command: impl Command<Output = ()>,
    ) -> Result<()> {
        if bytes == 0 {
            return self.device_state().check_alive();
        }
        let awaited = pinned.map(|place| Awaited {
            alive: Arc::downgrade(place.alive),
            chained: true,
        });
        let operation = Operation {
            kind,
            label: "copy",
            location,
            bytes: bytes as u64,
            accesses,
            awaited,
        };
        // SAFETY: the accesses are all that the copy touches: spans within their allocations, and pinned memory that its
        // pool does not hand out again before this operation is done.
        unsafe { submit(self.device_state(), self.state(), operation, command) }.map(drop)
    }

    /// Repeats `value` over the span, whose length is a multiple of the value's.
    fn fill_span(&self, target: &Span<'_>, value: &[u8], location: &'static Location<'static>) -> Result<()> {
        let bytes = target.bytes.len();
        if bytes == 0 {
            return self.device_state().check_alive();
        }
        if let Some(pattern) = pattern_of(value) {
            let count = bytes / pattern.size();
            return self.submit_fill(
                target,
                location,
                Fill {
                    target: target.pointer(),
                    pattern,
                    count,
                },
            );
        }
        let first = Span {
            bytes: target.bytes.start..target.bytes.start + value.len(),
            ..target.clone()
        };
        self.upload_pieces(value, &first, location)?;
        let command = Repeat {
            target: target.pointer(),
            element_bytes: value.len(),
            bytes,
        };
        self.submit_fill(target, location, command)
    }

    fn submit_fill(
        &self,
        target: &Span<'_>,
        location: &'static Location<'static>,
        command: impl Command<Output = ()>,
    ) -> Result<()> {
        let operation = Operation {
            kind: Kind::Fill,
            label: "fill",
            location,
            bytes: target.bytes.len() as u64,
            accesses: smallvec![target.access(AccessKind::Write)],
            awaited: None,
        };
        // SAFETY: the fill touches the span alone, which lies within its allocation.
        unsafe { submit(self.device_state(), self.state(), operation, command) }.map(drop)
    }

    /// An error if the operand is not on the stream's device.
    pub(crate) fn same_device(
        &self,
        operation: &'static str,
        operand: usize,
        device: &Arc<DeviceState>,
    ) -> Result<(), Misuse> {
        if Arc::ptr_eq(device, self.device_state()) {
            return Ok(());
        }
        let (operand_device, stream_device) = (device.to_string(), self.device_state().to_string());
        Err(Misuse::new(
            operation,
            Problem::OtherDevice {
                operand,
                operand_device,
                stream_device,
            },
        ))
    }
}

/// A block on its way through the pool: given back, with what may still use it, however this ends.
struct Staged {
    device: Arc<DeviceState>,
    block: Option<Block>,
    uses: SmallVec<[Ticket; 4]>,
}

impl Staged {
    fn pointer(&self) -> *mut u8 {
        self.block
            .as_ref()
            .map_or(std::ptr::null_mut(), |block| block.pointer.as_ptr())
    }

    /// The first `len` elements of the block. The copy that writes them is done.
    fn take<T: Pod>(self, len: usize) -> Vec<T> {
        let mut values = Vec::<T>::with_capacity(len);
        // SAFETY: the vector has room for `len` elements, and the block, which is another place, as many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.pointer(),
                values.as_mut_ptr().cast::<u8>(),
                len * size_of::<T>(),
            );
        }
        // SAFETY: the elements were just written, and any bits are a `T`.
        unsafe { values.set_len(len) };
        values
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.device.staging.give(block, std::mem::take(&mut self.uses));
        }
    }
}

fn same_length(operation: &'static str, source_len: usize, target_len: usize) -> Result<(), Misuse> {
    if source_len == target_len {
        return Ok(());
    }
    Err(Misuse::new(
        operation,
        Problem::Length {
            source_len,
            target_len,
        },
    ))
}

fn elements<T>(place: &AnyPlace<'_>) -> usize {
    let bytes = match place {
        AnyPlace::Device(place) => place.0.bytes.len(),
        AnyPlace::Pinned(place) => place.bytes(),
    };
    bytes.checked_div(size_of::<T>()).unwrap_or(0)
}

fn device_of<'a>(place: &'a AnyPlace<'_>) -> &'a Arc<DeviceState> {
    match place {
        AnyPlace::Device(place) => &place.0.allocation.device,
        AnyPlace::Pinned(place) => place.device,
    }
}

/// The shortest element that the driver can repeat and that gives the same bytes.
fn pattern_of(value: &[u8]) -> Option<FillPattern> {
    let repeats = |size: usize| {
        value.len().is_multiple_of(size) && value.chunks_exact(size).all(|part| part == &value[..size])
    };
    let first = |size: usize| value.get(..size);
    if repeats(1) {
        return first(1).map(|bytes| FillPattern::U8(bytes[0]));
    }
    if repeats(2) {
        return first(2).map(|bytes| FillPattern::U16(bytemuck::pod_read_unaligned(bytes)));
    }
    if repeats(4) {
        return first(4).map(|bytes| FillPattern::U32(bytemuck::pod_read_unaligned(bytes)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_uses_the_shortest_element_that_repeats() {
        assert_eq!(pattern_of(&[7, 7, 7, 7, 7, 7, 7, 7]), Some(FillPattern::U8(7)));
        assert_eq!(
            pattern_of(&[1, 2, 1, 2]),
            Some(FillPattern::U16(u16::from_ne_bytes([1, 2])))
        );
        assert_eq!(
            pattern_of(&1.5_f32.to_ne_bytes()),
            Some(FillPattern::U32(1.5_f32.to_bits()))
        );
        assert_eq!(pattern_of(&1.7_f64.to_ne_bytes()), None);
        assert_eq!(pattern_of(&[1, 2, 3]), None);
        assert_eq!(pattern_of(&[5, 5, 5]), Some(FillPattern::U8(5)));
    }
}
