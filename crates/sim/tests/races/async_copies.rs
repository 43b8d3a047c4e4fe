//! Races of `cp.async` copies with other accesses.

use millstream_sim::Report;

use crate::races::prelude::*;

/// Runs the body in two blocks of 64 threads, and returns the kinds of the reports. Thread `%r1` of
/// a block has a word of shared memory at `%r4`, its neighbour's at `%r5`, and a word of global
/// memory at `%rd4`, of which each block has others.
fn found(body: &str) -> Vec<ReportKind> {
    reports(body).iter().map(|report| report.kind).collect()
}

fn reports(body: &str) -> Vec<Report> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry k(.param .u64 k_0)
{{
.reg .pred %p<3>;
.reg .b32 %r<9>;
.reg .b64 %rd<6>;
.shared .align 4 .b8 tile[512];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [k_0];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r3, %r2, 64, %r1;
mul.wide.u32 %rd3, %r3, 4;
add.s64 %rd4, %rd1, %rd3;
mov.u32 %r6, tile;
shl.b32 %r7, %r1, 2;
add.s32 %r4, %r6, %r7;
xor.b32 %r7, %r7, 128;
add.s32 %r5, %r6, %r7;
{body}
ret;
}}"
    );
    let sim = SimHarness::new(SimConfig::parse("sim:race=kernels").unwrap());
    let (stream, array) = (sim.stream(), zeros(&sim, 1024));
    sim.launch(
        sim.kernel(&text, "k"),
        (2, 64),
        stream,
        &[Arg::Pointer(array)],
    )
    .unwrap();
    sim.stream_synchronize(stream).unwrap();
    sim.gpu.reports()
}

const COPY: &str = "cp.async.ca.shared.global [%r4], [%rd4], 4;";
const WAIT: &str = "cp.async.wait_all;";
const BARRIER: &str = "bar.sync 0;";
const COMMIT: &str = "cp.async.commit_group;";
const READ: &str = "ld.shared.u32 %r8, [%r5];";

#[test]
fn a_copy_is_read_behind_its_wait_and_a_barrier() {
    assert_eq!(found(&[COPY, WAIT, "bar.sync 0;", READ].concat()), []);
    let racy = [ReportKind::SharedMemoryRace];
    assert_eq!(found(&[COPY, WAIT, READ].concat()), racy);
    assert_eq!(found(&[COPY, "bar.sync 0;", READ, WAIT].concat()), racy);
}

#[test]
fn a_target_is_copied_to_behind_its_last_reads() {
    let again = [COPY, WAIT].concat();
    let first = [COPY, WAIT, "bar.sync 0;", READ].concat();
    assert_eq!(found(&[&*first, "bar.sync 0;", &again].concat()), []);
    assert_eq!(
        found(&[&*first, &again].concat()),
        [ReportKind::SharedMemoryRace]
    );
}

#[test]
fn the_source_of_a_copy_is_read() {
    let write = "setp.eq.u32 %p1, %r3, 64;\n@%p1 st.global.u32 [%rd1+8], %r3;";
    assert_eq!(
        found(&[COPY, WAIT, write].concat()),
        [ReportKind::GlobalMemoryRace]
    );
    assert_eq!(
        found(&[COPY, WAIT, &write.replace("+8", "+768")].concat()),
        []
    );
}

#[test]
fn m05_a_group_that_is_never_waited_for_or_one_too_few_is_found_behind_a_barrier() {
    let racy = [ReportKind::SharedMemoryRace];
    let never = reports(&[COPY, BARRIER, READ].join("\n"));
    assert_eq!(never.len(), 1, "{never:#?}");
    assert!(
        never[0].text.contains("has not waited for it"),
        "{never:#?}"
    );
    for line in ["line 22 of the PTX writes", "line 24 of the PTX reads"] {
        assert!(never[0].text.contains(line), "{never:#?}");
    }
    let groups = |but: u32| format!("{COPY} {COMMIT} cp.async.wait_group {but}; {BARRIER} {READ}");
    assert_eq!(found(&groups(1)), racy);
    assert_eq!(found(&groups(0)), []);
    // Of two groups, the second is in flight.
    let second = COPY.replace("%r4", "%r4+256").replace("%rd4+256", "%rd4");
    let two = format!("{COPY} {COMMIT} {second} {COMMIT} cp.async.wait_group 1; {BARRIER}");
    assert_eq!(found(&format!("{two} {READ}")), []);
    assert_eq!(
        found(&format!("{two} {}", READ.replace("%r5", "%r5+256"))),
        racy
    );
    // The wait of another thread completes nothing.
    let half = "setp.lt.u32 %p1, %r1, 32;\n@%p1 ";
    assert_eq!(found(&[COPY, half, WAIT, BARRIER, READ].concat()), racy);
}

#[test]
fn the_copying_thread_waits_before_it_uses_the_target() {
    let own = "ld.shared.u32 %r8, [%r4];";
    let write = "st.shared.u32 [%r4], %r1;";
    let again = "cp.async.ca.shared.global [%r4], [%rd4+512], 4;";
    let filled = format!("st.global.u32 [%rd4], %r4; {COPY}");
    for then in [own, write, again] {
        let racy = [ReportKind::SharedMemoryRace];
        assert_eq!(found(&[&*filled, then, WAIT].concat()), racy, "{then}");
        assert_eq!(found(&[&*filled, WAIT, then].concat()), [], "{then}");
    }
}

#[test]
fn a_source_is_overwritten_behind_the_wait() {
    let racy = [ReportKind::GlobalMemoryRace];
    let own = "st.global.u32 [%rd4], %r1;";
    assert_eq!(found(&[COPY, own, WAIT].concat()), racy);
    assert_eq!(found(&[COPY, WAIT, own].concat()), []);
    let other = "xor.b64 %rd4, %rd4, 128; st.global.u32 [%rd4], %r1;";
    for (body, expected) in [
        ([COPY, BARRIER, other, WAIT], &racy[..]),
        ([COPY, BARRIER, other, ""], &racy),
        ([COPY, WAIT, BARRIER, other], &[]),
    ] {
        assert_eq!(found(&body.concat()), expected);
    }
}

#[test]
fn copies_that_a_barrier_object_tracks_are_read_behind_its_phase() {
    let init = "setp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0;";
    let track = "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];";
    let wait = "\nagain:\nmbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra again;";
    let racy = [ReportKind::SharedMemoryRace];
    assert_eq!(found(&[init, COPY, track, wait, READ].concat()), []);
    assert_eq!(found(&[init, COPY, track, BARRIER, READ].concat()), racy);
    // The object does not track a copy that follows.
    assert_eq!(found(&[init, track, COPY, wait, READ].concat()), racy);
}
