//! Devices that are opened and closed many times: nothing of them stays in memory.

use std::fs;

use crate::scenarios::prelude::*;

/// The number of times that two devices are opened and closed.
const ROUNDS: usize = 10_000;
/// The rounds on one simulated machine, whose own state grows with its objects.
const ROUNDS_OF_A_MACHINE: usize = 100;
/// The growth in bytes that counts as none: the allocator keeps the memory of up to 20 devices that
/// were closing at once.
const GROWTH_MAX: usize = 1 << 21;

fn resident_bytes() -> usize {
    let text = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = text.split_whitespace().nth(1).expect("the second number");
    pages.parse::<usize>().expect("a number of pages") * 4096
}

/// Opens two devices and closes them, in each tenth round after a copy between them.
fn rounds(count: usize) {
    for machine in 0..count / ROUNDS_OF_A_MACHINE {
        let gpu = Gpu::new(SimConfig::new().devices(2));
        for round in 0..ROUNDS_OF_A_MACHINE {
            let [one, other] = [0, 1].map(|at| Device::open_simulated(&gpu, at).unwrap());
            if round % 10 == 0 {
                let (here, there) = (one.stream().unwrap(), other.stream().unwrap());
                let source = here.upload(&[1_u8; 9]).unwrap();
                let mut target = there.zeros::<u8>(9).unwrap();
                // On either stream; the last copy is still pending when the devices are dropped.
                if machine % 2 == 0 { &here } else { &there }
                    .copy(&source, &mut target)
                    .unwrap();
            }
        }
        assert_nothing_left(&gpu);
    }
}

#[test]
#[ignore = "the inner half of devices_opened_ten_thousand_times_leave_no_memory_behind"]
fn inner_open_and_close() {
    rounds(ROUNDS / 5);
    let before = resident_bytes();
    rounds(ROUNDS * 4 / 5);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "grown by {grown} bytes");
    println!("grown by {grown} bytes");
}

#[test]
fn devices_opened_ten_thousand_times_leave_no_memory_behind() {
    // Each further arena of the allocator would keep memory of its own.
    let one_arena = [("MALLOC_ARENA_MAX", "1")];
    let output = in_process("reopening::inner_open_and_close", &one_arena).text();
    assert!(output.contains("grown by"), "{output}");
}
