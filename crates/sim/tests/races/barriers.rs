//! Barriers that the threads of a block reach at different lines.

use millstream_sim::Report;

use crate::races::prelude::*;

fn config() -> SimConfig {
    SimConfig::parse("sim:race=kernels").unwrap()
}

/// Launches a block of 64 threads that run the body; `%r1` is the thread's number.
fn run(sim: &SimHarness, body: &str) {
    let text = format!(
        ".version 8.0\n.target sm_75\n.address_size 64
.visible .entry k()
{{
.reg .pred %p<3>;
.reg .b32 %r<4>;
mov.u32 %r1, %tid.x;
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
fn a_barrier_in_each_branch_of_a_block_is_found_with_both_lines() {
    let body = divided(32, "bar.sync 0", "bar.sync 0");
    expect_with(config(), "within/barrier_in_each_branch", |sim| {
        run(sim, &body)
    });
    // Without the option barriers are not checked.
    let off = SimHarness::new(SimConfig::new());
    run(&off, &body);
    off.assert_clean();
    // The threads of one branch meet at the barrier behind both.
    clean(&(divided(32, "mov.u32 %r2, 1", "mov.u32 %r2, 2") + "\nbar.sync 0;"));
    // All threads take the same branch.
    clean(&divided(64, "bar.sync 0", "bar.sync 0"));
}

#[test]
fn a_barrier_that_some_threads_reach_once_more_is_found() {
    let loops = |rounds: &str| {
        format!(
            "{rounds}
mov.u32 %r3, 0;
again:
bar.sync 0;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r2;
@%p1 bra again;
bar.sync 0;
bar.sync 0;"
        )
    };
    let found = reports(&loops("shr.u32 %r2, %r1, 5;\nadd.u32 %r2, %r2, 1;"));
    assert!(!found.is_empty());
    clean(&loops("mov.u32 %r2, 3;"));
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
    let found = reports(&divided(
        32,
        "barrier.sync.aligned 0",
        "barrier.sync.aligned 0",
    ));
    assert_eq!(found.len(), 1, "{found:#?}");
}

#[test]
fn threads_that_have_exited_are_not_waited_for() {
    clean("setp.ge.u32 %p1, %r1, 40;\n@%p1 exit;\nbar.sync 0;");
}
