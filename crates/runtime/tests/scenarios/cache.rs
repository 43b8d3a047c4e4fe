//! The cache of dropped arrays' memory: when it is reused, on which streams, and at what cost in
//! driver calls.

#![allow(unsafe_code, reason = "makes uninitialised arrays")]

use crate::scenarios::prelude::*;

const N: usize = 10_000;

/// Makes an uninitialised array, which no operation has used yet.
fn empty(stream: &Stream) -> Result<Buffer<u8>> {
    // SAFETY: the array is written before it is read.
    unsafe { stream.uninit(N) }
}

#[run_by(everywhere_counted, |harness, calls|)]
fn an_array_of_the_same_size_on_the_same_stream_needs_no_driver_call() {
    harness.device.set_cache_limit(1 << 20);
    let stream = harness.stream();
    let first = empty(&stream).unwrap();
    let address = first.as_raw();
    drop(first);
    calls.forget();
    for _ in 0..100 {
        assert_eq!(empty(&stream).unwrap().as_raw(), address);
    }
    calls.assert_none();
    let memory = harness.device.memory_stats().unwrap();
    assert_eq!((memory.allocated_bytes, memory.allocations), (0, 0));
    assert_eq!((memory.cached_bytes, memory.cache_hits), (N as u64, 100));
    harness.device.trim().unwrap();
    harness.assert_count(calls, "mem_free_async", 1);
    assert_eq!(harness.device.memory_stats().unwrap().cached_bytes, 0);
}

#[run_by(everywhere, |harness|)]
fn another_stream_reuses_memory_once_it_is_ordered_after_its_last_use() {
    harness.device.set_cache_limit(1 << 20);
    let [first, second] = harness.streams();
    let mut array = first.upload(&[1_u8; N]).unwrap();
    let gate = harness.gate(&first);
    first.fill(&mut array, 2).unwrap();
    let address = array.as_raw();
    drop(array);
    let elsewhere = second.upload(&[3_u8; N]).unwrap();
    assert_ne!(
        elsewhere.as_raw(),
        address,
        "the fill of that memory is still pending"
    );
    if harness.gates_hold() {
        let values = second.download(&elsewhere).unwrap();
        assert_eq!(
            values.wait().unwrap(),
            [3; N],
            "the new array must not wait for the gate"
        );
    }
    second.wait_for(&first.record().unwrap()).unwrap();
    let mut ordered = empty(&second).unwrap();
    assert_eq!(ordered.as_raw(), address);
    second.fill(&mut ordered, 4).unwrap();
    let values = second.download(&ordered).unwrap();
    gate.open();
    assert_eq!(values.wait().unwrap(), [4; N]);
}

#[run_by(everywhere, |harness|)]
fn a_use_not_ordered_after_an_earlier_use_of_the_memory_waits_for_it() {
    harness.device.set_cache_limit(1 << 20);
    let [first, second] = harness.streams();
    let array = first.upload(&[1_u8; N]).unwrap();
    let gate = harness.gate(&first);
    let before = first.download(&array).unwrap();
    drop(array);
    // Allocated on the stream that still reads the old contents, and first used on another.
    let mut array = empty(&first).unwrap();
    second.fill(&mut array, 2).unwrap();
    let after = second.download(&array).unwrap();
    gate.open();
    assert_eq!(before.wait().unwrap(), [1; N]);
    assert_eq!(after.wait().unwrap(), [2; N]);
}

#[run_by(everywhere, |harness|)]
fn the_cache_respects_its_own_limit_and_the_memory_limit() {
    let device = &harness.device;
    device.set_cache_limit(3 * N as u64);
    let stream = harness.stream();
    let arrays: Vec<_> = (0..5).map(|_| stream.zeros::<u8>(N).unwrap()).collect();
    drop(arrays);
    assert_eq!(device.memory_stats().unwrap().cached_bytes, 3 * N as u64);
    device.set_memory_limit(Some(2 * N as u64));
    let other = stream.zeros::<u8>(N + 1).unwrap();
    let memory = device.memory_stats().unwrap();
    assert!(
        memory.allocated_bytes + memory.cached_bytes <= 2 * N as u64,
        "{memory:?}"
    );
    assert_eq!(stream.values(&other).unwrap(), [0; N + 1]);
}
