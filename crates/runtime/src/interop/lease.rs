//! Leases: arrays that the work of another library uses on its own stream.

use std::{fmt, marker::PhantomData, panic::Location, sync::Arc};

use millstream_driver::DevicePtr;

use crate::{
    Buffer, Result, Stream, View, ViewMut, context::GrantedLease, memory::Span, tracker::AccessKind,
};

/// An array that is lent to the work that another library enqueues on a stream.
///
/// The stream's later work runs after every operation that conflicts with the use, and operations
/// of this library that conflict with it run after the work that was on the stream when the lease
/// was dropped. In between they are errors ([`UsageErrorKind::Lent`](crate::UsageErrorKind::Lent)),
/// which the borrow checker prevents unless the lease is forgotten. The memory of a forgotten lease
/// stays lent for ever and is never freed.
///
/// If the driver refuses a call when the lease is dropped, or if it is dropped inside the closure
/// of a [foreign call](Stream::foreign), the memory stays lent until the next operation that
/// conflicts, which ends the lease first or returns the driver's error. The memory of an array that
/// is dropped before is leaked.
///
/// Neither call waits for the device. Each costs at most one wait and one record of an event. While
/// there is a lease, every submission of the process examines its operands, which costs some ten
/// nanoseconds.
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
    granted: Arc<GrantedLease>,
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
        let access = span.access(kind);
        let history = &span.allocation.history;
        let granted = GrantedLease::grant(stream, history, access.extent, kind, location)?;
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
    /// If the stream is of another device, a part of the array is lent for writing, or the device
    /// is lost.
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
