//! Kernels that go on after faults.

use crate::rules::prelude::*;

/// Runs a block of 64 threads, with 256 bytes of global memory at `%rd1` and a word of them at
/// `%rd2` for each thread `%r1`, 64 bytes of shared memory from 0 on, and 64 bytes of local memory.
/// Requires reports of faults with these ends, each with the number of failures at its line, and
/// this number of words that are 1 among zeros. The program sees no error, and its context lives.
fn goes_on(body: &str, reports: &[&str], ones: usize) {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry k(.param .u64 k_0) {{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 16 .b8 tile[64]; .local .align 16 .b8 own[64];
ld.param.u64 %rd1, [k_0]; mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
{body}\nret; }}"
    );
    for options in ["jit=off", "jit=now", "race=kernels,init=on"] {
        let config = SimConfig::parse(&format!("sim:keep_going=on,{options}")).unwrap();
        let sim = SimHarness::new(config);
        let (stream, array) = (sim.stream(), sim.mem_alloc(256).unwrap());
        sim.fill(array, 0, 256, stream);
        let kernel = sim.kernel(&text, "k");
        sim.launch(kernel, (1, 64), stream, &[Arg::Pointer(array)])
            .unwrap();
        sim.stream_synchronize(stream).unwrap();
        let words = sim.read(array, 256, stream);
        let mut found = sim.gpu.reports();
        let kinds = [ReportKind::KernelFault, ReportKind::UninitialisedUse];
        found.retain(|report| kinds.contains(&report.kind));
        assert_eq!(found.len(), reports.len(), "{body}, {options}: {found:#?}");
        for (report, end) in found.iter().zip(reports) {
            assert!(
                report.text.contains(end),
                "{body}, {options}: no {end} in {report}"
            );
        }
        let count = |value: u32| {
            words
                .chunks(4)
                .filter(|word| **word == value.to_le_bytes())
                .count()
        };
        assert_eq!(
            [count(1), count(0)],
            [ones, 64 - ones],
            "{body}, {options}: {words:?}"
        );
    }
}

#[test]
fn invalid_accesses_are_left_out_and_loads_give_zeros() {
    let add = "add.u32 %r3, %r3, 1;\nst.global.u32 [%rd2], %r3;";
    let far = "mul.wide.u32 %rd3, %r1, 8;\nadd.s64 %rd3, %rd3, %rd1;\nshl.b32 %r2, %r1, 2;\n";
    for (access, failures) in [
        (
            "mov.u32 %r3, 5;\nld.global.u32 %r3, [%rd3];",
            "line 13 of the PTX of module 1 in block (0, 0, 0), thread (32, 0, 0): read of 4 bytes",
        ),
        (
            "ld.global.u32 %r3, [%rd3+1];",
            "not a multiple of 4; failures at this line: 64",
        ),
        (
            "mov.u32 %r3, 5;\nmov.u32 %r3, 0;\nst.shared.u32 [%r2], 1;",
            "failures at this line: 48",
        ),
        (
            "mov.u32 %r3, 5;\nld.shared.u32 %r3, [%r2+2];",
            "not a multiple of 4; failures at this line: 64",
        ),
        (
            "mov.u32 %r3, 0;\nst.local.u32 [%r2], 1;",
            "failures at this line: 48",
        ),
        (
            "mov.u32 %r3, 5;\natom.global.or.b32 %r3, [%rd3], 0;",
            "failures at this line: 32",
        ),
        (
            "mov.u32 %r3, 0;\nred.shared.add.u32 [%r2], 1;",
            "failures at this line: 48",
        ),
        (
            "mov.u32 %r3, 0;\nand.b32 %r2, %r2, 60;\ncp.async.ca.shared.global [%r2], [%rd3], 4;",
            "failures at this line: 32",
        ),
    ] {
        goes_on(&format!("{far}{access}\n{add}"), &[failures], 64);
    }
}

#[test]
fn each_line_is_reported_once_a_trap_ends_its_thread_and_a_deadlock_the_kernel() {
    let trap = "setp.lt.u32 %p1, %r1, 40;\n@%p1 trap;\n";
    let store = "st.global.u32 [8], 1;\nst.global.u32 [%rd2], 1;\n";
    let trapped = "executed `trap`; failures at this line: 40";
    goes_on(
        &[trap, "bar.sync 0;\n", store].concat(),
        &[trapped, "failures at this line: 24"],
        24,
    );
    let (writes, waits) = ("failures at this line: 64", "that will never arrive");
    let stuck = "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra end;\nbar.sync 1, 64;\nend:";
    goes_on(&[store, stuck].concat(), &[writes, waits], 64);
}

/// Runs blocks of 64 threads that go on after faults, and requires the end of the first report.
fn first(body: &str, blocks: u32, end: &str) {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry k() {{ .reg .pred %p<2>; .reg .b32 %r<3>;
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
{body}
ret; }}"
    );
    let sim = SimHarness::new(SimConfig::new().keep_going(true));
    let (stream, kernel) = (sim.stream(), sim.kernel(&text, "k"));
    sim.launch(kernel, (blocks, 64), stream, &[]).unwrap();
    sim.stream_synchronize(stream).unwrap();
    let first = sim.gpu.reports()[0].to_string();
    assert!(first.ends_with(end), "{first}");
}

/// Blocks behind the one that ends the launch do not run.
#[test]
fn the_number_of_faults_is_the_same_in_each_run() {
    let body = "st.global.u32 [8], 1;
setp.ne.u32 %p0, %r2, 40; setp.lt.or.u32 %p1, %r1, 32, %p0;
@%p1 ret;
bar.sync 1, 64;";
    for _ in 0..20 {
        first(body, 400, "failures at this line: 2624");
    }
}

#[test]
fn a_loop_that_waits_for_what_it_cannot_read_ends() {
    let body = "loop: ld.volatile.global.u32 %r1, [8];
setp.eq.u32 %p1, %r1, 0;
@%p1 bra loop;";
    first(body, 1, "failures at this line: 262144");
}
