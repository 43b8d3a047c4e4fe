//! Pending downloads: chunks in page-locked blocks, each copied out to the target once it has
//! arrived.
//!
//! The device writes the blocks in the order of the chunks. Each chunk has a sync point behind it,
//! so that the waiting thread can copy the first out while the others are in flight. The thread
//! that waits or polls copies the chunks out, with the help of the copy threads; when it returns,
//! no copy to the target is running.
//!
//! A dropped download is not copied out; each block returns to its pool with the ticket of its copy
//! (`staged_block.rs`).

#![allow(unsafe_code, reason = "copies from blocks that it holds")]

use std::{collections::VecDeque, panic::Location, sync::Arc};

use super::{copy_threads::Transfer, staged_block::StagedBlock};
use crate::{
    Result,
    context::{DeviceState, StreamState, poll_ticket},
    future::wait_ticket,
    page_locked::HostAccessGuard,
    tracker::{Imports, Sequence, read_imports},
};

struct Chunk {
    /// The sequence number of the copy to the block.
    sequence: Sequence,
    staged: StagedBlock,
    /// The range of the chunk in the target.
    at: usize,
    bytes: usize,
}

pub(crate) struct PendingDownload {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
    /// The chunks that are not copied out yet, in order.
    chunks: VecDeque<Chunk>,
    bytes: usize,
    /// The sequence number of the last chunk, if there was a chunk.
    last: Option<Sequence>,
    location: &'static Location<'static>,
    /// The imports from which the source's contents come.
    imports: Imports,
}

impl PendingDownload {
    /// Creates a download of `bytes` bytes without submitted chunks.
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
            imports: Imports::new(),
        }
    }

    /// Notes the imports of the source's contents, which must be valid when they are copied out.
    pub(super) fn depend_on(&mut self, imports: Imports) {
        self.imports = imports;
    }

    /// Returns an error if a device's loss has spoiled the source's contents, or if a loop of a
    /// graph that wrote them ended at its limit. The device has completed the copy of the next
    /// chunk.
    fn check_contents(&self) -> Result<()> {
        read_imports(&self.imports)
    }

    /// Adds the next chunk, whose copy to the block was submitted with this sequence number.
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

    pub(crate) fn last(&self) -> Option<Sequence> {
        self.last
    }

    /// Returns the sequence number of the next chunk, unless all chunks are copied out.
    pub(crate) fn next(&self) -> Option<Sequence> {
        self.chunks.front().map(|chunk| chunk.sequence)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.chunks.len()
    }

    /// Waits for the first chunk, copies it out, and returns its block, which is unused again.
    ///
    /// # Safety
    ///
    /// As [`copy_out`](Self::copy_out). There is a chunk in flight.
    pub(super) unsafe fn copy_out_first(&mut self, target: *mut u8) -> Result<StagedBlock> {
        let first = self.chunks.front().expect("a chunk is in flight").sequence;
        wait_ticket(&self.device, &self.stream, first)?;
        self.check_contents()?;
        let chunk = self.chunks.pop_front().expect("it is still there");
        let host_access = host_access(&self.device, &chunk, self.location);
        let transfer = self.transfer();
        // SAFETY: by this function's contract; the chunk has arrived, and the block is not reused
        // before the end of this function, where `transfer` waits for the copy.
        unsafe { begin_copy_out(&transfer, &chunk, target) };
        drop(transfer);
        drop(host_access);
        Ok(chunk.staged.again())
    }

    /// Copies out all chunks that have arrived, and those that arrive meanwhile, without waiting
    /// for the device.
    ///
    /// # Safety
    ///
    /// `target` is valid for writes of as many bytes as the download has, and no other code
    /// accesses them.
    pub(super) unsafe fn copy_out(&mut self, target: *mut u8) -> Result<()> {
        // Dropped in reverse order, also after an error or a panic: the copies finish before the
        // blocks are returned.
        let mut copying: VecDeque<(Option<u64>, HostAccessGuard<'_>, Chunk)> = VecDeque::new();
        let transfer = self.transfer();
        loop {
            while let Some(sequence) = self.next()
                && poll_ticket(&self.device, &self.stream, sequence)?
            {
                self.check_contents()?;
                let Some(chunk) = self.chunks.pop_front() else {
                    break;
                };
                let host_access = host_access(&self.device, &chunk, self.location);
                // SAFETY: by this function's contract; the chunk has arrived, and is kept until the
                // copy is finished.
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

    /// Waits for all chunks and copies them out.
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

    /// Calls [`copy_out_all`](Self::copy_out_all) on a slice of as many bytes as the download has.
    pub(crate) fn finish_into(&mut self, target: &mut [u8]) -> Result<()> {
        assert_eq!(
            target.len(),
            self.bytes,
            "the target is as long as the download"
        );
        // SAFETY: the caller has exclusive access to the slice, which is as long as the download.
        unsafe { self.copy_out_all(target.as_mut_ptr()) }
    }

    fn transfer(&self) -> Transfer {
        let staging_options = self.device.staging_options();
        Transfer::new(staging_options, staging_options.download_non_temporal)
    }
}

/// Reports that the host reads the chunk's block, until the guard is dropped.
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

/// Begins to copy a chunk that has arrived to the target. Returns the number of the copy unless it
/// is finished already.
///
/// # Safety
///
/// As [`PendingDownload::copy_out`] for the target; the chunk is kept until the copy is finished.
unsafe fn begin_copy_out(transfer: &Transfer, chunk: &Chunk, target: *mut u8) -> Option<u64> {
    let target = target.wrapping_add(chunk.at);
    // SAFETY: the chunk owns the block, which has this number of bytes, and their range lies within
    // the target.
    unsafe { transfer.copy(chunk.staged.pointer(), target, chunk.bytes) }
}
