//! Ordering without events: default streams, synchronisations, queries and host functions.

use std::sync::mpsc;

use millstream_driver::Completion;

use crate::races::prelude::*;

fn fill(sim: &SimHarness, memory: DevicePtr, stream: StreamHandle) {
    sim.fill(memory, 1, BYTES, stream);
}

#[test]
fn the_legacy_stream_is_a_barrier_for_blocking_streams() {
    clean(|sim| {
        let (one, other) = (sim.blocking_stream(), sim.blocking_stream());
        let memory = zeros(sim, BYTES);
        fill(sim, memory, one);
        fill(sim, memory, StreamHandle::LEGACY);
        fill(sim, memory, other);
        fill(sim, memory, StreamHandle::LEGACY);
        fill(sim, memory, StreamHandle::PER_THREAD);
    });
    expect("legacy_and_non_blocking", |sim| {
        let memory = zeros(sim, BYTES);
        fill(sim, memory, sim.stream());
        fill(sim, memory, StreamHandle::LEGACY);
        fill(sim, memory, sim.stream());
    });
}

/// A call that waits for the legacy default stream.
type WaitCall<'a> = &'a dyn Fn(&SimHarness);

/// Rule 55: a wait for the legacy stream also waits for the blocking streams.
#[test]
fn a_wait_for_the_legacy_stream_is_a_wait_for_blocking_streams() {
    const LEGACY: StreamHandle = StreamHandle::LEGACY;
    let waits: [WaitCall<'_>; 7] = [
        &|sim| sim.stream_synchronize(LEGACY).unwrap(),
        &|sim| sim.stream_synchronize(StreamHandle::from_raw(0)).unwrap(),
        &|sim| while sim.stream_query(LEGACY).unwrap() == Completion::Pending {},
        &|sim| sim.event_synchronize(sim.recorded(LEGACY)).unwrap(),
        &|sim| sim.download_now(sim.pinned(4), zeros(sim, 4)).unwrap(),
        // Rule 1: the synchronous upload waits for the work before it.
        &|sim| {
            let source = Host::pageable(1 << 17);
            sim.upload_now(sim.mem_alloc(1 << 17).unwrap(), source)
                .unwrap();
        },
        &|sim| {
            let (sender, receiver) = mpsc::channel();
            sim.host_function(LEGACY, move || sender.send(()).unwrap());
            receiver.recv().unwrap();
        },
    ];
    for wait in waits {
        for per_thread in [false, true] {
            clean(|sim| {
                let stream = match per_thread {
                    true => StreamHandle::PER_THREAD,
                    false => sim.blocking_stream(),
                };
                let (memory, target) = (zeros(sim, BYTES), sim.pinned(BYTES));
                sim.download(target, memory, stream).unwrap();
                wait(sim);
                sim.gpu.host_read(target.pointer.as_ptr(), BYTES);
            });
        }
    }
    clean(|sim| {
        let (stream, other, memory) = (sim.blocking_stream(), sim.stream(), zeros(sim, BYTES));
        fill(sim, memory, stream);
        sim.stream_wait_event(other, sim.recorded(LEGACY)).unwrap();
        fill(sim, memory, other);
    });
}

#[run_by(expect("legacy_synchronised"), |sim|)]
fn a_wait_for_the_legacy_stream_is_none_for_other_streams() {
    let (stream, memory, target) = (sim.stream(), zeros(sim, BYTES), sim.pinned(BYTES));
    sim.download(target, memory, stream).unwrap();
    sim.stream_synchronize(StreamHandle::LEGACY).unwrap();
    sim.gpu.host_read(target.pointer.as_ptr(), BYTES);
}

#[test]
fn the_work_of_a_destroyed_stream_is_waited_for_with_its_context() {
    let waits: [WaitCall<'_>; 3] = [
        &|sim| sim.context_synchronize().unwrap(),
        &|sim| sim.stream_synchronize(StreamHandle::LEGACY).unwrap(),
        // Rule 30: freeing waits for the device.
        &|sim| sim.mem_free(sim.mem_alloc(4).unwrap()).unwrap(),
    ];
    for wait in waits {
        clean(|sim| {
            let stream = sim.blocking_stream();
            let (memory, target) = (zeros(sim, BYTES), sim.pinned(BYTES));
            sim.download(target, memory, stream).unwrap();
            sim.stream_destroy(stream).unwrap();
            // Under some schedules the stream's work is complete by now, and its state is removed.
            sim.gpu.device_count().unwrap();
            wait(sim);
            sim.gpu.host_read(target.pointer.as_ptr(), BYTES);
        });
    }
    clean(|sim| {
        let (stream, memory) = (sim.blocking_stream(), zeros(sim, BYTES));
        fill(sim, memory, stream);
        sim.stream_destroy(stream).unwrap();
        sim.gpu.device_count().unwrap();
        fill(sim, memory, StreamHandle::LEGACY);
    });
    expect("destroyed_non_blocking", |sim| {
        let (stream, memory) = (sim.stream(), zeros(sim, BYTES));
        fill(sim, memory, stream);
        sim.stream_destroy(stream).unwrap();
        sim.gpu.device_count().unwrap();
        fill(sim, memory, StreamHandle::LEGACY);
    });
}

#[run_by(expect("per_thread"), |sim|)]
fn the_per_thread_stream_is_a_stream_like_others() {
    let memory = zeros(sim, BYTES);
    fill(sim, memory, sim.blocking_stream());
    fill(sim, memory, StreamHandle::PER_THREAD);
}

#[test]
fn work_that_the_host_has_waited_for_is_before_its_later_work() {
    type WaitCall<'a> = &'a dyn Fn(&SimHarness, StreamHandle);
    let waits: [WaitCall<'_>; 5] = [
        &|sim, stream| sim.stream_synchronize(stream).unwrap(),
        &|sim, stream| sim.event_synchronize(sim.recorded(stream)).unwrap(),
        &|sim, _| sim.context_synchronize().unwrap(),
        &|sim, stream| while sim.stream_query(stream).unwrap() == Completion::Pending {},
        &|sim, stream| {
            let event = sim.recorded(stream);
            while sim.event_query(event).unwrap() == Completion::Pending {}
        },
    ];
    for wait in waits {
        clean(|sim| {
            let (one, other) = (sim.stream(), sim.stream());
            let memory = zeros(sim, BYTES);
            fill(sim, memory, one);
            wait(sim, one);
            fill(sim, memory, other);
        });
    }
}

#[run_by(expect("query_in_vain"), |sim|)]
fn a_query_in_vain_orders_nothing() {
    let (one, other) = (sim.stream(), sim.stream());
    let memory = zeros(sim, BYTES);
    fill(sim, memory, one);
    let hold = sim.hold(one);
    assert_eq!(sim.stream_query(one).unwrap(), Completion::Pending);
    fill(sim, memory, other);
    hold.release();
}

#[run_by(clean, |sim|)]
fn another_thread_knows_what_one_has_waited_for() {
    let (one, other) = (sim.stream(), sim.stream());
    let memory = zeros(sim, BYTES);
    fill(sim, memory, one);
    std::thread::scope(|scope| {
        scope.spawn(|| sim.stream_synchronize(one).unwrap());
    });
    fill(sim, memory, other);
}

#[run_by(clean, |sim|)]
fn a_host_function_orders_the_work_of_the_thread_that_it_wakes() {
    let (one, other) = (sim.stream(), sim.stream());
    let memory = zeros(sim, BYTES);
    fill(sim, memory, one);
    let (sender, receiver) = mpsc::channel();
    sim.host_function(one, move || sender.send(()).unwrap());
    receiver.recv().unwrap();
    fill(sim, memory, other);
}

#[test]
fn a_synchronous_copy_orders_what_it_is_documented_to() {
    clean(|sim| {
        let (stream, memory, target) = (sim.stream(), zeros(sim, BYTES), sim.pinned(BYTES));
        sim.download_now(target, memory).unwrap();
        sim.gpu.host_read(target.pointer.as_ptr(), BYTES);
        fill(sim, memory, stream);
    });
    expect("device_copies_do_not_block", |sim| {
        let (stream, from, to) = (sim.stream(), zeros(sim, BYTES), zeros(sim, BYTES));
        sim.copy_device_to_device(to, from, BYTES).unwrap();
        fill(sim, from, stream);
    });
}
