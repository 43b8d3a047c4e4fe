//! Races that show only in some orders of blocks and warps.

use millstream_sim::exec::KernelOrder;

use crate::races::prelude::*;

fn config(options: &str) -> SimConfig {
    SimConfig::parse(&format!("sim:race=kernels{options}")).unwrap()
}

/// Returns a kernel with a lock at `%rd1`, a word at `%rd2` and the index of the block or, with
/// `warps`, of the warp in `%r1`; the first lane of each warp runs the body. `GET` and `PUT` take
/// and release the lock, which is never contended.
fn kernel(warps: bool, body: &str) -> String {
    let actor = match warps {
        true => "shr.u32 %r1, %r3, 5;",
        false => "mov.u32 %r1, %ctaid.x;",
    };
    let atomic = |result| {
        format!("atom.acq_rel.gpu.global.add.u32 {result}, [%rd1], 1;\nst.global.u32 [%rd3], %r2;")
    };
    let body = body.replace("GET", &atomic("%r2"));
    let body = body.replace("PUT", &atomic("%r2"));
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2)
{{
.reg .pred %p<3>;
.reg .b32 %r<6>;
.reg .b64 %rd<5>;
ld.param.u64 %rd1, [k_0];
ld.param.u64 %rd2, [k_1];
ld.param.u64 %rd3, [k_2];
mov.u32 %r3, %tid.x;
{actor}
mul.wide.u32 %rd4, %r1, 4;
add.s64 %rd3, %rd3, %rd4;
and.b32 %r4, %r3, 31;
setp.ne.u32 %p2, %r4, 0;
@%p2 exit;
setp.eq.u32 %p1, %r1, 0;
{body}
ret;
}}"
    )
}

/// The first block or warp writes without the lock, then all take it and the others read.
const WRITES_FIRST: &str = "@%p1 st.global.u32 [%rd2], %r1;\nGET\n@!%p1 ld.global.u32 %r5, [%rd2];";
/// Each critical section is ended before the word is used a last time.
const USES_LATE: &str =
    "GET\n@!%p1 ld.global.u32 %r5, [%rd2];\n@%p1 st.global.u32 [%rd2], %r1;\nPUT";

/// Launches the kernel, and returns the values that the lock had.
fn run(sim: &SimHarness, text: &str, shape: (u32, u32)) -> Vec<u32> {
    let stream = sim.stream();
    let arrays: Vec<DevicePtr> = (0..3).map(|_| zeros(sim, 256)).collect();
    let args: Vec<Arg> = arrays.iter().map(|array| Arg::Pointer(*array)).collect();
    sim.launch(sim.kernel(text, "k"), shape, stream, &args)
        .unwrap();
    sim.stream_synchronize(stream).unwrap();
    let values = Host::pageable(64);
    sim.download_now(values, arrays[2]).unwrap();
    let bytes = values.read();
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| u32::from_le_bytes(*word)).collect()
}

fn found(options: &str, text: &str, shape: (u32, u32)) -> Vec<String> {
    let sim = SimHarness::new(config(options));
    run(&sim, text, shape);
    let reports = sim.gpu.reports();
    assert!(
        reports
            .iter()
            .all(|report| report.severity == Severity::Error)
    );
    reports.into_iter().map(|report| report.text).collect()
}

fn token(text: &str) -> &str {
    let (_, rest) = text.split_once("as here with order=").unwrap();
    rest.split([';', '\n']).next().unwrap()
}

#[test]
fn a_race_that_the_order_of_two_blocks_hides_is_found_with_its_order() {
    let text = kernel(false, WRITES_FIRST);
    expect_with(config(""), "within/order_of_blocks", |sim| {
        run(sim, &text, (2, 32));
    });
    assert_eq!(found(",orders=1", &text, (2, 32)).len(), 0);
    assert_eq!(found(",order=i", &text, (2, 32)).len(), 0);
    assert_eq!(found(",order=p1", &text, (2, 32)).len(), 1);
}

#[test]
fn the_warps_of_a_block_run_in_several_orders() {
    let text = kernel(true, WRITES_FIRST);
    assert_eq!(found(",orders=1", &text, (1, 64)).len(), 0);
    let reports = found("", &text, (1, 64));
    assert_eq!(reports.len(), 1, "{reports:#?}");
    assert!(token(&reports[0]).starts_with('p'));
}

#[test]
fn many_blocks_run_in_seeded_orders_which_a_token_repeats() {
    let text = kernel(false, WRITES_FIRST);
    assert_eq!(found(",orders=1", &text, (9, 32)).len(), 0);
    let reports = found("", &text, (9, 32));
    assert_eq!(reports.len(), 1, "{reports:#?}");
    let token = token(&reports[0]);
    assert!(matches!(token.parse(), Ok(KernelOrder::Seed(_))), "{token}");
    let again = found(&format!(",order={token}"), &text, (9, 32));
    let accesses = |text: &str| text.lines().take(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(accesses(&again[0]), accesses(&reports[0]));
}

#[test]
fn a_block_is_preempted_between_two_atomics() {
    // Each block uses the word between two atomics, so only a preempted block shows the race.
    let text = kernel(false, USES_LATE);
    assert_eq!(found(",order=i", &text, (2, 32)).len(), 0);
    assert_eq!(found(",order=p1", &text, (2, 32)).len(), 0);
    assert_eq!(found(",orders=30", &text, (2, 32)).len(), 1);
}

#[test]
fn other_orders_change_neither_memory_nor_a_right_kernel() {
    let text = kernel(false, "GET");
    clean_with(config(""), |sim| {
        run(sim, &text, (9, 32));
    });
    let sim = SimHarness::new(config(""));
    let tickets = run(&sim, &text, (9, 32));
    assert_eq!(tickets[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

/// A warp that takes the lock before another of a lower index waits at a barrier of its own.
const DIVERGES: &str = "GET
setp.lt.u32 %p1, %r2, %r1;
@%p1 bra other;
bar.sync 0;
bra end;
other:
bar.sync 0;
end:";

#[test]
fn a_barrier_that_is_divergent_only_in_some_orders_is_found_with_one_of_them() {
    let text = kernel(true, DIVERGES);
    assert_eq!(found(",orders=1", &text, (1, 64)).len(), 0);
    let reports = found("", &text, (1, 64));
    assert_eq!(reports.len(), 1, "{reports:#?}");
    assert!(reports[0].contains("divergent barrier"), "{reports:#?}");
    let (_, token) = reports[0].split_once("found as here with order=").unwrap();
    let again = found(&format!(",order={}", token.trim()), &text, (1, 64));
    assert_eq!(again.len(), 1, "{again:#?}");
}
