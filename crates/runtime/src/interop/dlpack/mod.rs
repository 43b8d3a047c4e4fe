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
mod export;
mod tensor;

use std::{any::Any, panic::Location};

use bytemuck::Pod;
use millstream_driver::DevicePtr;

pub use abi::{
    DEVICE_CPU, DEVICE_CUDA, DlDataType, DlDevice, DlManagedTensor, DlManagedTensorVersioned,
    DlTensor, DlVersion, MAJOR_VERSION, MINOR_VERSION, READ_ONLY,
};
pub use export::Exported;
pub use tensor::ManagedTensor;

use super::After;
use crate::{Buffer, Device, Release, Result};
use tensor::refused;

/// The name of imports in errors.
const NAME: &str = "adopt_dlpack";

/// A type of elements that DLPack can name.
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
    2: half::f16, f32, f64;
    4: half::bf16;
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
    /// row-major order, read-only, or of another major version of DLPack; if it has more than 64
    /// dimensions, or fields that describe no memory, such as a null shape; and as
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
        // SAFETY: this function's contract.
        unsafe { self.adopt_dlpack_with(tensor, after, |tensor| tensor) }
    }

    /// Takes over a tensor like [`adopt_dlpack`](Self::adopt_dlpack). `keep` makes the value whose
    /// drop lets it go, such as one that first takes a lock that the deleter needs.
    ///
    /// # Errors
    ///
    /// As [`adopt_dlpack`](Self::adopt_dlpack).
    ///
    /// # Safety
    ///
    /// As for [`adopt_dlpack`](Self::adopt_dlpack). The kept value keeps the tensor.
    #[track_caller]
    pub unsafe fn adopt_dlpack_with<T: Element, K: Any + Send>(
        &self,
        tensor: ManagedTensor,
        after: After<'_>,
        keep: impl FnOnce(ManagedTensor) -> K,
    ) -> Result<Buffer<T>> {
        if tensor.is_read_only() {
            let reason = String::from("the tensor is read-only: copy it");
            return Err(refused(NAME, reason, Location::caller()));
        }
        // SAFETY: this function's contract.
        unsafe { self.adopt_dlpack_to_read(tensor, after, keep) }
    }

    /// Takes over a tensor like [`adopt_dlpack_with`](Self::adopt_dlpack_with), also a read-only
    /// one.
    ///
    /// # Errors
    ///
    /// As [`adopt_dlpack`](Self::adopt_dlpack), except that the tensor may be read-only.
    ///
    /// # Safety
    ///
    /// As for [`adopt_dlpack_with`](Self::adopt_dlpack_with). If the tensor is read-only, no
    /// operation writes the array.
    #[track_caller]
    pub unsafe fn adopt_dlpack_to_read<T: Element, K: Any + Send>(
        &self,
        tensor: ManagedTensor,
        after: After<'_>,
        keep: impl FnOnce(ManagedTensor) -> K,
    ) -> Result<Buffer<T>> {
        let ours = DlDevice {
            device_type: DEVICE_CUDA,
            device_id: self.state().ordinal.as_raw(),
        };
        let elsewhere = |theirs| (theirs != ours).then(|| self.to_string());
        let (len, address) = tensor.check::<T>(NAME, elsewhere)?;
        let pointer = DevicePtr::from_raw(address);
        // SAFETY: this function's contract; the tensor has this many elements.
        unsafe { self.adopt_buffer(pointer, len, after, Release::when_done(keep(tensor))) }
    }
}
