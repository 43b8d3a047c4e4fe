//! Kernel faults: each is reported with its thread, its line and its cause.

use millstream_sim::exec::{KernelFault, KernelFaultKind, Launch, run};
use millstream_sim::ptx;

use crate::kernels::memory::{DeviceMemory, Value, launch, load, params};

/// Runs a kernel `k` with the given body and one pointer parameter, whose address is in `%rd1`.
fn run_body(
    body: &str,
    block: u32,
    memory: &DeviceMemory,
    pointer: u64,
) -> Result<(), KernelFault> {
    let source = format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .entry k(.param .u64 p) {{\n\
         .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .shared .align 8 .b8 s[64];\n\
         ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;\n{body}\nret; }}"
    );
    let module = ptx::parse(&source).unwrap();
    let kernel = module.kernel("k").unwrap();
    let params = params(kernel, &[pointer.bytes()]);
    let launch = Launch {
        params: &params,
        step_limit: 100_000,
        ..Launch::new([2, 1, 1], [block, 1, 1])
    };
    run(kernel, &launch, memory).map(|_| ())
}

fn kind_of(body: &str, block: u32) -> KernelFaultKind {
    let mut memory = DeviceMemory::default();
    let pointer = memory.put(&[0u32; 32]);
    let fault = run_body(body, block, &memory, pointer).unwrap_err();
    assert_eq!(&*fault.kernel, "k");
    assert_eq!(fault.block, [0, 0, 0]);
    fault.kind
}

#[test]
fn out_of_bounds_names_thread_and_line() {
    let module = load("saxpy");
    let mut memory = DeviceMemory::default();
    let (dx, dy) = (memory.put(&[1f32; 100]), memory.put(&[1f32; 90]));
    let values = [100u32.bytes(), 1f32.bytes(), dx.bytes(), dy.bytes()];
    let fault = launch(&module, "saxpy", [2, 1, 1], [64, 1, 1], &memory, &values).unwrap_err();
    assert_eq!(
        fault.kind,
        KernelFaultKind::OutOfBounds {
            address: dy + 360,
            bytes: 4,
            write: false
        }
    );
    assert_eq!(
        (fault.block, fault.thread, fault.ptx_line),
        ([1, 0, 0], [26, 0, 0], 45)
    );
    let text = fault.to_string();
    assert!(
        text.starts_with(
            "kernel `saxpy` failed at line 45 in block (1, 0, 0), thread (26, 0, 0): read of 4 \
             bytes at 0x"
        ),
        "{text}"
    );
}

#[test]
fn each_fault_says_its_cause() {
    for line in include_str!("faults.txt").lines() {
        let [body, threads, cause] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let threads = threads.parse().unwrap();
        let found = kind_of(body, threads).to_string();
        assert!(found.starts_with(cause), "{body}: {found}");
    }
}

#[test]
fn read_only_memory_is_not_written() {
    let mut memory = DeviceMemory::default();
    let pointer = memory.put(&[0u32; 32]);
    memory.protect(pointer);
    for body in [
        "st.global.u32 [%rd1+8], %r1;",
        "red.global.add.u32 [%rd1+8], %r1;",
    ] {
        let address = pointer + 8;
        let fault = run_body(body, 1, &memory, pointer).unwrap_err();
        assert_eq!(fault.kind, KernelFaultKind::ReadOnly { address });
    }
}

#[test]
fn the_step_limit_is_for_each_block_and_not_for_the_whole_grid() {
    let body =
        |count| format!("L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, {count}; @%p1 bra L;");
    for (count, ordered) in [
        (25_000, ""),
        (25_000, "atom.global.add.u32 %r2, [%rd1], 1;"),
    ] {
        let mut memory = DeviceMemory::default();
        let pointer = memory.put(&[0u32; 32]);
        let source = format!("{ordered}{}", body(count));
        assert_eq!(run_body(&source, 1, &memory, pointer), Ok(()), "{source}");
        let source = format!("{ordered}{}", body(40_000));
        let fault = run_body(&source, 1, &memory, pointer).unwrap_err();
        assert_eq!(fault.kind, KernelFaultKind::StepLimit { limit: 100_000 });
        assert_eq!((fault.block, fault.ptx_line), ([0; 3], 7));
    }
}

#[test]
fn calls_count_towards_the_step_limit() {
    // It calls itself 2^40 times, without a backward branch.
    let source = ".version 8.0\n.target sm_75\n.address_size 64\n\
        .func f(.param .b32 n) { .reg .pred %p; .reg .b32 %r; .param .b32 a; ld.param.b32 %r, [n]; \
        setp.eq.u32 %p, %r, 0; @%p ret; sub.u32 %r, %r, 1; st.param.b32 [a], %r; call f, (a); \
        call f, (a); ret; }\n.visible .entry k() { .reg .b32 %r; .param .b32 a; mov.u32 %r, 40; \
        st.param.b32 [a], %r; call f, (a); ret; }";
    let module = ptx::parse(source).unwrap();
    let launch = Launch {
        step_limit: 100_000,
        ..Launch::new([1; 3], [1; 3])
    };
    let memory = DeviceMemory::default();
    let fault = run(module.kernel("k").unwrap(), &launch, &memory).unwrap_err();
    assert_eq!(fault.kind, KernelFaultKind::StepLimit { limit: 100_000 });
}

/// Returns the text of the deadlock of a kernel with the given body, with the lines of the PTX
/// counted from that of the body.
fn deadlock_of(body: &str, threads: u32) -> String {
    let kind = kind_of(body, threads);
    assert!(
        matches!(kind, KernelFaultKind::BarrierDeadlock { .. }),
        "{kind}"
    );
    kind.to_string()
}

#[test]
fn lanes_that_wait_at_two_instructions_on_matrices_are_a_deadlock() {
    let transpose = "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1;";
    let text = deadlock_of(
        &format!("setp.lt.u32 %p1, %r1, 16; @%p1 bra A; {transpose} bra B; A: {transpose} B:"),
        32,
    );
    assert!(
        text.starts_with("waits at `movmatrix.sync` for threads that will never arrive"),
        "{text}"
    );
}

#[test]
fn barriers_that_can_never_complete_name_the_lines_of_all_waiting_threads() {
    // Half of the threads wait at another barrier.
    let split = "setp.lt.u32 %p1, %r1, 32; @%p1 bra A;\nbar.sync 1; bra B; A:\nbar.sync 2; B:";
    assert_eq!(
        deadlock_of(split, 64),
        "waits at `bar.sync` for threads that will never arrive; waiting: 32 threads, the first \
         (32, 0, 0), at `bar.sync 1` in line 8 of the PTX for 32 threads, the first (0, 0, 0); 32 \
         threads, the first (0, 0, 0), at `bar.sync 2` in line 9 of the PTX for 32 threads, the \
         first (32, 0, 0)"
    );
    // The barrier expects more threads than the block has.
    let text = deadlock_of("bar.sync 0, 128;", 64);
    assert!(
        text.contains("waiting: 64 threads, the first (0, 0, 0), at `bar.sync 0` in line 7"),
        "{text}"
    );
    assert!(text.ends_with("for 64 more of 128 threads"), "{text}");
    // Threads that have exited are not counted.
    let half = "setp.lt.u32 %p1, %r1, 32; @%p1 exit; bar.sync 1, 64;";
    let text = deadlock_of(half, 64);
    let exited = "for 32 more of 64 threads; 32 threads, the first (0, 0, 0), exited in line 7";
    assert!(text.contains(exited), "{text}");
    // The other half of the warp waits at the block's barrier.
    let half = "setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.warp.sync -1; bra B; A: bar.sync 0; B:";
    let text = deadlock_of(half, 32);
    for group in [
        "(16, 0, 0), at `bar.warp.sync 0xffffffff` in line 7 of the PTX for 16 threads, the first",
        "(0, 0, 0), at `bar.sync 0`",
    ] {
        assert!(
            text.contains(&format!("16 threads, the first {group}")),
            "{text}"
        );
    }
    // A warp-wide operation that half of the warp never reaches. The other warp is not stuck.
    let half = "setp.eq.u32 %p1, %r1, 3; @%p1 bra A; vote.sync.ballot.b32 %r2, %p1, -1; bra B; \
                A: vote.sync.ballot.b32 %r2, %p1, -1; B:";
    let text = deadlock_of(half, 64);
    assert!(
        text.contains("waiting: 31 threads, the first (0, 0, 0), at `vote.sync 0xffffffff`"),
        "{text}"
    );
    assert!(
        text.contains("in line 7 of the PTX for thread (3, 0, 0);"),
        "{text}"
    );
}

#[test]
fn lanes_with_other_member_masks_are_waited_for() {
    // Lane 0 names fewer lanes than the two that name it.
    let masks = "setp.eq.u32 %p1, %r1, 0; selp.b32 %r2, 3, 7, %p1; setp.lt.u32 %p2, %r1, 3;";
    let text = deadlock_of(&format!("{masks} @%p2 bar.warp.sync %r2;"), 32);
    assert!(
        text.ends_with("`bar.warp.sync 0x00000003` in line 7 of the PTX with other member masks")
    );
    let branches = "@!%p2 bra B; @!%p1 bra A;\nbar.warp.sync %r2; bra B; A:\nbar.warp.sync 7; B:";
    let text = deadlock_of(&format!("{masks} {branches}"), 32);
    let first = "thread (0, 0, 0) at `bar.warp.sync 0x00000003` in line 8 of the PTX for thread (1";
    assert!(text.contains(first), "{text}");
}

#[test]
fn exited_threads_are_not_waited_for() {
    let mut memory = DeviceMemory::default();
    let pointer = memory.put(&[0u32; 32]);
    let early = "setp.lt.u32 %p1, %r1, 40; @%p1 bra A; ret; A: bar.sync 0; vote.sync.ballot.b32 \
    %r2, %p1, -1; \
                 setp.eq.u32 %p2, %r1, 32; @%p2 st.global.u32 [%rd1], %r2;";
    run_body(early, 100, &memory, pointer).unwrap();
    assert_eq!(memory.get::<u32>(pointer)[0], 0xff);
}

#[test]
fn launches_that_do_not_fit() {
    let module = load("saxpy");
    let kernel = module.kernel("saxpy").unwrap();
    let memory = DeviceMemory::default();
    let params = [0; 24];
    let with_params = |grid, block| Launch {
        params: &params,
        ..Launch::new(grid, block)
    };
    for launch in [
        Launch::new([1, 1, 1], [32, 1, 1]),
        with_params([0, 1, 1], [32, 1, 1]),
        with_params([1, 1, 1], [32, 33, 1]),
        with_params([1, 70_000, 1], [1, 1, 1]),
        Launch {
            dynamic_shared_bytes: 300_000,
            ..with_params([1, 1, 1], [1, 1, 1])
        },
    ] {
        let fault = run(kernel, &launch, &memory).unwrap_err();
        assert!(
            matches!(fault.kind, KernelFaultKind::InvalidLaunch(_)),
            "{fault}"
        );
    }
}
