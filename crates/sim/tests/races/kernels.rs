//! Kernels of wrong programs, and findings that depend on the kernels' actual accesses.

use millstream_sim::{Gpu, VirtualMemoryCall};

use crate::races::prelude::*;

/// Kernels of 64 threads: `read(from, to)` copies a word, `write(to)` stores one, `add(to)` adds 1
/// to the first word atomically, `halves(to)` stores one in every other word, the threads of an
/// even index read their words in `even(from)`, `at(address)` reads the word at one address, and
/// the blocks of `dealt(to)` store bytes in turn.
pub(crate) const PTX: &str = include_str!("kernels.ptx");

/// The bytes that a kernel of 64 threads accesses.
pub(crate) const BYTES: usize = 256;

pub(crate) fn launch(sim: &SimHarness, name: &str, stream: StreamHandle, args: &[DevicePtr]) {
    let kernel = sim.kernel(PTX, name);
    let args: Vec<_> = args.iter().map(|pointer| Arg::Pointer(*pointer)).collect();
    sim.launch(kernel, (1, 64), stream, &args).unwrap();
}

/// Creates a zeroed array that all streams may use.
pub(crate) fn zeros(sim: &SimHarness, bytes: usize) -> DevicePtr {
    let memory = sim.mem_alloc(bytes).unwrap();
    let stream = sim.stream();
    sim.fill(memory, 0, bytes, stream);
    sim.stream_synchronize(stream).unwrap();
    memory
}

#[run_by(expect("kernels"), |sim|)]
fn a_kernel_races_with_what_its_instructions_touch_and_no_more() {
    let (one, other) = (sim.stream(), sim.stream());
    let (memory, copy) = (zeros(sim, 4 * BYTES), zeros(sim, BYTES));
    launch(sim, "write", one, &[memory.offset(BYTES as u64)]);
    // The second half of the words that the first kernel writes.
    launch(
        sim,
        "read",
        other,
        &[memory.offset(BYTES as u64 * 3 / 2), copy],
    );
    launch(sim, "write", other, &[memory.offset(BYTES as u64 * 3)]);
}

#[test]
fn every_other_word_is_told_apart_from_its_neighbours() {
    let interleaved = |sim: &SimHarness, shift| {
        let (one, other) = (sim.stream(), sim.stream());
        let memory = zeros(sim, 3 * BYTES);
        launch(sim, "halves", one, &[memory]);
        launch(sim, "halves", other, &[memory.offset(shift)]);
    };
    clean(|sim| interleaved(sim, 4));
    expect("every_other_word", |sim| interleaved(sim, 8));
}

#[test]
fn the_stores_of_blocks_on_several_cores_are_all_recorded() {
    let sim = SimHarness::new(SimConfig::new());
    let (memory, kernel) = (zeros(&sim, 1 << 19), sim.kernel(PTX, "dealt"));
    for stream in [(); 4].map(|()| sim.stream()) {
        let args = [Arg::Pointer(memory)];
        sim.launch(kernel, (512, 1024), stream, &args).unwrap();
    }
    sim.context_synchronize().unwrap();
    for found in sim.gpu.findings().iter().map(ToString::to_string) {
        assert!(found.contains("on bytes 0..524288 of"), "{found}");
    }
}

#[test]
fn lanes_that_take_no_part_touch_nothing() {
    let odd_and_even = |sim: &SimHarness, shift| {
        let (one, other) = (sim.stream(), sim.stream());
        let memory = zeros(sim, 3 * BYTES);
        launch(sim, "halves", one, &[memory.offset(shift)]);
        launch(sim, "even", other, &[memory]);
    };
    clean(|sim| odd_and_even(sim, 4));
    expect("lanes", |sim| odd_and_even(sim, 0));
}

#[test]
fn atomics_of_two_streams_do_not_race_but_plain_accesses_race_with_them() {
    let updates = |sim: &SimHarness| {
        let (one, other) = (sim.stream(), sim.stream());
        let memory = zeros(sim, BYTES);
        launch(sim, "add", one, &[memory]);
        launch(sim, "add", other, &[memory]);
        (memory, other)
    };
    clean(|sim| {
        updates(sim);
    });
    expect("atomics", |sim| {
        let (memory, other) = updates(sim);
        let copy = zeros(sim, BYTES);
        launch(sim, "read", other, &[memory, copy]);
    });
}

#[test]
fn an_access_behind_the_end_is_found() {
    expect("out_of_bounds", |sim| {
        let stream = sim.stream();
        let memory = zeros(sim, BYTES);
        launch(sim, "at", stream, &[memory.offset(BYTES as u64)]);
    });
    clean(|sim| {
        let stream = sim.stream();
        let memory = zeros(sim, BYTES);
        launch(sim, "at", stream, &[memory.offset(BYTES as u64 - 4)]);
    });
}

#[run_by(expect("misaligned"), |sim|)]
fn a_misaligned_access_is_found() {
    let stream = sim.stream();
    let memory = zeros(sim, BYTES);
    launch(sim, "at", stream, &[memory.offset(2)]);
}

/// Creates memory that is mapped at two addresses.
pub(crate) fn mapped_twice(sim: &SimHarness) -> [DevicePtr; 2] {
    let bytes = Gpu::MEMORY_GRANULARITY;
    let call = |call| sim.gpu.virtual_memory("map", call).unwrap();
    let (alignment, device, flags) = (0, 0, 3);
    #[rustfmt::skip]
    let base = call(VirtualMemoryCall::Reserve { bytes: 2 * bytes, alignment });
    let handle = call(VirtualMemoryCall::Create { bytes, device });
    // The higher address is mapped first.
    #[rustfmt::skip]
    let map = |base| {
        call(VirtualMemoryCall::Map { base, bytes, handle });
        call(VirtualMemoryCall::SetAccess { base, bytes, device, flags });
        DevicePtr::from_raw(base)
    };
    [base + bytes, base].map(map)
}

#[test]
fn threads_race_through_two_addresses_of_one_memory() {
    let copy = |sim: &SimHarness, shift| {
        let ([high, low], stream) = (mapped_twice(sim), sim.stream());
        sim.fill(low, 7, 2 * BYTES, stream);
        launch(sim, "read", stream, &[high, low.offset(shift)]);
        assert_eq!(sim.read(high, 2 * BYTES, stream), [7; 2 * BYTES]);
    };
    let config = SimConfig::new()
        .kernel_race_check(true)
        .kernel_race_orders(3);
    clean_with(config.clone(), |sim| copy(sim, 0));
    clean_with(config.clone(), |sim| copy(sim, BYTES as u64));
    expect_with(config, "two_addresses", |sim| copy(sim, 4));
}
