//! C programs over the library, which the system's loader finds under the name `libcuda.so.1`.

use std::process::Command;

use millstream_testkit::share;

use crate::{
    harness::{Program, Run},
    run::{millstream, report},
};

/// The PTX file of the vector addition.
pub(crate) const PTX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/vecadd.ptx");

/// Runs a program with the PTX file and further arguments.
fn run(program: &str, arguments: &[&str]) -> Run {
    let arguments: Vec<&str> = [&[PTX], arguments].concat();
    Program::compiled(program).run(&arguments, &[])
}

/// Requires that the program printed this, succeeded and has no race.
pub(crate) fn has_no_race(run: &Run, output: &str) {
    assert_eq!(run.output, output, "{}", run.errors);
    run.succeeded();
    assert!(!run.errors.contains("Race"), "{}", run.errors);
}

/// Requires that the report contains each of these.
pub(crate) fn reports(run: &Run, parts: &[&str]) {
    for part in parts {
        assert!(run.errors.contains(part), "no `{part}` in:\n{}", run.errors);
    }
}

#[test]
fn a_vector_addition_has_the_right_sum_and_no_report() {
    let run = run("vector_add", &[]);
    assert_eq!(run.output, "the sum is right\n");
    run.is_clean();
}

#[test]
fn a_race_between_two_streams_is_reported() {
    let run = run("two_streams", &[]);
    run.succeeded();
    assert!(
        run.errors.starts_with("millstream: 1. Race: "),
        "{}",
        run.errors
    );
    assert!(
        run.errors.ends_with("\nmillstream: 1 problem\n"),
        "{}",
        run.errors
    );
    let operations = ["kernel `vecadd`, at ", "fill (16384 bytes), at "];
    reports(&run, &operations);
    reports(&run, &["missing: stream 2 "]);
    let proposed = "to order them: record an event after operation 1 on stream 1 and make stream 2 \
                    wait for it before operation 2 (checked: the race is gone, no other appears)";
    reports(&run, &[proposed]);
    let tried = [("MILLSTREAM_DEVICE", "sim:edges=1-2")];
    Program::compiled("two_streams")
        .run(&[PTX], &tried)
        .is_clean();
}

#[test]
fn races_name_the_function_that_allocated_and_the_rule_of_a_pageable_copy() {
    let run = Program::compiled("reports").run(&[], &[]);
    run.succeeded();
    for function in [
        "cuMemAlloc",
        "cuMemAllocPitch",
        "cuMemAllocManaged",
        "cuMemAllocAsync",
        "cuMemAllocFromPoolAsync",
        "cuMemHostAlloc",
        "cuMemAllocHost",
        "cuMemHostRegister",
    ] {
        let texts = [", ", " by "].map(|end| format!(" bytes, {function}{end}"));
        let is_named = texts.iter().any(|text| run.errors.contains(text.as_str()));
        assert!(is_named, "no {function} in:\n{}", run.errors);
    }
    for rule in [1, 3, 6, 8, 9] {
        reports(&run, &[&format!("\n  rule {rule}: ")]);
    }
}

#[test]
fn a_wait_for_an_event_or_the_legacy_stream_orders_the_streams() {
    run("two_streams", &["ordered"]).is_clean();
    run("two_streams", &["legacy"]).is_clean();
}

/// V5: the event is needed; the waits of the host in front of and behind the work order nothing.
#[test]
fn v05_waits_that_order_nothing_are_listed() {
    let device = [("MILLSTREAM_DEVICE", "sim:redundant=on")];
    let run = Program::compiled("two_streams").run(&[PTX, "ordered"], &device);
    run.succeeded();
    let waits = run
        .errors
        .lines()
        .filter(|line| line.contains("redundant: "));
    let waits: Vec<_> = waits.collect();
    assert_eq!(waits.len(), 2, "{}", run.errors);
    for wait in waits {
        assert!(
            wait.contains("cuCtxSynchronize, at ") && wait.contains("two_streams.c:"),
            "{wait}"
        );
    }
}

#[test]
fn a_non_blocking_stream_is_not_ordered_with_the_legacy_stream() {
    let run = run("two_streams", &["nonblocking"]);
    run.succeeded();
    reports(&run, &["Race: "]);
}

#[test]
fn ordinary_calls_return_what_the_documentation_says() {
    let run = run("ordinary", &[]);
    has_no_race(&run, "all calls returned what they must\n");
    let refused = "cuMipmappedArrayDestroy is not supported by the simulated device\n";
    assert_eq!(run.errors.matches(refused).count(), 1, "{}", run.errors);
}

#[test]
fn what_kernels_print_is_in_order_with_the_output_of_the_host() {
    let names = ["stream", "event", "context", "copy", "rows"];
    let lines = names.map(|name| format!("{name}\nkernel -1\n-\n"));
    let rest = "call\nkernel -1\ncallback\n-\nnext\nkernel -1\nnext\nkernel -1\n-\n\
                load\nkernel -1\n-\nunload\nkernel -1\n-\nend\nkernel -1\n";
    let output = lines.concat() + rest;
    let program = Program::compiled("prints");
    for schedule in ["eager", "lazy", "timed", "random"] {
        let device = format!("sim:schedule={schedule}");
        has_no_race(
            &program.run(&[], &[("MILLSTREAM_DEVICE", &device)]),
            &output,
        );
    }
}

#[test]
fn boxes_are_copied_between_the_host_and_two_devices() {
    let variables = [("MILLSTREAM_DEVICE", "sim:devices=2")];
    let run = Program::compiled("boxes").run(&[], &variables);
    has_no_race(&run, "all boxes arrived\n");
}

#[test]
fn x2_a_fetch_races_with_a_copy_or_a_store_to_its_array_on_another_stream() {
    let program = Program::compiled("textures");
    for (how, what) in [
        ("copy", "copy (PageableToDevice"),
        ("surface", "kernel `sust_2d_2_zero`"),
    ] {
        let run = program.run(&["race", how], &[]);
        run.succeeded();
        reports(
            &run,
            &["1. Race: ", "kernel `tex_2d_u32_s32`", what, "textures.c:"],
        );
        reports(&run, &["cuArray3DCreate, at ", "missing: stream 2 "]);
    }
    program.run(&["race", "ordered"], &[]).is_clean();
    program.run(&["race", "wait"], &[]).is_clean();
}

#[test]
fn threads_race_on_the_texels_of_an_array_unless_they_reduce() {
    let variables = [("MILLSTREAM_DEVICE", "sim:race=kernels")];
    let program = Program::compiled("textures");
    let run = program.run(&["race", "threads"], &variables);
    reports(
        &run,
        &["write/read race within a kernel, in global memory, on bytes 4..52 of"],
    );
    program.run(&["race", "reduction"], &variables).is_clean();
}

#[test]
fn a_kernel_that_fetches_by_a_dead_or_foreign_handle_fails_with_the_reason() {
    let program = Program::compiled("textures");
    for (how, code, reason) in [
        (
            "kind",
            719,
            "is the handle of no live texture of the device",
        ),
        ("shape", 719, "is a 2-D texture, read as a 1-D texture"),
        (
            "texture",
            719,
            "is the handle of no live texture of the device",
        ),
        (
            "context",
            719,
            "is the handle of no live texture of the device",
        ),
        ("array", 700, "cuArray3DCreate, at "),
    ] {
        let run = program.run(&["race", how], &[]);
        assert_eq!(run.output, format!("{code}\n"), "{how}: {}", run.errors);
        reports(&run, &["KernelFault", reason]);
    }
}

#[test]
fn x1_fetches_surfaces_and_queries_have_the_bits_of_a_gpu() {
    let run = Program::compiled("textures").run(&[], &[]);
    has_no_race(&run, &run.output);
    // Linear filters of 3-D textures, and of signed bytes and floats, differ in the last bits.
    for line in include_str!("programs/textures.txt").lines() {
        assert!(run.output.contains(line), "no `{line}`");
    }
}

#[test]
fn cube_maps_mipmaps_and_sparse_arrays_are_refused_by_name() {
    let run = Program::compiled("textures").run(&["refused"], &[]);
    has_no_race(&run, "");
    for what in [
        "cuArray3DCreate_v2: cube maps are",
        "sparse arrays are",
        "mipmaps are",
    ] {
        let said = format!("{what} not supported by the simulated device");
        reports(&run, &[&said]);
    }
}

#[test]
fn an_access_outside_of_a_surface_that_traps_fails_the_kernel() {
    let run = Program::compiled("textures").run(&["trap"], &[]);
    assert_eq!(run.output, "719\n");
    reports(
        &run,
        &[
            "KernelFault",
            "access of 4 bytes outside of a surface: at byte -4, row 0",
        ],
    );
}

#[test]
fn the_blocks_of_a_cooperative_launch_meet_at_the_barrier_of_the_grid() {
    let run = Program::compiled("cooperative").run(&[], &[]);
    has_no_race(&run, "all blocks met twice\n");
}

#[test]
fn a_kernel_that_the_device_cannot_run_is_named_at_the_load_and_refused_at_the_launch() {
    let run = Program::compiled("device_code").run(&[], &[]);
    has_no_race(&run, "all did\n");
    let reason = "kernel `matrix(int*)` cannot run on the simulated device: line 5: unsupported";
    let said = format!("millstream: {reason}");
    assert_eq!(run.errors.matches(&said).count(), 1, "{}", run.errors);
    reports(&run, &[&format!("1. BadLaunch: {reason}")]);
}

#[test]
fn kernels_have_a_heap_of_the_size_that_is_set_and_managed_variables() {
    let run = Program::compiled("device_code").run(&["memory"], &[]);
    has_no_race(&run, "all did\n");
    run.is_clean();
}

#[test]
fn a_failed_assertion_shows_its_text_file_line_block_and_thread() {
    let run = Program::compiled("device_code").run(&["assert"], &[]);
    has_no_race(&run, "all did\n");
    let line = "a.cu:5: void k(): block: [0,0,0], thread: [2,0,0] Assertion `n > 3` failed.\n";
    assert_eq!(run.errors.matches(line).count(), 1, "{}", run.errors);
    reports(
        &run,
        &[
            "KernelFault",
            "assertion `n > 3` failed, in a.cu:5, void k()",
        ],
    );
}

#[test]
fn own_pools_follow_their_attributes_and_end_with_their_last_allocation() {
    let variables = [("MILLSTREAM_DEVICE", "sim:devices=2,schedule=lazy")];
    let run = Program::compiled("pools").run(&[], &variables);
    has_no_race(&run, "all pools did\n");
}

#[test]
fn a_pool_that_the_program_leaves_alive_is_a_leak() {
    let variables = [("MILLSTREAM_LEAKS", "on")];
    let run = Program::compiled("pools").run(&["leak"], &variables);
    run.succeeded();
    reports(&run, &["Leak: pool 2"]);
}

#[test]
fn graphs_run_are_updated_and_are_captured_from_streams() {
    let run = Program::compiled("graphs").run(&[], &[]);
    println!("{}", run.errors);
    assert_eq!(run.output, "all graphs ran\n");
    run.succeeded();
    // The one wrong call of the program.
    reports(&run, &["1. cuGraphDestroy: ", "\nmillstream: 1 problem\n"]);
}

#[test]
fn graphs_have_every_kind_of_node_and_can_be_read_and_changed() {
    for device in ["sim", "sim:schedule=lazy", "sim:seed=5"] {
        let run = Program::compiled("graph_nodes").run(&[], &[("MILLSTREAM_DEVICE", device)]);
        has_no_race(&run, "all nodes did\n");
    }
}

#[test]
fn random_and_stale_handles_return_errors() {
    let program = Program::compiled("handles");
    let (seed, calls) = match share::is_whole() {
        true => (1, "4500000"),
        false => (share::day(), "300000"),
    };
    let run = program.run(&[PTX, &seed.to_string(), calls], &[]);
    println!("seed {seed}: {}{}", run.output, end(&run.errors));
    run.succeeded();
}

/// Returns the last lines of a text.
fn end(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

#[test]
#[ignore = "takes minutes; run it after changes of handles or of what the simulator keeps"]
fn ten_million_calls_with_random_handles_leave_the_memory_flat() {
    let run = run("handles", &["11", "10000000"]);
    println!("{}{}", run.output, end(&run.errors));
    run.succeeded();
}

#[test]
fn an_invalid_option_is_named_and_the_driver_does_not_start() {
    let variables = [("MILLSTREAM_DEVICE", "sim:schedule=never")];
    let run = Program::compiled("vector_add").run(&[PTX], &variables);
    assert_eq!(run.code, Some(2));
    let printed = &run.output;
    assert!(printed.contains("cuInit(0) returned 1"), "{printed}");
    reports(&run, &["schedule=never"]);
    let variables = [("MILLSTREAM_KIND", "\x1b[2J")];
    let run = Program::compiled("vector_add").run(&[PTX], &variables);
    reports(&run, &["MILLSTREAM_KIND=`\u{fffd}[2J`"]);
}

#[test]
fn schedules_and_kinds_of_device_are_chosen_by_the_environment() {
    let program = Program::compiled("vector_add");
    for device in [
        "sim:schedule=lazy",
        "sim:seed=7,memory=1G",
        "sim:rules=strict",
    ] {
        let variables = [("MILLSTREAM_DEVICE", device), ("MILLSTREAM_KIND", "t4")];
        program.run(&[PTX], &variables).is_clean();
    }
}

#[test]
fn per_thread_default_streams_of_two_threads_are_not_ordered() {
    let threads = run("per_thread", &[]);
    threads.succeeded();
    reports(&threads, &["on per-thread default stream 1, fill"]);
    reports(&threads, &["missing: per-thread default stream 2 "]);
    run("per_thread", &["legacy"]).is_clean();
}

#[test]
fn a_program_of_the_runtime_library_that_fails_gets_one_line_with_advice() {
    let named = Program::compiled("runtime");
    let advised = |program: &Program, command, argument: Option<&str>| {
        let output = millstream(command, &program.path).args(argument).output();
        let printed = report(&output.unwrap(), 1);
        let advice = printed.lines().filter(|line| line.contains("libcudart"));
        let advice: Vec<_> = advice.collect();
        let is_advice =
            |line: &&str| line.contains(" -cudart shared") || line.contains("newer nvcc");
        assert!(advice.iter().all(is_advice), "{printed}");
        advice.len()
    };
    assert_eq!(advised(&named, "run", None), 0, "it only contains the name");
    assert_eq!(advised(&named, "run", Some("tables")), 1);
    let linked = Program::compiled_with("runtime", &["-DSTATIC"]);
    assert_eq!(advised(&linked, "run", Some("tables")), 1);
    assert_eq!(advised(&linked, "check", None), 1);
    let shared = linked.path.with_file_name("libcudart.so.11.0");
    let shared = shared.to_str().unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-shared",
        "-Wl,-soname,libcudart.so.11.0",
        "-xc",
        "/dev/null",
    ]);
    assert!(gcc.args(["-o", shared]).status().unwrap().success());
    let folder = linked.path.parent().unwrap().display();
    let found = format!("-Wl,--no-as-needed,-rpath,{folder}");
    let linked = Program::compiled_with("runtime", &[&found, shared]);
    assert_eq!(advised(&linked, "run", None), 1);
}

#[test]
fn a_kernel_waits_for_the_host_or_another_kernel_and_fails_if_nothing_can_wake_it() {
    let program = Program::compiled("waits");
    let ptx = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sim/tests/rules/polling.ptx"
    );
    for schedule in ["eager", "lazy", "timed", "random"] {
        let device = format!("sim:schedule={schedule}");
        let run = |mode| program.run(&[ptx, mode], &[("MILLSTREAM_DEVICE", &device)]);
        for mode in ["kernel", "host", "thread"] {
            has_no_race(&run(mode), "0, 42\n");
        }
        has_no_race(&run("exit"), "");
        assert_eq!(run("joined").output, "702, 0\n");
        let stuck = run("nobody");
        assert_eq!(stuck.output, "702, 0\n");
        let places = [
            "KernelFault",
            "kernel `wait`, operation",
            "line 14 of the PTX",
        ];
        reports(&stuck, &places);
        reports(
            &stuck,
            &[
                "the host waits in cuStreamSynchronize",
                "waits behind the kernel",
            ],
        );
    }
    let variables = [("MILLSTREAM_DEVICE", "sim:schedule=eager")];
    has_no_race(&program.run(&[ptx, "answer"], &variables), "0, 42\n");
    let checked = millstream("check --runs 6", &program.path)
        .args([ptx, "kernel"])
        .output()
        .unwrap();
    let errors = report(&checked, 1);
    let parts = [
        "`concurrent_kernels`",
        "relies on two kernels running together",
    ];
    assert!(parts.iter().all(|part| errors.contains(part)), "{errors}");
}
