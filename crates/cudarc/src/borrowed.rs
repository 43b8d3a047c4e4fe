//! Slices of cudarc that Millstream uses for the time of a call, while cudarc keeps them.

#![allow(unsafe_code, reason = "adopts memory for the time of a borrow")]

use std::{sync::Arc, thread, time::Duration};

use bytemuck::Pod;
use cudarc::driver::{DevicePtr, DevicePtrMut, sys::CUdeviceptr};
use millstream::{Buffer, Device, Release, View, ViewMut, driver, interop::After};

use crate::{Result, SharedStream};

/// Calls `body` with a slice or view of cudarc as a view of Millstream, for reading. Operations of
/// Millstream on it wait for cudarc's work, and cudarc's later work on the slice's stream waits for
/// them, on the device; work on cudarc's other streams does as far as cudarc tracks it.
///
/// The view cannot be recorded or swapped into a graph, which would keep the memory:
/// [`UsageErrorKind::LentForScope`](millstream::UsageErrorKind::LentForScope).
///
/// ```no_run
/// use cudarc::driver::CudaContext;
/// use millstream_cudarc::{device_of, with_slice};
///
/// let context = CudaContext::new(0)?;
/// let slice = context.new_stream()?.clone_htod(&[1.0_f32; 100])?;
/// let device = device_of(&context)?;
/// let ours = device.stream()?;
/// let mut array = ours.zeros::<f32>(100)?;
/// with_slice(&device, &slice, |view| ours.copy(view, &mut array))??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`adopt_slice`](crate::adopt_slice): `body` is then not called. If the driver refuses the
/// order behind it, as it does if the slice's stream is captured meanwhile, this waits on the host
/// for the operations on the slice, and returns the error.
#[track_caller]
pub fn with_slice<T: Pod, R>(
    device: &Device,
    slice: &impl DevicePtr<T>,
    body: impl FnOnce(View<'_, T>) -> R,
) -> Result<R> {
    let raw = Arc::clone(slice.stream());
    let stream = SharedStream::new(device, &raw)?;
    // Its drop records the event for which cudarc's writers wait.
    let (pointer, _recorded) = slice.device_ptr(&raw);
    let mut borrowed = Borrowed::new(device, (pointer, slice.len()), &stream)?;
    let result = body(borrowed.array().view());
    borrowed.end()?;
    Ok(result)
}

/// Calls `body` with a slice or view of cudarc as a view of Millstream, for reading and writing, as
/// [`with_slice`].
///
/// # Errors
///
/// As [`with_slice`].
#[track_caller]
pub fn with_slice_mut<T: Pod, R>(
    device: &Device,
    slice: &mut impl DevicePtrMut<T>,
    body: impl FnOnce(ViewMut<'_, T>) -> R,
) -> Result<R> {
    let (raw, len) = (Arc::clone(slice.stream()), slice.len());
    let stream = SharedStream::new(device, &raw)?;
    // Its drop records the event for which all users wait.
    let (pointer, _recorded) = slice.device_ptr_mut(&raw);
    let mut borrowed = Borrowed::new(device, (pointer, len), &stream)?;
    let result = body(borrowed.array().view_mut());
    borrowed.end()?;
    Ok(result)
}

/// A borrowed slice. Its drop gives it back to its stream, also after a panic.
struct Borrowed<'s, T: Pod> {
    /// `None` once it is given back.
    array: Option<Buffer<T>>,
    stream: &'s SharedStream,
}

impl<'s, T: Pod> Borrowed<'s, T> {
    fn new(
        device: &Device,
        (pointer, len): (CUdeviceptr, usize),
        stream: &'s SharedStream,
    ) -> Result<Self> {
        stream.cudarc().context().check_err()?;
        let pointer = driver::DevicePtr::from_raw(pointer);
        let (after, release) = (After::Stream(stream), Release::at_end_of_scope());
        // SAFETY: the caller borrows the memory, which has this length, until this is dropped. Then
        // the stream waits for all uses, or they are over.
        let array = unsafe { device.adopt_buffer(pointer, len, after, release) }?;
        Ok(Self {
            array: Some(array),
            stream,
        })
    }

    fn array(&mut self) -> &mut Buffer<T> {
        self.array.as_mut().expect("it is given back at the end")
    }

    fn end(mut self) -> Result<()> {
        self.give_back()
    }

    /// Makes the slice's stream wait for all uses.
    fn give_back(&mut self) -> Result<()> {
        let Some(array) = self.array.take() else {
            return Ok(());
        };
        let Err(rejected) = array.return_to_owner(self.stream) else {
            return Ok(());
        };
        // Without an order on the device the host waits. A lost device has no work.
        if wait_for_uses(&self.stream.device(), rejected.source).is_err() {
            let _ = self.stream.cudarc().context().synchronize();
        }
        Err(rejected.error.into())
    }
}

/// Waits on the host until all uses of the array are over, also while streams of the context are
/// captured, which forbids to wait for the context (rule 42).
fn wait_for_uses<T: Pod>(device: &Device, array: Buffer<T>) -> Result<()> {
    let ours = device.stream()?;
    array.return_to_owner(&ours)?;
    // A query that fails says nothing about the uses, unless the device is lost.
    while !ours.is_idle().unwrap_or(device.lost().is_some()) {
        thread::sleep(Duration::from_micros(20));
    }
    Ok(())
}

impl<T: Pod> Drop for Borrowed<'_, T> {
    fn drop(&mut self) {
        // The error of an unwinding body; the order is made in any case.
        let _ = self.give_back();
    }
}
