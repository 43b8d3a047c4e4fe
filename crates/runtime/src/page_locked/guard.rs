//! Guards for host accesses to memory shared with the device. A guard exists once all conflicting
//! operations are complete.

#![allow(
    unsafe_code,
    reason = "exposes memory as slices, once no operation uses it"
)]

use std::{
    fmt,
    ops::{Deref, DerefMut, Range},
    panic::Location,
    slice,
    sync::Arc,
};

use crate::{
    Result,
    context::DeviceState,
    future::{completions, wait_ticket},
    page_locked::HostAccessGuard,
    tracker::{AccessHistory, AccessKind},
};

/// A range of an array in memory that the host accesses too.
pub(crate) struct HostRange<'a> {
    pub(crate) device: &'a Arc<DeviceState>,
    pub(crate) history: &'a AccessHistory,
    /// The range in the array.
    pub(crate) bytes: Range<u64>,
    /// The address of the first element on the host, if there is memory.
    pub(crate) first: *mut u8,
    /// The number of elements.
    pub(crate) len: usize,
}

// SAFETY: a range is an address; the guards decide when the memory may be accessed.
unsafe impl Send for HostRange<'_> {}
// SAFETY: a shared range exposes the address only.
unsafe impl Sync for HostRange<'_> {}

impl<'a> HostRange<'a> {
    /// Blocks until the host may access the range.
    pub(crate) fn wait(&self, kind: AccessKind) -> Result<()> {
        // No conflicting operation can be submitted meanwhile: it would need the borrow that the
        // caller holds.
        for ticket in self.history.host_conflicts(&self.bytes, kind) {
            self.device
                .with_stream(ticket.stream, |device, stream| {
                    wait_ticket(device, stream, ticket.sequence)
                })
                .unwrap_or(Ok(()))?;
        }
        self.history.provenance.read()
    }

    /// Completes when the host may access the range.
    pub(crate) async fn until_free(&self, kind: AccessKind) -> Result<()> {
        let conflicts = self.history.host_conflicts(&self.bytes, kind);
        for completion in completions(self.device, conflicts) {
            completion.await?;
        }
        self.history.provenance.read()
    }

    fn begin(&self, kind: AccessKind, location: &'static Location<'static>) -> HostAccessGuard<'a> {
        let bytes = (self.bytes.end - self.bytes.start) as usize;
        let driver = &self.device.driver;
        match kind {
            AccessKind::Read => HostAccessGuard::reads(driver, self.first, bytes, "read", location),
            AccessKind::Write => {
                HostAccessGuard::writes(driver, self.first, bytes, "write", location)
            }
        }
    }

    fn elements<T>(&self) -> *mut T {
        match self.bytes.is_empty() {
            true => std::ptr::dangling_mut(),
            false => self.first.cast(),
        }
    }
}

/// Implements the accesses of the host to an array with the method `host_range`, which returns a
/// range of its elements. They are aligned, and any bits are a `T`.
macro_rules! host_access {
    ($name:ident, $make:literal) => {
        $crate::page_locked::host_access! {
            $name, $make, [self, &], ReadGuard, Read, read, read_async, read_range,
            read_range_async, "read", "the operations that write", "assert_eq!(*guard, [0, 0]);"
        }
        $crate::page_locked::host_access! {
            $name, $make, [self, &mut], WriteGuard, Write, write, write_async, write_range,
            write_range_async, "read and write", "all operations that use", "guard.fill(7);"
        }
    };
    (
        $name:ident, $make:literal, [$self:ident, $($borrow:tt)+], $guard:ident, $kind:ident,
        $whole:ident, $whole_async:ident, $range:ident, $range_async:ident,
        $access:literal, $operations:literal, $example:literal
    ) => {
        impl<T: Pod> $name<T> {
            #[doc = concat!("Returns a guard for the host to ", $access, " the whole array.")]
            #[doc = concat!("Blocks until ", $operations, " it are complete.")]
            ///
            /// # Errors
            ///
            /// If a device is lost before that.
            #[track_caller]
            pub fn $whole($($borrow)+ $self) -> Result<$guard<'_, T>> {
                $self.$range(..)
            }

            /// Awaits the operations instead of blocking the thread, otherwise as
            #[doc = concat!("[`", stringify!($whole), "`](Self::", stringify!($whole), ").")]
            ///
            /// # Errors
            ///
            /// If a device is lost before that.
            #[track_caller]
            pub fn $whole_async(
                $($borrow)+ $self,
            ) -> impl Future<Output = Result<$guard<'_, T>>> {
                $self.$range_async(..)
            }

            #[doc = concat!("Returns a guard for the host to ", $access, " a range of the array.")]
            #[doc = concat!("Blocks until ", $operations, " any of it are complete.")]
            ///
            /// # Errors
            ///
            /// If the range does not lie within the array, or a device is lost before that.
            #[track_caller]
            pub fn $range(
                $($borrow)+ $self,
                range: impl RangeBounds<usize>,
            ) -> Result<$guard<'_, T>> {
                let location = Location::caller();
                let range = $self.host_range(range, location)?;
                range.wait(AccessKind::$kind)?;
                // SAFETY: no conflicting operation uses the range, and a new one would need a
                // borrow of the array, which this one excludes.
                Ok(unsafe { $guard::new(range, location) })
            }

            /// Awaits the operations instead of blocking the thread, otherwise as
            #[doc = concat!("[`", stringify!($range), "`](Self::", stringify!($range), ").")]
            ///
            /// ```
            /// # pollster::block_on(async {
            /// # #[allow(unused_mut)]
            #[doc = concat!("let mut array = millstream::Device::simulated()?.", $make, ";")]
            /// # #[allow(unused_mut)]
            #[doc = concat!("let mut guard = array.", stringify!($range_async), "(1..).await?;")]
            #[doc = $example]
            /// # Ok::<(), millstream::Error>(())
            /// # }).unwrap();
            /// ```
            ///
            /// # Errors
            ///
            /// If the range does not lie within the array, or a device is lost before that.
            #[track_caller]
            pub fn $range_async<R: RangeBounds<usize>>(
                $($borrow)+ $self,
                range: R,
            ) -> impl Future<Output = Result<$guard<'_, T>>> + use<'_, T, R> {
                let location = Location::caller();
                async move {
                    let range = $self.host_range(range, location)?;
                    range.until_free(AccessKind::$kind).await?;
                    // SAFETY: as in the method that blocks.
                    Ok(unsafe { $guard::new(range, location) })
                }
            }
        }
    };
}

pub(crate) use host_access;

/// A guard for reading elements of [`Pinned`](crate::Pinned) or [`Managed`](crate::Managed) memory.
/// No operation writes them while it exists; the access ends on drop.
pub struct ReadGuard<'a, T> {
    elements: &'a [T],
    _access: HostAccessGuard<'a>,
}

/// A guard for writing elements of [`Pinned`](crate::Pinned) or [`Managed`](crate::Managed) memory.
/// No operation uses them while it exists; the access ends on drop.
pub struct WriteGuard<'a, T> {
    elements: &'a mut [T],
    _access: HostAccessGuard<'a>,
}

/// Implements the traits of both guards.
macro_rules! guard {
    ($name:ident, $kind:ident, $slice:ident) => {
        impl<'a, T> $name<'a, T> {
            /// Begins to access the elements of a range.
            ///
            /// # Safety
            ///
            /// They lie at `first`, aligned, and any bits are a `T`. For the lifetime no operation
            /// that conflicts with the access is pending or can be submitted.
            pub(crate) unsafe fn new(
                range: HostRange<'a>,
                location: &'static Location<'static>,
            ) -> Self {
                let access = range.begin(AccessKind::$kind, location);
                // SAFETY: by this function's contract.
                let elements = unsafe { slice::$slice(range.elements(), range.len) };
                Self {
                    elements,
                    _access: access,
                }
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name))
                    .field(&self.elements)
                    .finish()
            }
        }

        impl<T> Deref for $name<'_, T> {
            type Target = [T];

            fn deref(&self) -> &[T] {
                self.elements
            }
        }
    };
}

guard!(ReadGuard, Read, from_raw_parts);
guard!(WriteGuard, Write, from_raw_parts_mut);

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.elements
    }
}
