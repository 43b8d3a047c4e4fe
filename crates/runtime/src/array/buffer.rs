//! `Buffer<T>`: an array on the device.

use std::{any::Any, marker::PhantomData, ops::RangeBounds, panic::Location, sync::Arc};

use millstream_driver::DevicePtr;
use smallvec::SmallVec;

use super::{View, ViewMut, accessors::array, view::Span};
use crate::{
    Device, Result, UsageError, UsageErrorKind,
    context::{DeviceState, Memory, StreamState},
    element_layout::bytes_of,
    memory::{Allocation, Contents, Release},
    tracker::{AccessKind, Ticket},
};

/// An array of `T` in the device's memory.
///
/// [`Stream::upload`](crate::Stream::upload) and [`Stream::zeros`](crate::Stream::zeros) create
/// buffers. A buffer can be used on every stream of its device: each operation runs after the
/// earlier operations that it conflicts with, and concurrently with all others. Dropping a buffer
/// never blocks. Its memory returns after the last use to the device, or to the next array of its
/// size (see [`Device::set_cache_limit`](crate::Device::set_cache_limit)).
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
/// Elements are plain data: types for which every bit pattern is a value. `bool`, `char` and
/// references are refused:
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
#[doc(alias("CudaSlice", "DeviceBuffer", "CUdeviceptr", "Tensor"))]
pub struct Buffer<T> {
    /// Shared with the graphs that use the array.
    pub(super) allocation: Arc<Allocation>,
    pub(super) len: usize,
    pub(super) element: PhantomData<T>,
}

impl<T: bytemuck::Pod> Buffer<T> {
    /// Allocates an array with undefined contents. The caller must enqueue an operation on the same
    /// stream that writes all of it before handing the array out.
    pub(crate) fn new(
        device: &Arc<DeviceState>,
        stream: &StreamState,
        len: usize,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let wanted = Contents::Undefined;
        Self::with_contents(device, stream, len, wanted, operation, location).map(|(made, _)| made)
    }

    /// Allocates an array like [`new`](Self::new), from a cached block with the wanted contents if
    /// there is one. Returns the contents.
    pub(crate) fn with_contents(
        device: &Arc<DeviceState>,
        stream: &StreamState,
        len: usize,
        wanted: Contents,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Result<(Self, Contents)> {
        let bytes =
            bytes_of::<T>(operation, len).map_err(|usage_error| usage_error.at(location))?;
        let (allocation, contents) = match device.recorder_of(stream) {
            Some(recorder) => {
                let memory = recorder.allocate(stream, bytes, location)?;
                (Allocation::recorded(memory), Contents::Undefined)
            }
            None => {
                let allocation = Allocation::new(device, stream, bytes, wanted, location)?;
                (allocation.0.shared(), allocation.1)
            }
        };
        let array = Self {
            allocation,
            len,
            element: PhantomData,
        };
        Ok((array, contents))
    }
}

impl<T: bytemuck::Pod> Buffer<T> {
    /// Takes over memory of another library. The caller vouches for the address.
    pub(crate) fn adopt(
        device: &Arc<DeviceState>,
        pointer: DevicePtr,
        len: usize,
        release: Release,
    ) -> Result<Self, UsageError> {
        const NAME: &str = "adopt_buffer";
        let bytes = bytes_of::<T>(NAME, len)?;
        let address = pointer.as_raw();
        if !address.is_multiple_of(align_of::<T>() as u64) {
            let problem = UsageErrorKind::CastAlignment {
                alignment: 1 << address.trailing_zeros(),
                target_alignment: align_of::<T>(),
            };
            return Err(UsageError::new(NAME, problem));
        }
        Ok(Self {
            allocation: Allocation::adopt(device, pointer, bytes, release).shared(),
            len,
            element: PhantomData,
        })
    }
}

array!(Buffer);

impl<T> Buffer<T> {
    /// Returns the device of the array.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// assert_eq!(device.stream()?.zeros::<u8>(9)?.device(), device);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[must_use]
    pub fn device(&self) -> Device {
        Device::from_state(Arc::clone(&self.allocation.device))
    }

    /// Returns whether this is memory that was [adopted](crate::Device::adopt_buffer) from another
    /// library.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        self.allocation.is_adopted()
    }

    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.allocation) > 1
    }

    /// Returns whether only this value refers to the memory: no graph uses the array, and no part
    /// of it is lent.
    #[doc(hidden)]
    #[must_use]
    pub fn is_sole_owner(&mut self) -> bool {
        let allocation = Arc::get_mut(&mut self.allocation);
        allocation.is_some_and(|allocation| !allocation.history.is_lent())
    }

    /// Returns the last operation of each stream that wrote to the array, unless later ones have
    /// replaced all of its elements.
    pub(crate) fn last_writes(&self) -> SmallVec<[Ticket; 4]> {
        let history = &self.allocation.history;
        history.host_conflicts(&(0..history.bytes()), AccessKind::Read)
    }

    /// Notes that all operations, those to come included, leave every byte as 0. Once this array
    /// is dropped, its memory serves [`Stream::reused_zeros`](crate::Stream::reused_zeros) without
    /// a fill. Has no effect if a graph uses the array.
    #[doc(hidden)]
    pub fn note_zeros(&mut self) {
        if let Some(allocation) = Arc::get_mut(&mut self.allocation) {
            allocation.note_zeros();
        }
    }

    /// Returns the keeper of an [adopted](crate::Device::adopt_buffer) array, a value of its owner,
    /// if it has this type and no graph uses the array.
    pub fn keeper_mut<K: Any>(&mut self) -> Option<&mut K> {
        Arc::get_mut(&mut self.allocation)?.keeper_mut()
    }

    /// Returns the keeper of another library's memory; the drop of this array then does not give
    /// the memory back. `None` if a graph uses the array.
    pub(crate) fn take_keeper(&mut self) -> Option<Box<dyn Any + Send>> {
        Arc::get_mut(&mut self.allocation)?.take_keeper()
    }

    /// Returns the memory, for a recording that keeps it.
    pub(crate) fn shared_memory(&self) -> Memory {
        Arc::clone(&self.allocation) as Memory
    }

    /// Returns the address on the device, for calls to other libraries. The library does not track
    /// their accesses.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.allocation.pointer
    }
}
