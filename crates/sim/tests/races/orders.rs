//! Orders that are no events: default streams, synchronisations, queries, host functions.

use std::sync::mpsc;

use millstream_driver::{Completion, DevicePtr, Driver, FillPattern, StreamHandle};

use crate::{
    expect::{clean, expect},
    kernels::{BYTES, zeros},
    rig::{Host, Rig},
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

/// Waits for the legacy default stream, in one of the ways that there are.
type Wait<'a> = &'a dyn Fn(&Rig);

/// Rule 55: a wait for the legacy stream is a wait for the blocking streams.
#[test]
fn a_wait_for_the_legacy_stream_is_a_wait_for_blocking_streams() {
    const LEGACY: StreamHandle = StreamHandle::LEGACY;
    let waits: [Wait<'_>; 7] = [
        &|rig| rig.stream_synchronize(LEGACY).unwrap(),
        &|rig| rig.stream_synchronize(StreamHandle::from_raw(0)).unwrap(),
        &|rig| while rig.stream_query(LEGACY).unwrap() == Completion::Pending {},
        &|rig| rig.event_synchronize(rig.recorded(LEGACY)).unwrap(),
        &|rig| rig.download_now(rig.pinned(4), zeros(rig, 4)).unwrap(),
        // Rule 1: it waits for the work before it.
        &|rig| {
            let source = Host::pageable(1 << 17);
            rig.upload_now(rig.mem_alloc(1 << 17).unwrap(), source)
                .unwrap();
        },
        &|rig| {
            let (sender, receiver) = mpsc::channel();
            rig.host_function(LEGACY, move || sender.send(()).unwrap());
            receiver.recv().unwrap();
        },
    ];
    for wait in waits {
        for per_thread in [false, true] {
            clean(|rig| {
                let stream = match per_thread {
                    true => StreamHandle::PER_THREAD,
                    false => rig.blocking_stream(),
                };
                let (memory, target) = (zeros(rig, BYTES), rig.pinned(BYTES));
                rig.download(target, memory, stream).unwrap();
                wait(rig);
                rig.gpu.host_read(target.pointer.as_ptr(), BYTES);
            });
        }
    }
    clean(|rig| {
        let (stream, other, memory) = (rig.blocking_stream(), rig.stream(), zeros(rig, BYTES));
        fill(rig, memory, stream);
        rig.stream_wait_event(other, rig.recorded(LEGACY)).unwrap();
        fill(rig, memory, other);
    });
}

#[test]
fn a_wait_for_the_legacy_stream_is_none_for_other_streams() {
    expect("legacy_synchronised", |rig| {
        let (stream, memory, target) = (rig.stream(), zeros(rig, BYTES), rig.pinned(BYTES));
        rig.download(target, memory, stream).unwrap();
        rig.stream_synchronize(StreamHandle::LEGACY).unwrap();
        rig.gpu.host_read(target.pointer.as_ptr(), BYTES);
    });
}

#[test]
fn the_work_of_a_destroyed_stream_is_waited_for_with_its_context() {
    let waits: [Wait<'_>; 3] = [
        &|rig| rig.context_synchronize().unwrap(),
        &|rig| rig.stream_synchronize(StreamHandle::LEGACY).unwrap(),
        // Rule 30: freeing waits for the device.
        &|rig| rig.mem_free(rig.mem_alloc(4).unwrap()).unwrap(),
    ];
    for wait in waits {
        clean(|rig| {
            let stream = rig.blocking_stream();
            let (memory, target) = (zeros(rig, BYTES), rig.pinned(BYTES));
            rig.download(target, memory, stream).unwrap();
            rig.stream_destroy(stream).unwrap();
            // Under some schedules the stream's work is done by now, and nothing is left of it.
            rig.gpu.device_count().unwrap();
            wait(rig);
            rig.gpu.host_read(target.pointer.as_ptr(), BYTES);
        });
    }
    clean(|rig| {
        let (stream, memory) = (rig.blocking_stream(), zeros(rig, BYTES));
        fill(rig, memory, stream);
        rig.stream_destroy(stream).unwrap();
        rig.gpu.device_count().unwrap();
        fill(rig, memory, StreamHandle::LEGACY);
    });
    expect("destroyed_non_blocking", |rig| {
        let (stream, memory) = (rig.stream(), zeros(rig, BYTES));
        fill(rig, memory, stream);
        rig.stream_destroy(stream).unwrap();
        rig.gpu.device_count().unwrap();
        fill(rig, memory, StreamHandle::LEGACY);
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
