//! Tensors of DLPack as another library produces them.

#![allow(unsafe_code, reason = "makes structures of DLPack")]

use std::{ffi::c_void, ptr::NonNull};

use millstream::interop::dlpack::{
    DEVICE_CUDA, DlDevice, DlManagedTensorVersioned, DlTensor, DlVersion, Element, MAJOR_VERSION,
    ManagedTensor,
};

use crate::outsiders::{Drops, Keeper, Tensor};

/// A tensor of a producer, behind `manager_ctx`.
struct Produced {
    _keeper: Keeper,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
}

unsafe extern "C" fn delete(tensor: *mut DlManagedTensorVersioned) {
    // SAFETY: the consumer calls this once, with the structure of `produce`.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(tensor.manager_ctx.cast::<Produced>()) });
}

/// Makes a tensor of bytes as a producer would; `change` changes its structure.
pub fn produce(
    (tensor, drops): (Tensor, &Drops),
    shape: &[i64],
    strides: &[i64],
    change: impl FnOnce(&mut DlManagedTensorVersioned),
) -> ManagedTensor {
    let data = tensor.pointer.as_raw() as *mut c_void;
    let mut produced = Box::new(Produced {
        _keeper: Keeper {
            drops: drops.clone(),
            tensor,
        },
        shape: shape.into(),
        strides: strides.into(),
    });
    let dl_tensor = DlTensor {
        data,
        device: DlDevice {
            device_type: DEVICE_CUDA,
            device_id: 0,
        },
        ndim: shape.len() as i32,
        dtype: u8::TYPE,
        shape: produced.shape.as_mut_ptr(),
        strides: produced.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let mut managed = DlManagedTensorVersioned {
        version: DlVersion {
            major: MAJOR_VERSION,
            minor: 0,
        },
        manager_ctx: Box::into_raw(produced).cast(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor,
    };
    change(&mut managed);
    let raw = NonNull::from(Box::leak(Box::new(managed)));
    // SAFETY: the structure is new, and its deleter frees it.
    unsafe { ManagedTensor::from_versioned(raw) }
}
