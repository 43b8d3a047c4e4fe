//! `Managed<T>`: unified memory, which host and device access at the same address.

#![allow(unsafe_code, reason = "exposes managed memory as slices if unused")]

use std::{
    marker::PhantomData,
    ops::{Range, RangeBounds},
    panic::Location,
};

use bytemuck::Pod;
use millstream_driver::{DevicePtr, ManagedAdvice, ManagedLocation};

use super::{View, ViewMut, accessors::array, view::Span};
use crate::{
    Device, Result, UsageError,
    element_layout::{bytes_of, check_alignment},
    memory::Allocation,
    page_locked::{HostAccessGuard, HostRange, ReadGuard, WriteGuard, host_access},
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
#[doc(alias("UnifiedBuffer", "UnifiedSlice"))]
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
    #[doc(alias("cuMemAllocManaged", "cudaMallocManaged", "alloc_unified"))]
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
    fn host_range(
        &self,
        range: impl RangeBounds<usize>,
        location: &'static Location<'static>,
    ) -> Result<HostRange<'_>> {
        let part = self
            .view()
            .into_part(range)
            .map_err(|error| error.at(location))?;
        Ok(HostRange {
            device: &self.allocation.device,
            history: &self.allocation.history,
            bytes: part.span.range(),
            first: elements_at(&part.span),
            len: part.len(),
        })
    }
}

// The elements are aligned: `managed` checked them. They are mapped for the host as well.
host_access!(Managed, "managed::<u8>(3)?");

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
    #[doc(alias("cuMemAdvise", "cudaMemAdvise"))]
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
