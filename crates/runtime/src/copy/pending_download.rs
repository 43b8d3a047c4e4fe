//! Pending downloads: chunks in page-locked blocks, each copied to where it belongs once it
//! has arrived.
//!
//! The device writes the blocks in the order of the chunks. Each chunk has a sync point behind it,
//! so that whoever waits can copy the first out while the others are still in flight. Nothing is
//! copied out by itself: the thread that waits or polls does it, with the help of the copy threads,
//! and when it returns no copy to the target is under way.

#![allow(unsafe_code, reason = "copies from blocks that it holds")]

use std::{collections::VecDeque, panic::Location, sync::Arc};

use super::{copy_threads::Transfer, staged_block::StagedBlock};
use crate::{
    Result,
    context::{DeviceState, StreamState, poll_ticket},
    future::wait_ticket,
    memory::HostAccessGuard,
    tracker::Sequence,
};

/// A chunk of a download.
struct Chunk {
    /// The copy to the block.
    sequence: Sequence,
    staged: StagedBlock,
    /// Where it belongs in the target.
    at: usize,
    bytes: usize,
}

/// A download in flight.
pub(crate) struct PendingDownload {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    /// Those that are not copied out, the first first.
    chunks: VecDeque<Chunk>,
    /// The length of the target.
    bytes: usize,
    /// The last chunk's ticket, if there was a chunk.
    last: Option<Sequence>,
    /// The line that the download is made for.
    location: &'static Location<'static>,
}

impl PendingDownload {
    /// The download of `bytes` bytes, no chunk of which is submitted yet.
    pub(super) fn new(
        device: &Arc<DeviceState>,
        stream: &Arc<StreamState>,
        bytes: usize,
        location: &'static Location<'static>,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            stream: Arc::clone(stream),
            chunks: VecDeque::new(),
            bytes,
            last: None,
            location,
        }
    }

    /// Enters the next chunk, whose copy to the block is submitted under this number.
    pub(super) fn push(
        &mut self,
        sequence: Sequence,
        mut staged: StagedBlock,
        at: usize,
        bytes: usize,
    ) {
        assert!(at <= self.bytes && bytes <= self.bytes - at && bytes <= staged.bytes());
        staged.used_by(self.stream.ticket(sequence));
        self.last = Some(sequence);
        self.chunks.push_back(Chunk {
            sequence,
            staged,
            at,
            bytes,
        });
    }

    /// The last chunk's ticket, if there was a chunk.
    pub(crate) fn last(&self) -> Option<Sequence> {
        self.last
    }

    /// The number of the ticket that is to be waited for next, unless all is copied out.
    pub(crate) fn next(&self) -> Option<Sequence> {
        self.chunks.front().map(|chunk| chunk.sequence)
    }

    /// How many chunks are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.chunks.len()
    }

    /// Waits for the first chunk, copies it out, and gives its block, which nobody uses any more.
    ///
    /// # Safety
    ///
    /// As [`copy_out`](Self::copy_out). There is a chunk in flight.
    pub(super) unsafe fn copy_out_first(&mut self, target: *mut u8) -> Result<StagedBlock> {
        let first = self.chunks.front().expect("a chunk is in flight").sequence;
        wait_ticket(&self.device, &self.stream, first)?;
        let chunk = self.chunks.pop_front().expect("it is still there");
        let host_access = host_access(&self.device, &chunk, self.location);
        let transfer = self.transfer();
        // SAFETY: by this function's contract; the chunk has arrived, and the block is not used
        // again before the end of this function, where `transfer` waits for the copy.
        unsafe { begin_copy_out(&transfer, &chunk, target) };
        drop(transfer);
        drop(host_access);
        Ok(chunk.staged.again())
    }

    /// Copies out all chunks that have arrived, and those that arrive meanwhile. Waits for no
    /// device.
    ///
    /// # Safety
    ///
    /// `target` is valid for writes of so many bytes as the download has, and nobody else touches
    /// them.
    pub(super) unsafe fn copy_out(&mut self, target: *mut u8) -> Result<()> {
        // Dropped in reverse order, also by an error or a panic: the copies are made before the
        // blocks are given back.
        let mut copying: VecDeque<(Option<u64>, HostAccessGuard<'_>, Chunk)> = VecDeque::new();
        let transfer = self.transfer();
        loop {
            while let Some(sequence) = self.next()
                && poll_ticket(&self.device, &self.stream, sequence)?
            {
                let Some(chunk) = self.chunks.pop_front() else {
                    break;
                };
                let host_access = host_access(&self.device, &chunk, self.location);
                // SAFETY: by this function's contract; the chunk has arrived, and is kept until the
                // copy is made.
                let number = unsafe { begin_copy_out(&transfer, &chunk, target) };
                copying.push_back((number, host_access, chunk));
            }
            let Some(&(number, ..)) = copying.front() else {
                return Ok(());
            };
            if let Some(number) = number
                && !transfer.is_done(number)
                && !transfer.help()
            {
                transfer.finish(number);
            }
            while let Some(&(number, ..)) = copying.front()
                && number.is_none_or(|number| transfer.is_done(number))
            {
                copying.pop_front();
            }
        }
    }

    /// Waits until all of it is copied out.
    ///
    /// # Safety
    ///
    /// As [`copy_out`](Self::copy_out).
    unsafe fn copy_out_all(&mut self, target: *mut u8) -> Result<()> {
        while let Some(sequence) = self.next() {
            wait_ticket(&self.device, &self.stream, sequence)?;
            // SAFETY: by this function's contract.
            unsafe { self.copy_out(target) }?;
        }
        Ok(())
    }

    /// As [`copy_out_all`](Self::copy_out_all), on a slice of as many bytes as the download has.
    pub(crate) fn finish_into(&mut self, target: &mut [u8]) -> Result<()> {
        assert_eq!(
            target.len(),
            self.bytes,
            "the target is as long as the download"
        );
        // SAFETY: the slice is the caller's alone, and as long as the download.
        unsafe { self.copy_out_all(target.as_mut_ptr()) }
    }

    fn transfer(&self) -> Transfer {
        let staging_options = self.device.staging_options();
        Transfer::new(staging_options, staging_options.download_non_temporal)
    }
}

/// The host reads the chunk's block, until this is dropped.
fn host_access<'a>(
    device: &'a DeviceState,
    chunk: &Chunk,
    location: &'static Location<'static>,
) -> HostAccessGuard<'a> {
    HostAccessGuard::reads(
        &device.driver,
        chunk.staged.pointer(),
        chunk.bytes,
        "download",
        location,
    )
}

/// Begins to copy a chunk that has arrived to where it belongs; gives the copy's number, if it is
/// not made already.
///
/// # Safety
///
/// As [`PendingDownload::copy_out`] for the target; the chunk is kept until the copy is made.
unsafe fn begin_copy_out(transfer: &Transfer, chunk: &Chunk, target: *mut u8) -> Option<u64> {
    let target = target.wrapping_add(chunk.at);
    // SAFETY: the block, which is the chunk's alone, has so many bytes, and they belong within the
    // target.
    unsafe { transfer.copy(chunk.staged.pointer(), target, chunk.bytes) }
}
