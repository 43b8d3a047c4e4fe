//! Barriers and operations between lanes that their threads do not execute as PTX demands.

use millstream_sim::Report;

use crate::races::prelude::*;

fn config() -> SimConfig {
    SimConfig::parse("sim:race=kernels").unwrap()
}

/// Launches a block of 64 threads that run the body; `%r1` is the thread's number, and `%r2` its
/// place in shared memory.
fn run(sim: &SimHarness, body: &str) {
    let text = format!(
        ".version 8.0\n.target sm_75\n.address_size 64
.visible .entry k()
{{
.reg .pred %p<3>;
.reg .b32 %r<5>;
.shared .b32 words[64];
mov.u32 %r1, %tid.x;
mov.u32 %r2, words;
mad.lo.u32 %r2, %r1, 4, %r2;
{body}
ret;
}}"
    );
    let (kernel, stream) = (sim.kernel(&text, "k"), sim.stream());
    sim.launch(kernel, (1, 64), stream, &[]).unwrap();
    sim.stream_synchronize(stream).unwrap();
}

fn reports(body: &str) -> Vec<Report> {
    let sim = SimHarness::new(config());
    run(&sim, body);
    sim.gpu.reports()
}

fn clean(body: &str) {
    clean_with(config(), |sim| run(sim, body));
}

/// Threads below `threads` arrive at one barrier, the others at another.
fn divided(threads: u32, one: &str, other: &str) -> String {
    format!(
        "setp.ge.u32 %p1, %r1, {threads};
@%p1 bra other;
{one};
bra end;
other:
{other};
end:"
    )
}

#[test]
fn a_barrier_in_each_branch_of_a_block_is_a_warning_with_both_lines() {
    let body = divided(32, "bar.sync 0", "bar.sync 0");
    assert_eq!(reports(&body)[0].severity, Severity::Warning);
    // Of one warp a thread has ended.
    let body_63 = format!("setp.eq.u32 %p2, %r1, 63;\n@%p2 exit;\n{body}");
    let kind = ReportKind::DivergentBarrier;
    let text = "threads of a block wait at barrier 0 on two lines";
    found(false, kind, text, &body_63);
    assert_eq!(reports(&body_63)[0].severity, Severity::Error);
    expect_with(config(), "within/barrier_in_each_branch", |sim| {
        run(sim, &body)
    });
    // The check needs no option.
    expect_with(SimConfig::new(), "within/barrier_in_each_branch", |sim| {
        run(sim, &body)
    });
    // The threads of one branch meet at the barrier behind both.
    clean(&(divided(32, "mov.u32 %r2, 1", "mov.u32 %r2, 2") + "\nbar.sync 0;"));
    // All threads take the same branch.
    clean(&divided(64, "bar.sync 0", "bar.sync 0"));
}

/// The number of rounds of a loop: one more for each warp.
const UNEVEN: &str = "shr.u32 %r4, %r1, 5;\nadd.u32 %r4, %r4, 1;";

/// Returns a loop with a barrier.
fn looped(rounds: &str, end: &str) -> String {
    format!(
        "{rounds}
mov.u32 %r3, 0;
again:
bar.sync 0;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r4;
@%p1 bra again;
{end}"
    )
}

#[test]
fn a_barrier_that_some_threads_reach_once_more_is_found() {
    let found = reports(&looped(UNEVEN, "bar.sync 0;\nbar.sync 0;"));
    assert!(!found.is_empty());
    clean(&looped("mov.u32 %r4, 3;", "bar.sync 0;\nbar.sync 0;"));
}

#[test]
fn the_lanes_of_a_warp_must_execute_one_barrier() {
    for barrier in ["bar.sync 0", "bar.sync 1", "bar.sync 1, 64"] {
        let body = divided(16, barrier, barrier);
        let found = reports(&body);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].kind, ReportKind::DivergentBarrier);
        assert_eq!(found[0].severity, Severity::Error);
        assert!(found[0].text.contains("threads of a warp"), "{found:#?}");
    }
    clean(&divided(16, "barrier.sync 0", "barrier.sync 0"));
}

#[test]
fn warps_may_meet_at_named_and_at_unaligned_barriers() {
    clean(&divided(32, "bar.sync 1", "bar.sync 1"));
    clean(&divided(32, "bar.sync 1, 64", "bar.sync 1, 64"));
    clean(&divided(32, "bar.arrive 1, 64", "bar.sync 1, 64"));
    clean(&divided(32, "barrier.sync 0", "barrier.sync 0"));
    let aligned = "barrier.sync.aligned 0";
    let found = reports(&divided(32, aligned, aligned));
    assert_eq!(found.len(), 1, "{found:#?}");
}

#[test]
fn threads_that_have_exited_are_not_waited_for() {
    clean("setp.ge.u32 %p1, %r1, 40;\n@%p1 exit;\nbar.sync 0;");
}

/// Asserts that the body has one finding, of this kind and with this text, and under the default
/// configuration, too, unless the check needs an option.
#[track_caller]
fn found(needs_option: bool, kind: ReportKind, text: &str, body: &str) {
    let off = SimHarness::new(SimConfig::new());
    run(&off, body);
    let all = [reports(body), off.gpu.reports()];
    for (found, expected) in all.iter().zip([1, usize::from(!needs_option)]) {
        assert_eq!(found.len(), expected, "{found:#?}");
        let fits = |report: &Report| report.kind == kind && report.text.contains(text);
        assert!(found.iter().all(fits), "{found:#?}");
    }
}

/// Threads below `threads` arrive at barrier 0, and all go on behind it.
fn skipped(threads: u32, behind: &str) -> String {
    format!("setp.ge.u32 %p1, %r1, {threads};\n@%p1 bra end;\nbar.sync 0;\nend:\n{behind}")
}

#[test]
fn v02_a_barrier_that_half_the_block_skips_names_who_waits_and_who_is_missing() {
    expect_with(config(), "within/barrier_skipped", |sim| {
        run(sim, &skipped(32, "st.shared.u32 [%r2], %r1;"))
    });
    for threads in [48, 8] {
        let body = skipped(threads, "st.shared.u32 [%r2], %r1;");
        found(true, ReportKind::DivergentBarrier, "goes around it", &body);
    }
    clean(&skipped(64, "st.shared.u32 [%r2], %r1;"));
}

#[test]
fn a_thread_that_returns_before_a_barrier_has_not_skipped_it() {
    // The threads of the branch have nothing to do behind the barrier.
    clean(&skipped(32, ""));
    clean("setp.ge.u32 %p1, %r1, 32;\n@%p1 bra end;\nbar.sync 0;\nst.shared.u32 [%r2], %r1;\nend:");
    // In a loop, whether or not it has a branch of its own for the return.
    let leaves = |leave: &str| {
        format!(
            "mov.u32 %r3, 0;
bra again;
over:
st.shared.u32 [%r2], %r3;
bra end;
again:
setp.eq.u32 %p1, %r3, %r1;
{leave}
bar.sync 0;
add.u32 %r3, %r3, 32;
setp.lt.u32 %p2, %r3, 128;
@%p2 bra again;
st.shared.u32 [%r2], %r1;
end:"
        )
    };
    clean(&leaves("@%p1 exit;"));
    clean(&leaves("@%p1 bra end;"));
    clean(&leaves("@%p1 bra over;"));
}

#[test]
fn a_barrier_in_a_loop_is_skipped_also_if_the_kernel_ends_with_another_loop() {
    // As nvcc -G compiles it: each end of the kernel is a conditional branch.
    let body = |limit: &str| {
        format!(
            "mov.u32 %r3, 0;
again:
setp.ge.u32 %p1, %r3, 3;
@%p1 bra behind;
mad.lo.u32 %r4, %r3, 64, %r1;
setp.ge.u32 %p1, %r4, {limit};
@%p1 bra over;
bar.sync 0;
over:
add.u32 %r3, %r3, 1;
bra again;
behind:
setp.ne.u32 %p1, %r1, 0;
@%p1 bra end;
mov.u32 %r3, 0;
last:
setp.ge.u32 %p1, %r3, 2;
@%p1 bra end;
st.shared.u32 [%r2], %r3;
add.u32 %r3, %r3, 1;
bra last;
end:"
        )
    };
    let kind = ReportKind::DivergentBarrier;
    found(true, kind, "goes around it", &body("176"));
    clean(&body("192"));
}

#[test]
fn a_loop_that_some_threads_leave_early_skips_its_barrier() {
    let body = |rounds: &str| looped(rounds, "st.shared.u32 [%r2], %r1;");
    let uneven = body(UNEVEN);
    let kind = ReportKind::DivergentBarrier;
    found(true, kind, "goes around it", &uneven);
    clean(&body("mov.u32 %r4, 3;"));
    // Skipped in some rounds only, by the warps in turn.
    let alternating = "mov.u32 %r3, 0;
again:
shr.u32 %r4, %r1, 5;
and.b32 %r4, %r4, %r3;
setp.eq.u32 %p1, %r4, 1;
@%p1 bra over;
bar.sync 0;
over:
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, 4;
@%p1 bra again;
st.shared.u32 [%r2], %r1;";
    found(true, kind, "goes around it", alternating);
}

#[test]
fn v02_lanes_outside_of_their_own_member_mask_are_found() {
    for (operation, name) in [
        ("bar.warp.sync 0xffff", "bar.warp.sync"),
        ("shfl.sync.idx.b32 %r3, %r1, 0, 31, 0xffff", "shfl.sync"),
        ("vote.sync.any.pred %p2, %p1, 0xffff", "vote.sync"),
        ("match.any.sync.b32 %r3, %r1, 0xffff", "match.sync"),
    ] {
        let text = format!("`{name}` by a thread that its member mask 0x0000ffff does not name");
        found(
            false,
            ReportKind::SyncOperands,
            &text,
            &format!("{operation};"),
        );
        let named = "and.b32 %r3, %r1, 16;\nsetp.eq.u32 %p1, %r3, 0;";
        clean(&format!("{named}\n@%p1 {operation};"));
    }
    // The named lanes may have exited.
    clean("setp.lt.u32 %p1, %r1, 16;\n@!%p1 exit;\nbar.warp.sync -1;");
}

#[test]
fn all_threads_of_a_warp_execute_an_instruction_on_matrices() {
    const TRANSPOSE: &str = "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1;";
    const LOAD: &str = "mov.u32 %r3, words;\n\
                        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];";
    for (instruction, name) in [(TRANSPOSE, "movmatrix.sync"), (LOAD, "ldmatrix.sync")] {
        clean(instruction);
        // Threads that have diverged meet there.
        clean(&(divided(16, "mov.u32 %r2, 1", "mov.u32 %r2, 2") + "\n" + instruction));
        let text = format!("`{name}` by 24 of a warp's 32 threads: it needs all of them");
        let body = format!("setp.ge.u32 %p1, %r1, 56;\n@%p1 exit;\n{instruction}");
        found(false, ReportKind::SyncOperands, &text, &body);
        // The threads whose guard is false end.
        let guarded = instruction
            .replace("movm", "@!%p1 movm")
            .replace("ldm", "@!%p1 ldm");
        let body = format!("setp.ge.u32 %p1, %r1, 56;\n{guarded}");
        found(false, ReportKind::SyncOperands, &text, &body);
    }
}

#[test]
fn rows_of_matrices_are_ordered_by_a_barrier_and_by_nothing_else() {
    let load = "and.b32 %r3, %r1, 31;\nshl.b32 %r3, %r3, 4;\nmov.u32 %r4, words;\n\
                add.u32 %r3, %r3, %r4;\nand.b32 %r3, %r3, 0xf0;\n\
                ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r3, %r4}, [%r3];";
    for barrier in ["", "bar.warp.sync -1;", "bar.sync 0;"] {
        let body = format!("st.shared.u32 [%r2], %r1;\n{barrier}\n{load}");
        let found = reports(&body);
        // Rows of both warps are read by either.
        let right = barrier == "bar.sync 0;";
        assert_eq!(found.is_empty(), right, "{barrier}: {found:#?}");
        let is_race = |report: &Report| report.kind == ReportKind::SharedMemoryRace;
        assert!(found.iter().all(is_race), "{found:#?}");
    }
    let first_warp = "setp.ge.u32 %p1, %r1, 32;\n@%p1 exit;\n";
    let own = load.replace("0xf0", "0x70");
    let body = |barrier| format!("{first_warp}st.shared.u32 [%r2], %r1;\n{barrier}\n{own}");
    assert_eq!(reports(&body("")).len(), 1);
    clean(&body("bar.warp.sync -1;"));
    // The lanes behind the sixteenth access nothing.
    let wild = own.replace(
        "ldm",
        "setp.gt.u32 %p2, %r1, 15;\n@%p2 mov.u32 %r3, -1;\nldm",
    );
    clean(&body("bar.warp.sync -1;").replace(&own, &wild));
}

#[test]
fn threads_that_meet_at_a_barrier_agree_on_count_and_operation() {
    for (one, other, text) in [
        (
            "bar.arrive 1, 96",
            "bar.sync 1, 64",
            "barrier 1 for 64 threads and for 96 threads",
        ),
        (
            "bar.sync 1",
            "bar.sync 1, 32",
            "barrier 1 for 32 threads and for the whole block",
        ),
        (
            "bar.red.popc.u32 %r3, 1, 64, %p1",
            "bar.sync 1, 64",
            "`bar.sync` and `bar.red.popc` on barrier 1",
        ),
        (
            "barrier.red.and.pred %p2, 1, %p1",
            "barrier.red.or.pred %p2, 1, %p1",
            "`barrier.red.or` and `barrier.red.and` on barrier 1",
        ),
    ] {
        found(
            false,
            ReportKind::SyncOperands,
            text,
            &divided(32, one, other),
        );
    }
    clean(&divided(32, "bar.sync 1", "bar.sync 1, 64"));
    let red = "bar.red.popc.u32 %r3, 1, 64, %p1";
    clean(&divided(32, red, red));
}

#[test]
fn a_warp_waits_before_it_arrives_again() {
    let text = "arrival at barrier 1, which has not completed since the last one";
    let body = "bar.arrive 1, 128;\nbar.sync 1, 128;";
    found(false, ReportKind::SyncOperands, text, body);
    // The other warp completes the barrier between the two arrivals.
    clean(&divided(
        32,
        "bar.arrive 1, 64;\nbar.sync 2, 64;\nbar.sync 1, 64",
        "bar.sync 1, 64;\nbar.sync 2, 64;\nbar.sync 1, 64",
    ));
}

#[test]
fn a_warp_with_exited_lanes_counts_as_a_whole() {
    for barrier in ["barrier.sync 1, 64", "bar.sync 1, 64"] {
        // The lanes exit before the barrier, or behind it by the order of the program.
        clean(&format!(
            "setp.ge.u32 %p1, %r1, 48;\n@%p1 exit;\n{barrier};"
        ));
        clean(&skipped(48, "").replace("bar.sync 0", barrier));
    }
}
