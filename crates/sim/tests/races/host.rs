//! Races with the host: page-locked and pageable memory that copies use.

use crate::{
    expect::{clean, expect},
    kernels::{BYTES, launch, zeros},
    rig::{Host, Rig},
};

fn upload(rig: &Rig, waits: bool) {
    let (stream, memory, source) = (rig.stream(), zeros(rig, BYTES), rig.pinned(BYTES));
    rig.gpu.host_write(source.pointer.as_ptr(), BYTES);
    rig.upload(memory, source, stream).unwrap();
    rig.gpu.host_read(source.pointer.as_ptr(), BYTES);
    if waits {
        rig.stream_synchronize(stream).unwrap();
    }
    rig.gpu.host_write(source.part(16, 32).pointer.as_ptr(), 32);
}

#[test]
fn a_page_locked_source_is_not_overwritten_in_flight() {
    expect("source_overwritten", |rig| upload(rig, false));
    clean(|rig| upload(rig, true));
}

fn download(rig: &Rig, waits: bool) {
    let (stream, memory, target) = (rig.stream(), zeros(rig, BYTES), rig.pinned(BYTES));
    rig.download(target, memory, stream).unwrap();
    if waits {
        rig.event_synchronize(rig.recorded(stream)).unwrap();
    }
    rig.gpu.host_read(target.pointer.as_ptr(), BYTES);
}

#[test]
fn a_page_locked_target_is_not_read_too_early() {
    expect("target_read_early", |rig| download(rig, false));
    clean(|rig| download(rig, true));
}

#[test]
fn waiting_for_an_earlier_operation_is_not_enough() {
    expect("waited_for_another", |rig| {
        let (stream, memory, target) = (rig.stream(), zeros(rig, BYTES), rig.pinned(BYTES));
        rig.download(target, memory, stream).unwrap();
        let event = rig.recorded(stream);
        rig.download(target, memory, stream).unwrap();
        rig.event_synchronize(event).unwrap();
        rig.gpu.host_read(target.pointer.as_ptr(), BYTES);
    });
}

/// Rule 9: that the copy blocks is nothing to rely on.
#[test]
fn a_pageable_target_is_not_read_before_the_host_has_waited() {
    let download = |rig: &Rig, waits| {
        let (stream, memory) = (rig.stream(), zeros(rig, BYTES));
        let target = Host::pageable(BYTES);
        rig.download(target, memory, stream).unwrap();
        if waits {
            rig.stream_synchronize(stream).unwrap();
        }
        rig.gpu.host_read(target.pointer.as_ptr(), BYTES);
    };
    expect("pageable_target", |rig| download(rig, false));
    clean(|rig| download(rig, true));
}

/// Rule 10: the source has been read when the call returns.
#[test]
fn a_pageable_source_is_the_callers_again_at_once() {
    clean(|rig| {
        let (stream, memory) = (rig.stream(), zeros(rig, BYTES));
        let source = Host::pageable(BYTES);
        rig.upload(memory, source, stream).unwrap();
        rig.gpu.host_write(source.pointer.as_ptr(), BYTES);
    });
}

#[test]
fn two_copies_to_one_page_locked_block_race() {
    expect("shared_target", |rig| {
        let (one, other) = (rig.stream(), rig.stream());
        let (memory, target) = (zeros(rig, BYTES), rig.pinned(BYTES));
        rig.download(target, memory, one).unwrap();
        rig.download(target, memory, other).unwrap();
    });
}

/// Rule 50: the host may use managed memory while kernels run, though not the bytes that they
/// write.
#[test]
fn managed_memory_is_shared_with_kernels_byte_by_byte() {
    let program = |rig: &Rig, waits: bool| {
        let (stream, block) = (rig.stream(), rig.managed(2 * BYTES));
        launch(rig, "write", stream, &[block.address()]);
        rig.gpu
            .host_write(block.part(BYTES, BYTES).pointer.as_ptr(), BYTES);
        if waits {
            rig.stream_synchronize(stream).unwrap();
        }
        rig.gpu.host_read(block.part(0, 4).pointer.as_ptr(), 4);
    };
    expect("managed", |rig| program(rig, false));
    clean(|rig| program(rig, true));
}

/// Pointers travel between threads as addresses here.
fn address(host: Host) -> usize {
    host.pointer.as_ptr().expose_provenance()
}

#[test]
fn a_host_function_s_accesses_have_its_place_in_the_stream() {
    let program = |rig: &Rig, same_stream: bool| {
        let (stream, other) = (rig.stream(), rig.stream());
        let (memory, block) = (zeros(rig, BYTES), rig.pinned(BYTES));
        rig.download(block, memory, stream).unwrap();
        // Once it runs, the host knows what is in front of it.
        let hold = rig.hold(stream);
        let (gpu, at) = (rig.gpu.clone(), address(block));
        rig.host_function(stream, move || {
            gpu.host_write(std::ptr::with_exposed_provenance(at), BYTES);
        });
        rig.upload(memory, block, if same_stream { stream } else { other })
            .unwrap();
        hold.release();
    };
    clean(|rig| program(rig, true));
    expect("host_function", |rig| program(rig, false));
}
