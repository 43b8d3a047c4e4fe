//! Scenarios I with arrays of regions: tensors of a simulated producer as arrays, and arrays that
//! are exported to a simulated consumer.

#![allow(unsafe_code, reason = "takes over structures of DLPack")]

use std::{ffi::c_void, time::Duration};

use millstream::{
    UsageErrorKind as RuntimeErrorKind,
    driver::DevicePtr,
    interop::{
        After,
        dlpack::{DlDataType, DlManagedTensorVersioned, Element, ManagedTensor, READ_ONLY},
    },
};
use millstream_region::{DlpackElement, Result};
use ndarray::{Dimension, Ix0, IxDyn};

use crate::scenarios::{
    outsiders::{BYTES, Drops, Outsider},
    prelude::*,
    tensors::produce,
};

/// The rows and columns of the tensors, of 4 bytes for each element.
const SHAPE: (usize, usize) = (25, 30);
const LENGTHS: [i64; 2] = [25, 30];
const STRIDES: [i64; 2] = [30, 1];
/// The byte that the producer fills its tensors with, and the number that it makes.
const BYTE: u8 = 0x3f;
const NUMBER: f32 = f32::from_bits(0x3f3f_3f3f);

fn float(tensor: &mut DlManagedTensorVersioned) {
    tensor.dl_tensor.dtype = <f32 as Element>::TYPE;
}

fn import<T: DlpackElement, D: Dimension>(
    harness: &Harness,
    tensor: ManagedTensor,
    theirs: &millstream::Stream,
) -> Result<Array<T, D>> {
    // SAFETY: the producer has filled the tensor on this stream, and does not write it again.
    unsafe { Array::from_dlpack(&harness.device, tensor, After::Stream(theirs)) }
}

/// Runs the operations of a test once, because loading a kernel may wait for running ones, and so
/// for a gate (rule 53).
fn load_kernels(harness: &Harness) {
    let x = Array::from_host(&harness.device, &Array2::<f32>::zeros(SHAPE)).unwrap();
    let sum = harness.device.region(|g| g.array(&x) + g.array(&x));
    sum.unwrap().wait().unwrap();
    (&x * 4.0).t().to_host().unwrap();
}

#[run_by(everywhere, |harness|)]
fn i06_a_region_waits_for_the_producer_and_the_tensor_for_the_region() {
    load_kernels(harness);
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let theirs = outsider.adopt(&harness.device);
    let drops = Drops::default();
    let tensor = outsider.allocate(BYTES);
    let gate = outsider.gate(harness.if_simulated(), harness.gates_hold());
    outsider.fill(tensor.pointer, BYTES, BYTE);
    let tensor = produce((tensor, &drops), &LENGTHS, &STRIDES, float);
    let x: Array<f32, Ix2> = import(harness, tensor, &theirs).unwrap();
    let sum = harness
        .device
        .region(|g| g.array(&x) + g.array(&x))
        .unwrap();
    drop(x);
    if harness.gates_hold() {
        thread::sleep(Duration::from_millis(1));
        assert_eq!(drops.count(), 0, "the region is pending");
    }
    drop(gate);
    assert_eq!(sum.wait().unwrap(), Array2::from_elem(SHAPE, 2.0 * NUMBER));
    drops.assert_one();
}

#[run_by(everywhere, |harness|)]
fn i06_the_consumer_of_an_exported_array_waits_for_the_region() {
    load_kernels(harness);
    for versioned in [true, false] {
        let [producer, consumer] = [(); 2].map(|()| Outsider::new(harness.if_simulated(), 0));
        let (first, second) = (
            producer.adopt(&harness.device),
            consumer.adopt(&harness.device),
        );
        let ours = harness.device.stream().unwrap();
        let mut copy = ours.zeros::<u8>(BYTES).unwrap();
        let drops = Drops::default();
        let tensor = producer.allocate(BYTES);
        let gate = producer.gate(harness.if_simulated(), harness.gates_hold());
        producer.fill(tensor.pointer, BYTES, BYTE);
        let tensor = produce((tensor, &drops), &LENGTHS, &STRIDES, float);
        let x: Array<f32, Ix2> = import(harness, tensor, &first).unwrap();
        let scaled = (&x * 4.0).t();
        let exported = match versioned {
            true => scaled.into_dlpack(&second),
            false => scaled.into_unversioned_dlpack(&second),
        };
        let exported = exported.unwrap();
        assert_eq!(exported.shape(), [30, 25]);
        let lease = copy.lend_mut(&second).unwrap();
        consumer.copy(address(&exported), lease.as_raw(), BYTES);
        drop(lease);
        // The consumer lets it go, and we may get the same memory.
        drop(exported);
        let mut next = ours.zeros::<u8>(BYTES).unwrap();
        ours.fill(&mut next, 9).unwrap();
        let found = ours.download(copy.cast::<f32>().unwrap()).unwrap();
        drop(gate);
        assert_eq!(found.wait().unwrap(), [4.0 * NUMBER; BYTES / 4]);
    }
}

/// Reads the address as a consumer does, which leaves the tensor to its owner.
fn address(tensor: &ManagedTensor) -> DevicePtr {
    tensor.address().expect("a known version")
}

#[run_by(everywhere, |harness|)]
fn i06_an_update_of_an_imported_array_leaves_the_tensor_as_it_is() {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let theirs = outsider.adopt(&harness.device);
    let ours = harness.device.stream().unwrap();
    let drops = Drops::default();
    // The memory outlives the tensor.
    let memory = outsider.allocate(BYTES);
    outsider.fill(memory.pointer, BYTES, BYTE);
    let kept = (outsider.allocate(8), &drops);
    let tensor = produce(kept, &LENGTHS, &STRIDES, |tensor| {
        float(tensor);
        tensor.flags = READ_ONLY;
        tensor.dl_tensor.data = memory.pointer.as_raw() as *mut c_void;
    });
    let mut x: Array<f32, Ix2> = import(harness, tensor, &theirs).unwrap();
    x.slice_mut(s![3, ..]).fill(1.0);
    let mut expected = Array2::from_elem(SHAPE, NUMBER);
    expected.slice_mut(s![3, ..]).fill(1.0);
    let record = x.record().unwrap();
    let mut seen = ours.zeros::<u8>(BYTES).unwrap();
    theirs.wait_for(&record).unwrap();
    let lease = seen.lend_mut(&theirs).unwrap();
    outsider.copy(memory.pointer, lease.as_raw(), BYTES);
    drop(lease);
    assert_eq!(ours.download(&seen).unwrap().wait().unwrap(), [BYTE; BYTES]);
    assert_eq!(x.to_host().unwrap(), expected);
    drops.assert_one();
}

#[run_by(once, |harness|)]
fn i06_parts_booleans_and_empty_tensors_become_arrays() -> millstream::Result<()> {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let theirs = outsider.adopt(&harness.device);
    let filled = |byte| {
        let tensor = outsider.allocate(BYTES);
        outsider.fill(tensor.pointer, BYTES, byte);
        tensor
    };
    // A part that begins at the second element cannot be loaded in vectors: it is copied, and
    // the tensor is let go although the array lives.
    let drops = Drops::default();
    let part = produce((filled(BYTE), &drops), &[749], &[1], |tensor| {
        float(tensor);
        tensor.dl_tensor.byte_offset = 4;
    });
    let part: Array<f32, Ix1> = import(harness, part, &theirs).unwrap();
    let sum = harness.device.region(|g| g.array(&part) + 1.0).unwrap();
    assert_eq!(sum.wait().unwrap().to_vec(), [NUMBER + 1.0; 749]);
    drops.assert_one();
    drop(part);

    let boolean = |tensor: &mut DlManagedTensorVersioned| {
        tensor.dl_tensor.dtype = DlDataType {
            code: 6,
            bits: 8,
            lanes: 1,
        };
    };
    let truth = produce((filled(1), &Drops::default()), &[3, 1], &[1, 7], boolean);
    let truth: Array<bool, Ix2> = import(harness, truth, &theirs).unwrap();
    assert_eq!(
        (!&truth).to_host().unwrap(),
        array![[false], [false], [false]]
    );
    let exported = truth.into_dlpack(&theirs).unwrap();
    let again: Array<bool, Ix2> = import(harness, exported, &theirs).unwrap();
    assert_eq!(again.to_host().unwrap(), array![[true], [true], [true]]);

    let drops = Drops::default();
    let empty = produce((filled(1), &drops), &[0, 5], &[9, 9], float);
    let empty: Array<f32, Ix2> = import(harness, empty, &theirs).unwrap();
    assert_eq!((&empty + 1.0).to_host().unwrap().shape(), [0, 5]);
    let exported = empty.into_dlpack(&theirs).unwrap();
    assert_eq!(exported.shape(), [0, 5]);
    drops.assert_one();
    let scalar = produce((filled(BYTE), &Drops::default()), &[], &[], float);
    let scalar: Array<f32, Ix0> = import(harness, scalar, &theirs).unwrap();
    assert_eq!(scalar.item().unwrap(), NUMBER);
    Ok(())
}

#[run_by(once, |harness|)]
fn i07_tensors_that_cannot_be_arrays_of_a_region_are_refused_and_let_go() -> millstream::Result<()>
{
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let theirs = outsider.adopt(&harness.device);
    let refused = |lengths: &[i64], strides: &[i64], code, bits| {
        let drops = Drops::default();
        let made = (outsider.allocate(BYTES), &drops);
        let tensor = produce(made, lengths, strides, |tensor| {
            tensor.dl_tensor.dtype = DlDataType {
                code,
                bits,
                lanes: 1,
            };
        });
        let error = match lengths.len() {
            7 => import::<f32, IxDyn>(harness, tensor, &theirs).map(drop),
            _ => import::<f32, Ix2>(harness, tensor, &theirs).map(drop),
        };
        drops.assert_one();
        error.expect_err("the tensor is refused")
    };
    let reason = |error: &Error| match error {
        Error::Device(millstream::Error::Usage(usage_error)) => match usage_error.problem() {
            RuntimeErrorKind::Dlpack { reason } => reason.clone(),
            problem => panic!("{problem:?}"),
        },
        error => panic!("{error:?}"),
    };
    // Half precision, bfloat16, double precision and integers.
    for (code, bits) in [(2, 16), (4, 16), (2, 64), (0, 32)] {
        let error = refused(&LENGTHS, &STRIDES, code, bits);
        assert!(reason(&error).contains("elements are"), "{error}");
    }
    let columns_first = refused(&LENGTHS, &[1, 25], 2, 32);
    assert!(reason(&columns_first).contains("not contiguous"));
    let negative = refused(&[-1, 5], &[5, 1], 2, 32);
    assert!(reason(&negative).contains("of no memory"));
    let many = refused(&[1; 65], &[1; 65], 2, 32);
    assert!(reason(&many).contains("no shape"));
    let problem = |error: Error| match error {
        Error::Usage(usage_error) => usage_error.problem().clone(),
        error => panic!("{error:?}"),
    };
    let axes = problem(refused(&[5], &[1], 2, 32));
    assert!(
        matches!(axes, UsageErrorKind::AxisCount { axes: 2, .. }),
        "{axes}"
    );
    let many = problem(refused(&[1; 7], &[1; 7], 2, 32));
    assert!(matches!(many, UsageErrorKind::TooManyAxes { .. }), "{many}");
    Ok(())
}
