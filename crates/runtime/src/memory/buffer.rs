//! `Buffer<T>`: an array on the device.

use std::{fmt, marker::PhantomData, ops::RangeBounds, panic::Location, sync::Arc};

use millstream_driver::DevicePtr;

use super::{Allocation, View, ViewMut, bytes_of, view::Span};
use crate::{
    Result,
    device::{DeviceState, StreamState},
};

/// An array of `T` in the device's memory.
///
/// Made by [`Stream::upload`](crate::Stream::upload) or [`Stream::zeros`](crate::Stream::zeros), usable on every stream
/// of its device: whatever the library enqueues with it runs after the operations that it conflicts with, and beside all
/// others. Dropping it frees the memory after its last use, and never blocks.
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
/// Only plain data can be on a device. A `bool`, a `char` or a reference has bit patterns that are not values:
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
    /// An array whose content is still undefined: the caller enqueues an operation that writes all of it, on the same
    /// stream, before anyone else sees it.
    pub(crate) fn new(
        device: &Arc<DeviceState>,
        stream: &StreamState,
        len: usize,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let bytes = bytes_of::<T>(operation, len)?;
        let allocation = Allocation::new(device, stream, bytes, location)?;
        Ok(Self {
            allocation,
            len,
            element: PhantomData,
        })
    }
}

impl<T> Buffer<T> {
    /// Elements in the array.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the array has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The whole array, to read.
    #[must_use]
    pub fn view(&self) -> View<'_, T> {
        View {
            span: self.span(),
            element: PhantomData,
        }
    }

    /// The whole array, to write.
    #[must_use]
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            span: self.span(),
            element: PhantomData,
        }
    }

    /// A part of the array, to read.
    ///
    /// # Panics
    ///
    /// If the range does not lie within the array, like a slice's index. See [`try_slice`](Self::try_slice).
    #[must_use]
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
        self.try_slice(range).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A part of the array, to read.
    ///
    /// # Errors
    ///
    /// If the range does not lie within the array.
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T>> {
        self.view().into_part(range)
    }

    /// A part of the array, to write.
    ///
    /// # Panics
    ///
    /// If the range does not lie within the array. See [`try_slice_mut`](Self::try_slice_mut).
    #[must_use]
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        self.try_slice_mut(range)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// A part of the array, to write.
    ///
    /// # Errors
    ///
    /// If the range does not lie within the array.
    pub fn try_slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        self.view_mut().into_part(range)
    }

    /// Two parts of the array to write at the same time: the first `middle` elements, and the rest.
    ///
    /// # Panics
    ///
    /// If `middle` is more than the array has.
    #[must_use]
    #[track_caller]
    pub fn split_at_mut(&mut self, middle: usize) -> (ViewMut<'_, T>, ViewMut<'_, T>) {
        self.view_mut().split_at_mut(middle)
    }

    /// The array in parts of `chunk_len` elements to write at the same time, the last perhaps shorter.
    ///
    /// # Panics
    ///
    /// If `chunk_len` is 0.
    #[track_caller]
    pub fn chunks_mut(&mut self, chunk_len: usize) -> impl Iterator<Item = ViewMut<'_, T>> {
        self.view_mut().chunks_mut(chunk_len)
    }

    /// The address on the device, for calls to other libraries. What they do with it is not tracked.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.allocation.pointer
    }

    pub(super) fn span(&self) -> Span<'_> {
        let bytes = self.len * size_of::<T>();
        Span {
            allocation: &self.allocation,
            bytes: 0..bytes,
            ordered: true,
        }
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
