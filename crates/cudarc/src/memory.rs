//! Slices of cudarc as arrays of Millstream.

#![allow(unsafe_code, reason = "adopts memory, which its slice keeps allocated")]

use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaSlice, DevicePtrMut};
use millstream::{Buffer, Device, Release, driver::DevicePtr, interop::After};

use crate::{Error, Result, SharedStream};

/// A slice whose memory Millstream uses.
struct Kept<T>(Option<CudaSlice<T>>);

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        if let Some(slice) = self.0.take() {
            // This is a thread of Millstream, where the slice's context need not be current. If it
            // cannot be made current, cudarc records the error of the free.
            let _ = slice.context().bind_to_thread();
            drop(slice);
        }
    }
}

/// Takes over a slice of cudarc. The array's first use waits for cudarc's work on it, on the
/// device: for what was enqueued on the slice's stream, and on others as far as cudarc tracks
/// them. When the array is dropped, cudarc frees the memory in the order of the slice's stream.
///
/// # Errors
///
/// As [`SharedStream::new`] for the slice's stream, and if that stream is captured. The slice is
/// then dropped.
#[track_caller]
pub fn adopt_slice<T: Pod + Send>(device: &Device, mut slice: CudaSlice<T>) -> Result<Buffer<T>> {
    let raw = Arc::clone(slice.stream());
    let stream = SharedStream::new(device, &raw)?;
    // The slice's stream waits for the events of its uses on other streams.
    let (pointer, recorded) = slice.device_ptr_mut(&raw);
    drop(recorded);
    raw.context().check_err()?;
    let (pointer, len) = (DevicePtr::from_raw(pointer), slice.len());
    let is_freed_in_order = raw.context().has_async_alloc();
    let keeper = Kept(Some(slice));
    let release = match is_freed_in_order {
        true => Release::behind(&stream, keeper),
        false => Release::when_done(keeper),
    };
    // SAFETY: the keeper is the slice, which has this length and frees the memory on drop. It was
    // passed by value, so that its owner has no other access to it; what was enqueued before is in
    // the order of its stream. cudarc frees in that order where it can, and else synchronously.
    let array = unsafe { device.adopt_buffer(pointer, len, After::Stream(&stream), release) };
    Ok(array?)
}

/// Returns an array that [`adopt_slice`] made to cudarc: the slice's stream waits for every
/// operation on it, on the device.
///
/// # Errors
///
/// If the array did not come from a slice with this type of elements, if a part of it is lent, if
/// the slice's stream is captured, or if the device is lost. The array is then dropped.
#[track_caller]
pub fn return_slice<T: Pod + Send>(device: &Device, mut array: Buffer<T>) -> Result<CudaSlice<T>> {
    let kept = array.keeper_mut::<Kept<T>>();
    let slice = kept.and_then(|kept| kept.0.as_ref());
    let raw = Arc::clone(slice.ok_or(Error::NotASlice)?.stream());
    let stream = SharedStream::new(device, &raw)?;
    let keeper = array.return_to_owner(&stream)?.downcast::<Kept<T>>();
    let slice = keeper.ok().and_then(|mut keeper| keeper.0.take());
    let mut slice = slice.ok_or(Error::NotASlice)?;
    // Other streams of cudarc wait for this event.
    let (_, recorded) = slice.device_ptr_mut(&raw);
    drop(recorded);
    raw.context().check_err()?;
    Ok(slice)
}
