//! Downloads: through page-locked memory, to what the host asks for once the copy is done.

#![allow(unsafe_code, reason = "submits copies to blocks that it holds")]

use std::{panic::Location, sync::Arc};

use bytemuck::Pod;

use super::{PendingDownload, staged_block::StagedBlock};
use crate::{
    Pending, ReadOperand, Rejected, Result, Stream,
    context::{CopyToHost, HostWaiter, Operation, submit, sync_point_after},
    error::OperationKind,
    future::PendingValue,
    memory::Span,
    tracker::{AccessKind, Sequence},
};

/// A vector without elements, whose memory elements are copied to.
struct SpareVec<T>(Vec<T>);

// SAFETY: there is no element that could be sent. Where one is made of the bytes, the vector is
// given out.
unsafe impl<T> Send for SpareVec<T> {}

impl<T: Pod> SpareVec<T> {
    /// The memory of a vector, without its elements.
    fn of(mut vector: Vec<T>) -> Self {
        vector.clear();
        Self(vector)
    }

    /// Where so many elements have room.
    fn target(&mut self, len: usize) -> *mut u8 {
        if self.0.capacity() < len {
            self.0 = vector_for(len);
        }
        self.0.as_mut_ptr().cast()
    }
}

/// Elements that are to be copied from the device, and where they belong.
struct VecDownload<T> {
    download: PendingDownload,
    spare: SpareVec<T>,
    len: usize,
}

impl<T: Pod> PendingValue<Vec<T>> for VecDownload<T> {
    fn step(&mut self) -> Result<Option<Sequence>> {
        let target = self.spare.target(self.len);
        // SAFETY: there is room for the elements, which is this value's alone.
        unsafe { self.download.copy_out(target) }?;
        Ok(self.download.next())
    }

    fn finish(self: Box<Self>) -> Vec<T> {
        assert!(self.download.next().is_none(), "all is copied out");
        let mut vector = self.spare.0;
        // SAFETY: so many elements are copied there, and any bits are a `T`.
        unsafe { vector.set_len(self.len) };
        vector
    }
}

impl Stream {
    /// The elements of `source`, once all that comes before this is done. Later work of the stream
    /// is not waited for.
    ///
    /// The copy goes to page-locked memory, in chunks, and all of it is submitted when this
    /// returns. Whoever waits for the elements, or polls, copies them from there, each chunk while
    /// the next are on their way; several threads help where there is much to copy.
    ///
    /// The call returns at once as long as the page-locked memory that it takes is within the
    /// [staging limit](crate::Device::set_staging_limit). Beyond that it blocks until the device
    /// has got to the first chunks, and uses their memory again for the others.
    ///
    /// # Errors
    ///
    /// If the source is on another device, page-locked memory cannot be had, or the device is lost.
    #[track_caller]
    pub fn download<T: Pod>(&self, source: impl ReadOperand<T>) -> Result<Pending<Vec<T>>> {
        let location = Location::caller();
        self.download_elements(&source, Vec::new(), location)
            .map_err(|rejected| rejected.error)
    }

    /// As [`download`](Self::download), to a vector that is there already and comes back with the
    /// elements of `source` in place of its own: for programs that download again and again, since
    /// to touch new memory for the first time takes as long as to copy to it.
    ///
    /// ```
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let buffer = stream.upload(&[1_u32, 2, 3])?;
    /// let mut numbers = Vec::new();
    /// for _ in 0..3 {
    ///     numbers = stream.download_into(&buffer, numbers)?.wait()?;
    ///     assert_eq!(numbers, [1, 2, 3]);
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`download`](Self::download). The vector is in the error.
    #[track_caller]
    pub fn download_into<T: Pod>(
        &self,
        source: impl ReadOperand<T>,
        target: Vec<T>,
    ) -> Result<Pending<Vec<T>>, Rejected<Vec<T>>> {
        self.download_elements(&source, target, Location::caller())
    }

    fn download_elements<T: Pod>(
        &self,
        source: &impl ReadOperand<T>,
        vector: Vec<T>,
        location: &'static Location<'static>,
    ) -> Result<Pending<Vec<T>>, Rejected<Vec<T>>> {
        let alive = Arc::new(());
        let host_waiter = HostWaiter {
            alive: Arc::downgrade(&alive),
            chained: false,
        };
        let (span, len) = (source.operand().0, source.len());
        let mut spare = SpareVec::of(vector);
        // SAFETY: there is room for the elements, which is this call's alone.
        let download = unsafe { self.stage(&span, host_waiter, location, || spare.target(len)) };
        match download {
            Ok(download) => Ok(self.pending_elements(download, spare, len, alive)),
            Err(error) => Err(Rejected::new(error, spare.0)),
        }
    }

    /// The elements of a download that is submitted, in a new vector.
    pub(super) fn pending_vector<T: Pod>(
        &self,
        download: PendingDownload,
        len: usize,
        alive: Arc<()>,
    ) -> Pending<Vec<T>> {
        self.pending_elements(download, SpareVec::of(Vec::new()), len, alive)
    }

    fn pending_elements<T: Pod>(
        &self,
        download: PendingDownload,
        spare: SpareVec<T>,
        len: usize,
        alive: Arc<()>,
    ) -> Pending<Vec<T>> {
        let (device, stream) = (Arc::clone(self.device_state()), Arc::clone(self.state()));
        let last = download.last();
        let first = download.next().or(last);
        let elements = VecDownload {
            download,
            spare,
            len,
        };
        match first.zip(last) {
            Some((first, last)) => Pending::in_steps(device, stream, first..=last, alive, elements),
            None => Pending::ready(|| Box::new(elements).finish()),
        }
    }

    /// Submits the copy of an array to page-locked memory, to be copied out to `target` in the end.
    /// What cannot be submitted before the first chunks are copied out waits for that.
    pub(crate) fn stage_for(
        &self,
        span: &Span<'_>,
        target: &mut [u8],
        host_waiter: HostWaiter,
        location: &'static Location<'static>,
    ) -> Result<PendingDownload> {
        assert_eq!(
            target.len(),
            span.bytes.len(),
            "the target is as long as the download"
        );
        // SAFETY: the slice is the caller's alone, and as long as the download.
        unsafe { self.stage(span, host_waiter, location, || target.as_mut_ptr()) }
    }

    /// Submits the copy of an array to page-locked memory, chunk by chunk. Where the staging limit
    /// is reached, the first chunks are copied out to `target` before the last are submitted.
    ///
    /// # Safety
    ///
    /// `target` gives an address that is valid for writes of as many bytes as the array has, and
    /// nobody else touches them until this returns.
    unsafe fn stage(
        &self,
        span: &Span<'_>,
        host_waiter: HostWaiter,
        location: &'static Location<'static>,
        mut target: impl FnMut() -> *mut u8,
    ) -> Result<PendingDownload> {
        let (device, stream) = (self.device_state(), self.state());
        self.same_device("download", 0, &span.allocation.device)?;
        let bytes = span.bytes.len();
        let mut download = PendingDownload::new(device, stream, bytes, location);
        if bytes == 0 {
            device.check_alive()?;
            return Ok(download);
        }
        let staging_options = device.staging_options();
        let chunk_bytes = staging_options.chunk_bytes;
        for (chunk, at) in span
            .chunks(chunk_bytes)
            .zip((0..bytes).step_by(chunk_bytes))
        {
            let bytes = chunk.bytes.len();
            let staged = match StagedBlock::try_new(device, stream, bytes)? {
                Some(staged) => staged,
                None if download.in_flight() < staging_options.download_blocks => {
                    StagedBlock::new(device, stream, bytes)?
                }
                // SAFETY: by this function's contract; there are chunks on their way.
                None => unsafe { download.copy_out_first(target()) }?,
            };
            let command = CopyToHost {
                target: staged.pointer(),
                source: chunk.pointer(),
                bytes,
            };
            let is_last = at + bytes == span.bytes.len();
            let operation = Operation {
                kind: OperationKind::DeviceToHost,
                label: "download",
                location,
                bytes: bytes as u64,
                accesses: [chunk.access(AccessKind::Read)].into(),
                host_waiter: is_last.then(|| host_waiter.clone()),
            };
            // SAFETY: the chunk lies within its allocation, the block has at least as many bytes,
            // and `staged` gives it back to the pool with this operation's ticket, so that nobody
            // uses it before the copy is done.
            let (sequence, ()) = unsafe { submit(device, stream, operation, command) }?;
            download.push(sequence, staged, at, bytes);
            if !is_last {
                // So that it can be copied out before the next has arrived. Without a sync point
                // that is later.
                sync_point_after(device, stream, sequence).ok();
            }
        }
        Ok(download)
    }
}

/// An empty vector with room for `len` elements, in large pages where the system has them: the
/// first touch of memory takes as long as copying to it, page by page.
fn vector_for<T>(len: usize) -> Vec<T> {
    let vector = Vec::<T>::with_capacity(len);
    prefer_large_pages(
        vector.as_ptr().cast::<u8>(),
        vector.capacity() * size_of::<T>(),
    );
    vector
}

/// A large page.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGE_BYTES: usize = 2 << 20;

/// Asks for large pages wherever whole ones lie within this memory.
#[cfg(all(target_os = "linux", not(miri)))]
fn prefer_large_pages(start: *const u8, bytes: usize) {
    let skipped = start.align_offset(PAGE_BYTES);
    let pages_bytes = bytes.saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    if pages_bytes == 0 {
        return;
    }
    let pages = start.wrapping_add(skipped).cast_mut().cast();
    // SAFETY: the range lies within one allocation. The advice changes how memory is backed and not
    // what it holds; it may be refused, and that is no loss.
    unsafe { libc::madvise(pages, pages_bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn prefer_large_pages(_start: *const u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_has_room_for_what_it_is_for() {
        for len in [0, 1, 1 << 10, (1 << 20) + 1, 5 << 20] {
            let mut vector = vector_for::<u32>(len);
            assert!(vector.is_empty() && vector.capacity() >= len);
            vector.resize(len, 7);
            assert!(vector.iter().all(|&element| element == 7));
        }
    }
}
