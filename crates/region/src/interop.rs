//! Arrays that other code made or takes over, without a copy: buffers of the runtime and tensors of
//! DLPack.

#![allow(unsafe_code, reason = "adopts tensors that their producer describes")]

use std::{slice, sync::Arc};

use bytemuck::Pod;
use half::{bf16, f16};
use millstream::{
    Buffer, Device, Stream,
    interop::{
        After,
        dlpack::{self, DlDataType, Exported, ManagedTensor},
    },
};
use ndarray::{Dimension, IntoDimension};

use crate::{
    Array, Element,
    element::sealed::Sealed,
    emit::body::memory::VECTOR_BYTES,
    error::{Result, Site, UsageErrorKind},
    expr::{Node, Session, State, shape_error},
    run::{evaluate::evaluate, launch::allocate},
    shape::{Shape, element_count},
};

/// An element type that DLPack has, which is every [`Element`].
pub trait DlpackElement: Element {
    /// The element in a device's memory.
    #[doc(hidden)]
    type InMemory: dlpack::Element;
}

macro_rules! elements {
    ($($element:ty),+) => {$(
        impl DlpackElement for $element {
            type InMemory = Self;
        }
    )+};
}

elements!(f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

impl DlpackElement for bool {
    type InMemory = Truth;
}

/// A byte that holds 0 or 1, DLPack's boolean.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Truth(u8);

// SAFETY: a transparent wrapper of a byte, for which every value is valid.
unsafe impl bytemuck::Zeroable for Truth {}
// SAFETY: as above.
unsafe impl Pod for Truth {}

impl dlpack::Element for Truth {
    const TYPE: DlDataType = DlDataType {
        code: 6,
        bits: 8,
        lanes: 1,
    };
}

impl<T: Element, D: Dimension> Array<T, D> {
    /// Makes a buffer's elements, in row-major order, an array of this shape. Nothing is copied,
    /// unless an adopted buffer's address is no multiple of 16 bytes: then it is, on the device. A
    /// buffer that was adopted from another library is never written: an update of the array copies
    /// it.
    ///
    /// ```
    /// use millstream_region::Array;
    /// use ndarray::{Array2, array};
    /// let stream = millstream::Device::simulated()?.stream()?;
    /// let buffer = stream.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let x = Array::from_buffer(buffer, (2, 2))?;
    /// assert_eq!(x.t().to_host()?, array![[1.0, 3.0], [2.0, 4.0]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the shape has another number of elements than the buffer, or more than 6 axes. The buffer
    /// is then dropped.
    #[track_caller]
    pub fn from_buffer(buffer: Buffer<T>, shape: impl IntoDimension<Dim = D>) -> Result<Self>
    where
        T: Pod,
    {
        let shape = Shape::from_slice(shape.into_dimension().slice());
        Self::adopt(&buffer.device(), buffer, shape, Site::of("from_buffer"))
    }

    /// Makes memory an array. The caller vouches for the bytes.
    fn adopt<M: Pod>(device: &Device, buffer: Buffer<M>, shape: Shape, site: Site) -> Result<Self> {
        let (dtype, len) = (<T as Sealed>::DTYPE, buffer.len());
        let buffer = buffer.cast::<u8>().map_err(millstream::Error::from)?;
        if let Some(problem) = shape_error(dtype, &shape) {
            return Err(site.error(problem).into());
        }
        if let Some(axes) = D::NDIM
            && axes != shape.len()
        {
            let shape = (&shape[..]).into();
            return Err(site.error(UsageErrorKind::AxisCount { shape, axes }).into());
        }
        if element_count(&shape) != Some(len) {
            let detail = format!("shape {shape:?} is not that of {len} elements");
            return Err(site.error(UsageErrorKind::argument(detail)).into());
        }
        let session = Session::new(device.clone());
        let is_aligned = (buffer.as_raw().as_raw()).is_multiple_of(VECTOR_BYTES as u64);
        let buffer = match is_aligned || buffer.is_empty() {
            true => buffer,
            // Kernels load vectors. A part of another library's array may begin between two.
            false => copy(&session.streams().first(device)?, &buffer)?,
        };
        let state = State::stored(buffer);
        let node = Node::new(device.clone(), dtype, shape, state, site.line);
        Ok(Self::of(&session, Arc::new(node)))
    }

    /// Enqueues the work that the elements depend on, and returns the memory that they will be in,
    /// in row-major order. The device copies them if another array or a view needs them too, or if
    /// their memory was adopted from another library.
    ///
    /// Waits for nothing, unless the elements depend on indices that are checked on the device:
    /// then it waits for the check.
    ///
    /// ```
    /// use millstream_region::Array;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = Array::from_host(&device, &array![[1.0_f32, 2.0], [3.0, 4.0]])?;
    /// let buffer = (x.t() * 10.0).into_buffer()?;
    /// let stream = device.stream()?;
    /// assert_eq!(stream.download(&buffer)?.wait()?, [10.0, 30.0, 20.0, 40.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`to_host`](Array::to_host). The array is then dropped: a clone of it, another
    /// handle of the same elements, keeps them.
    pub fn into_buffer(self) -> Result<Buffer<T>>
    where
        T: Pod,
    {
        let bytes = self.into_bytes()?;
        Ok(bytes.cast().map_err(millstream::Error::from)?)
    }

    fn into_bytes(self) -> Result<Buffer<u8>> {
        let (session, node) = (self.session(), self.node());
        evaluate(session, slice::from_ref(node))?;
        session.check_result(slice::from_ref(node))?.wait()?;
        if let Some(storage) = node.take_storage(1) {
            return Ok(storage.buffer);
        }
        let storage = node.storage().expect("the node is evaluated");
        let stream = session.streams().stream_of(&session.device, node.id)?;
        copy(&stream, &storage.buffer)
    }
}

/// Copies the bytes to memory of their own, on the device.
fn copy(stream: &Stream, source: &Buffer<u8>) -> Result<Buffer<u8>> {
    let mut copy = allocate(stream, source.len())?;
    stream.copy(source, &mut copy)?;
    Ok(copy)
}

impl<T: DlpackElement, D: Dimension> Array<T, D> {
    /// Takes over a tensor of another library as an array, without a copy, unless its address is no
    /// multiple of 16 bytes. Its deleter is called on a thread of the library once nothing needs
    /// the elements and all operations that read them are complete.
    ///
    /// The tensor is never written: an update of the array copies it. Its producer may mark it as
    /// read-only, as JAX does.
    ///
    /// ```
    /// use millstream::interop::After;
    /// use millstream_region::Array;
    /// use ndarray::{Ix2, array};
    /// let device = millstream::Device::simulated()?;
    /// let stream = device.stream()?;
    /// // The other library is this one.
    /// let x = Array::from_host(&device, &array![[1.0_f32, 2.0, 3.0]])?;
    /// let tensor = x.into_dlpack(&stream)?;
    /// // SAFETY: the tensor's work is on this stream.
    /// let y = unsafe { Array::<f32, Ix2>::from_dlpack(&device, tensor, After::Stream(&stream)) }?;
    /// assert_eq!((&y + &y).to_host()?, array![[2.0, 4.0, 6.0]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the tensor has another type of elements, another number of axes or more than 6, is not on
    /// this device, not contiguous in row-major order, or of another major version of DLPack; and
    /// as [`Device::adopt_buffer`]. The deleter is then called.
    ///
    /// # Safety
    ///
    /// As for [`Device::adopt_dlpack`]: the tensor's memory is allocated until its deleter is
    /// called, and its producer's work on it is ordered before `after`. The bytes of a tensor of
    /// booleans are 0 or 1. Until the deleter is called, nothing writes the tensor, except behind a
    /// later operation that waits for the array's.
    #[track_caller]
    pub unsafe fn from_dlpack(
        device: &Device,
        tensor: ManagedTensor,
        after: After<'_>,
    ) -> Result<Self> {
        let shape = tensor.shape().iter().map(|&length| length as usize);
        let shape: Shape = shape.collect();
        // SAFETY: this function's contract; arrays in adopted memory are not updated there.
        let adopted = unsafe {
            device.adopt_dlpack_to_read::<T::InMemory, _>(tensor, after, |tensor| tensor)
        }?;
        Self::adopt(device, adopted, shape, Site::of("from_dlpack"))
    }

    /// Hands the array to a consumer that uses it on `stream`, as a tensor of DLPack 1.x. The
    /// elements are copied where [`into_buffer`](Self::into_buffer) copies, and it waits only where
    /// that does. The order is that of [`Buffer::into_dlpack`].
    ///
    /// ```
    /// use millstream_region::Array;
    /// use ndarray::array;
    /// let device = millstream::Device::simulated()?;
    /// let x = Array::from_host(&device, &array![[true, false]])?;
    /// let tensor = x.into_dlpack(&device.stream()?)?;
    /// assert_eq!(tensor.shape(), [1, 2]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`into_buffer`](Self::into_buffer), and if the stream is of another device. The array is
    /// then dropped: a clone of it, another handle of the same elements, keeps them.
    #[track_caller]
    pub fn into_dlpack(self, stream: &Stream) -> Result<ManagedTensor> {
        let (exported, shape) = self.export(stream)?;
        Ok(ManagedTensor::versioned(exported, &shape)?)
    }

    /// Hands the array to a consumer like [`into_dlpack`](Self::into_dlpack), as a tensor without a
    /// version, for consumers of before DLPack 1.0.
    ///
    /// # Errors
    ///
    /// As [`into_dlpack`](Self::into_dlpack).
    #[track_caller]
    pub fn into_unversioned_dlpack(self, stream: &Stream) -> Result<ManagedTensor> {
        let (exported, shape) = self.export(stream)?;
        Ok(ManagedTensor::unversioned(exported, &shape)?)
    }

    #[track_caller]
    fn export(self, stream: &Stream) -> Result<(Exported<T::InMemory>, Vec<i64>)> {
        let shape = self.shape().iter().map(|&length| length as i64).collect();
        let elements = self.into_bytes()?.cast::<T::InMemory>();
        let elements = elements.map_err(millstream::Error::from)?;
        let exported = elements.into_dlpack(stream);
        Ok((exported.map_err(millstream::Error::from)?, shape))
    }
}
