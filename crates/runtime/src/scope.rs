//! `Scope`: asynchronous copies of host memory that is only borrowed.
//!
//! The device never touches borrowed memory. A source is captured in page-locked memory when it is
//! uploaded; a download goes to page-locked memory, and the thread that leaves the scope copies it
//! to its target; or, of a download beyond the staging limit, the thread that calls for it copies
//! the first chunks. A target is therefore written by such a call, and between the end of the
//! closure and the return of [`Device::scope`], while the scope still holds its `&mut`, and at no
//! other time. That holds whatever user code forgets, since it only ever gets a reference to the
//! scope.

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

/// Copies between the device and borrowed slices of the host, complete when the scope ends. See
/// [`Device::scope`].
///
/// A scope can be shared with threads that end within it:
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
/// But not with one that may outlive it:
///
/// ```compile_fail,E0521
/// # let device = millstream::Device::simulated()?;
/// device.scope(|scope| {
///     std::thread::spawn(move || println!("{scope:?}"));
///     Ok(())
/// })?;
/// # Ok::<(), millstream::Error>(())
/// ```
// There is no second lifetime for the scope itself, as `std::thread::Scope` has: nothing that its
// methods take or give lives exactly as long as it does. `'env` is invariant, by the `Mutex`, so it
// cannot shrink to less than the borrows.
pub struct Scope<'env> {
    device: Arc<DeviceState>,
    /// While this lives, later submissions leave a sync point behind the scope's operations.
    alive: Arc<()>,
    work: Mutex<ScopeWork<'env>>,
}

/// What is waited for when the scope ends.
#[derive(Default)]
struct ScopeWork<'env> {
    /// The last upload of each stream.
    uploads: Vec<(Arc<StreamState>, Sequence)>,
    downloads: Vec<ScopedDownload<'env>>,
}

/// A download on its way.
struct ScopedDownload<'env> {
    download: PendingDownload,
    target: &'env mut [u8],
}

impl Device {
    /// Runs `body`, in which slices of the host can be copied to and from the device
    /// asynchronously; then waits until the copies of the scope are done. When this returns, by the
    /// body's `Ok`, by its `Err` or by a panic, every target has its elements.
    ///
    /// What is waited for is what was enqueued through the scope, not other work of the same
    /// streams. Copies of one scope behind each other on one stream cost no event between them.
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
    /// A target cannot be seen before the scope has ended, nor written by two copies:
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
    /// The body's error, if it has one. Otherwise, if the device is lost before the copies are
    /// done; of targets whose copies are not, any part may be unchanged then.
    ///
    /// # Panics
    ///
    /// If `body` does, after the same wait.
    pub fn scope<'env, T>(&self, body: impl FnOnce(&Scope<'env>) -> Result<T>) -> Result<T> {
        let scope = Scope {
            device: Arc::clone(self.state()),
            alive: Arc::new(()),
            work: Mutex::default(),
        };
        // What a panic leaves behind in the body's captures is seen by nobody but whoever catches
        // the panic further up.
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        let ended = scope.end();
        match outcome {
            Ok(outcome) => outcome.and_then(|value| ended.map(|()| value)),
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl<'env> Scope<'env> {
    /// Copies the elements of `source` into an array of the device. The scope does not end before
    /// the copy has.
    ///
    /// The source is pageable memory, which the device reads by way of page-locked memory (rule 8).
    /// It is captured there before this returns, as by [`Stream::upload_into`]; what a scope adds
    /// is the wait.
    ///
    /// # Errors
    ///
    /// If the lengths differ, the stream or the target is on another device, page-locked memory
    /// cannot be had, or the device is lost.
    #[track_caller]
    pub fn upload<T: Pod>(
        &self,
        stream: &Stream,
        source: &'env [T],
        target: impl WriteOperand<T>,
    ) -> Result<()> {
        stream.same_device("scope", 0, &self.device)?;
        let submitted = |sequence| self.work.lock().note_upload(stream.state(), sequence);
        stream.upload_watched(
            source,
            &target,
            Some(&self.host_waiter()),
            Location::caller(),
            submitted,
        )
    }

    /// Copies an array of the device into `target`, which has its elements when the scope has
    /// ended. Until then they are in page-locked memory, as much of it as the target is long or the
    /// [staging limit](crate::Device::set_staging_limit) allows; beyond that the call blocks, as
    /// [`Stream::download`] does.
    ///
    /// # Errors
    ///
    /// If the lengths differ, the stream or the source is on another device, page-locked memory
    /// cannot be had, or the device is lost.
    #[track_caller]
    pub fn download<T: Pod>(
        &self,
        stream: &Stream,
        source: impl ReadOperand<T>,
        target: &'env mut [T],
    ) -> Result<()> {
        same_length("download", source.len(), target.len())?;
        stream.same_device("scope", 0, &self.device)?;
        let target: &'env mut [u8] = bytemuck::cast_slice_mut(target);
        let download = stream.stage_for(
            &source.operand().0,
            target,
            self.host_waiter(),
            Location::caller(),
        )?;
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

    /// Waits until all is done, and copies the downloads out. A failure keeps none of the others
    /// from being waited for.
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
    /// Notes the stream's upload of this number in place of earlier ones.
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
