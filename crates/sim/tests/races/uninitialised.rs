//! Bytes that nobody wrote.

use std::panic::Location;

use millstream_driver::{Driver, FillPattern, MemoryReuse};
use millstream_sim::{ReportKind, SimConfig};

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
        rig.memset_async(memory, FillPattern::U8(0), 100, stream)
            .unwrap();
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
        rig.copy_device_to_device_async(b, a, BYTES, stream)
            .unwrap();
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

#[test]
fn memory_that_is_given_out_again_holds_nothing_and_keeps_its_users() {
    let rig = Rig::new(SimConfig::new());
    let (stream, other) = (rig.stream(), rig.stream());
    let (memory, copy) = (zeros(&rig, BYTES), zeros(&rig, BYTES));
    launch(&rig, "write", stream, &[memory]);
    rig.gpu.note_memory_reuse(&MemoryReuse {
        pointer: memory,
        label: "second life",
        location: Location::caller(),
    });
    launch(&rig, "read", stream, &[memory, copy]);
    rig.context_synchronize().unwrap();
    let findings = rig.gpu.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].kind, ReportKind::UninitialisedRead);
    assert!(
        findings[0].to_string().contains("`second life`"),
        "{}",
        findings[0]
    );

    launch(&rig, "write", stream, &[memory]);
    rig.gpu.note_memory_reuse(&MemoryReuse {
        pointer: memory,
        label: "third life",
        location: Location::caller(),
    });
    launch(&rig, "write", other, &[memory]);
    launch(&rig, "read", other, &[memory, copy]);
    rig.context_synchronize().unwrap();
    let findings = rig.gpu.findings();
    let later = &findings[1..];
    assert!(!later.is_empty() && later.iter().all(|found| found.kind == ReportKind::Race));
    assert!(
        later[0].to_string().contains("`third life`"),
        "{}",
        later[0]
    );
}
