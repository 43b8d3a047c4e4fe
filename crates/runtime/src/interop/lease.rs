//! Leases: arrays that the work of another library uses on its own stream.

use std::{fmt, marker::PhantomData, panic::Location};

use millstream_driver::DevicePtr;

use crate::{
    Buffer, Rejected, Result, Stream, View, ViewMut,
    array::Span,
    context::GrantedLease,
    disposal::{dispose, log},
    tracker::AccessKind,
};

/// An array that is lent to the work that another library enqueues on a stream.
///
/// The stream's later work runs after every operation that conflicts with the use, and operations
/// of this library that conflict with it run after the work that was on the stream when the lease
/// was dropped. In between they are errors ([`UsageErrorKind::Lent`](crate::UsageErrorKind::Lent)).
/// The borrow checker prevents them, except for the replays of a [graph](crate::Graph), which keeps
/// its operands without a borrow, and except after a lease was forgotten: its memory stays lent for
/// ever and is never freed.
///
/// If the lease is dropped inside the closure of a [foreign call](Stream::foreign), or while
/// another thread submits to the borrower's stream, the memory stays lent until the next operation
/// that conflicts, which ends the lease first. The memory of an array that is dropped before is
/// leaked. If the driver refuses a call when the lease is dropped, as it does while the borrower's
/// stream is captured, the next operation that conflicts waits for all work that is on the stream
/// at that time, or returns the driver's error.
///
/// Neither call waits for the device. Together they cost at most one wait and one record of an
/// event, besides a query of the borrower's stream, a record behind the operations for which it
/// waits, and the wait of the next operation.
///
/// ```
/// use millstream::{Device, driver::{DeviceOrdinal, Driver, FillPattern}, sim::{Gpu, SimConfig}};
///
/// let gpu = Gpu::new(SimConfig::new());
/// let device = Device::open_simulated(&gpu, 0)?;
/// let mut numbers = device.stream()?.zeros::<u8>(16)?;
/// // Another library has a stream of its own.
/// let driver = gpu.driver();
/// let context = driver.primary_context_retain(DeviceOrdinal::from_raw(0))?;
/// // SAFETY: the context is retained.
/// let raw = unsafe { driver.stream_create(context, true, 0) }?;
/// // SAFETY: the stream is alive, and is never destroyed.
/// let theirs = unsafe { device.adopt_stream(raw, ()) }?;
/// let lease = numbers.lend_mut(&theirs)?;
/// // SAFETY: the memory is lent to this stream, and has this length.
/// unsafe { driver.memset_async(context, lease.as_raw(), FillPattern::U8(7), lease.len(), raw) }?;
/// drop(lease);
/// // Waits for the fill, on the device.
/// assert_eq!(device.stream()?.download(&numbers)?.wait()?, [7; 16]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use = "dropping the lease ends it"]
pub struct Lease<'a, T> {
    span: Span<'a>,
    granted: GrantedLease,
    element: PhantomData<&'a T>,
}

impl<'a, T> Lease<'a, T> {
    fn grant(
        (name, location): (&'static str, &'static Location<'static>),
        span: Span<'a>,
        kind: AccessKind,
        stream: &Stream,
    ) -> Result<Self> {
        let same = stream.same_device(name, 0, &span.allocation.device);
        same.map_err(|usage_error| usage_error.at(location))?;
        let granted = GrantedLease::grant(stream, span.access(kind), location)?;
        Ok(Self {
            span,
            granted,
            element: PhantomData,
        })
    }

    /// Returns the address of the first element on the device.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.span.pointer()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.span.bytes.len() / size_of::<T>()
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.span.bytes.is_empty()
    }
}

impl<T> Drop for Lease<'_, T> {
    fn drop(&mut self) {
        self.granted.give_back(&self.span.allocation.history);
    }
}

impl<T> fmt::Debug for Lease<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = std::any::type_name::<T>();
        write!(
            f,
            "Lease({} × {element} at {:#x})",
            self.len(),
            self.as_raw().as_raw()
        )
    }
}

impl<T> Buffer<T> {
    /// Lends the array for reading to the work that another library enqueues on `stream`: an
    /// [adopted](crate::Device::adopt_stream) one, or one whose handle it was given.
    ///
    /// # Errors
    ///
    /// If the stream is of another device or captured by its owner, a part of the array is lent for
    /// writing, or the device is lost.
    #[track_caller]
    pub fn lend(&self, stream: &Stream) -> Result<Lease<'_, T>> {
        self.view().lend(stream)
    }

    /// Lends the array for reading and writing, as [`lend`](Self::lend).
    ///
    /// # Errors
    ///
    /// As [`lend`](Self::lend), and if a part of the array is lent at all, which takes a forgotten
    /// lease.
    #[track_caller]
    pub fn lend_mut(&mut self, stream: &Stream) -> Result<Lease<'_, T>> {
        self.view_mut().lend_mut(stream)
    }
}

impl<'a, T> View<'a, T> {
    /// Lends this part of an array for reading, as [`Buffer::lend`].
    ///
    /// # Errors
    ///
    /// As [`Buffer::lend`].
    #[track_caller]
    pub fn lend(self, stream: &Stream) -> Result<Lease<'a, T>> {
        Lease::grant(
            ("lend", Location::caller()),
            self.span,
            AccessKind::Read,
            stream,
        )
    }
}

impl<'a, T> ViewMut<'a, T> {
    /// Lends this part of an array for reading and writing, as [`Buffer::lend_mut`].
    ///
    /// # Errors
    ///
    /// As [`Buffer::lend_mut`].
    #[track_caller]
    pub fn lend_mut(self, stream: &Stream) -> Result<Lease<'a, T>> {
        Lease::grant(
            ("lend_mut", Location::caller()),
            self.span,
            AccessKind::Write,
            stream,
        )
    }
}

/// An array that was moved to the work of another library on a stream, made by
/// [`Buffer::into_lease`]. Its drop frees the memory behind that work.
///
/// ```
/// let device = millstream::Device::simulated()?;
/// let (ours, theirs) = (device.stream()?, device.stream()?);
/// let lease = ours.upload(&[1_u8, 2, 3])?.into_lease(&theirs)?;
/// // The other library uses lease.as_raw() on its stream.
/// let array = lease.end();
/// assert_eq!(ours.download(&array)?.wait()?, [1, 2, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[must_use = "dropping the lease ends it, and frees the array"]
pub struct OwnedLease<T: Send + 'static> {
    /// `None` once the lease has ended.
    lent: Option<LentArray<T>>,
}

struct LentArray<T> {
    array: Buffer<T>,
    granted: GrantedLease,
}

impl<T: Send + 'static> OwnedLease<T> {
    fn lent_array(&self) -> &LentArray<T> {
        self.lent
            .as_ref()
            .expect("the array is there until the lease ends")
    }

    /// Returns the address of the first element on the device.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.lent_array().array.as_raw()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lent_array().array.len()
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn ordinal(&self) -> i32 {
        let span = self.lent_array().array.span();
        span.allocation.device.ordinal.as_raw()
    }

    /// Ends the lease: later operations on the array run after the work that is on the borrower's
    /// stream now.
    #[must_use]
    pub fn end(mut self) -> Buffer<T> {
        let Some(LentArray { array, granted }) = self.lent.take() else {
            unreachable!("the array is there until the lease ends")
        };
        granted.give_back(&array.span().allocation.history);
        array
    }
}

impl<T: Send + 'static> Drop for OwnedLease<T> {
    fn drop(&mut self) {
        let Some(lent) = self.lent.take() else {
            return;
        };
        let ended = {
            let span = lent.array.span();
            lent.granted.give_back(&span.allocation.history)
        };
        if !ended {
            // Another thread is just submitting to the stream.
            dispose(Box::new(EndsPatiently(lent)));
        }
    }
}

/// A lease that is ended on the disposal thread, which may wait for a submission.
struct EndsPatiently<T>(LentArray<T>);

impl<T> Drop for EndsPatiently<T> {
    fn drop(&mut self) {
        let LentArray { array, granted } = &self.0;
        if let Err(error) = granted.end_patiently(&array.span().allocation.history) {
            log!(warn, %error, "the memory of a lease that cannot end is leaked");
        }
    }
}

impl<T: Send + 'static> fmt::Debug for OwnedLease<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedLease")
            .field(&self.lent_array().array)
            .finish()
    }
}

impl<T: Send + 'static> Buffer<T> {
    /// Moves the array to the work that another library enqueues on `stream`, as
    /// [`lend_mut`](Self::lend_mut), for as long as the lease lives.
    ///
    /// # Errors
    ///
    /// As [`lend_mut`](Self::lend_mut). The error returns the array.
    #[allow(clippy::result_large_err, reason = "the error returns the array")]
    #[track_caller]
    pub fn into_lease(self, stream: &Stream) -> Result<OwnedLease<T>, Rejected<Self>> {
        match self.grant_moved(stream, Location::caller()) {
            Ok(granted) => Ok(OwnedLease {
                lent: Some(LentArray {
                    array: self,
                    granted,
                }),
            }),
            Err(error) => Err(Rejected::new(error, self)),
        }
    }

    fn grant_moved(
        &self,
        stream: &Stream,
        location: &'static Location<'static>,
    ) -> Result<GrantedLease> {
        let span = self.span();
        let same = stream.same_device("into_lease", 0, &span.allocation.device);
        same.map_err(|usage_error| usage_error.at(location))?;
        GrantedLease::grant(stream, span.access(AccessKind::Write), location)
    }
}
