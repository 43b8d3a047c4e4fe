//! `Buffer<T>`: an array on the device.

use std::{fmt, marker::PhantomData, ops::RangeBounds, panic::Location, sync::Arc};

use millstream_driver::DevicePtr;

use super::{Allocation, View, ViewMut, array::array, bytes_of, view::Span};
use crate::{
    Result,
    context::{DeviceState, StreamState},
};

/// An array of `T` in the device's memory.
///
/// Made by [`Stream::upload`](crate::Stream::upload) or [`Stream::zeros`](crate::Stream::zeros),
/// usable on every stream of its device: whatever the library enqueues with it runs after the
/// operations that it conflicts with, and beside all others. Dropping it gives the memory back
/// after its last use, to the device or to the next array of its size (see
/// [`Device::set_cache_limit`](crate::Device::set_cache_limit)), and never blocks.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let (first, second) = (device.stream()?, device.stream()?);
/// let mut numbers = first.upload(&[1.0_f32, 2.0, 3.0])?;
/// second.fill(numbers.slice_mut(..1), 9.0)?; // runs after the upload, on the device
/// assert_eq!(first.download(&numbers)?.wait()?, [9.0, 2.0, 3.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// An array begins at a multiple of 256 bytes. Elements that need a larger alignment can be copied
/// to the device and back, but no kernel takes them.
///
/// Only plain data can be on a device. A `bool`, a `char` or a reference has bit patterns that are
/// not values:
///
/// ```compile_fail,E0277
/// # let stream = millstream::Device::simulated()?.stream()?;
/// stream.upload(&[true, false])?;
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// ```compile_fail,E0277
/// # let stream = millstream::Device::simulated()?.stream()?;
/// stream.upload(&['a'])?;
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// ```compile_fail,E0277
/// # let stream = millstream::Device::simulated()?.stream()?;
/// stream.upload(&[&1_u32])?;
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Buffer<T> {
    pub(super) allocation: Allocation,
    pub(super) len: usize,
    pub(super) element: PhantomData<T>,
}

impl<T: bytemuck::Pod> Buffer<T> {
    /// An array whose content is still undefined: the caller enqueues an operation that writes all
    /// of it, on the same stream, before anyone else sees it.
    pub(crate) fn new(
        device: &Arc<DeviceState>,
        stream: &StreamState,
        len: usize,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let bytes =
            bytes_of::<T>(operation, len).map_err(|usage_error| usage_error.at(location))?;
        let allocation = Allocation::new(device, stream, bytes, location)?;
        Ok(Self {
            allocation,
            len,
            element: PhantomData,
        })
    }
}

array!(Buffer);

impl<T> Buffer<T> {
    /// The address on the device, for calls to other libraries. What they do with it is not
    /// tracked.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.allocation.pointer
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Buffer({} × {}: {:?})",
            self.len,
            std::any::type_name::<T>(),
            self.allocation
        )
    }
}
