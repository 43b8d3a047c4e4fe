//! Races of `cp.async` copies with other accesses.

use crate::races::prelude::*;

/// Runs the body in two blocks of 64 threads, and returns the kinds of the reports. Thread `%r1` of
/// a block has a word of shared memory at `%r4`, its neighbour's at `%r5`, and a word of global
/// memory at `%rd4`, of which each block has others.
fn found(body: &str) -> Vec<ReportKind> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry k(.param .u64 k_0)
{{
.reg .pred %p<3>;
.reg .b32 %r<9>;
.reg .b64 %rd<6>;
.shared .align 4 .b8 tile[256];
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
    let reports = sim.gpu.reports();
    reports.iter().map(|report| report.kind).collect()
}

const COPY: &str = "cp.async.ca.shared.global [%r4], [%rd4], 4;";
const WAIT: &str = "cp.async.wait_all;";
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
