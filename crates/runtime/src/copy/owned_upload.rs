//! Owned uploads: the operation takes over its source, so that nothing is captured before the call
//! returns.
//!
//! The source is pageable, so the device reads it through page-locked memory all the same (rule 8:
//! the driver's own copies from pageable memory may block): chunk by chunk, in a few blocks that
//! are used in turn. Before the copy of each chunk the stream calls a host function (rule 27: it
//! runs in stream order and must not call the driver). It waits until the chunk is captured and
//! makes the copy threads capture the chunk for the block that the stream has just finished with.
//! While one chunk is copied to the device, the next are captured; the first few are captured
//! before the stream reaches them. Host functions are not called on a lost device (rule 28: not run
//! after a context error), so they own nothing that must be dropped: the source is kept by the
//! `Pending` of the upload, or until the upload is done. They access the source's elements and not
//! the source, whose destructor may be the user's code and may call the driver.

#![allow(unsafe_code, reason = "submits copies from blocks that it holds")]

use std::{
    collections::VecDeque,
    mem::needs_drop,
    panic::Location,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytemuck::Pod;
use bytes::Bytes;
use millstream_driver::HostFunction;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{
    same_length,
    source_capture::{BlockAddress, SourceCapture, Upload},
    staged_block::StagedBlock,
};
use crate::{
    Buffer, Device, Pending, Rejected, Result, Stream, WriteOperand,
    array::Span,
    context::{
        CopyLayer, DeviceSlot, DeviceState, HostWaiter, Operation, StagedUpload,
        retain_until_complete, submit,
    },
    error::OperationKind,
    future::wait_for_ticket,
    tracker::{AccessKind, Ticket},
};

/// The default limit of the bytes of sources that are kept for pending uploads. Beyond it, an
/// upload waits for the oldest. A single source may be larger.
const KEPT_BYTES_MAX_DEFAULT: usize = 256 << 20;
/// The number of blocks of an upload that are stored inline.
const BLOCKS_INLINE: usize = 3;

mod sealed {
    pub trait Sealed<T> {
        /// Set if dropping the source runs no code but the allocator's.
        const IS_PLAIN: bool;

        fn elements(&self) -> &[T];
    }
}
use sealed::Sealed;

/// Memory that an upload can take over: `Vec<T>`, `Box<[T]>`, `Arc<[T]>`, `Arc<Vec<T>>`, and
/// [`Bytes`] for bytes.
///
/// ```
/// use std::sync::Arc;
///
/// let stream = millstream::Device::simulated()?.stream()?;
/// let shared: Arc<[f32]> = Arc::from([1.0, 2.0]);
/// let buffer = stream.upload_owned(Arc::clone(&shared))?;
/// assert_eq!(stream.download(&buffer)?.wait()?, *shared);
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait OwnedSource<T>: Sealed<T> + Send + Sync + 'static {}

macro_rules! owned {
    ($([$($generics:tt)*] $source:ty: $element:ty, $is_plain:expr;)*) => {
        $(
            impl<$($generics)*> Sealed<$element> for $source {
                const IS_PLAIN: bool = $is_plain;

                fn elements(&self) -> &[$element] {
                    self
                }
            }

            impl<$($generics)*> OwnedSource<$element> for $source {}
        )*
    };
}

owned! {
    [T: Send + Sync + 'static] Vec<T>: T, !needs_drop::<T>();
    [T: Send + Sync + 'static] Box<[T]>: T, !needs_drop::<T>();
    [T: Send + Sync + 'static] Arc<[T]>: T, !needs_drop::<T>();
    [T: Send + Sync + 'static] Arc<Vec<T>>: T, !needs_drop::<T>();
    // Its owner may be a type of the user.
    [] Bytes: u8, false;
}

/// The sources of the pending uploads of one device.
#[derive(Debug)]
pub(crate) struct KeptSources {
    /// Each upload's last ticket and its source's bytes, oldest first.
    uploads: Mutex<VecDeque<(Ticket, usize)>>,
    /// The limit of their bytes together.
    bytes_max: AtomicUsize,
}

impl Default for KeptSources {
    fn default() -> Self {
        Self {
            uploads: Mutex::default(),
            bytes_max: AtomicUsize::new(KEPT_BYTES_MAX_DEFAULT),
        }
    }
}

impl DeviceSlot for CopyLayer {
    type Value = KeptSources;
}

impl KeptSources {
    fn of(device: &DeviceState) -> &Self {
        &device.copy_slot
    }

    pub(crate) fn set_limit(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Waits until `bytes` more bytes are within the limit.
    fn make_room(&self, device: &DeviceState, bytes: usize) -> Result<()> {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        loop {
            let oldest = {
                let mut uploads = self.uploads.lock();
                uploads.retain(|(ticket, _)| !device.is_done(*ticket));
                let kept_bytes: usize = uploads.iter().map(|(_, bytes)| bytes).sum();
                match uploads.front() {
                    Some((ticket, _)) if kept_bytes.saturating_add(bytes) > bytes_max => *ticket,
                    _ => return Ok(()),
                }
            };
            wait_for_ticket(device, oldest)?;
        }
    }
}

impl Device {
    /// Limits the sources of owned uploads that are kept until their uploads are done. The default
    /// is 256 MiB. Beyond it, [`Stream::upload_owned`](crate::Stream::upload_owned) blocks until
    /// the oldest upload is done. A single source may be larger.
    pub fn set_kept_sources_limit(&self, limit_bytes: usize) {
        KeptSources::of(self.state()).set_limit(limit_bytes);
    }
}

impl Stream {
    /// Creates an array on the device with the elements of `source`, which the upload takes over: a
    /// `Vec`, a box, an `Arc` or [`Bytes`].
    ///
    /// A large source is not copied before the call returns, however busy the stream is. It is
    /// dropped when the upload is done. The sources of pending uploads are
    /// [limited](crate::Device::set_kept_sources_limit) for each device; beyond the limit the call
    /// blocks until the oldest upload is done.
    ///
    /// # Errors
    ///
    /// If memory is exhausted, or the device is lost. The source is in the error.
    #[track_caller]
    pub fn upload_owned<T: Pod, S: OwnedSource<T>>(
        &self,
        source: S,
    ) -> Result<Buffer<T>, Rejected<S>> {
        let location = Location::caller();
        let len = source.elements().len();
        let buffer = Buffer::new(
            self.device_state(),
            self.state(),
            len,
            "upload_owned",
            location,
        );
        let mut target = match buffer {
            Ok(target) => target,
            Err(error) => return Err(Rejected::new(error, source)),
        };
        let span = target.view_mut().span;
        drop(self.submit_owned(source, &span, location)?);
        Ok(target)
    }

    /// Uploads the elements of `source`, which the upload takes over, into an existing array. The
    /// future returns the source; drop the [`Pending`] if it is not needed.
    ///
    /// ```
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let mut frame = stream.zeros::<u8>(4 << 20)?;
    /// let mut pixels = vec![7; 4 << 20];
    /// for _ in 0..3 {
    ///     let uploaded = stream.upload_owned_into(pixels, &mut frame)?;
    ///     pixels = uploaded.wait()?; // to use its memory again
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the lengths differ, the target is on another device, page-locked memory cannot be
    /// allocated, or the device is lost. The source is in the error.
    #[track_caller]
    pub fn upload_owned_into<T: Pod, S: OwnedSource<T>>(
        &self,
        source: S,
        target: impl WriteOperand<T>,
    ) -> Result<Pending<S>, Rejected<S>> {
        let operand = target.operand();
        let fits = same_length("upload_owned_into", source.elements().len(), target.len());
        let here = || self.same_device("upload_owned_into", 0, &operand.0.allocation.device);
        let location = Location::caller();
        if let Err(usage_error) = fits.and_then(|()| here()) {
            return Err(Rejected::new(usage_error.at(location), source));
        }
        self.submit_owned(source, &operand.0, location)
    }

    fn submit_owned<T: Pod, S: OwnedSource<T>>(
        &self,
        source: S,
        target: &Span<'_>,
        location: &'static Location<'static>,
    ) -> Result<Pending<S>, Rejected<S>> {
        let (device, stream) = (self.device_state(), self.state());
        let alive = Arc::new(());
        let host_waiter = HostWaiter {
            alive: Arc::downgrade(&alive),
            chained: false,
        };
        let bytes = target.bytes.len();
        let staging_options = device.staging_options();
        let captured_bytes_max = staging_options
            .captured_bytes
            .max(staging_options.small_bytes);
        if bytes <= captured_bytes_max || device.recorder_of(stream).is_some() {
            let captured = self.upload_chunks(
                bytemuck::cast_slice(source.elements()),
                target,
                None,
                location,
                |_| (),
            );
            return match captured.and_then(|()| device.check_alive()) {
                // The source can be returned at once.
                Ok(()) => Ok(Pending::ready(|| source)),
                Err(error) => Err(Rejected::new(error, source)),
            };
        }
        let chunk_bytes = staging_options.chunk_bytes;
        let blocks = || -> Result<SmallVec<[StagedBlock; BLOCKS_INLINE]>> {
            KeptSources::of(device).make_room(device, bytes)?;
            let sizes = (0..bytes)
                .step_by(chunk_bytes)
                .take(staging_options.owned_blocks);
            sizes
                .map(|start| StagedBlock::new(device, stream, chunk_bytes.min(bytes - start)))
                .collect()
        };
        let mut blocks = match blocks() {
            Ok(blocks) => blocks,
            Err(error) => return Err(Rejected::new(error, source)),
        };
        let addresses: SmallVec<[BlockAddress; BLOCKS_INLINE]> = blocks
            .iter()
            .map(|block| BlockAddress(block.pointer()))
            .collect();
        let upload = Arc::new(Upload::new(
            source,
            staging_options,
            &device.driver,
            location,
        ));
        for (chunk, block) in addresses.iter().enumerate() {
            // SAFETY: the block is as large as the chunk and owned by this upload. It is returned
            // to the pool when the upload is done, or has failed and the source was taken back.
            unsafe { upload.capture.begin(chunk, block.get()) };
        }
        let weak: Weak<SourceCapture> = Arc::downgrade(&upload.capture);
        let capture = |chunk: usize| -> HostFunction {
            let (capture, addresses) = (weak.clone(), addresses.clone());
            Box::new(move || {
                let Some(capture) = capture.upgrade() else {
                    return;
                };
                if let Some(before) = chunk.checked_sub(1) {
                    let block = addresses[before % addresses.len()];
                    // SAFETY: this function's contract. The stream has finished the copy of the
                    // chunk before, which was the last to use the block.
                    unsafe { capture.begin(before + addresses.len(), block.get()) };
                }
                let block = addresses[chunk % addresses.len()];
                capture.finish(
                    chunk,
                    block.get(),
                    chunk_bytes.min(bytes - chunk * chunk_bytes),
                );
            })
        };
        let command = StagedUpload {
            target: target.pointer(),
            blocks: addresses
                .iter()
                .map(|block| block.get().cast_const())
                .collect(),
            bytes,
            chunk_bytes,
            capture,
        };
        let mut operation = Operation {
            kind: OperationKind::HostToDevice,
            label: "upload",
            location,
            bytes: bytes as u64,
            accesses: [target.access(AccessKind::Write)].into(),
            host_waiter: Some(host_waiter),
        };
        // SAFETY: the span lies within its allocation, and the blocks return to the pool with a
        // ticket that is done after everything enqueued here, so that they are not reused before.
        let outcome = unsafe { submit(device, stream, &mut operation, command) };
        match outcome {
            Ok((sequence, ())) => {
                let ticket = stream.ticket(sequence);
                blocks.iter_mut().for_each(|block| block.used_by(ticket));
                KeptSources::of(device)
                    .uploads
                    .lock()
                    .push_back((ticket, bytes));
                retain_until_complete(device, stream, sequence, Arc::clone(&upload));
                Ok(Pending::new(
                    Arc::clone(device),
                    Arc::clone(stream),
                    sequence,
                    alive,
                    move || upload.take(),
                ))
            }
            // Taken before the blocks are returned: host functions that were enqueued before the
            // failure then capture nothing.
            Err(error) => Err(Rejected::new(error, upload.take())),
        }
    }
}
