//! Downloads through page-locked memory, copied out when the host waits for them.

#![allow(unsafe_code, reason = "submits copies to blocks that it holds")]

use std::{panic::Location, sync::Arc};

use bytemuck::Pod;

use super::{PendingDownload, staged_block::StagedBlock};
use crate::{
    Pending, ReadOperand, Rejected, Result, Stream,
    array::Span,
    context::{AtCaller, CopyToHost, HostWaiter, Operation, submit, sync_point_after},
    error::OperationKind,
    future::PendingValue,
    tracker::{AccessKind, Sequence},
};

/// A vector without elements, whose spare capacity is the target of a download.
struct SpareVec<T>(Vec<T>);

// SAFETY: the vector has no element that could be sent. Elements are created from the bytes only
// when the vector is returned to its user.
unsafe impl<T> Send for SpareVec<T> {}

impl<T: Pod> SpareVec<T> {
    /// Clears a vector and keeps its memory.
    fn of(mut vector: Vec<T>) -> Self {
        vector.clear();
        Self(vector)
    }

    /// Returns the address of memory for `len` elements.
    fn target(&mut self, len: usize) -> *mut u8 {
        if self.0.capacity() < len {
            self.0 = vector_for(len);
        }
        self.0.as_mut_ptr().cast()
    }
}

/// A pending download to a vector.
struct VecDownload<T> {
    download: PendingDownload,
    spare: SpareVec<T>,
    len: usize,
}

impl<T: Pod> PendingValue<Vec<T>> for VecDownload<T> {
    fn step(&mut self) -> Result<Option<Sequence>> {
        let target = self.spare.target(self.len);
        // SAFETY: the vector has capacity for the elements, and this value owns it.
        unsafe { self.download.copy_out(target) }?;
        Ok(self.download.next())
    }

    fn finish(self: Box<Self>) -> Vec<T> {
        assert!(self.download.next().is_none(), "all is copied out");
        let mut vector = self.spare.0;
        // SAFETY: this number of elements was copied there, and any bits are a `T`.
        unsafe { vector.set_len(self.len) };
        vector
    }
}

impl Stream {
    /// Downloads the elements of `source`. The future completes after all earlier operations on
    /// them, and does not wait for later work of the stream.
    ///
    /// The elements are copied to page-locked memory in chunks, all of which are submitted when the
    /// call returns. The thread that waits for the future or polls it copies them from there, each
    /// chunk while the next are in flight; several threads help with large downloads.
    ///
    /// The call returns at once as long as the page-locked memory for it is within the [staging
    /// limit](crate::Device::set_staging_limit). Beyond that it blocks until the device has copied
    /// the first chunks, and reuses their memory for the others.
    ///
    /// ```
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let buffer = stream.upload(&[1_u32, 2, 3, 4])?;
    /// let (all, some) = (stream.download(&buffer)?, stream.download(buffer.slice(1..3))?);
    /// drop(buffer); // both downloads have what they need
    /// assert_eq!(all.wait()?, [1, 2, 3, 4]); // or .await
    /// assert_eq!(some.wait()?, [2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the source is on another device, page-locked memory cannot be allocated, or the device is
    /// lost.
    #[track_caller]
    #[doc(alias("cuMemcpyDtoHAsync", "memcpy_dtov", "clone_dtoh", "dtoh_sync_copy"))]
    pub fn download<T: Pod>(&self, source: impl ReadOperand<T>) -> Result<Pending<Vec<T>>> {
        let location = Location::caller();
        self.download_elements(&source, Vec::new(), location)
            .map_err(|rejected| rejected.error)
    }

    /// Like [`download`](Self::download), but reuses the memory of an existing vector, which the
    /// future returns with the elements of `source`. This saves programs that download repeatedly
    /// the first touch of new memory, which takes as long as the copy.
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
    #[doc(alias("memcpy_dtoh"))]
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
        // SAFETY: the vector has capacity for the elements, and this call owns it.
        let download = unsafe { self.stage(&span, host_waiter, location, || spare.target(len)) };
        match download.at_caller("download", location) {
            Ok(download) => Ok(self.pending_elements(download, spare, len, alive)),
            Err(error) => Err(Rejected::new(error, spare.0)),
        }
    }

    /// Creates the future of a submitted download to a new vector.
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

    /// Submits the copy of an array to page-locked memory, to be copied out to `target` later. At
    /// the staging limit, chunks that cannot be submitted yet wait until the first ones are copied
    /// out.
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
        // SAFETY: the caller has exclusive access to the slice, which is as long as the download.
        unsafe { self.stage(span, host_waiter, location, || target.as_mut_ptr()) }
            .at_caller("download", location)
    }

    /// Submits the copy of an array to page-locked memory, chunk by chunk. At the staging limit,
    /// the first chunks are copied out to `target` before the last are submitted.
    ///
    /// # Safety
    ///
    /// `target` returns an address that is valid for writes of as many bytes as the array has, and
    /// no other code accesses them until this returns.
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
                // SAFETY: by this function's contract; there are chunks in flight.
                None => unsafe { download.copy_out_first(target()) }?,
            };
            let command = CopyToHost {
                target: staged.pointer(),
                source: chunk.pointer(),
                bytes,
            };
            let is_last = at + bytes == span.bytes.len();
            let mut operation = Operation {
                kind: OperationKind::DeviceToHost,
                label: "download",
                location,
                bytes: bytes as u64,
                accesses: [chunk.access(AccessKind::Read)].into(),
                host_waiter: is_last.then(|| host_waiter.clone()),
            };
            // SAFETY: the chunk lies within its allocation, the block has at least as many bytes,
            // and `staged` returns it to the pool with this operation's ticket, so that it is not
            // reused before the copy is complete.
            let (sequence, ()) = unsafe { submit(device, stream, &mut operation, command) }?;
            download.push(sequence, staged, at, bytes);
            if !is_last {
                // With a sync point the chunk can be copied out before the next one arrives. If
                // recording fails, it is copied out later.
                sync_point_after(device, stream, sequence).ok();
            }
        }
        download.depend_on(span.allocation.history.provenance.unsettled()?);
        Ok(download)
    }
}

/// Creates an empty vector with capacity for `len` elements, in huge pages where the system has
/// them: the first touch of small pages takes as long as the copy.
fn vector_for<T>(len: usize) -> Vec<T> {
    let vector = Vec::<T>::with_capacity(len);
    prefer_large_pages(
        vector.as_ptr().cast::<u8>(),
        vector.capacity() * size_of::<T>(),
    );
    vector
}

/// The size of a huge page.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGE_BYTES: usize = 2 << 20;

/// Requests huge pages for this memory wherever whole ones lie within it.
#[cfg(all(target_os = "linux", not(miri)))]
fn prefer_large_pages(start: *const u8, bytes: usize) {
    let skipped = start.align_offset(PAGE_BYTES);
    let pages_bytes = bytes.saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    if pages_bytes == 0 {
        return;
    }
    let pages = start.wrapping_add(skipped).cast_mut().cast();
    // SAFETY: the range lies within one allocation. The advice changes the backing of the memory
    // and not its contents; a refusal is ignored.
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
