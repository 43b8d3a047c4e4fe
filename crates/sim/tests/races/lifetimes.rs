//! Allocations used outside of their lives.

use millstream_driver::{DevicePtr, FillPattern, StreamHandle};

use crate::{
    expect::{clean, expect},
    kernels::{BYTES, launch, zeros},
    rig::Rig,
};

/// Pool memory of `stream`, written there.
fn allocate(rig: &Rig, stream: StreamHandle) -> DevicePtr {
    let memory = rig.mem_alloc_async(BYTES, stream).unwrap();
    rig.memset_async(memory, FillPattern::U8(0), BYTES, stream)
        .unwrap();
    memory
}

fn free_while_read(rig: &Rig, waits: bool) {
    let (owner, reader) = (rig.stream(), rig.stream());
    let copy = zeros(rig, BYTES);
    let memory = allocate(rig, owner);
    rig.stream_wait_event(reader, rig.recorded(owner)).unwrap();
    launch(rig, "read", reader, &[memory, copy]);
    if waits {
        rig.stream_wait_event(owner, rig.recorded(reader)).unwrap();
    }
    rig.mem_free_async(memory, owner).unwrap();
}

#[test]
fn a_free_waits_for_readers_of_other_streams() {
    expect("free_in_flight", |rig| free_while_read(rig, false));
    clean(|rig| free_while_read(rig, true));
}

#[test]
fn memory_is_not_used_before_its_allocation() {
    let program = |rig: &Rig, waits: bool| {
        let (owner, user) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc_async(BYTES, owner).unwrap();
        if waits {
            rig.stream_wait_event(user, rig.recorded(owner)).unwrap();
        }
        launch(rig, "write", user, &[memory]);
    };
    expect("use_before_allocation", |rig| program(rig, false));
    clean(|rig| program(rig, true));
}

#[test]
fn a_kernel_launched_after_the_free_is_found() {
    expect("use_after_free", |rig| {
        let stream = rig.stream();
        let copy = zeros(rig, BYTES);
        let memory = allocate(rig, stream);
        rig.mem_free_async(memory, stream).unwrap();
        launch(rig, "read", stream, &[memory, copy]);
    });
    clean(|rig| {
        let stream = rig.stream();
        let copy = zeros(rig, BYTES);
        let memory = allocate(rig, stream);
        launch(rig, "read", stream, &[memory, copy]);
        rig.mem_free_async(memory, stream).unwrap();
    });
}

#[test]
fn a_free_that_blocks_needs_no_other_order() {
    clean(|rig| {
        let (one, other) = (rig.stream(), rig.stream());
        let (a, b) = (zeros(rig, BYTES), zeros(rig, BYTES));
        let pinned = rig.pinned(BYTES);
        launch(rig, "read", one, &[a, b]);
        rig.download(pinned, a, other).unwrap();
        rig.mem_free(a).unwrap();
        rig.host_free(pinned).unwrap();
        // What waited for all is a synchronisation.
        launch(rig, "write", other, &[b]);
    });
}
