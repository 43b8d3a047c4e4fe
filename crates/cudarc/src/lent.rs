//! Arrays of Millstream as slices of cudarc, for the time of a lease.

#![allow(unsafe_code, reason = "makes slices of lent memory, never freed")]

use std::{fmt, mem::ManuallyDrop, sync::Arc};

use bytemuck::Pod;
use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, DevicePtrMut};
use millstream::{Buffer, interop::Lease};

use crate::{Result, SharedStream};

/// A slice of cudarc over lent memory, which it does not free.
struct Unowned<T>(ManuallyDrop<CudaSlice<T>>);

impl<T: Pod> Unowned<T> {
    fn new(lease: &Lease<'_, T>, stream: &SharedStream) -> Result<Self> {
        let stream = Arc::clone(stream.cudarc());
        stream.context().bind_to_thread()?;
        // SAFETY: the memory has this length and plain data, and lives as long as the lease. The
        // slice is never dropped, only leaked.
        let slice = unsafe { stream.upgrade_device_ptr::<T>(lease.as_raw().as_raw(), lease.len()) };
        let mut unowned = Self(ManuallyDrop::new(slice));
        // Other streams of cudarc wait for this event, and so for the begin of the lease.
        let (_, recorded) = unowned.0.device_ptr_mut(&stream);
        drop(recorded);
        stream.context().check_err()?;
        Ok(unowned)
    }
}

impl<T> Drop for Unowned<T> {
    fn drop(&mut self) {
        // SAFETY: the slice is not used again.
        let slice = unsafe { ManuallyDrop::take(&mut self.0) };
        // Makes the slice's stream wait for its uses on other streams of cudarc. The lease ends
        // behind that.
        let _ = slice.leak();
    }
}

/// An array that is lent to cudarc for reading.
pub struct LentSlice<'a, T: Pod> {
    // Before the lease: dropped first.
    slice: Unowned<T>,
    lease: Lease<'a, T>,
}

impl<T: Pod> LentSlice<'_, T> {
    /// Returns the array as cudarc's type.
    #[must_use]
    pub fn view(&self) -> CudaView<'_, T> {
        self.slice.0.as_view()
    }
}

/// An array that is lent to cudarc for reading and writing.
pub struct LentSliceMut<'a, T: Pod> {
    // Before the lease: dropped first.
    slice: Unowned<T>,
    lease: Lease<'a, T>,
}

impl<T: Pod> LentSliceMut<'_, T> {
    /// Returns the array as cudarc's type.
    #[must_use]
    pub fn view(&self) -> CudaView<'_, T> {
        self.slice.0.as_view()
    }

    /// Returns the array as cudarc's type for writing.
    #[must_use]
    pub fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.0.as_view_mut()
    }
}

/// Lends an array to cudarc for reading on its stream, as [`Buffer::lend`].
///
/// # Errors
///
/// As [`Buffer::lend`], and if cudarc cannot create its events.
#[track_caller]
pub fn lend<'a, T: Pod>(array: &'a Buffer<T>, stream: &SharedStream) -> Result<LentSlice<'a, T>> {
    let lease = array.lend(stream)?;
    Ok(LentSlice {
        slice: Unowned::new(&lease, stream)?,
        lease,
    })
}

/// Lends an array to cudarc for reading and writing on its stream, as [`Buffer::lend_mut`].
///
/// # Errors
///
/// As [`Buffer::lend_mut`], and if cudarc cannot create its events.
#[track_caller]
pub fn lend_mut<'a, T: Pod>(
    array: &'a mut Buffer<T>,
    stream: &SharedStream,
) -> Result<LentSliceMut<'a, T>> {
    let lease = array.lend_mut(stream)?;
    Ok(LentSliceMut {
        slice: Unowned::new(&lease, stream)?,
        lease,
    })
}

impl<T: Pod> fmt::Debug for LentSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LentSlice({:?})", self.lease)
    }
}

impl<T: Pod> fmt::Debug for LentSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LentSliceMut({:?})", self.lease)
    }
}
