//! `Scope`: asynchronous copies of borrowed host memory.
//!
//! The device never accesses borrowed memory. An upload captures its source in page-locked memory
//! before it returns. A download goes to page-locked memory, and the thread that leaves the scope
//! copies it to the target. If the download exceeds the staging limit, the thread that calls
//! `download` copies its first chunks itself. A target is therefore written only by such a call,
//! and between the end of the closure and the return of [`Device::scope`], while the scope still
//! holds its `&mut`. This holds even if user code leaks values with `mem::forget`, because user
//! code only gets a reference to the scope.

use std::{
    fmt,
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    sync::Arc,
};

use bytemuck::Pod;
use parking_lot::Mutex;

use crate::{
    Device, ReadOperand, Result, Stream, WriteOperand,
    context::{DeviceState, HostWaiter, StreamState},
    copy::{PendingDownload, same_length},
    future::wait_ticket,
    tracker::Sequence,
};

/// A scope for copies between the device and borrowed slices of the host, which are complete when
/// the scope ends. See [`Device::scope`].
///
/// A scope can be shared with threads that end before it does:
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let stream = device.stream()?;
/// let buffer = stream.upload(&[1_u8, 2, 3, 4])?;
/// let (mut left, mut right) = ([0; 2], [0; 2]);
/// device.scope(|scope| {
///     let (stream, buffer, right) = (&stream, &buffer, &mut right);
///     std::thread::scope(|threads| {
///         threads.spawn(move || scope.download(stream, buffer.slice(2..), right).unwrap());
///     });
///     scope.download(stream, buffer.slice(..2), &mut left)
/// })?;
/// assert_eq!((left, right), ([1, 2], [3, 4]));
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// It cannot be shared with a thread that may outlive it:
///
/// ```compile_fail,E0521
/// # let device = millstream::Device::simulated()?;
/// device.scope(|scope| {
///     std::thread::spawn(move || println!("{scope:?}"));
///     Ok(())
/// })?;
/// # Ok::<(), millstream::Error>(())
/// ```
// Unlike `std::thread::Scope`, this type has no second lifetime for the scope itself: no parameter
// or result of its methods lives exactly as long as the scope. `'env` is invariant because of the
// `Mutex`, so it cannot shrink below the borrows.
pub struct Scope<'env> {
    device: Arc<DeviceState>,
    /// The liveness token of the scope's [`HostWaiter`]. While it lives, later submissions leave a
    /// sync point behind the scope's operations.
    alive: Arc<()>,
    work: Mutex<ScopeWork<'env>>,
}

/// The operations that the end of the scope waits for.
#[derive(Default)]
struct ScopeWork<'env> {
    /// The last upload of each stream, by its sequence number.
    uploads: Vec<(Arc<StreamState>, Sequence)>,
    downloads: Vec<ScopedDownload<'env>>,
}

/// A pending download and its borrowed target.
struct ScopedDownload<'env> {
    download: PendingDownload,
    target: &'env mut [u8],
}

impl Device {
    /// Runs `body`, which can copy borrowed host slices to and from the device asynchronously, then
    /// waits until these copies are complete. When this function returns, by the body's `Ok`, by
    /// its `Err` or by a panic, every target has its elements.
    ///
    /// The wait covers operations enqueued through the scope, not other work of the same streams.
    /// Consecutive copies of one scope on one stream need no event between them.
    ///
    /// ```
    /// use millstream::Device;
    ///
    /// let device = Device::simulated()?;
    /// let stream = device.stream()?;
    /// let mut buffer = stream.zeros::<f32>(4)?;
    /// let (source, mut target) = ([1.0, 2.0], [0.0; 4]);
    /// device.scope(|scope| {
    ///     scope.upload(&stream, &source, buffer.slice_mut(..2))?;
    ///     scope.download(&stream, &buffer, &mut target)
    /// })?;
    /// assert_eq!(target, [1.0, 2.0, 0.0, 0.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// A slice must outlive the scope:
    ///
    /// ```compile_fail,E0597
    /// # let device = millstream::Device::simulated()?;
    /// # let stream = device.stream()?;
    /// # let buffer = stream.zeros::<f32>(4)?;
    /// device.scope(|scope| {
    ///     let mut target = [0.0; 4];
    ///     scope.download(&stream, &buffer, &mut target)
    /// })?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// A target cannot be read before the scope has ended, nor written by two copies:
    ///
    /// ```compile_fail,E0502
    /// # let device = millstream::Device::simulated()?;
    /// # let stream = device.stream()?;
    /// # let buffer = stream.zeros::<f32>(4)?;
    /// let mut target = [0.0; 4];
    /// device.scope(|scope| {
    ///     scope.download(&stream, &buffer, &mut target)?;
    ///     println!("{target:?}");
    ///     Ok(())
    /// })?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// ```compile_fail,E0499
    /// # let device = millstream::Device::simulated()?;
    /// # let stream = device.stream()?;
    /// # let buffer = stream.zeros::<f32>(4)?;
    /// let mut target = [0.0; 4];
    /// device.scope(|scope| {
    ///     scope.download(&stream, &buffer, &mut target)?;
    ///     scope.download(&stream, &buffer, &mut target)
    /// })?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The body's error, if it returns one. Otherwise an error if the device is lost before the
    /// copies are complete; targets of incomplete copies may then be unchanged in any part.
    ///
    /// # Panics
    ///
    /// If `body` panics, after the same wait.
    pub fn scope<'env, T>(&self, body: impl FnOnce(&Scope<'env>) -> Result<T>) -> Result<T> {
        let scope = Scope {
            device: Arc::clone(self.state()),
            alive: Arc::new(()),
            work: Mutex::default(),
        };
        // `AssertUnwindSafe`: the panic is resumed below, so only a `catch_unwind` of the caller
        // can observe the body's captures.
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        let ended = scope.end();
        match outcome {
            Ok(outcome) => outcome.and_then(|value| ended.map(|()| value)),
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl<'env> Scope<'env> {
    /// Uploads the elements of `source` into an array of the device. The scope ends only after the
    /// copy is complete.
    ///
    /// The source is pageable memory, so it is staged in page-locked memory ([rule
    /// 8](crate::guide::semantics#rule-8): the driver may copy pageable memory synchronously). It
    /// is captured there before this method returns, as in [`Stream::upload_into`]; the scope adds
    /// the wait.
    ///
    /// # Errors
    ///
    /// If the lengths differ, if an operand or the stream is on another device, if page-locked
    /// memory cannot be allocated, or if the device is lost.
    #[track_caller]
    pub fn upload<T: Pod>(
        &self,
        stream: &Stream,
        source: &'env [T],
        target: impl WriteOperand<T>,
    ) -> Result<()> {
        let location = Location::caller();
        stream
            .same_device("scope", 0, &self.device)
            .map_err(|error| error.at(location))?;
        let submitted = |sequence| self.work.lock().note_upload(stream.state(), sequence);
        stream.upload_watched(
            source,
            &target,
            Some(&self.host_waiter()),
            location,
            submitted,
        )
    }

    /// Downloads an array of the device into `target`, which has its elements when the scope has
    /// ended. Until then they stay in page-locked memory, up to the target's length or the [staging
    /// limit](crate::Device::set_staging_limit); beyond the limit the call blocks, as
    /// [`Stream::download`] does.
    ///
    /// # Errors
    ///
    /// If the lengths differ, if an operand or the stream is on another device, if page-locked
    /// memory cannot be allocated, or if the device is lost.
    #[track_caller]
    pub fn download<T: Pod>(
        &self,
        stream: &Stream,
        source: impl ReadOperand<T>,
        target: &'env mut [T],
    ) -> Result<()> {
        let location = Location::caller();
        same_length("download", source.len(), target.len())
            .and_then(|()| stream.same_device("scope", 0, &self.device))
            .map_err(|error| error.at(location))?;
        let target: &'env mut [u8] = bytemuck::cast_slice_mut(target);
        let download =
            stream.stage_for(&source.operand().0, target, self.host_waiter(), location)?;
        self.work
            .lock()
            .downloads
            .push(ScopedDownload { download, target });
        Ok(())
    }

    fn host_waiter(&self) -> HostWaiter {
        HostWaiter {
            alive: Arc::downgrade(&self.alive),
            chained: false,
        }
    }

    /// Waits until all operations are complete, also after a failure, and copies the downloads out.
    /// Returns the first error.
    fn end(self) -> Result<()> {
        let device = &*self.device;
        let work = self.work.into_inner();
        let mut ended = Ok(());
        for mut download in work.downloads {
            ended = ended.and(download.download.finish_into(download.target));
        }
        for (stream, sequence) in work.uploads {
            ended = ended.and(wait_ticket(device, &stream, sequence));
        }
        ended
    }
}

impl ScopeWork<'_> {
    /// Replaces the stream's last upload with the one of this sequence number, if it is later.
    fn note_upload(&mut self, stream: &Arc<StreamState>, sequence: Sequence) {
        let known = self
            .uploads
            .iter_mut()
            .find(|(known, _)| Arc::ptr_eq(known, stream));
        match known {
            Some((_, last)) => *last = sequence.max(*last),
            None => self.uploads.push((Arc::clone(stream), sequence)),
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope(on {})", self.device)
    }
}
