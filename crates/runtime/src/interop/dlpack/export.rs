//! Export: arrays and values of the host behind the structures of DLPack.

#![allow(unsafe_code, reason = "frees structures of DLPack")]

use std::{any::Any, ffi::c_void, panic::Location};

use super::{
    DEVICE_CPU, DEVICE_CUDA, DlDevice, DlManagedTensor, DlManagedTensorVersioned, DlTensor,
    Element, tensor::refused,
};
use crate::{Buffer, Rejected, Result, Stream, interop::OwnedLease};

/// An array that is on its way to a consumer, whose stream is ordered behind its uses.
#[derive(Debug)]
pub struct Exported<T: Element>(OwnedLease<T>);

impl<T: Element> Exported<T> {
    pub(super) fn own(
        self,
        shape: &[i64],
        location: &'static Location<'static>,
    ) -> Result<Box<Owner>> {
        let device = DlDevice {
            device_type: DEVICE_CUDA,
            device_id: self.0.ordinal(),
        };
        let (address, len) = (self.0.as_raw().as_raw(), self.0.len());
        // The drop of the lease orders later uses of the memory behind the consumer's stream.
        Owner::new((address, device, len), shape, self.0, location)
    }
}

/// Boxes values in the host's memory with their shape.
pub(super) fn own_host<T: Element>(
    values: Vec<T>,
    shape: &[i64],
    location: &'static Location<'static>,
) -> Result<Box<Owner>> {
    let device = DlDevice {
        device_type: DEVICE_CPU,
        device_id: 0,
    };
    let address = values.as_ptr().expose_provenance() as u64;
    Owner::new((address, device, values.len()), shape, values, location)
}

/// The owner of an exported array, behind `manager_ctx`.
pub(super) struct Owner {
    address: u64,
    device: DlDevice,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    /// Its drop lets the memory go.
    _keeper: Box<dyn Any + Send>,
}

impl Owner {
    /// Boxes the owner of `len` elements.
    ///
    /// # Errors
    ///
    /// If the shape has another number of elements.
    fn new(
        (address, device, len): (u64, DlDevice, usize),
        shape: &[i64],
        value: impl Any + Send,
        location: &'static Location<'static>,
    ) -> Result<Box<Self>> {
        let shaped = shape.iter().try_fold(1_usize, |len, &length| {
            len.checked_mul(usize::try_from(length).ok()?)
        });
        if shaped != Some(len) {
            let reason = format!("the shape {shape:?} is not that of {len} elements");
            return Err(refused("dlpack", reason, location));
        }
        let mut strides = Vec::with_capacity(shape.len());
        let mut stride = 1_i64;
        for &length in shape.iter().rev() {
            strides.push(stride);
            // An array without elements may have lengths whose product is no number.
            stride = length.max(1).saturating_mul(stride);
        }
        strides.reverse();
        Ok(Box::new(Self {
            address,
            device,
            shape: shape.into(),
            strides: strides.into(),
            _keeper: Box::new(value),
        }))
    }

    pub(super) fn tensor<T: Element>(&mut self) -> DlTensor {
        DlTensor {
            data: std::ptr::with_exposed_provenance_mut::<c_void>(self.address as usize),
            device: self.device,
            ndim: self.shape.len() as i32,
            dtype: T::TYPE,
            shape: self.shape.as_mut_ptr(),
            strides: self.strides.as_mut_ptr(),
            byte_offset: 0,
        }
    }
}

pub(super) unsafe extern "C" fn delete_versioned(tensor: *mut DlManagedTensorVersioned) {
    // SAFETY: the consumer calls this once, with the structure that this module boxed.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: it was boxed with the structure.
    drop(unsafe { Box::from_raw(tensor.manager_ctx.cast::<Owner>()) });
}

pub(super) unsafe extern "C" fn delete_unversioned(tensor: *mut DlManagedTensor) {
    // SAFETY: as for `delete_versioned`.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: it was boxed with the structure.
    drop(unsafe { Box::from_raw(tensor.manager_ctx.cast::<Owner>()) });
}

impl<T: Element> Buffer<T> {
    /// Hands the array to a consumer that uses it on `stream`, usually an
    /// [adopted](crate::Device::adopt_stream) one. The stream's later work runs after every
    /// operation that conflicts. When the consumer calls the deleter, the memory is reused behind
    /// the work that the stream holds then; the consumer orders its other streams before it, as
    /// DLPack requires.
    ///
    /// ```
    /// use millstream::interop::dlpack::ManagedTensor;
    ///
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let exported = stream.upload(&[1.0_f32, 2.0])?.into_dlpack(&stream)?;
    /// let capsule = ManagedTensor::versioned(exported, &[2])?.into_versioned();
    /// // To the consumer, who calls the deleter; or back:
    /// // SAFETY: no other code has the structure.
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
