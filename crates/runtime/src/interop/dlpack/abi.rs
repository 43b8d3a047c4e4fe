//! The C structures of DLPack, versions 0.8 and 1.x.

#![allow(unsafe_code, reason = "names the type of deleters")]

use std::ffi::c_void;

/// The major version of the versioned structure.
pub const MAJOR_VERSION: u32 = 1;
/// The minor version that exports state.
pub const MINOR_VERSION: u32 = 1;
/// The flag of a tensor that its consumer must not write.
pub const READ_ONLY: u64 = 1;
/// The device type of the host's memory.
pub const DEVICE_CPU: i32 = 1;
/// The device type of CUDA's device memory.
pub const DEVICE_CUDA: i32 = 2;

/// `DLDevice`: the device on which a tensor's memory is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDevice {
    /// The kind of device, such as [`DEVICE_CUDA`].
    pub device_type: i32,
    /// The ordinal among the devices of this kind.
    pub device_id: i32,
}

/// `DLDataType`: the type of a tensor's elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDataType {
    /// 0 for integers, 1 for unsigned integers, 2 for floating-point numbers.
    pub code: u8,
    /// The number of bits of a lane.
    pub bits: u8,
    /// The number of lanes of a vector type; 1 for scalars.
    pub lanes: u16,
}

/// `DLTensor`: the memory and the shape of a tensor.
#[repr(C)]
#[derive(Debug)]
pub struct DlTensor {
    /// The address of the memory.
    pub data: *mut c_void,
    /// The device of the memory.
    pub device: DlDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DlDataType,
    /// The length of each dimension.
    pub shape: *mut i64,
    /// The distance between neighbours of each dimension in elements; null for a contiguous tensor
    /// in row-major order.
    pub strides: *mut i64,
    /// The offset of the first element from `data`, in bytes.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: a tensor with its deleter, without a version.
#[repr(C)]
#[derive(Debug)]
pub struct DlManagedTensor {
    /// The tensor.
    pub dl_tensor: DlTensor,
    /// A value of the producer.
    pub manager_ctx: *mut c_void,
    /// Frees this structure and lets the memory go.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlVersion {
    /// The version of the layout.
    pub major: u32,
    /// The version of the values in it.
    pub minor: u32,
}

/// `DLManagedTensorVersioned`: a tensor with its deleter, of DLPack 1.0 and later.
#[repr(C)]
#[derive(Debug)]
pub struct DlManagedTensorVersioned {
    /// The version. If the major version is another, only the deleter may be used.
    pub version: DlVersion,
    /// A value of the producer.
    pub manager_ctx: *mut c_void,
    /// Frees this structure and lets the memory go.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    /// Flags such as [`READ_ONLY`].
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DlTensor,
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// The offsets that a C compiler for 64 bits gives the structures of `dlpack.h`.
    #[test]
    fn the_structures_have_the_layout_of_c() {
        assert_eq!(offset_of!(DlTensor, device), 8);
        assert_eq!(offset_of!(DlTensor, ndim), 16);
        assert_eq!(offset_of!(DlTensor, dtype), 20);
        assert_eq!(offset_of!(DlTensor, shape), 24);
        assert_eq!(offset_of!(DlTensor, byte_offset), 40);
        assert_eq!(
            (size_of::<DlTensor>(), size_of::<DlManagedTensor>()),
            (48, 64)
        );
        assert_eq!(offset_of!(DlManagedTensor, deleter), 56);
        assert_eq!(offset_of!(DlManagedTensorVersioned, manager_ctx), 8);
        assert_eq!(offset_of!(DlManagedTensorVersioned, flags), 24);
        assert_eq!(offset_of!(DlManagedTensorVersioned, dl_tensor), 32);
        assert_eq!(size_of::<DlManagedTensorVersioned>(), 80);
    }
}
