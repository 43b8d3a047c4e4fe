//! Scenarios I with DLPack: arrays that are exported to a simulated consumer, and tensors of a
//! simulated producer.

#![allow(unsafe_code, reason = "makes and consumes structures of DLPack")]

use std::ptr;

use millstream::{
    driver::DevicePtr,
    interop::dlpack::{
        DEVICE_CPU, DEVICE_CUDA, DlDataType, DlManagedTensor, DlManagedTensorVersioned, DlTensor,
        Element, ManagedTensor, READ_ONLY,
    },
};

use crate::scenarios::{outsiders::BYTES as N, prelude::*, tensors::produce};

/// Exports an array, and returns the structure that a consumer gets, in either form.
fn export(array: Buffer<u8>, theirs: &millstream::Stream, versioned: bool) -> ManagedTensor {
    let exported = array.into_dlpack(theirs).unwrap();
    let shape = [30, 1, N as i64 / 30];
    if versioned {
        ManagedTensor::versioned(exported, &shape).unwrap()
    } else {
        ManagedTensor::unversioned(exported, &shape).unwrap()
    }
}

/// A tensor's address, shape and strides, and the call of its deleter.
type Consumed = (DevicePtr, Vec<i64>, Vec<i64>, Box<dyn FnOnce()>);

/// Reads the structure as a consumer does.
fn consume(tensor: ManagedTensor) -> Consumed {
    let read = |tensor: &DlTensor| {
        assert_eq!((tensor.dtype, tensor.byte_offset), (u8::TYPE, 0));
        let device = tensor.device;
        assert_eq!((device.device_type, device.device_id), (DEVICE_CUDA, 0));
        let ndim = tensor.ndim as usize;
        // SAFETY: the tensor has as many lengths as dimensions.
        let shape = unsafe { std::slice::from_raw_parts(tensor.shape, ndim) };
        // SAFETY: as above.
        let strides = unsafe { std::slice::from_raw_parts(tensor.strides, ndim) };
        let pointer = DevicePtr::from_raw(tensor.data as u64);
        (pointer, shape.to_vec(), strides.to_vec())
    };
    match tensor.into_versioned() {
        Ok(raw) => {
            // SAFETY: the structure is valid until its deleter is called.
            let managed: &DlManagedTensorVersioned = unsafe { raw.as_ref() };
            assert_eq!((managed.version.major, managed.flags), (1, 0));
            let ((pointer, shape, strides), deleter) =
                (read(&managed.dl_tensor), managed.deleter.unwrap());
            // SAFETY: this is its only owner.
            let end = Box::new(move || unsafe { deleter(raw.as_ptr()) });
            (pointer, shape, strides, end)
        }
        Err(tensor) => {
            let raw = tensor.into_unversioned().unwrap();
            // SAFETY: as above.
            let managed: &DlManagedTensor = unsafe { raw.as_ref() };
            let ((pointer, shape, strides), deleter) =
                (read(&managed.dl_tensor), managed.deleter.unwrap());
            // SAFETY: as above.
            let end = Box::new(move || unsafe { deleter(raw.as_ptr()) });
            (pointer, shape, strides, end)
        }
    }
}

#[run_by(everywhere, |harness|)]
fn i06_an_exported_array_waits_for_us_and_its_memory_for_the_consumer() {
    for versioned in [true, false] {
        let (outsider, theirs, [ours]) = with_outsider(harness);
        let mut array = ours.zeros::<u8>(N).unwrap();
        let mut copy = ours.zeros::<u8>(N).unwrap();
        let gate = harness.gate(&ours);
        ours.fill(&mut array, 7).unwrap();
        let (pointer, shape, strides, end) = consume(export(array, &theirs, versioned));
        assert_eq!(
            (&shape[..], &strides[..]),
            (&[30, 1, 100][..], &[100, 100, 1][..])
        );
        let lease = copy.lend_mut(&theirs).unwrap();
        outsider.copy(pointer, lease.as_raw(), N);
        drop(lease);
        // The consumer is done, as far as the host knows.
        end();
        // This may be the same memory, which the consumer's copy still reads.
        let mut next = ours.zeros::<u8>(N).unwrap();
        ours.fill(&mut next, 9).unwrap();
        assert_eq!(harness.opened(gate, ours.download(&copy).unwrap()), [7; N]);
        assert_eq!(ours.values(&next).unwrap(), [9; N]);
    }
}

/// A framework allocates on one stream and hands the tensor over on another. Its memory must not
/// return in the order of the second stream: the framework reuses it in the order of the first.
fn i06_imported(harness: &Harness) {
    let (first, second) = (
        Outsider::new(harness.if_simulated(), 0),
        Outsider::new(harness.if_simulated(), 0),
    );
    let (allocated_on, theirs) = (first.adopt(&harness.device), second.adopt(&harness.device));
    let ours = harness.stream();
    let drops = Drops::default();
    let mut copy = ours.zeros::<u8>(N).unwrap();
    let tensor = first.allocate(N);
    first.fill(tensor.pointer, N, 1);
    // The framework orders its second stream behind the first.
    theirs.wait_for(&allocated_on.record().unwrap()).unwrap();
    let tensor = produce((tensor, &drops), &[N as i64], &[1], |_| {});
    // SAFETY: the producer's work is before this stream.
    let array = unsafe {
        harness
            .device
            .adopt_dlpack::<u8>(tensor, After::Stream(&theirs))
    };
    let array = array.unwrap();
    let gate = harness.gate(&ours);
    ours.copy(&array, &mut copy).unwrap();
    drop(array);
    if harness.gates_hold() {
        thread::sleep(Duration::from_millis(1));
        assert_eq!(drops.count(), 0, "our copy is pending");
    }
    // The framework allocates again on its first stream.
    let next = first.allocate(N);
    first.fill(next.pointer, N, 2);
    drop(next);
    gate.open();
    assert_eq!(ours.values(&copy).unwrap(), [1; N]);
    drops.assert_one();
}

#[test]
fn i06_an_imported_tensor_returns_only_once_its_uses_are_complete() {
    everywhere(i06_imported);
}

#[run_by(everywhere, |harness|)]
fn i03_a_forgotten_capsule_is_a_leak_and_no_race() {
    harness.leaks();
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let array = ours.zeros::<u8>(N).unwrap();
    let address = array.as_raw();
    mem::forget(export(array, &theirs, true));
    outsider.fill(address, N, 1);
    for _ in 0..4 {
        assert_ne!(ours.zeros::<u8>(N).unwrap().as_raw(), address);
    }
    let drops = Drops::default();
    mem::forget(produce((outsider.allocate(N), &drops), &[3], &[1], |_| {}));
    theirs.synchronize().unwrap();
    assert_eq!(drops.count(), 0);
}

/// A change that a wrong producer makes to a tensor.
type Change<'a> = &'a dyn Fn(&mut DlManagedTensorVersioned);

#[run_by(once, |harness|)]
fn i07_tensors_that_cannot_be_arrays_are_refused_and_let_go() -> Result<()> {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let device = &harness.device;
    let refused = |shape: &[i64], strides: &[i64], change: Change<'_>| {
        let drops = Drops::default();
        let tensor = produce((outsider.allocate(N), &drops), shape, strides, change);
        // SAFETY: the tensor is refused.
        let adopted = unsafe { device.adopt_dlpack::<u8>(tensor, After::Done) };
        drops.assert_one();
        match adopted {
            Err(Error::Usage(usage_error)) => match usage_error.problem() {
                UsageErrorKind::Dlpack { reason } => reason.clone(),
                problem => panic!("{problem:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let float = DlDataType {
        code: 2,
        bits: 8,
        lanes: 1,
    };
    assert!(refused(&[9], &[1], &|t| t.dl_tensor.dtype = float).contains("elements"));
    assert!(refused(&[9], &[1], &|t| t.dl_tensor.device.device_type = 1).contains("is on"));
    assert!(refused(&[9], &[1], &|t| t.flags = READ_ONLY).contains("read-only"));
    assert!(refused(&[9], &[1], &|t| t.version.major = 2).contains("version"));
    assert!(refused(&[3, 3], &[1, 3], &|_| {}).contains("not contiguous"));
    assert!(refused(&[3, 3], &[i64::MIN, -1], &|_| {}).contains("not contiguous"));
    for shape in [[-3, 1], [0, -3], [1 << 40, 1 << 40], [i64::MAX, 2]] {
        let reason = refused(&shape, &[shape[1], 1], &|_| {});
        assert!(reason.contains("is of no memory"), "{reason}");
    }
    let large = [1; 65];
    let changes: [(&str, Change<'_>); 14] = [
        ("no shape", &|t| t.dl_tensor.ndim = -1),
        ("no shape", &|t| t.dl_tensor.ndim = i32::MIN),
        ("no shape", &|t| t.dl_tensor.ndim = 65),
        ("no shape", &|t| t.dl_tensor.shape = ptr::null_mut()),
        ("no shape", &|t| {
            t.dl_tensor.shape = t.dl_tensor.shape.wrapping_byte_add(1)
        }),
        ("no strides", &|t| {
            t.dl_tensor.strides = ptr::without_provenance_mut(4)
        }),
        ("no memory", &|t| t.dl_tensor.byte_offset = u64::MAX),
        ("no memory", &|t| t.dl_tensor.data = ptr::null_mut()),
        ("no memory", &|t| {
            t.dl_tensor.data = ptr::without_provenance_mut(usize::MAX)
        }),
        ("elements are", &|t| t.dl_tensor.dtype.bits = 0),
        ("elements are", &|t| t.dl_tensor.dtype.lanes = 0),
        ("elements are", &|t| t.dl_tensor.dtype.lanes = 2),
        ("is on", &|t| t.dl_tensor.device.device_type = i32::MIN),
        ("is on", &|t| t.dl_tensor.device.device_id = -1),
    ];
    for (reason, change) in changes {
        let found = refused(&large, &large, &|t| {
            t.dl_tensor.ndim = 64;
            change(t);
        });
        assert!(found.contains(reason), "{found}: {reason}");
    }
    let null = |t: &mut DlManagedTensorVersioned| {
        t.dl_tensor.device.device_type = DEVICE_CPU;
        (t.dl_tensor.data, t.dl_tensor.byte_offset) = (ptr::null_mut(), 64);
    };
    let tensor = produce((outsider.allocate(N), &Drops::default()), &[9], &[1], null);
    // SAFETY: the tensor is refused.
    let error = unsafe { tensor.host_elements::<u8>() }
        .unwrap_err()
        .to_string();
    assert!(error.contains("no memory"), "{error}");
    // Strides of dimensions with one element, and of an empty tensor, do not matter.
    let stream = harness.stream();
    for (shape, strides, len) in [
        (&[4, 1, 5][..], &[5, 77, 1][..], 20),
        (&[0, 5], &[1, 9], 0),
        (&[i64::MAX, i64::MAX, 0], &[0, 0, -1], 0),
        (&[], &[], 1),
    ] {
        let drops = Drops::default();
        let tensor = produce((outsider.allocate(N), &drops), shape, strides, |_| {});
        // SAFETY: the memory has no user.
        let array = unsafe { device.adopt_dlpack::<u8>(tensor, After::Done) }?;
        assert_eq!(array.len(), len);
        drop(array);
        drops.assert_one();
    }
    let empty = stream.zeros::<u8>(0)?.into_dlpack(&stream)?;
    ManagedTensor::versioned(empty, &[0, i64::MAX, i64::MAX])?;
    let exported = stream.zeros::<u8>(6)?.into_dlpack(&stream)?;
    let wrong = ManagedTensor::versioned(exported, &[2, 2]);
    assert_is!(wrong, Err(Error::Usage(_)));
    Ok(())
}
