//! Barrier objects (`mbarrier`) in shared memory: the order that they give the race check, and the
//! faults for their misuse. `oracle/compiled.txt` has kernels of `cuda::barrier` and
//! `cuda::pipeline`.

use millstream_sim::exec::{
    KernelFault, KernelFaultKind, KernelRace, Launch, MissingOrder, run, run_checked,
};
use millstream_sim::ptx;

use crate::kernels::memory::{DeviceMemory, Value, params};

/// Returns the text of a kernel `k` with the given body for two threads of different warps and one
/// pointer parameter in `%rd1`. `%p1` is true in the second thread, and `%r1` is the thread's
/// index.
fn source(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 p) {{\n\
         .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;\n\
         .shared .align 8 .b64 bar; .shared .align 8 .b8 data[64];\n\
         ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32;\n{body}\nret; }}"
    )
}

/// Runs the body with two warps, and returns the races that are found.
fn races(body: &str) -> Vec<KernelRace> {
    let module = ptx::parse(&source(body)).unwrap();
    let kernel = module.kernel("k").unwrap();
    let mut memory = DeviceMemory::default();
    let params = params(kernel, &[memory.put(&[0u32; 64]).bytes()]);
    let launch = Launch {
        params: &params,
        ..Launch::new([1; 3], [64, 1, 1])
    };
    let (ran, races) = run_checked(kernel, &launch, &memory);
    ran.unwrap();
    races
}

/// Returns the races if the first thread of the second warp reads a value that the first thread of
/// the first warp has written, with `arrive` and `wait` between.
fn handed_over(prelude: &str, arrive: &str, wait: &str) -> Vec<KernelRace> {
    races(&format!(
        "and.b32 %r2, %r1, 31; setp.ne.u32 %p2, %r2, 0; setp.ne.u32 %p3, %r1, 0;
         @!%p3 mbarrier.init.shared.b64 [bar], 1;
         {prelude}
         @%p2 bra END;
         @%p1 bra WAIT;
         st.shared.u32 [data], 7;
         {arrive}
         bra END;
         WAIT: {wait}
         @!%p4 bra WAIT;
         ld.shared.u32 %r3, [data];
         st.global.u32 [%rd1], %r3;
         END:"
    ))
}

#[test]
fn an_arrival_releases_and_a_wait_that_succeeds_acquires() {
    let arrivals = [
        "mbarrier.arrive.shared.b64 %rd2, [bar];",
        "mbarrier.arrive.release.cta.shared::cta.b64 _, [bar];",
        "mbarrier.arrive_drop.shared.b64 _, [bar];",
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; \
         mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;",
    ];
    let waits = [
        "mbarrier.test_wait.parity.shared.b64 %p4, [bar], 0;",
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p4, [bar], 0, 1000;",
    ];
    for arrive in arrivals {
        for wait in waits {
            assert_eq!(
                handed_over("bar.sync 0;", arrive, wait),
                [],
                "{arrive} {wait}"
            );
        }
    }
}

#[test]
fn relaxed_operations_order_nothing() {
    let (arrive, wait) = (
        "mbarrier.arrive.shared.b64 _, [bar];",
        "mbarrier.test_wait.parity.shared.b64 %p4, [bar], 0;",
    );
    let relaxed = [
        (
            "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];",
            wait,
        ),
        (
            arrive,
            "mbarrier.test_wait.parity.relaxed.cta.shared::cta.b64 %p4, [bar], 0;",
        ),
    ];
    for (arrive, wait) in relaxed {
        let found = handed_over("bar.sync 0;", arrive, wait);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].missing, MissingOrder::Block);
        assert!(matches!(found[0].ranges.as_slice(), [range] if *range == (0..4)));
    }
}

#[test]
fn an_object_is_not_used_before_it_is_made() {
    // The simulator runs the warps in turn, so that the object is initialised in time; the program
    // does not order the initialisation before the use.
    let found = handed_over(
        "",
        "mbarrier.arrive.shared.b64 _, [bar];",
        "mbarrier.test_wait.parity.shared.b64 %p4, [bar], 0;",
    );
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].earlier.write && !found[0].earlier.atomic && found[0].later.atomic,
        "{found:#?}"
    );
}

#[test]
fn the_phase_before_the_first_has_completed_and_orders_nothing() {
    let found = handed_over(
        "bar.sync 0;",
        "mbarrier.arrive.shared.b64 _, [bar];",
        "mbarrier.try_wait.parity.shared.b64 %p4, [bar], 1;",
    );
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].missing, MissingOrder::Block);
}

/// Returns the fault of a single thread that runs the body.
fn fault(body: &str) -> KernelFault {
    let module = ptx::parse(&source(body)).unwrap();
    let kernel = module.kernel("k").unwrap();
    let mut memory = DeviceMemory::default();
    let params = params(kernel, &[memory.put(&[0u32; 64]).bytes()]);
    let launch = Launch {
        params: &params,
        ..Launch::new([1; 3], [1; 3])
    };
    run(kernel, &launch, &memory).unwrap_err()
}

#[test]
fn misuse_is_a_fault_that_says_what_is_wrong() {
    let init = "mbarrier.init.shared.b64 [bar], 2;";
    for line in include_str!("misuse.txt").lines() {
        let [body, operation, problem] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let body = body.replace("INIT", init);
        let found = fault(&body);
        let KernelFaultKind::InvalidBarrierObject {
            operation: at,
            problem: why,
            ..
        } = &found.kind
        else {
            panic!("{body}: {found}");
        };
        assert!(
            (*at, found.ptx_line) == (operation, 8) && why.contains(problem),
            "{body}: {found}"
        );
    }
    let found = fault("mbarrier.init.shared.b64 [data+4], 1;");
    assert!(
        matches!(found.kind, KernelFaultKind::Misaligned { .. }),
        "{found}"
    );
    let found = fault("mbarrier.init.shared.b64 [data+64], 1;");
    assert!(
        matches!(found.kind, KernelFaultKind::SharedOutOfBounds { .. }),
        "{found}"
    );
}
