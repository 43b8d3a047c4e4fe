//! Uses of allocations before they begin or after they end.

use crate::races::prelude::*;

/// Allocates pool memory on `stream` and writes it there.
fn allocate(sim: &SimHarness, stream: StreamHandle) -> DevicePtr {
    let memory = sim.mem_alloc_async(BYTES, stream).unwrap();
    sim.fill(memory, 0, BYTES, stream);
    memory
}

fn free_while_read(sim: &SimHarness, waits: bool) {
    let (owner, reader) = (sim.stream(), sim.stream());
    let copy = zeros(sim, BYTES);
    let memory = allocate(sim, owner);
    sim.stream_wait_event(reader, sim.recorded(owner)).unwrap();
    launch(sim, "read", reader, &[memory, copy]);
    if waits {
        sim.stream_wait_event(owner, sim.recorded(reader)).unwrap();
    }
    sim.mem_free_async(memory, owner).unwrap();
}

#[test]
fn a_free_waits_for_readers_of_other_streams() {
    expect("free_in_flight", |sim| free_while_read(sim, false));
    clean(|sim| free_while_read(sim, true));
}

#[test]
fn memory_is_not_used_before_its_allocation() {
    let program = |sim: &SimHarness, waits: bool| {
        let (owner, user) = (sim.stream(), sim.stream());
        let memory = sim.mem_alloc_async(BYTES, owner).unwrap();
        if waits {
            sim.stream_wait_event(user, sim.recorded(owner)).unwrap();
        }
        launch(sim, "write", user, &[memory]);
    };
    expect("use_before_allocation", |sim| program(sim, false));
    clean(|sim| program(sim, true));
}

#[test]
fn a_kernel_launched_after_the_free_is_found() {
    expect("use_after_free", |sim| {
        let stream = sim.stream();
        let copy = zeros(sim, BYTES);
        let memory = allocate(sim, stream);
        sim.mem_free_async(memory, stream).unwrap();
        launch(sim, "read", stream, &[memory, copy]);
    });
    clean(|sim| {
        let stream = sim.stream();
        let copy = zeros(sim, BYTES);
        let memory = allocate(sim, stream);
        launch(sim, "read", stream, &[memory, copy]);
        sim.mem_free_async(memory, stream).unwrap();
    });
}

#[run_by(clean, |sim|)]
fn a_free_that_blocks_needs_no_other_order() {
    let (one, other) = (sim.stream(), sim.stream());
    let (a, b) = (zeros(sim, BYTES), zeros(sim, BYTES));
    let pinned = sim.pinned(BYTES);
    launch(sim, "read", one, &[a, b]);
    sim.download(pinned, a, other).unwrap();
    sim.mem_free(a).unwrap();
    sim.host_free(pinned).unwrap();
    // A free that waits for all streams is also a synchronisation.
    launch(sim, "write", other, &[b]);
}
