//! `ManagedTensor`: a tensor of DLPack that this program owns.

#![allow(unsafe_code, reason = "reads structures of DLPack")]

use std::{fmt, panic::Location, ptr::NonNull, slice};

use millstream_driver::DevicePtr;

use super::{
    DEVICE_CPU, DlDevice, DlManagedTensor, DlManagedTensorVersioned, DlTensor, DlVersion, Element,
    MAJOR_VERSION, MINOR_VERSION, READ_ONLY,
    export::{Exported, Owner, delete_unversioned, delete_versioned, own_host},
};
use crate::{Error, Result, UsageError, UsageErrorKind};

/// The largest number of dimensions that is read, which frameworks do not exceed.
const DIMENSIONS_MAX: i32 = 64;

/// The largest number of bytes of a slice.
const BYTES_MAX: u64 = isize::MAX as u64;

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
        Ok(Self::new_versioned::<T>(
            exported.own(shape, Location::caller())?,
        ))
    }

    /// Makes a tensor of DLPack 1.x of values in the host's memory.
    ///
    /// ```
    /// use millstream::interop::dlpack::ManagedTensor;
    ///
    /// let tensor = ManagedTensor::versioned_on_host(vec![1_i32, 2, 3], &[3])?;
    /// // SAFETY: the tensor is that of the values above.
    /// assert_eq!(unsafe { tensor.host_elements::<i32>() }?, [1, 2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the shape has another number of elements than there are values.
    #[track_caller]
    pub fn versioned_on_host<T: Element>(values: Vec<T>, shape: &[i64]) -> Result<Self> {
        Ok(Self::new_versioned::<T>(own_host(
            values,
            shape,
            Location::caller(),
        )?))
    }

    /// Makes a tensor without a version of values in the host's memory.
    ///
    /// # Errors
    ///
    /// As [`versioned_on_host`](Self::versioned_on_host).
    #[track_caller]
    pub fn unversioned_on_host<T: Element>(values: Vec<T>, shape: &[i64]) -> Result<Self> {
        Ok(Self::new_unversioned::<T>(own_host(
            values,
            shape,
            Location::caller(),
        )?))
    }

    fn new_versioned<T: Element>(mut owner: Box<Owner>) -> Self {
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
        Self(Raw::Versioned(NonNull::from(Box::leak(Box::new(tensor)))))
    }

    /// Makes a tensor without a version of an exported array.
    ///
    /// # Errors
    ///
    /// As [`versioned`](Self::versioned).
    #[track_caller]
    pub fn unversioned<T: Element>(exported: Exported<T>, shape: &[i64]) -> Result<Self> {
        Ok(Self::new_unversioned::<T>(
            exported.own(shape, Location::caller())?,
        ))
    }

    fn new_unversioned<T: Element>(mut owner: Box<Owner>) -> Self {
        let dl_tensor = owner.tensor::<T>();
        let tensor = DlManagedTensor {
            dl_tensor,
            manager_ctx: Box::into_raw(owner).cast(),
            deleter: Some(delete_unversioned),
        };
        Self(Raw::Unversioned(NonNull::from(Box::leak(Box::new(tensor)))))
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
            // SAFETY: the structure is valid as long as `self`.
            Raw::Unversioned(raw) => Some(unsafe { &(*raw.as_ptr()).dl_tensor }),
        }
    }

    /// Returns whether its consumer must not write it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self.0 {
            // SAFETY: the structure is valid, and the version comes first in every version.
            Raw::Versioned(raw) if unsafe { raw.as_ref() }.version.major == MAJOR_VERSION => {
                // SAFETY: the structure is valid, and of this version.
                unsafe { raw.as_ref() }.flags & READ_ONLY != 0
            }
            Raw::Versioned(_) | Raw::Unversioned(_) => false,
        }
    }

    /// Returns the length of each dimension; none for another major version, and for a tensor that
    /// is refused because it has no such list.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        let lengths = self
            .tensor()
            .and_then(|tensor| lengths(tensor.shape, tensor.ndim));
        lengths.unwrap_or_default()
    }

    /// Returns the elements of a tensor in the host's memory, in row-major order.
    ///
    /// # Errors
    ///
    /// If the tensor has another type of elements, is not in the host's memory, not contiguous in
    /// row-major order, or of another major version of DLPack.
    ///
    /// # Safety
    ///
    /// The tensor describes memory that is initialised, and that is not written as long as the
    /// slice is used.
    #[track_caller]
    pub unsafe fn host_elements<T: Element>(&self) -> Result<&[T]> {
        let (len, address) = self.check::<T>("host_elements", |device| {
            (device.device_type != DEVICE_CPU).then(|| String::from("the host"))
        })?;
        let first = std::ptr::with_exposed_provenance::<T>(address as usize);
        if len == 0 {
            return Ok(&[]);
        }
        if !first.is_aligned() {
            let reason = format!("the address {address:#x} is not aligned for the elements");
            return Err(refused("host_elements", reason, Location::caller()));
        }
        // SAFETY: this function's contract; the tensor is contiguous and has this many elements.
        Ok(unsafe { slice::from_raw_parts(first, len) })
    }

    /// Checks that the tensor is contiguous, of these elements, and on a device to which
    /// `elsewhere` does not object by a name. Returns the number of elements and their address.
    #[track_caller]
    pub(super) fn check<T: Element>(
        &self,
        operation: &'static str,
        elsewhere: impl FnOnce(DlDevice) -> Option<String>,
    ) -> Result<(usize, u64)> {
        let location = Location::caller();
        let refused = |reason| Err(refused(operation, reason, location));
        let Some(tensor) = self.tensor() else {
            return refused(format!(
                "the tensor is not of major version {MAJOR_VERSION}"
            ));
        };
        if let Some(wanted) = elsewhere(tensor.device) {
            let found = tensor.device;
            return refused(format!("the tensor is on {found:?}, not on {wanted}"));
        }
        if tensor.dtype != T::TYPE {
            let (theirs, ours) = (tensor.dtype, T::TYPE);
            return refused(format!(
                "the tensor's elements are {theirs:?}, not {ours:?}"
            ));
        }
        extent(tensor, size_of::<T>()).or_else(refused)
    }

    /// Returns the device of the memory, or `None` for another major version.
    #[must_use]
    pub fn device(&self) -> Option<DlDevice> {
        Some(self.tensor()?.device)
    }

    /// Returns the address of the first element, or `None` for another major version and beyond the
    /// last address.
    #[must_use]
    pub fn address(&self) -> Option<DevicePtr> {
        let tensor = self.tensor()?;
        let address = (tensor.data as u64).checked_add(tensor.byte_offset)?;
        Some(DevicePtr::from_raw(address))
    }
}

/// Returns the number of elements of a contiguous tensor in row-major order and the address of the
/// first, or the reason why the tensor is refused.
fn extent(tensor: &DlTensor, element_bytes: usize) -> Result<(usize, u64), String> {
    let DlTensor { ndim, data, .. } = *tensor;
    let no_list = |name, at: *mut i64| format!("{ndim} dimensions have no {name} at {at:p}");
    let shape = lengths(tensor.shape, ndim).ok_or_else(|| no_list("shape", tensor.shape))?;
    let strides = if tensor.strides.is_null() {
        None
    } else {
        Some(lengths(tensor.strides, ndim).ok_or_else(|| no_list("strides", tensor.strides))?)
    };
    let is_empty = shape.contains(&0);
    let mut len = 1_usize;
    for (dimension, &length) in shape.iter().enumerate().rev() {
        // The stride of a dimension with one element, and of an empty tensor, is never used.
        let is_used = length != 1 && !is_empty;
        if is_used && strides.is_some_and(|strides| strides[dimension] != len as i64) {
            return Err(format!(
                "the tensor of shape {shape:?} is not contiguous in row-major order: copy it"
            ));
        }
        let product = usize::try_from(length)
            .ok()
            .and_then(|length| {
                if is_empty {
                    Some(0)
                } else {
                    len.checked_mul(length)
                }
            })
            .filter(|len| {
                len.checked_mul(element_bytes)
                    .is_some_and(|it| it as u64 <= BYTES_MAX)
            });
        len = product.ok_or_else(|| format!("the shape {shape:?} is of no memory"))?;
    }
    let address = (data as u64).checked_add(tensor.byte_offset);
    let end = |address: &u64| address.checked_add((len * element_bytes) as u64).is_some();
    match address.filter(end) {
        Some(address) if len == 0 || !data.is_null() => Ok((len, address)),
        _ => Err(format!(
            "{len} elements have no memory at {data:p} with an offset of {} bytes",
            tensor.byte_offset
        )),
    }
}

/// Returns the array of `count` numbers at `first`, or `None` if it cannot be there.
fn lengths<'a>(first: *const i64, count: i32) -> Option<&'a [i64]> {
    if count == 0 {
        return Some(&[]);
    }
    if !(1..=DIMENSIONS_MAX).contains(&count) || first.is_null() || !first.is_aligned() {
        return None;
    }
    // SAFETY: a tensor has as many lengths and strides as dimensions, and the caller's tensor lives
    // as long as the slice is used.
    Some(unsafe { slice::from_raw_parts(first, count as usize) })
}

pub(super) fn refused(
    operation: &'static str,
    reason: String,
    location: &'static Location<'static>,
) -> Error {
    let problem = UsageErrorKind::Dlpack { reason };
    UsageError::new(operation, problem).at(location).into()
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
                // SAFETY: the structure is valid until the deleter is called.
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
