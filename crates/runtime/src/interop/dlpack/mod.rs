//! DLPack: arrays that other libraries produce or consume without a copy, in particular the
//! frameworks of Python.
//!
//! DLPack describes memory and says how to let it go, but not when it may be used: the producer and
//! the consumer agree on a stream. [`Buffer::into_dlpack`](crate::Buffer::into_dlpack) makes the
//! consumer's stream wait for everything that conflicts, and memory whose deleter has been called
//! is reused only behind what that stream holds then.
//! [`Device::adopt_dlpack`](crate::Device::adopt_dlpack) takes over a tensor whose producer has
//! ordered its work before a stream of this library, and calls its deleter once all uses are
//! complete. Not earlier, in the order of a stream: a framework reuses memory in the order of the
//! stream that allocated it, which DLPack does not name.

#![allow(unsafe_code, reason = "reads and makes structures of DLPack")]

mod abi;

use std::{ffi::c_void, fmt, panic::Location, ptr::NonNull, slice};

use bytemuck::Pod;
use millstream_driver::DevicePtr;

pub use abi::{
    DEVICE_CUDA, DlDataType, DlDevice, DlManagedTensor, DlManagedTensorVersioned, DlTensor,
    DlVersion, MAJOR_VERSION, MINOR_VERSION, READ_ONLY,
};

use super::{After, OwnedLease};
use crate::{Buffer, Device, Error, Rejected, Release, Result, Stream, UsageError, UsageErrorKind};

/// A type of elements that DLPack can name.
///
/// ```
/// use millstream::interop::dlpack::Element;
///
/// assert_eq!((<f32 as Element>::TYPE.code, <f32 as Element>::TYPE.bits), (2, 32));
/// ```
pub trait Element: Pod + Send {
    /// The type in DLPack's terms.
    const TYPE: DlDataType;
}

macro_rules! elements {
    ($($code:literal: $($element:ty),+;)+) => {$($(
        impl Element for $element {
            const TYPE: DlDataType = DlDataType {
                code: $code,
                bits: 8 * size_of::<$element>() as u8,
                lanes: 1,
            };
        }
    )+)+};
}

elements! {
    0: i8, i16, i32, i64;
    1: u8, u16, u32, u64;
    2: f32, f64;
}

/// A tensor of DLPack that this program owns: its drop calls the deleter.
///
/// ```
/// use millstream::interop::dlpack::ManagedTensor;
///
/// let stream = millstream::Device::simulated()?.stream()?;
/// let tensor = ManagedTensor::versioned(stream.zeros::<f32>(6)?.into_dlpack(&stream)?, &[2, 3])?;
/// assert_eq!(tensor.shape(), [2, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct ManagedTensor(Raw);

/// The two structures.
#[derive(Clone, Copy)]
enum Raw {
    Versioned(NonNull<DlManagedTensorVersioned>),
    Unversioned(NonNull<DlManagedTensor>),
}

// SAFETY: the deleter of a tensor may be called on any thread, as DLPack requires of producers, and
// the structure is not shared.
unsafe impl Send for ManagedTensor {}

impl ManagedTensor {
    /// Takes over a tensor of DLPack 1.0 or later.
    ///
    /// # Safety
    ///
    /// The structure is valid until its deleter is called, on any thread, and has no other owner.
    #[must_use]
    pub unsafe fn from_versioned(raw: NonNull<DlManagedTensorVersioned>) -> Self {
        Self(Raw::Versioned(raw))
    }

    /// Takes over a tensor without a version.
    ///
    /// # Safety
    ///
    /// As for [`from_versioned`](Self::from_versioned).
    #[must_use]
    pub unsafe fn from_unversioned(raw: NonNull<DlManagedTensor>) -> Self {
        Self(Raw::Unversioned(raw))
    }

    /// Makes a tensor of DLPack 1.x of an exported array.
    ///
    /// # Errors
    ///
    /// If the shape has another number of elements than the array, which is then dropped.
    #[track_caller]
    pub fn versioned<T: Element>(exported: Exported<T>, shape: &[i64]) -> Result<Self> {
        let mut owner = exported.own(shape, Location::caller())?;
        let dl_tensor = owner.tensor::<T>();
        let tensor = DlManagedTensorVersioned {
            version: DlVersion {
                major: MAJOR_VERSION,
                minor: MINOR_VERSION,
            },
            manager_ctx: Box::into_raw(owner).cast(),
            deleter: Some(delete_versioned),
            flags: 0,
            dl_tensor,
        };
        Ok(Self(Raw::Versioned(NonNull::from(Box::leak(Box::new(
            tensor,
        ))))))
    }

    /// Makes a tensor without a version of an exported array.
    ///
    /// # Errors
    ///
    /// As [`versioned`](Self::versioned).
    #[track_caller]
    pub fn unversioned<T: Element>(exported: Exported<T>, shape: &[i64]) -> Result<Self> {
        let mut owner = exported.own(shape, Location::caller())?;
        let dl_tensor = owner.tensor::<T>();
        let tensor = DlManagedTensor {
            dl_tensor,
            manager_ctx: Box::into_raw(owner).cast(),
            deleter: Some(delete_unversioned),
        };
        Ok(Self(Raw::Unversioned(NonNull::from(Box::leak(Box::new(
            tensor,
        ))))))
    }

    /// Returns the structure of a versioned tensor, whose new owner calls its deleter.
    ///
    /// # Errors
    ///
    /// Returns the tensor if it is unversioned.
    pub fn into_versioned(self) -> Result<NonNull<DlManagedTensorVersioned>, Self> {
        match self.0 {
            Raw::Versioned(raw) => {
                std::mem::forget(self);
                Ok(raw)
            }
            Raw::Unversioned(_) => Err(self),
        }
    }

    /// Returns the structure of an unversioned tensor, whose new owner calls its deleter.
    ///
    /// # Errors
    ///
    /// Returns the tensor if it is versioned.
    pub fn into_unversioned(self) -> Result<NonNull<DlManagedTensor>, Self> {
        match self.0 {
            Raw::Unversioned(raw) => {
                std::mem::forget(self);
                Ok(raw)
            }
            Raw::Versioned(_) => Err(self),
        }
    }

    /// Returns the tensor, or `None` for a major version of which nothing is known.
    fn tensor(&self) -> Option<&DlTensor> {
        match self.0 {
            // SAFETY: the structure is valid, and the version comes first in every version.
            Raw::Versioned(raw) if unsafe { raw.as_ref() }.version.major != MAJOR_VERSION => None,
            // SAFETY: the structure is valid as long as `self`.
            Raw::Versioned(raw) => Some(unsafe { &(*raw.as_ptr()).dl_tensor }),
            // SAFETY: as above.
            Raw::Unversioned(raw) => Some(unsafe { &(*raw.as_ptr()).dl_tensor }),
        }
    }

    /// Returns whether its consumer must not write it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self.0 {
            // SAFETY: the structure is valid.
            Raw::Versioned(raw) => unsafe { raw.as_ref() }.flags & READ_ONLY != 0,
            Raw::Unversioned(_) => false,
        }
    }

    /// Returns the length of each dimension; none for another major version.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        self.tensor()
            .map_or(&[], |tensor| lengths(tensor.shape, tensor.ndim))
    }

    /// Returns the number of elements of a contiguous tensor in row-major order.
    fn contiguous_len(&self) -> Option<usize> {
        let tensor = self.tensor()?;
        let shape = lengths(tensor.shape, tensor.ndim);
        let mut len = 1_usize;
        let strides = (!tensor.strides.is_null()).then(|| lengths(tensor.strides, tensor.ndim));
        let is_empty = shape.contains(&0);
        for (dimension, &length) in shape.iter().enumerate().rev() {
            // The stride of a dimension with one element is never used.
            let is_used = length != 1 && !is_empty;
            if is_used && strides.is_some_and(|strides| strides[dimension] != len as i64) {
                return None;
            }
            len = len.checked_mul(usize::try_from(length).ok()?)?;
        }
        Some(len)
    }
}

/// Returns the array of `count` numbers at `first`.
fn lengths<'a>(first: *const i64, count: i32) -> &'a [i64] {
    if count <= 0 || first.is_null() {
        return &[];
    }
    // SAFETY: a tensor has as many lengths and strides as dimensions, and the caller's tensor lives
    // as long as the slice is used.
    unsafe { slice::from_raw_parts(first, count as usize) }
}

impl Drop for ManagedTensor {
    fn drop(&mut self) {
        match self.0 {
            Raw::Versioned(raw) => {
                // SAFETY: the structure is valid until the deleter is called.
                if let Some(deleter) = unsafe { raw.as_ref() }.deleter {
                    // SAFETY: this is the only owner.
                    unsafe { deleter(raw.as_ptr()) };
                }
            }
            Raw::Unversioned(raw) => {
                // SAFETY: as above.
                if let Some(deleter) = unsafe { raw.as_ref() }.deleter {
                    // SAFETY: this is the only owner.
                    unsafe { deleter(raw.as_ptr()) };
                }
            }
        }
    }
}

impl fmt::Debug for ManagedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManagedTensor({:?})", self.tensor())
    }
}

/// An array that is on its way to a consumer, whose stream is ordered behind its uses.
#[derive(Debug)]
pub struct Exported<T: Element>(OwnedLease<T>);

impl<T: Element> Exported<T> {
    /// Boxes the array with its shape.
    fn own(self, shape: &[i64], location: &'static Location<'static>) -> Result<Box<Owner>> {
        let len = shape.iter().try_fold(1_usize, |len, &length| {
            len.checked_mul(usize::try_from(length).ok()?)
        });
        if len != Some(self.0.len()) {
            let problem = UsageErrorKind::Dlpack {
                reason: format!(
                    "the shape {shape:?} is not that of {} elements",
                    self.0.len()
                ),
            };
            return Err(UsageError::new("dlpack", problem).at(location).into());
        }
        let mut strides = Vec::with_capacity(shape.len());
        let mut stride = 1;
        for &length in shape.iter().rev() {
            strides.push(stride);
            stride *= length.max(1);
        }
        strides.reverse();
        Ok(Box::new(Owner {
            pointer: self.0.as_raw(),
            ordinal: self.0.ordinal(),
            shape: shape.into(),
            strides: strides.into(),
            _lease: Box::new(self.0),
        }))
    }
}

/// The owner of an exported array, behind `manager_ctx`.
struct Owner {
    pointer: DevicePtr,
    ordinal: i32,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    /// Its drop orders later uses of the memory behind the consumer's stream.
    _lease: Box<dyn std::any::Any + Send>,
}

impl Owner {
    fn tensor<T: Element>(&mut self) -> DlTensor {
        DlTensor {
            data: self.pointer.as_raw() as *mut c_void,
            device: DlDevice {
                device_type: DEVICE_CUDA,
                device_id: self.ordinal,
            },
            ndim: self.shape.len() as i32,
            dtype: T::TYPE,
            shape: self.shape.as_mut_ptr(),
            strides: self.strides.as_mut_ptr(),
            byte_offset: 0,
        }
    }
}

unsafe extern "C" fn delete_versioned(tensor: *mut DlManagedTensorVersioned) {
    // SAFETY: the consumer calls this once, with the structure that this module boxed.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: it was boxed with the structure.
    drop(unsafe { Box::from_raw(tensor.manager_ctx.cast::<Owner>()) });
}

unsafe extern "C" fn delete_unversioned(tensor: *mut DlManagedTensor) {
    // SAFETY: as for `delete_versioned`.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: it was boxed with the structure.
    drop(unsafe { Box::from_raw(tensor.manager_ctx.cast::<Owner>()) });
}

impl<T: Element> Buffer<T> {
    /// Hands the array to a consumer that uses it on `stream`, usually an
    /// [adopted](Device::adopt_stream) one. The stream's later work runs after every operation that
    /// conflicts. When the consumer calls the deleter, the memory is reused behind the work that
    /// the stream holds then; the consumer orders its other streams before it, as DLPack requires.
    ///
    /// ```
    /// use millstream::interop::dlpack::ManagedTensor;
    ///
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let exported = stream.upload(&[1.0_f32, 2.0])?.into_dlpack(&stream)?;
    /// let capsule = ManagedTensor::versioned(exported, &[2])?.into_versioned();
    /// // To the consumer, who calls the deleter; or back:
    /// // SAFETY: nobody else has the structure.
    /// drop(unsafe { ManagedTensor::from_versioned(capsule.unwrap()) });
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Buffer::lend_mut`]. The error returns the array.
    #[allow(clippy::result_large_err, reason = "the error returns the array")]
    #[track_caller]
    pub fn into_dlpack(self, stream: &Stream) -> Result<Exported<T>, Rejected<Self>> {
        self.into_lease(stream).map(Exported)
    }
}

impl Device {
    /// Takes over a tensor of another library as an array. Its deleter is called on a thread of
    /// this library once the array is dropped and all operations on it are complete.
    ///
    /// The array has the tensor's elements in row-major order, without its shape.
    ///
    /// ```
    /// use millstream::{Device, interop::{After, dlpack::ManagedTensor}};
    ///
    /// let device = Device::simulated()?;
    /// let stream = device.stream()?;
    /// // The other library is this one.
    /// let theirs = stream.upload(&[1.0_f32, 2.0])?.into_dlpack(&stream)?;
    /// let tensor = ManagedTensor::versioned(theirs, &[2, 1])?;
    /// // SAFETY: the tensor's work is on this stream.
    /// let array = unsafe { device.adopt_dlpack::<f32>(tensor, After::Stream(&stream)) }?;
    /// assert_eq!(stream.download(&array)?.wait()?, [1.0, 2.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the tensor has another type of elements, is not on this device, not contiguous in
    /// row-major order, read-only, or of another major version of DLPack; and as
    /// [`adopt_buffer`](Self::adopt_buffer). The deleter is then called.
    ///
    /// # Safety
    ///
    /// As for [`adopt_buffer`](Self::adopt_buffer): the tensor's memory is allocated until its
    /// deleter is called, and its producer's work on it is ordered before `after`.
    #[track_caller]
    pub unsafe fn adopt_dlpack<T: Element>(
        &self,
        tensor: ManagedTensor,
        after: After<'_>,
    ) -> Result<Buffer<T>> {
        let location = Location::caller();
        let refused = |reason: String| {
            let problem = UsageErrorKind::Dlpack { reason };
            Error::from(UsageError::new("adopt_dlpack", problem).at(location))
        };
        let Some(described) = tensor.tensor() else {
            return Err(refused(format!(
                "the tensor is not of major version {MAJOR_VERSION}"
            )));
        };
        let ours = DlDevice {
            device_type: DEVICE_CUDA,
            device_id: self.state().ordinal.as_raw(),
        };
        if described.device != ours {
            let theirs = described.device;
            return Err(refused(format!(
                "the tensor is on {theirs:?}, and the array would be on {ours:?}"
            )));
        }
        if described.dtype != T::TYPE {
            let (theirs, ours) = (described.dtype, T::TYPE);
            return Err(refused(format!(
                "the tensor's elements are {theirs:?}, and the array's would be {ours:?}"
            )));
        }
        if tensor.is_read_only() {
            return Err(refused("the tensor is read-only: copy it".to_owned()));
        }
        let Some(len) = tensor.contiguous_len() else {
            return Err(refused(format!(
                "the tensor of shape {:?} is not contiguous in row-major order: copy it",
                tensor.shape()
            )));
        };
        let pointer = DevicePtr::from_raw(described.data as u64).offset(described.byte_offset);
        // SAFETY: this function's contract; the tensor has this many elements.
        unsafe { self.adopt_buffer(pointer, len, after, Release::when_done(tensor)) }
    }
}
