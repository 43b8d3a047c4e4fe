//! `Managed<T>`: unified memory, which host and device access at the same address.

#![allow(unsafe_code, reason = "exposes managed memory as slices if unused")]

use std::{
    marker::PhantomData,
    ops::{Range, RangeBounds},
    panic::Location,
    slice,
};

use bytemuck::Pod;
use millstream_driver::{DevicePtr, ManagedAdvice, ManagedLocation};

use super::{View, ViewMut, accessors::array, view::Span};
use crate::{
    Device, Result, UsageError,
    element_layout::{bytes_of, check_alignment},
    memory::Allocation,
    page_locked::{HostAccessGuard, ReadGuard, WriteGuard, access, wait_for_access},
    tracker::AccessKind,
};

/// An array of `T` in unified memory, which host and device access at the same address; its pages
/// migrate to the processor that accesses them ([rule 49]).
///
/// [`Device::managed`] creates it. Operations take it, or parts of it, like a
/// [`Buffer`](crate::Buffer), and are ordered by the bytes that they access. The host accesses it
/// through guards, which wait for exactly the conflicting operations.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let stream = device.stream()?;
/// let mut table = device.managed::<u32>(4)?;
/// table.write()?.copy_from_slice(&[1, 2, 3, 4]);
/// stream.fill(table.slice_mut(1..3), 9)?;
/// assert_eq!(table.read()?[..2], [1, 9]); // waits for the fill
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// While a guard exists, no operation can use the array:
///
/// ```compile_fail,E0502
/// # let device = millstream::Device::simulated()?;
/// # let stream = device.stream()?;
/// # let mut table = device.managed::<u32>(4)?;
/// let guard = table.read()?;
/// stream.fill(table.slice_mut(1..3), 9)?;
/// println!("{}", guard[0]);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// [rule 49]: crate::guide::semantics#rule-49
pub struct Managed<T> {
    allocation: Allocation,
    len: usize,
    element: PhantomData<T>,
}

/// Advice to the driver on the use of managed memory. It never changes a value ([rule 51]: advice
/// is a hint).
///
/// [rule 51]: crate::guide::semantics#rule-51
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Mostly read: host and device may each keep a copy.
    ReadMostly(bool),
    /// Preferred location: the device's memory.
    PreferDevice,
    /// Preferred location: the host's memory.
    PreferHost,
    /// No preferred location.
    PreferNothing,
    /// Mapped on the device wherever the pages are, so that no access of the device faults.
    AccessedByDevice(bool),
    /// Mapped on the host wherever the pages are.
    AccessedByHost(bool),
}

impl Device {
    /// Creates an array of `len` zeros in managed memory.
    ///
    /// # Errors
    ///
    /// If the device has no managed memory that the host may access while kernels run ([rule
    /// 50](crate::guide::semantics#rule-50): the attribute `CONCURRENT_MANAGED_ACCESS`), the
    /// elements need an alignment of more than 256 bytes, memory is exhausted, or the device is
    /// lost.
    #[track_caller]
    pub fn managed<T: Pod>(&self, len: usize) -> Result<Managed<T>> {
        let location = Location::caller();
        let at = |usage_error: UsageError| usage_error.at(location);
        let bytes = bytes_of::<T>("managed", len).map_err(at)?;
        check_alignment::<T>("managed").map_err(at)?;
        let allocation = Allocation::managed(self.state(), bytes)?;
        let location = Location::caller();
        self.state()
            .name_memory(allocation.pointer, "managed", location);
        let mut array = Managed::<T> {
            allocation,
            len,
            element: PhantomData,
        };
        let first = array.elements().cast::<u8>();
        let driver = &array.allocation.device.driver;
        let host_access = HostAccessGuard::writes(driver, first, bytes, "managed", location);
        // SAFETY: no operation uses it yet. All bits zero are a `T`.
        unsafe { first.write_bytes(0, bytes) };
        drop(host_access);
        Ok(array)
    }
}

impl<T: Pod> Managed<T> {
    /// Returns a guard for the host to read the whole array. Blocks until the operations that write
    /// it are complete.
    ///
    /// # Errors
    ///
    /// If the device is lost before that.
    #[track_caller]
    pub fn read(&self) -> Result<ReadGuard<'_, T>> {
        self.read_range(..)
    }

    /// Returns a guard for the host to read a range of the array. Blocks until the operations that
    /// write any of it are complete.
    ///
    /// # Errors
    ///
    /// If the range does not lie within the array, or the device is lost before that.
    #[track_caller]
    pub fn read_range(&self, range: impl RangeBounds<usize>) -> Result<ReadGuard<'_, T>> {
        let location = Location::caller();
        let part = self
            .view()
            .into_part(range)
            .map_err(|usage_error| usage_error.at(location))?;
        wait_for_access(
            &self.allocation.device,
            &self.allocation.history,
            &part.span.range(),
            AccessKind::Read,
        )?;
        // SAFETY: the operations that write it are complete.
        Ok(unsafe { readable(&part, location) })
    }

    /// The asynchronous [`read_range`](Self::read_range): awaits the operations instead of blocking
    /// the thread.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// let mut table = millstream::Device::simulated()?.managed::<u8>(3)?;
    /// table.write_range_async(1..).await?.fill(7);
    /// assert_eq!(*table.read_range_async(..2).await?, [0, 7]);
    /// # Ok::<(), millstream::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`read_range`](Self::read_range).
    #[track_caller]
    pub fn read_range_async<R: RangeBounds<usize>>(
        &self,
        range: R,
    ) -> impl Future<Output = Result<ReadGuard<'_, T>>> + use<'_, T, R> {
        let location = Location::caller();
        async move {
            let part = self
                .view()
                .into_part(range)
                .map_err(|usage_error| usage_error.at(location))?;
            access(
                &self.allocation.device,
                &self.allocation.history,
                part.span.range(),
                AccessKind::Read,
            )
            .await?;
            // SAFETY: the operations that write it are complete.
            Ok(unsafe { readable(&part, location) })
        }
    }

    /// Returns a guard for the host to read and write the whole array. Blocks until all operations
    /// that use it are complete.
    ///
    /// # Errors
    ///
    /// If the device is lost before that.
    #[track_caller]
    pub fn write(&mut self) -> Result<WriteGuard<'_, T>> {
        self.write_range(..)
    }

    /// Returns a guard for the host to read and write a range of the array. Blocks until all
    /// operations that use any of it are complete.
    ///
    /// # Errors
    ///
    /// If the range does not lie within the array, or the device is lost before that.
    #[track_caller]
    pub fn write_range(&mut self, range: impl RangeBounds<usize>) -> Result<WriteGuard<'_, T>> {
        let location = Location::caller();
        let part = self
            .view_mut()
            .into_part(range)
            .map_err(|usage_error| usage_error.at(location))?;
        let Span { allocation, .. } = part.span;
        wait_for_access(
            &allocation.device,
            &allocation.history,
            &part.span.range(),
            AccessKind::Write,
        )?;
        // SAFETY: all operations that use it are complete.
        Ok(unsafe { writable(part, location) })
    }

    /// The asynchronous [`write_range`](Self::write_range): awaits the operations instead of
    /// blocking the thread.
    ///
    /// # Errors
    ///
    /// As for [`write_range`](Self::write_range).
    #[track_caller]
    pub fn write_range_async<R: RangeBounds<usize>>(
        &mut self,
        range: R,
    ) -> impl Future<Output = Result<WriteGuard<'_, T>>> + use<'_, T, R> {
        let location = Location::caller();
        async move {
            let part = self
                .view_mut()
                .into_part(range)
                .map_err(|usage_error| usage_error.at(location))?;
            let Span { allocation, .. } = part.span;
            access(
                &allocation.device,
                &allocation.history,
                part.span.range(),
                AccessKind::Write,
            )
            .await?;
            // SAFETY: all operations that use it are complete.
            Ok(unsafe { writable(part, location) })
        }
    }
}

/// Returns the elements of a range for reading.
///
/// # Safety
///
/// No operation that writes the range is pending.
unsafe fn readable<'a, T: Pod>(
    part: &View<'a, T>,
    location: &'static Location<'static>,
) -> ReadGuard<'a, T> {
    let first: *mut T = elements_at(&part.span);
    let driver = &part.span.allocation.device.driver;
    let host_access = HostAccessGuard::reads(
        driver,
        first.cast(),
        part.span.bytes.len(),
        "read",
        location,
    );
    // SAFETY: no operation writes the range, and a new one would need a `&mut` to the array, which
    // this borrow of it excludes. Its elements are aligned (`managed` checked the first), mapped
    // for the host as well, and any bits are a `T`.
    let elements = unsafe { slice::from_raw_parts(first, part.len()) };
    ReadGuard {
        elements,
        _access: host_access,
    }
}

/// Returns the elements of a range for writing.
///
/// # Safety
///
/// No operation that uses the range is pending.
unsafe fn writable<'a, T: Pod>(
    part: ViewMut<'a, T>,
    location: &'static Location<'static>,
) -> WriteGuard<'a, T> {
    let first: *mut T = elements_at(&part.span);
    let driver = &part.span.allocation.device.driver;
    let host_access = HostAccessGuard::writes(
        driver,
        first.cast(),
        part.span.bytes.len(),
        "write",
        location,
    );
    // SAFETY: no operation uses the range, and a new one would need a borrow of the array, which
    // this mutable one excludes. Its elements are aligned (`managed` checked the first), mapped for
    // the host as well, and any bits are a `T`.
    let elements = unsafe { slice::from_raw_parts_mut(first, part.len()) };
    WriteGuard {
        elements,
        _access: host_access,
    }
}

/// Returns the span's address on the host, which is its address on the device.
fn elements_at<T>(span: &Span<'_>) -> *mut T {
    if span.bytes.is_empty() {
        return std::ptr::dangling_mut();
    }
    let address = usize::try_from(span.pointer().as_raw()).expect("an address of this process");
    std::ptr::with_exposed_provenance_mut(address)
}

array!(Managed);

impl<T> Managed<T> {
    /// Gives the driver advice on the use of the array. Takes effect at once and waits for no
    /// operation.
    ///
    /// # Errors
    ///
    /// If the driver does not know the advice, or the device is lost.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        let device = &self.allocation.device;
        device.check_alive()?;
        if self.is_empty() {
            return Ok(());
        }
        let here = ManagedLocation::Device(device.ordinal);
        let (advice, location) = match advice {
            Advice::ReadMostly(true) => (ManagedAdvice::SetReadMostly, here),
            Advice::ReadMostly(false) => (ManagedAdvice::UnsetReadMostly, here),
            Advice::PreferDevice => (ManagedAdvice::SetPreferredLocation, here),
            Advice::PreferHost => (ManagedAdvice::SetPreferredLocation, ManagedLocation::Host),
            Advice::PreferNothing => (ManagedAdvice::UnsetPreferredLocation, here),
            Advice::AccessedByDevice(true) => (ManagedAdvice::SetAccessedBy, here),
            Advice::AccessedByDevice(false) => (ManagedAdvice::UnsetAccessedBy, here),
            Advice::AccessedByHost(true) => (ManagedAdvice::SetAccessedBy, ManagedLocation::Host),
            Advice::AccessedByHost(false) => {
                (ManagedAdvice::UnsetAccessedBy, ManagedLocation::Host)
            }
        };
        let Range { start, end } = self.span().bytes;
        // SAFETY: the device's context is alive, and the range is this allocation, which is
        // managed.
        device.checked(unsafe {
            device
                .driver
                .mem_advise(device.context, self.as_raw(), end - start, advice, location)
        })
    }

    /// Returns the address on the device and on the host, for calls to other libraries. The library
    /// does not track their accesses.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.allocation.pointer
    }

    fn elements(&mut self) -> *mut T {
        elements_at(&self.span())
    }
}
