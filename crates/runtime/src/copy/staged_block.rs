//! Page-locked blocks in use by a copy, returned to their pool on drop.

#![allow(unsafe_code, reason = "copies between its block and host memory")]

use std::{panic::Location, sync::Arc};

use smallvec::SmallVec;

use crate::{
    Result,
    context::{DeviceState, StreamState},
    page_locked::{HostAccessGuard, PinnedBlock},
    tracker::Ticket,
};

/// A block taken from the pool, and returned on drop with the ticket that may still use it.
pub(super) struct StagedBlock {
    device: Arc<DeviceState>,
    /// The stream to which the copy that uses the block is submitted.
    stream: Arc<StreamState>,
    block: Option<PinnedBlock>,
    /// The ticket of the copy, once it is submitted.
    used_by: Option<Ticket>,
}

impl StagedBlock {
    /// Takes an unused block of at least `bytes` bytes for a copy on this stream.
    pub(super) fn new(
        device: &Arc<DeviceState>,
        stream: &Arc<StreamState>,
        bytes: usize,
    ) -> Result<Self> {
        Ok(Self {
            device: Arc::clone(device),
            stream: Arc::clone(stream),
            block: Some(device.page_locked().staging.take(device, bytes)?),
            used_by: None,
        })
    }

    /// Like [`new`](Self::new), but returns `None` instead of blocking if the staging limit is
    /// reached and no block is free.
    pub(super) fn try_new(
        device: &Arc<DeviceState>,
        stream: &Arc<StreamState>,
        bytes: usize,
    ) -> Result<Option<Self>> {
        let block = device.page_locked().staging.try_take(device, bytes)?;
        Ok(block.map(|block| Self {
            device: Arc::clone(device),
            stream: Arc::clone(stream),
            block: Some(block),
            used_by: None,
        }))
    }

    /// Reuses the block for another operation after the one that used it is done.
    pub(super) fn again(mut self) -> Self {
        self.used_by = None;
        self
    }

    /// Takes a block and copies these rows to it without gaps, `bytes` bytes in all.
    pub(super) fn of_rows<'s>(
        device: &Arc<DeviceState>,
        stream: &Arc<StreamState>,
        bytes: usize,
        rows: impl Iterator<Item = &'s [u8]>,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let staged = Self::new(device, stream, bytes)?;
        let _access =
            HostAccessGuard::writes(&device.driver, staged.pointer(), bytes, "upload", location);
        let mut used = 0;
        for row in rows {
            assert!(row.len() <= bytes - used, "the rows are {bytes} bytes");
            let target = staged.pointer().wrapping_add(used);
            // SAFETY: this value owns the block, which is large enough for this row and does not
            // overlap it.
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

    pub(super) fn give_up(mut self) {
        self.block = None;
    }

    pub(super) fn bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.bytes)
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        self.block
            .as_ref()
            .map_or(std::ptr::null_mut(), |block| block.pointer.as_ptr())
    }
}

impl Drop for StagedBlock {
    fn drop(&mut self) {
        let Some(block) = self.block.take() else {
            return;
        };
        // A call that failed or panicked may have enqueued the copy. Its ticket counts as submitted
        // by now.
        let used_by = self.used_by.unwrap_or_else(|| {
            self.stream
                .ticket(self.stream.shared.lock().points.submitted())
        });
        self.device
            .page_locked()
            .staging
            .give(block, SmallVec::from_slice(&[used_by]));
    }
}
