//! Races between the host and copies, in page-locked and pageable memory.

use crate::races::prelude::*;

fn upload(sim: &SimHarness, waits: bool) {
    let (stream, memory, source) = (sim.stream(), zeros(sim, BYTES), sim.pinned(BYTES));
    sim.gpu.host_write(source.pointer.as_ptr(), BYTES);
    sim.upload(memory, source, stream).unwrap();
    sim.gpu.host_read(source.pointer.as_ptr(), BYTES);
    if waits {
        sim.stream_synchronize(stream).unwrap();
    }
    sim.gpu.host_write(source.part(16, 32).pointer.as_ptr(), 32);
}

#[test]
fn a_page_locked_source_is_not_overwritten_in_flight() {
    expect("source_overwritten", |sim| upload(sim, false));
    clean(|sim| upload(sim, true));
}

fn download(sim: &SimHarness, waits: bool) {
    let (stream, memory, target) = (sim.stream(), zeros(sim, BYTES), sim.pinned(BYTES));
    sim.download(target, memory, stream).unwrap();
    if waits {
        sim.event_synchronize(sim.recorded(stream)).unwrap();
    }
    sim.gpu.host_read(target.pointer.as_ptr(), BYTES);
}

#[test]
fn a_page_locked_target_is_not_read_too_early() {
    expect("target_read_early", |sim| download(sim, false));
    clean(|sim| download(sim, true));
}

#[run_by(expect("waited_for_another"), |sim|)]
fn waiting_for_an_earlier_operation_is_not_enough() {
    let (stream, memory, target) = (sim.stream(), zeros(sim, BYTES), sim.pinned(BYTES));
    sim.download(target, memory, stream).unwrap();
    let event = sim.recorded(stream);
    sim.download(target, memory, stream).unwrap();
    sim.event_synchronize(event).unwrap();
    sim.gpu.host_read(target.pointer.as_ptr(), BYTES);
}

/// Rule 9: a program may not rely on the copy blocking (a pageable download may block).
#[test]
fn a_pageable_target_is_not_read_before_the_host_has_waited() {
    let download = |sim: &SimHarness, waits| {
        let (stream, memory) = (sim.stream(), zeros(sim, BYTES));
        let target = Host::pageable(BYTES);
        sim.download(target, memory, stream).unwrap();
        if waits {
            sim.stream_synchronize(stream).unwrap();
        }
        sim.gpu.host_read(target.pointer.as_ptr(), BYTES);
    };
    expect("pageable_target", |sim| download(sim, false));
    clean(|sim| download(sim, true));
}

/// Rule 10: the pageable source has been read when the call returns.
#[run_by(clean, |sim|)]
fn a_pageable_source_is_the_callers_again_at_once() {
    let (stream, memory) = (sim.stream(), zeros(sim, BYTES));
    let source = Host::pageable(BYTES);
    sim.upload(memory, source, stream).unwrap();
    sim.gpu.host_write(source.pointer.as_ptr(), BYTES);
}

#[run_by(expect("shared_target"), |sim|)]
fn two_copies_to_one_page_locked_block_race() {
    let (one, other) = (sim.stream(), sim.stream());
    let (memory, target) = (zeros(sim, BYTES), sim.pinned(BYTES));
    sim.download(target, memory, one).unwrap();
    sim.download(target, memory, other).unwrap();
}

/// Rule 50: the host may access managed memory while kernels run, but not the bytes that the
/// kernels write.
#[test]
fn managed_memory_is_shared_with_kernels_byte_by_byte() {
    let program = |sim: &SimHarness, waits: bool| {
        let (stream, block) = (sim.stream(), sim.managed(2 * BYTES));
        launch(sim, "write", stream, &[block.address()]);
        sim.gpu
            .host_write(block.part(BYTES, BYTES).pointer.as_ptr(), BYTES);
        if waits {
            sim.stream_synchronize(stream).unwrap();
        }
        sim.gpu.host_read(block.part(0, 4).pointer.as_ptr(), 4);
    };
    expect("managed", |sim| program(sim, false));
    clean(|sim| program(sim, true));
}

/// Returns the memory's address, which can be sent to another thread.
fn address(host: Host) -> usize {
    host.pointer.as_ptr().expose_provenance()
}

#[test]
fn a_host_function_s_accesses_have_its_place_in_the_stream() {
    let program = |sim: &SimHarness, same_stream: bool| {
        let (stream, other) = (sim.stream(), sim.stream());
        let (memory, block) = (zeros(sim, BYTES), sim.pinned(BYTES));
        sim.download(block, memory, stream).unwrap();
        // Once the function runs, the host has observed all work before it.
        let hold = sim.hold(stream);
        let (gpu, at) = (sim.gpu.clone(), address(block));
        sim.host_function(stream, move || {
            gpu.host_write(std::ptr::with_exposed_provenance(at), BYTES);
        });
        sim.upload(memory, block, if same_stream { stream } else { other })
            .unwrap();
        hold.release();
    };
    clean(|sim| program(sim, true));
    expect("host_function", |sim| program(sim, false));
}
