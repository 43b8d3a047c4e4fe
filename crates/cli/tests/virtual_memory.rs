//! Virtual memory management, streams that wait for values in memory, and untouched memory.

use crate::{
    harness::Program,
    programs::{PTX, has_no_race, reports},
};

/// Requires that a wrong use has this output and these reports under several schedules.
fn fails(mode: &str, output: &str, parts: &[&str]) {
    let program = Program::compiled("virtual_memory");
    for schedule in ["eager", "lazy", "random"] {
        let device = format!("sim:schedule={schedule}");
        let run = program.run(&[PTX, mode], &[("MILLSTREAM_DEVICE", &device)]);
        assert_eq!(run.output, output, "{}", run.errors);
        reports(&run, parts);
    }
}

#[test]
fn mapped_memory_is_used_across_mappings_and_lives_while_it_is_held_or_mapped() {
    let program = Program::compiled("virtual_memory");
    for device in ["sim", "sim:schedule=lazy", "sim:seed=5"] {
        has_no_race(
            &program.run(&[PTX, ""], &[("MILLSTREAM_DEVICE", device)]),
            "0\n",
        );
    }
    let run = program.run(&[PTX, "refused"], &[]);
    assert_eq!(run.output, "0\n", "{}", run.errors);
    reports(
        &run,
        &["no multiple of the granularity", "memory is mapped there"],
    );
}

#[test]
fn accesses_to_memory_that_is_not_mapped_or_not_accessible_say_so() {
    let reserved = "reserved at 0x1";
    let parts = [
        "lie where nothing is mapped in the range of 8388608 bytes",
        reserved,
    ];
    fails("unmapped", "700\n", &parts);
    let access = "are mapped, but no device has access (cuMemSetAccess): allocation";
    fails("access", "700\n", &[access]);
    fails("readonly", "700\n", &["KernelFault", "read-only"]);
    let after = [
        "were unmapped: they lay in allocation",
        ", cuMemCreate, ",
        reserved,
    ];
    fails("after", "700\n", &after);
}

#[test]
fn two_addresses_of_the_same_memory_race() {
    fails(
        "alias",
        "0\n",
        &["Race: write/write race on bytes 32..64 of allocation 1"],
    );
}

#[test]
fn physical_memory_that_is_left_alive_is_a_leak() {
    let run =
        Program::compiled("virtual_memory").run(&[PTX, "alias"], &[("MILLSTREAM_LEAKS", "on")]);
    reports(
        &run,
        &["Leak: device memory of 2097152 bytes (allocation 1, cuMemCreate"],
    );
}

#[test]
fn an_unmapping_of_memory_in_use_is_reported_under_every_schedule() {
    let program = Program::compiled("virtual_memory");
    for (device, part) in [
        ("sim:schedule=eager", "FreeInFlight: unmapping in flight of"),
        ("sim:schedule=lazy", "were unmapped: they lay in"),
    ] {
        let run = program.run(&[PTX, "in flight"], &[("MILLSTREAM_DEVICE", device)]);
        reports(&run, &[part]);
    }
}

#[test]
fn a_stream_that_waits_for_a_value_is_ordered_behind_its_writer() {
    let program = Program::compiled("stream_values");
    for schedule in "eager lazy timed random random,rules=concurrent_kernels".split(' ') {
        let device = format!("sim:schedule={schedule}");
        let values = |mode| program.run(&[mode], &[("MILLSTREAM_DEVICE", &device)]);
        for mode in ["", "host", "captured"] {
            let run = values(mode);
            assert_eq!(run.output, "42\n", "{mode}, {schedule}: {}", run.errors);
            run.is_clean();
        }
        reports(&values("unordered"), &["Race: ", "fill (64 bytes)", "copy"]);
        let stuck = values("nobody");
        assert_eq!(stuck.output, "702\n", "{}", stuck.errors);
        reports(
            &stuck,
            &[
                "kernel `cuStreamWaitValue32`",
                "waits for a change of byte 0 of",
            ],
        );
    }
}

#[test]
fn memory_that_is_not_touched_costs_none_and_a_shortage_names_the_option() {
    let program = Program::compiled("much_memory");
    let run = program.run(&["too much"], &[]);
    run.succeeded();
    let resident: u64 = run.output.trim().parse().unwrap();
    assert!(resident < 160, "{resident} MiB are resident");
    assert_eq!(run.errors.matches("--memory").count(), 1, "{}", run.errors);
    reports(
        &run,
        &["millstream: cuMemAlloc: cannot allocate 2147483648 bytes"],
    );
    program
        .run(&[], &[("MILLSTREAM_DEVICE", "sim:memory=4G")])
        .is_clean();
}
