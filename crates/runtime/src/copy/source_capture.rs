//! The source of an owned upload, and its captures to page-locked blocks by host functions.

#![allow(unsafe_code, reason = "copies from sources to blocks that it holds")]

use std::{marker::PhantomData, panic::Location, sync::Arc};

use bytemuck::Pod;
use millstream_driver::Driver;
use parking_lot::Mutex;

use super::{OwnedSource, copy_threads::Transfer};
use crate::{
    disposal::dispose,
    page_locked::{HostAccessGuard, StagingOptions},
};

/// The location of a source's elements.
#[derive(Clone, Copy)]
struct SourceBytes {
    start: *const u8,
    bytes: usize,
}

// SAFETY: an address is plain data; `SourceCapture` says how long it is valid.
unsafe impl Send for SourceBytes {}

/// The captures of a source to page-locked blocks. It refers to the source's elements and does not
/// own the source, so that a host function that drops the last reference runs no destructor of the
/// user.
pub(super) struct SourceCapture {
    /// The captures of the chunks, with the chunks' numbers.
    transfer: Transfer,
    chunk_bytes: usize,
    /// The elements, until the source is taken back. Until then they neither move nor change.
    source: Mutex<Option<SourceBytes>>,
    /// The driver to which host accesses are reported, and the source line.
    driver: Arc<dyn Driver>,
    location: &'static Location<'static>,
}

impl SourceCapture {
    /// Begins to capture the chunk of this number to a block, after all chunks before it. Does
    /// nothing if there is no such chunk, or if the source was taken back, in which case the target
    /// is never read.
    ///
    /// # Safety
    ///
    /// Until the chunk is captured, the block is valid for writes of as many bytes as a chunk has,
    /// and no other code accesses it.
    pub(super) unsafe fn begin(&self, chunk: usize, block: *mut u8) {
        let source = self.source.lock();
        let Some(SourceBytes { start, bytes }) = *source else {
            return;
        };
        let Some(left) = chunk
            .checked_mul(self.chunk_bytes)
            .and_then(|at| bytes.checked_sub(at))
            .filter(|&left| left > 0)
        else {
            return;
        };
        let len = left.min(self.chunk_bytes);
        self.touches(block, len);
        // SAFETY: by this function's contract for the block. The elements neither move nor change
        // until `close`, which waits for the transfer.
        unsafe {
            self.transfer
                .push(start.wrapping_add(bytes - left), block, len)
        };
    }

    /// Waits until the chunk of this number is captured to that block. Returns at once if the
    /// source was taken back: the capture may never have begun, and the block may have another
    /// owner.
    pub(super) fn finish(&self, chunk: usize, block: *const u8, bytes: usize) {
        // Held while waiting, so that the source stays; the copy threads do not take this lock.
        let source = self.source.lock();
        if source.is_some() {
            self.transfer.finish(chunk as u64);
            self.touches(block, bytes);
        }
    }

    /// Reports a write of a block at its beginning and at its end, because the thread that captures
    /// it is not the one that waits for it.
    fn touches(&self, block: *const u8, bytes: usize) {
        drop(HostAccessGuard::writes(
            &self.driver,
            block,
            bytes,
            "upload",
            self.location,
        ));
    }

    /// Waits for running captures and forgets the elements, so that no later capture reads them.
    fn close(&self) {
        let mut source = self.source.lock();
        self.transfer.finish_all();
        *source = None;
    }
}

/// An upload that owns its source until the source is taken back or the upload is done.
pub(super) struct Upload<T: Pod, S: OwnedSource<T>> {
    pub(super) capture: Arc<SourceCapture>,
    source: Mutex<Option<S>>,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod, S: OwnedSource<T>> Upload<T, S> {
    pub(super) fn new(
        source: S,
        staging_options: &StagingOptions,
        driver: &Arc<dyn Driver>,
        location: &'static Location<'static>,
    ) -> Self {
        // The elements do not move with their owner: each type of source keeps them on the heap or
        // in static memory.
        let bytes: &[u8] = bytemuck::cast_slice(source.elements());
        let elements = SourceBytes {
            start: bytes.as_ptr(),
            bytes: bytes.len(),
        };
        let capture = SourceCapture {
            transfer: Transfer::new(staging_options, staging_options.upload_non_temporal),
            chunk_bytes: staging_options.chunk_bytes,
            source: Mutex::new(Some(elements)),
            driver: Arc::clone(driver),
            location,
        };
        Self {
            capture: Arc::new(capture),
            source: Mutex::new(Some(source)),
            element: PhantomData,
        }
    }

    /// Takes the source back; no capture reads it afterwards.
    pub(super) fn take(&self) -> S {
        self.capture.close();
        let source = self.source.lock().take();
        source.expect("the source is taken back once")
    }
}

impl<T: Pod, S: OwnedSource<T>> Drop for Upload<T, S> {
    /// Sends the source to the disposal thread: its destructor may be the user's, and this may be
    /// the reactor's thread.
    fn drop(&mut self) {
        self.capture.close();
        let Some(source) = self.source.get_mut().take() else {
            return;
        };
        if S::IS_PLAIN {
            drop(source);
        } else {
            dispose(Box::new(source));
        }
    }
}

/// A block's address, to be sent to a host function.
#[derive(Clone, Copy)]
pub(super) struct BlockAddress(pub(super) *mut u8);

// SAFETY: an address is plain data; the operation that owns the block decides when it is accessed.
unsafe impl Send for BlockAddress {}

impl BlockAddress {
    /// Returns the address. A method, so that closures capture the whole value and not only the
    /// pointer.
    pub(super) fn get(self) -> *mut u8 {
        self.0
    }
}

#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use millstream_sim::{Gpu, SimConfig};

    use super::*;

    #[test]
    fn waits_for_chunks_of_a_source_that_was_taken_back_return_at_once() {
        const PIECE: usize = 16;
        let driver = Gpu::new(SimConfig::new()).driver();
        let staging_options = StagingOptions {
            chunk_bytes: PIECE,
            ..StagingOptions::default()
        };
        let source = vec![7_u8; 3 * PIECE];
        let upload = Upload::new(source, &staging_options, &driver, Location::caller());
        let mut block = vec![0; PIECE];
        // SAFETY: the block is as large as a chunk, and nothing else touches it before the source
        // is taken back.
        unsafe { upload.capture.begin(0, block.as_mut_ptr()) };
        assert_eq!(upload.take().len(), 3 * PIECE);
        assert_eq!(block, [7; PIECE]);
        // What the stream does if the upload failed with its host functions enqueued.
        let (tell, told) = mpsc::channel();
        let address = BlockAddress(block.as_mut_ptr());
        thread::spawn(move || {
            // SAFETY: the block stays until this has sent its message.
            unsafe { upload.capture.begin(1, address.get()) };
            upload.capture.finish(1, address.get(), PIECE);
            let _ = tell.send(());
        });
        told.recv_timeout(Duration::from_secs(20))
            .expect("it waited for a chunk that no host function captures");
    }

    #[test]
    fn a_host_function_that_holds_the_last_reference_runs_no_destructor_of_the_users() {
        /// Memory whose destructor reports its thread.
        struct Owner(mpsc::Sender<Option<String>>);

        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                &[7; 64]
            }
        }

        impl Drop for Owner {
            fn drop(&mut self) {
                let _ = self.0.send(thread::current().name().map(String::from));
            }
        }

        let driver = Gpu::new(SimConfig::new()).driver();
        let (tell, told) = mpsc::channel();
        let source = bytes::Bytes::from_owner(Owner(tell));
        let upload = Upload::new(
            source,
            &StagingOptions::default(),
            &driver,
            Location::caller(),
        );
        let in_host_function = Arc::downgrade(&upload.capture).upgrade();
        drop(upload);
        let name = told.recv_timeout(Duration::from_secs(20));
        let name = name.expect("the source is kept by a host function");
        assert_eq!(name.as_deref(), Some("millstream-disposal"));
        drop(in_host_function);
    }
}
