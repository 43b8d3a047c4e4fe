//! DLPack: tensors of a producer whose fields are arbitrary. Its lists have as many numbers as the
//! library reads at most, because it cannot know their lengths.

#![no_main]
#![allow(unsafe_code, reason = "makes structures of DLPack")]

use std::{
    ffi::c_void,
    ptr::{self, NonNull},
    sync::atomic::{AtomicUsize, Ordering},
};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use millstream::{
    Device,
    interop::{
        After,
        dlpack::{
            DlDataType, DlDevice, DlManagedTensorVersioned, DlTensor, DlVersion, Element,
            ManagedTensor,
        },
    },
};

/// The memory of every tensor, which no tensor owns.
static MEMORY: [u64; 64] = [7; 64];
static DELETED: AtomicUsize = AtomicUsize::new(0);

#[derive(Arbitrary, Debug)]
struct Fields {
    version: (u32, u32),
    flags: u64,
    data: Option<u16>,
    device: (i32, i32),
    ndim: i32,
    dtype: Option<(u8, u8, u16)>,
    shape: Option<[i64; 8]>,
    strides: Option<[i64; 8]>,
    byte_offset: u64,
}

unsafe extern "C" fn delete(_: *mut DlManagedTensorVersioned) {
    DELETED.fetch_add(1, Ordering::Relaxed);
}

thread_local! {
    static DEVICE: Device = Device::simulated().expect("a simulated device opens");
}

fuzz_target!(|fields: Fields| {
    let list = |numbers: [i64; 8]| numbers.repeat(8);
    let (mut shape, mut strides) = (fields.shape.map(list), fields.strides.map(list));
    let at =
        |list: &mut Option<Vec<i64>>| list.as_mut().map_or(ptr::null_mut(), |it| it.as_mut_ptr());
    let (code, bits, lanes) = fields.dtype.unwrap_or((2, 32, 1));
    let mut make = || DlManagedTensorVersioned {
        version: DlVersion {
            major: fields.version.0 % 3,
            minor: fields.version.1,
        },
        manager_ctx: ptr::null_mut(),
        deleter: Some(delete),
        flags: fields.flags,
        dl_tensor: DlTensor {
            data: fields.data.map_or(ptr::null_mut(), |offset| {
                MEMORY
                    .as_ptr()
                    .cast_mut()
                    .cast::<c_void>()
                    .wrapping_byte_add(offset.into())
            }),
            device: DlDevice {
                device_type: fields.device.0 % 4,
                device_id: fields.device.1 % 2,
            },
            ndim: fields.ndim % 70,
            dtype: DlDataType { code, bits, lanes },
            shape: at(&mut shape),
            strides: at(&mut strides),
            byte_offset: fields.byte_offset,
        },
    };
    let (mut on_host, mut on_device) = (make(), make());
    let before = DELETED.load(Ordering::Relaxed);
    // SAFETY: the structure and its lists outlive the tensor.
    let tensor = unsafe { ManagedTensor::from_versioned(NonNull::from(&mut on_host)) };
    let _ = (
        format!("{tensor:?}"),
        tensor.is_read_only(),
        tensor.address(),
    );
    let product = tensor
        .shape()
        .iter()
        .try_fold(1_i64, |len, it| len.checked_mul(*it));
    // SAFETY: the elements are not read.
    if let Ok(elements) = unsafe { tensor.host_elements::<f32>() } {
        assert_eq!(
            (code, bits, lanes),
            (f32::TYPE.code, f32::TYPE.bits, f32::TYPE.lanes)
        );
        assert!(elements.is_empty() || product == Some(elements.len() as i64));
        assert!(elements.is_empty() || fields.data.is_some());
    }
    drop(tensor);
    DEVICE.with(|device| {
        // SAFETY: as above. No allocation of the device is at the address of memory of the host.
        let tensor = unsafe { ManagedTensor::from_versioned(NonNull::from(&mut on_device)) };
        // SAFETY: the memory is none of the device, so that at most an empty array is adopted.
        let adopted =
            unsafe { device.adopt_dlpack_to_read::<f32, _>(tensor, After::Done, |it| it) };
        assert!(adopted.is_err() || adopted.is_ok_and(|array| array.is_empty()));
    });
    while DELETED.load(Ordering::Relaxed) < before + 2 {
        std::thread::yield_now();
    }
    assert_eq!(DELETED.load(Ordering::Relaxed), before + 2);
});
