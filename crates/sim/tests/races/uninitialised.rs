//! Bytes that nobody wrote.

use millstream_driver::FillPattern;
use millstream_sim::SimConfig;

use crate::{
    expect::{clean, expect},
    kernels::{BYTES, launch, zeros},
    rig::Rig,
};

#[test]
fn a_kernel_that_reads_what_nobody_wrote_is_found() {
    expect("uninitialised_kernel", |rig| {
        let (stream, copy) = (rig.stream(), zeros(rig, BYTES));
        let memory = rig.mem_alloc_async(BYTES, stream).unwrap();
        rig.memset_async(memory, FillPattern::U8(0), 100, stream).unwrap();
        launch(rig, "read", stream, &[memory, copy]);
    });
}

/// Padding is copied and never looked at.
#[test]
fn copies_within_the_device_pass_on_what_nobody_wrote() {
    let program = |rig: &Rig, bytes| {
        let (stream, target) = (rig.stream(), rig.pinned(bytes));
        let [a, b] = [(); 2].map(|()| rig.mem_alloc_async(BYTES, stream).unwrap());
        rig.memset_async(a.offset(8), FillPattern::U8(0), 16, stream)
            .unwrap();
        rig.copy_device_to_device_async(b, a, BYTES, stream).unwrap();
        rig.download(target, b.offset(8), stream).unwrap();
    };
    clean(|rig| program(rig, 16));
    expect("uninitialised_download", |rig| program(rig, 20));
}

#[test]
fn memory_that_the_host_may_have_written_counts_as_written() {
    clean(|rig| {
        let (stream, source, target) = (rig.stream(), rig.pinned(BYTES), rig.pinned(BYTES));
        let memory = rig.mem_alloc_async(BYTES, stream).unwrap();
        rig.upload(memory, source, stream).unwrap();
        rig.download(target, memory, stream).unwrap();
    });
}

#[test]
fn the_check_can_be_turned_off_by_itself() {
    let rig = Rig::new(SimConfig::new().uninitialised_reads(false));
    let (stream, copy) = (rig.stream(), zeros(&rig, BYTES));
    let memory = rig.mem_alloc_async(BYTES, stream).unwrap();
    launch(&rig, "read", stream, &[memory, copy]);
    launch(&rig, "write", rig.stream(), &[copy]);
    rig.context_synchronize().unwrap();
    let findings = rig.gpu.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].problem.contains("race"));
}
