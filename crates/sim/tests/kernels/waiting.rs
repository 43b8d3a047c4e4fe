//! Threads that wait for others in their warp, block or grid.

use millstream_sim::exec::{KernelStats, Launch, run};
use millstream_sim::ptx;

use crate::kernels::memory::{DeviceMemory, params, values};

/// Runs a kernel `k` with the given body and one pointer parameter, whose address is in `%rd1`;
/// `%r1` is the thread's index and `%r2` the block's.
fn run_body(body: &str, grid: u32, block: u32, memory: &DeviceMemory, pointer: u64) -> KernelStats {
    let source = format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .entry k(.param .u64 p) {{\n\
         .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .shared .align 8 .b8 s[64];\n\
         ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;\n{body}\nret; }}"
    );
    let module = ptx::parse(&source).unwrap();
    let kernel = module.kernel("k").unwrap();
    let params = params(kernel, &values![pointer]);
    run(
        kernel,
        &Launch {
            params: &params,
            step_limit: 1 << 22,
            ..Launch::new([grid, 1, 1], [block, 1, 1])
        },
        memory,
    )
    .unwrap()
}

#[test]
fn blocks_wait_for_later_blocks() {
    let mut memory = DeviceMemory::default();
    let counter = memory.put(&[0u32; 65]);
    // A barrier across the grid: each block increments a counter, and waits until all have.
    let body = "
        mov.u32 %r3, %nctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
        red.global.add.u32 [%rd1], 1;
        WAIT: ld.acquire.gpu.global.u32 %r4, [%rd1]; setp.lt.u32 %p2, %r4, %r3; @%p2 bra WAIT;
        DONE: bar.sync 0; @%p1 bra END;
        ld.global.u32 %r5, [%rd1]; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd2, %rd2, %rd1; \
        st.global.u32 [%rd2+4], %r5;
        END:";
    run_body(body, 64, 64, &memory, counter);
    assert_eq!(memory.get::<u32>(counter), [64; 65]);
}

#[test]
fn blocks_that_write_and_meet_at_barriers_wait_for_later_blocks() {
    let mut memory = DeviceMemory::default();
    let result = memory.put(&[0u32; 2]);
    // Each block but the last takes tickets until the last has run, as one that looks for work.
    let body = "
        setp.eq.u32 %p1, %r2, 3; @%p1 bra SET;
        WAIT: atom.global.add.u32 %r3, [%rd1+4], 1; bar.sync 0;
        ld.relaxed.gpu.global.u32 %r4, [%rd1]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT; bra END;
        SET: mov.u32 %r5, 1; st.relaxed.gpu.global.u32 [%rd1], %r5;
        END:";
    run_body(body, 4, 64, &memory, result);
    assert_eq!(memory.get::<u32>(result)[0], 1);
}

#[test]
fn a_warp_waits_for_a_later_one_through_shared_memory() {
    let mut memory = DeviceMemory::default();
    let result = memory.put(&[0u32; 1]);
    let body = "
        setp.eq.u32 %p1, %r1, 64; @%p1 bra SET; setp.ne.u32 %p2, %r1, 0; @%p2 bra END;
        WAIT: ld.volatile.shared.u32 %r3, [s]; setp.ne.u32 %p3, %r3, 7; @%p3 bra WAIT;
        st.global.u32 [%rd1], %r3; bra END;
        SET: mov.u32 %r4, 7; st.volatile.shared.u32 [s], %r4;
        END:";
    run_body(body, 1, 96, &memory, result);
    assert_eq!(memory.get::<u32>(result), [7]);
}

#[test]
fn a_lane_waits_for_another_one_of_its_warp() {
    let mut memory = DeviceMemory::default();
    let result = memory.put(&[0u32; 2]);
    // The waiting lanes' loop precedes, in program order, the code of the lane that they wait for.
    let body = "
        setp.eq.u32 %p1, %r1, 5; @%p1 bra SET;
        WAIT: nanosleep.u32 20; ld.relaxed.gpu.global.u32 %r3, [%rd1]; setp.eq.u32 %p3, %r3, 0; \
        @%p3 bra WAIT;
        red.global.add.u32 [%rd1+4], 1; bra END;
        SET: mov.u32 %r4, 1; st.release.gpu.global.u32 [%rd1], %r4;
        END: bar.warp.sync -1;";
    run_body(body, 3, 32, &memory, result);
    assert_eq!(memory.get::<u32>(result), [1, 93]);
}

#[test]
fn producers_do_not_wait_at_a_barrier_that_consumers_wait_at() {
    let mut memory = DeviceMemory::default();
    let result = memory.put(&[0u32; 32]);
    // The first warp only arrives; the second waits for both.
    let body = "
        setp.lt.u32 %p1, %r1, 32; @%p1 bra PRODUCE; bar.sync 3, 64;
        sub.u32 %r3, %r1, 32; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd2, %rd2, %rd1;
        ld.shared.u32 %r4, [s]; st.global.u32 [%rd2], %r4; bra END;
        PRODUCE: mov.u32 %r5, 9; st.shared.u32 [s], %r5; bar.arrive 3, 64;
        END:";
    run_body(body, 1, 64, &memory, result);
    assert_eq!(memory.get::<u32>(result), [9; 32]);
}

#[test]
fn blocks_on_all_cores_count_the_same_every_time() {
    let body = "
        mov.u32 %r3, 0; LOOP: add.u32 %r3, %r3, 1; add.u32 %r5, %r2, %r1; and.b32 %r5, %r5, 63; \
        setp.lt.u32 %p1, %r3, %r5; @%p1 bra LOOP;
        red.global.add.u32 [%rd1], %r3;";
    let outcomes: Vec<_> = (0..4)
        .map(|_| {
            let mut memory = DeviceMemory::default();
            let sum = memory.put(&[0u32; 1]);
            (
                run_body(body, 300, 96, &memory, sum),
                memory.get::<u32>(sum),
            )
        })
        .collect();
    let sum = (0..300u32)
        .flat_map(|b| (0..96).map(move |t| ((b + t) & 63).max(1)))
        .sum::<u32>();
    assert_eq!(outcomes[0].1, [sum]);
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
}

#[test]
fn generic_addresses_reach_every_memory() {
    let mut memory = DeviceMemory::default();
    let result = memory.put(&[5u32, 0, 0, 0, 0]);
    let body = "
        .local .align 8 .b8 l[16];
        mov.u64 %rd2, s; cvta.shared.u64 %rd3, %rd2; mov.u64 %rd4, l; cvta.local.u64 %rd5, %rd4;
        mov.u32 %r3, 11; st.u32 [%rd3+4], %r3; mov.u32 %r4, 22; st.u32 [%rd5+8], %r4;
        ld.shared.u32 %r5, [s+4]; ld.local.u32 %r6, [l+8]; ld.u32 %r7, [%rd1];
        atom.add.u32 %r8, [%rd3+4], %r6; ld.shared.u32 %r9, [s+4];
        isspacep.shared %p1, %rd3; isspacep.local %p2, %rd3; isspacep.global %p3, %rd1; \
        isspacep.global %p4, %rd5;
        selp.u32 %r10, 1, 0, %p1; selp.u32 %r11, 2, 0, %p2; selp.u32 %r12, 4, 0, %p3; selp.u32 \
        %r13, 8, 0, %p4;
        add.u32 %r10, %r10, %r11; add.u32 %r10, %r10, %r12; add.u32 %r10, %r10, %r13;
        cvta.to.shared.u64 %rd6, %rd3; cvt.u32.u64 %r14, %rd6; ld.shared.u32 %r15, [%r14+4];
        st.v2.u32 [%rd1+8], {%r9, %r15}; add.u32 %r7, %r7, %r5; st.u32 [%rd1+4], %r7; st.u32 \
        [%rd1+16], %r10;";
    run_body(body, 1, 1, &memory, result);
    assert_eq!(memory.get::<u32>(result), [5, 16, 33, 33, 5]);
}
