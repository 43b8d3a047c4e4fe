//! Page-locked blocks on their way through the pool.

#![allow(unsafe_code, reason = "copies between its block and memory of the host")]

use std::sync::Arc;

use bytemuck::Pod;
use smallvec::SmallVec;

use crate::{
    Result,
    device::{DeviceState, StreamState},
    memory::Block,
    tracker::Ticket,
};

/// A block on its way through the pool: given back, with what may still use it, however this ends.
pub(crate) struct Staged {
    device: Arc<DeviceState>,
    /// Where the copy that uses the block is submitted.
    stream: Arc<StreamState>,
    block: Option<Block>,
    /// The copy, once it is known to be submitted.
    used_by: Option<Ticket>,
}

impl Staged {
    /// A block of at least `bytes` that nobody uses, for a copy on this stream.
    pub(super) fn new(device: &Arc<DeviceState>, stream: &Arc<StreamState>, bytes: usize) -> Result<Self> {
        Ok(Self {
            device: Arc::clone(device),
            stream: Arc::clone(stream),
            block: Some(device.staging.take(device, bytes)?),
            used_by: None,
        })
    }

    /// A block with these bytes.
    pub(super) fn of(device: &Arc<DeviceState>, stream: &Arc<StreamState>, source: &[u8]) -> Result<Self> {
        let staged = Self::new(device, stream, source.len())?;
        // SAFETY: the block is ours alone, at least as large as the source, and not part of it.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), staged.pointer(), source.len()) };
        Ok(staged)
    }

    /// A block with these rows, `bytes` bytes in all, one behind the other.
    pub(super) fn of_rows<'s>(
        device: &Arc<DeviceState>,
        stream: &Arc<StreamState>,
        bytes: usize,
        rows: impl Iterator<Item = &'s [u8]>,
    ) -> Result<Self> {
        let staged = Self::new(device, stream, bytes)?;
        let mut used = 0;
        for row in rows {
            assert!(row.len() <= bytes - used, "the rows are {bytes} bytes");
            let target = staged.pointer().wrapping_add(used);
            // SAFETY: the block is ours alone, has room for this row, and is not part of it.
            unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), target, row.len()) };
            used += row.len();
        }
        assert_eq!(used, bytes, "the rows fill the block");
        Ok(staged)
    }

    /// Notes that this operation uses the block.
    pub(super) fn used_by(&mut self, ticket: Ticket) {
        self.used_by = Some(ticket);
    }

    /// Gives the block up: its memory stays with the process, and nobody uses it again.
    pub(super) fn give_up(mut self) {
        self.block = None;
    }

    /// Where the block is.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.block
            .as_ref()
            .map_or(std::ptr::null_mut(), |block| block.pointer.as_ptr())
    }

    /// The first `len` elements of the block. The copy that writes them is done.
    pub(super) fn take<T: Pod>(self, len: usize) -> Vec<T> {
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

    /// Fills `target`, which is no longer than the block, from it. The copy that writes the block is done.
    pub(crate) fn copy_to(&self, target: &mut [u8]) {
        // SAFETY: the block has at least as many bytes, and is another place.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer(), target.as_mut_ptr(), target.len()) };
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let Some(block) = self.block.take() else { return };
        // A call that failed, or panicked, may have enqueued the copy all the same. Its ticket counts as submitted by now.
        let used_by = self
            .used_by
            .unwrap_or_else(|| self.stream.ticket(self.stream.points.lock().submitted()));
        self.device.staging.give(block, SmallVec::from_slice(&[used_by]));
    }
}
