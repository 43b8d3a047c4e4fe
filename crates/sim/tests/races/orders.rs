//! Orders that are no events: default streams, synchronisations, queries, host functions.

use std::sync::mpsc;

use millstream_driver::{Completion, DevicePtr, FillPattern, StreamHandle};

use crate::{
    expect::{clean, expect},
    kernels::{BYTES, zeros},
    rig::Rig,
};

fn fill(rig: &Rig, memory: DevicePtr, stream: StreamHandle) {
    rig.memset_async(memory, FillPattern::U8(1), BYTES, stream)
        .unwrap();
}

#[test]
fn the_legacy_stream_is_a_barrier_for_blocking_streams() {
    clean(|rig| {
        let (one, other) = (rig.blocking_stream(), rig.blocking_stream());
        let memory = zeros(rig, BYTES);
        fill(rig, memory, one);
        fill(rig, memory, StreamHandle::LEGACY);
        fill(rig, memory, other);
        fill(rig, memory, StreamHandle::LEGACY);
        fill(rig, memory, StreamHandle::PER_THREAD);
    });
    expect("legacy_and_non_blocking", |rig| {
        let memory = zeros(rig, BYTES);
        fill(rig, memory, rig.stream());
        fill(rig, memory, StreamHandle::LEGACY);
        fill(rig, memory, rig.stream());
    });
}

#[test]
fn the_per_thread_stream_is_a_stream_like_others() {
    expect("per_thread", |rig| {
        let memory = zeros(rig, BYTES);
        fill(rig, memory, rig.blocking_stream());
        fill(rig, memory, StreamHandle::PER_THREAD);
    });
}

#[test]
fn what_the_host_has_waited_for_is_in_front_of_what_it_enqueues() {
    type Wait<'a> = &'a dyn Fn(&Rig, StreamHandle);
    let waits: [Wait<'_>; 5] = [
        &|rig, stream| rig.stream_synchronize(stream).unwrap(),
        &|rig, stream| rig.event_synchronize(rig.recorded(stream)).unwrap(),
        &|rig, _| rig.context_synchronize().unwrap(),
        &|rig, stream| while rig.stream_query(stream).unwrap() == Completion::Pending {},
        &|rig, stream| {
            let event = rig.recorded(stream);
            while rig.event_query(event).unwrap() == Completion::Pending {}
        },
    ];
    for wait in waits {
        clean(|rig| {
            let (one, other) = (rig.stream(), rig.stream());
            let memory = zeros(rig, BYTES);
            fill(rig, memory, one);
            wait(rig, one);
            fill(rig, memory, other);
        });
    }
}

#[test]
fn a_query_in_vain_orders_nothing() {
    expect("query_in_vain", |rig| {
        let (one, other) = (rig.stream(), rig.stream());
        let memory = zeros(rig, BYTES);
        fill(rig, memory, one);
        let hold = rig.hold(one);
        assert_eq!(rig.stream_query(one).unwrap(), Completion::Pending);
        fill(rig, memory, other);
        hold.release();
    });
}

#[test]
fn an_event_that_was_waited_for_says_nothing_of_what_came_behind_it() {
    expect("behind_the_event", |rig| {
        let (one, other) = (rig.stream(), rig.stream());
        let memory = zeros(rig, BYTES);
        let event = rig.recorded(one);
        fill(rig, memory, one);
        rig.event_synchronize(event).unwrap();
        fill(rig, memory, other);
    });
}

#[test]
fn another_thread_knows_what_one_has_waited_for() {
    clean(|rig| {
        let (one, other) = (rig.stream(), rig.stream());
        let memory = zeros(rig, BYTES);
        fill(rig, memory, one);
        std::thread::scope(|scope| {
            scope.spawn(|| rig.stream_synchronize(one).unwrap());
        });
        fill(rig, memory, other);
    });
}

#[test]
fn a_host_function_is_told_of_by_whom_it_wakes() {
    clean(|rig| {
        let (one, other) = (rig.stream(), rig.stream());
        let memory = zeros(rig, BYTES);
        fill(rig, memory, one);
        let (sender, receiver) = mpsc::channel();
        rig.host_function(one, move || sender.send(()).unwrap());
        receiver.recv().unwrap();
        fill(rig, memory, other);
    });
}

#[test]
fn a_synchronous_copy_orders_what_it_is_documented_to() {
    clean(|rig| {
        let (stream, memory, target) = (rig.stream(), zeros(rig, BYTES), rig.pinned(BYTES));
        rig.download_now(target, memory).unwrap();
        rig.gpu.host_read(target.pointer.as_ptr(), BYTES);
        fill(rig, memory, stream);
    });
    expect("device_copies_do_not_block", |rig| {
        let (stream, from, to) = (rig.stream(), zeros(rig, BYTES), zeros(rig, BYTES));
        rig.copy_device_to_device(to, from, BYTES).unwrap();
        fill(rig, from, stream);
    });
}
