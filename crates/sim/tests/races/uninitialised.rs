//! Reads of uninitialised bytes.

use std::panic::Location;

use millstream_driver::MemoryReuse;

use crate::races::prelude::*;

#[run_by(expect("uninitialised_kernel"), |sim|)]
fn a_kernel_that_reads_uninitialised_memory_is_found() {
    let (stream, copy) = (sim.stream(), zeros(sim, BYTES));
    let memory = sim.mem_alloc_async(BYTES, stream).unwrap();
    sim.fill(memory, 0, 100, stream);
    launch(sim, "read", stream, &[memory, copy]);
}

/// Padding is copied but never read by the program.
#[test]
fn copies_within_the_device_pass_on_uninitialised_memory() {
    let program = |sim: &SimHarness, bytes| {
        let (stream, target) = (sim.stream(), sim.pinned(bytes));
        let [a, b] = [(); 2].map(|()| sim.mem_alloc_async(BYTES, stream).unwrap());
        sim.fill(a.offset(8), 0, 16, stream);
        sim.copy_device_to_device_async(b, a, BYTES, stream)
            .unwrap();
        sim.download(target, b.offset(8), stream).unwrap();
    };
    clean(|sim| program(sim, 16));
    expect("uninitialised_download", |sim| program(sim, 20));
}

#[run_by(clean, |sim|)]
fn memory_that_the_host_may_have_written_counts_as_written() {
    let (stream, source, target) = (sim.stream(), sim.pinned(BYTES), sim.pinned(BYTES));
    let memory = sim.mem_alloc_async(BYTES, stream).unwrap();
    sim.upload(memory, source, stream).unwrap();
    sim.download(target, memory, stream).unwrap();
}

#[test]
fn the_check_can_be_turned_off_by_itself() {
    let sim = SimHarness::new(SimConfig::new().uninitialised_reads(false));
    let (stream, copy) = (sim.stream(), zeros(&sim, BYTES));
    let memory = sim.mem_alloc_async(BYTES, stream).unwrap();
    launch(&sim, "read", stream, &[memory, copy]);
    launch(&sim, "write", sim.stream(), &[copy]);
    sim.context_synchronize().unwrap();
    let findings = sim.gpu.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].problem.contains("race"));
}

#[test]
fn memory_that_is_given_out_again_holds_nothing_and_keeps_its_users() {
    let sim = SimHarness::new(SimConfig::new());
    let (stream, other) = (sim.stream(), sim.stream());
    let (memory, copy) = (zeros(&sim, BYTES), zeros(&sim, BYTES));
    launch(&sim, "write", stream, &[memory]);
    sim.gpu.note_memory_reuse(&MemoryReuse {
        pointer: memory,
        label: "second life",
        location: Location::caller(),
    });
    launch(&sim, "read", stream, &[memory, copy]);
    sim.context_synchronize().unwrap();
    let findings = sim.gpu.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].kind, ReportKind::UninitialisedRead);
    assert!(
        findings[0].to_string().contains("`second life`"),
        "{}",
        findings[0]
    );

    launch(&sim, "write", stream, &[memory]);
    sim.gpu.note_memory_reuse(&MemoryReuse {
        pointer: memory,
        label: "third life",
        location: Location::caller(),
    });
    launch(&sim, "write", other, &[memory]);
    launch(&sim, "read", other, &[memory, copy]);
    sim.context_synchronize().unwrap();
    let findings = sim.gpu.findings();
    let later = &findings[1..];
    assert!(!later.is_empty() && later.iter().all(|found| found.kind == ReportKind::Race));
    assert!(
        later[0].to_string().contains("`third life`"),
        "{}",
        later[0]
    );
}

/// Like the bins of a histogram that each block sets to 0 first, and like a counter that the last
/// block sets back.
#[test]
fn an_update_after_a_write_of_the_same_kernel_reads_no_uninitialised_memory() {
    let run = |kernel| {
        let sim = SimHarness::new(SimConfig::new());
        let (stream, memory) = (sim.stream(), sim.mem_alloc(BYTES).unwrap());
        launch(&sim, kernel, stream, &[memory]);
        sim.context_synchronize().unwrap();
        sim.gpu.findings()
    };
    assert_eq!(run("store_add"), []);
    assert_eq!(run("volatile_store_load"), []);
    for kernel in ["add", "add_store", "volatile_load_store"] {
        let findings = run(kernel);
        assert_eq!(findings.len(), 1, "{kernel}: {findings:?}");
        assert_eq!(findings[0].kind, ReportKind::UninitialisedRead);
    }
}
