//! Uploads of memory that the operation takes over: nothing is captured before the call returns.
//!
//! The source is pageable, so the device reads it by way of page-locked memory all the same (rule 8). The stream does
//! that when it gets there: for each piece a host function copies it to a block (rule 27), and a copy takes it from
//! there. Host functions are not called on a lost device (rule 28), so they hold nothing that has to be dropped: the
//! source is kept by whoever awaits it, or until the upload is done.

#![allow(unsafe_code, reason = "submits copies from a block that it holds")]

use std::{
    collections::VecDeque,
    panic::Location,
    sync::{Arc, Weak},
};

use bytemuck::Pod;
use bytes::Bytes;
use millstream_driver::HostFunction;
use parking_lot::Mutex;
use smallvec::smallvec;

use super::{PIECE_BYTES, same_length, staged::Staged};
use crate::{
    Buffer, Pending, Rejected, Result, Stream, WriteOperand,
    completion::{keep_until_done, wait_for_ticket},
    device::{Awaited, DeviceState},
    memory::Span,
    submit::{Operation, StagedUpload, submit},
    timeline::Kind,
    tracker::{AccessKind, Ticket},
};

/// Sources of up to this size are captured at once: that is quicker than to come back for them.
const CAPTURED_BYTES_MAX: usize = 1 << 20;
/// How many bytes of sources may be kept for uploads to come before another upload waits for the oldest. A single source
/// may be larger.
const KEPT_BYTES_MAX: usize = 256 << 20;

mod sealed {
    pub trait Sealed<T> {
        fn elements(&self) -> &[T];
    }
}
use sealed::Sealed;

/// Memory that an upload can take over: `Vec<T>`, `Box<[T]>`, `Arc<[T]>`, `Arc<Vec<T>>`, and [`Bytes`] for bytes.
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
    ($([$($generics:tt)*] $source:ty: $element:ty;)*) => {
        $(
            impl<$($generics)*> Sealed<$element> for $source {
                fn elements(&self) -> &[$element] {
                    self
                }
            }

            impl<$($generics)*> OwnedSource<$element> for $source {}
        )*
    };
}

owned! {
    [T: Send + Sync + 'static] Vec<T>: T;
    [T: Send + Sync + 'static] Box<[T]>: T;
    [T: Send + Sync + 'static] Arc<[T]>: T;
    [T: Send + Sync + 'static] Arc<Vec<T>>: T;
    [] Bytes: u8;
}

/// A source in the hands of an upload, until its owner takes it back.
struct Source<S>(Mutex<Option<S>>);

impl<S> Source<S> {
    /// Copies the elements' bytes from `start` on to `target`. If the source is gone, nobody will see the target.
    ///
    /// # Safety
    ///
    /// `target` is valid for writes of `bytes` bytes, which are not part of the source, and so many follow `start`.
    unsafe fn capture<T: Pod>(&self, start: usize, target: *mut u8, bytes: usize)
    where
        S: OwnedSource<T>,
    {
        let source = self.0.lock();
        if let Some(source) = &*source {
            let part = &bytemuck::cast_slice::<T, u8>(source.elements())[start..start + bytes];
            // SAFETY: by this function's contract.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), target, bytes) };
        }
    }
}

/// A block's address on its way to a host function.
#[derive(Clone, Copy)]
struct BlockAddress(*mut u8);

// SAFETY: an address is plain data; the operation that has the block decides who uses it when.
unsafe impl Send for BlockAddress {}

impl BlockAddress {
    /// A method, so that closures capture all of this and not the pointer alone.
    fn get(self) -> *mut u8 {
        self.0
    }
}

/// The sources that wait for their upload on one device.
#[derive(Debug, Default)]
pub(crate) struct KeptSources {
    /// Each upload's last ticket and its source's bytes, oldest first.
    uploads: Mutex<VecDeque<(Ticket, usize)>>,
}

impl KeptSources {
    /// Waits until there is room for `bytes` more.
    fn make_room(&self, device: &DeviceState, bytes: usize) -> Result<()> {
        loop {
            let oldest = {
                let mut uploads = self.uploads.lock();
                uploads.retain(|(ticket, _)| !device.is_done(*ticket));
                let kept: usize = uploads.iter().map(|(_, bytes)| bytes).sum();
                match uploads.front() {
                    Some((ticket, _)) if kept.saturating_add(bytes) > KEPT_BYTES_MAX => *ticket,
                    _ => return Ok(()),
                }
            };
            wait_for_ticket(device, oldest)?;
        }
    }
}

impl Stream {
    /// An array on the device with the elements of `source`, which the upload takes over: a `Vec`, a box, an `Arc`,
    /// [`Bytes`].
    ///
    /// Of a large source nothing is copied before this returns, however busy the stream is. It is dropped when the
    /// upload is done. Of sources that wait for their upload up to 256 MiB are kept for each device; beyond that this
    /// blocks until the oldest is done.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or the device is lost. The source is in the error.
    #[track_caller]
    pub fn upload_owned<T: Pod, S: OwnedSource<T>>(&self, source: S) -> Result<Buffer<T>, Rejected<S>> {
        let location = Location::caller();
        let len = source.elements().len();
        let made = Buffer::new(self.device_state(), self.state(), len, "upload_owned", location);
        let mut target = match made {
            Ok(target) => target,
            Err(error) => return Err(Rejected::new(error, source)),
        };
        let span = target.view_mut().span;
        drop(self.submit_owned(source, &span, location)?);
        Ok(target)
    }

    /// Copies the elements of `source`, which the upload takes over, into an array that is there already. When it is done
    /// the source comes back; drop the [`Pending`] if you do not want it.
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
    /// If the lengths differ, the target is on another device, page-locked memory cannot be had, or the device is lost.
    /// The source is in the error.
    #[track_caller]
    pub fn upload_owned_into<T: Pod, S: OwnedSource<T>>(
        &self,
        source: S,
        target: impl WriteOperand<T>,
    ) -> Result<Pending<S>, Rejected<S>> {
        let place = target.place();
        let fits = same_length("upload_owned_into", source.elements().len(), target.len());
        let here = || self.same_device("upload_owned_into", 0, &place.0.allocation.device);
        if let Err(misuse) = fits.and_then(|()| here()) {
            return Err(Rejected::new(misuse, source));
        }
        self.submit_owned(source, &place.0, Location::caller())
    }

    /// Submits the upload of a source that is as long as the span.
    fn submit_owned<T: Pod, S: OwnedSource<T>>(
        &self,
        source: S,
        target: &Span<'_>,
        location: &'static Location<'static>,
    ) -> Result<Pending<S>, Rejected<S>> {
        let (device, stream) = (self.device_state(), self.state());
        let alive = Arc::new(());
        let awaited = Awaited {
            alive: Arc::downgrade(&alive),
            chained: false,
        };
        let bytes = target.bytes.len();
        if bytes <= CAPTURED_BYTES_MAX {
            let captured = self.upload_pieces(
                bytemuck::cast_slice(source.elements()),
                target,
                None,
                location,
                |_| (),
            );
            return match captured.and_then(|()| device.check_alive()) {
                // Ticket 0 is done: the source can come back at once.
                Ok(()) => Ok(Pending::new(
                    Arc::clone(device),
                    Arc::clone(stream),
                    0,
                    alive,
                    || source,
                )),
                Err(error) => Err(Rejected::new(error, source)),
            };
        }
        let room = device.kept_sources.make_room(device, bytes);
        let mut staged = match room.and_then(|()| Staged::new(device, stream, PIECE_BYTES.min(bytes))) {
            Ok(staged) => staged,
            Err(error) => return Err(Rejected::new(error, source)),
        };
        let source = Arc::new(Source(Mutex::new(Some(source))));
        let block = BlockAddress(staged.pointer());
        let weak: Weak<Source<S>> = Arc::downgrade(&source);
        let command = StagedUpload {
            target: target.pointer(),
            block: block.get(),
            bytes,
            piece_bytes: PIECE_BYTES,
            capture: |start: usize, bytes: usize| -> HostFunction {
                let source = weak.clone();
                Box::new(move || {
                    if let Some(source) = source.upgrade() {
                        // SAFETY: the block is as large as a piece, nobody else writes it before the upload is done, and
                        // the source has as many bytes as the target.
                        unsafe { source.capture(start, block.get(), bytes) };
                    }
                })
            },
        };
        let operation = Operation {
            kind: Kind::HostToDevice,
            label: "upload",
            location,
            bytes: bytes as u64,
            accesses: smallvec![target.access(AccessKind::Write)],
            awaited: Some(awaited),
        };
        // SAFETY: the span lies within its allocation, and `staged` gives the block back to the pool with a ticket that is
        // not done before all that was enqueued is, so that nobody uses it before.
        let outcome = unsafe { submit(device, stream, operation, command) };
        match outcome {
            Ok((sequence, ())) => {
                let ticket = stream.ticket(sequence);
                staged.used_by(ticket);
                device.kept_sources.uploads.lock().push_back((ticket, bytes));
                keep_until_done(device, stream, sequence, Arc::clone(&source));
                let back = move || source.0.lock().take().expect("the source is taken back once");
                Ok(Pending::new(
                    Arc::clone(device),
                    Arc::clone(stream),
                    sequence,
                    alive,
                    back,
                ))
            }
            Err(error) => {
                let source = source.0.lock().take().expect("the source is taken back once");
                Err(Rejected::new(error, source))
            }
        }
    }
}
