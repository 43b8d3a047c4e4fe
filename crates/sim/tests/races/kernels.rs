//! Kernels of wrong programs, and findings that depend on the kernels' actual accesses.

use millstream_driver::{DevicePtr, StreamHandle};

use crate::races::{
    expect::{clean, expect},
    sim_harness::{Arg, SimHarness},
};

/// Kernels of 64 threads: `read(from, to)` copies a word, `write(to)` stores one, `add(to)` adds 1
/// to the first word atomically, `halves(to)` stores one in every other word, the threads of an
/// even index read their words in `even(from)`, and `at(address)` reads the word at one address.
pub(crate) const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry read(.param .u64 read_0, .param .u64 read_1)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [read_0];
    ld.param.u64 %rd2, [read_1];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.u32 %r2, [%rd4];
    st.global.u32 [%rd5], %r2;
    ret;
}
.visible .entry write(.param .u64 write_0)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [write_0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
.visible .entry add(.param .u64 add_0)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [add_0];
    mov.u32 %r1, 1;
    atom.global.add.u32 %r2, [%rd1], %r1;
    ret;
}
.visible .entry halves(.param .u64 halves_0)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [halves_0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 8;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
.visible .entry even(.param .u64 even_0)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [even_0];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %p1, %r2, 0;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    @%p1 ld.global.u32 %r3, [%rd3];
    ret;
}
.visible .entry at(.param .u64 at_0)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [at_0];
    ld.global.u32 %r1, [%rd1];
    ret;
}
";

/// The bytes that a kernel of 64 threads accesses.
pub(crate) const BYTES: usize = 256;

/// Launches a kernel with pointer arguments.
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

#[test]
fn a_kernel_races_with_what_its_instructions_touch_and_no_more() {
    expect("kernels", |sim| {
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
    });
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

#[test]
fn a_misaligned_access_is_found() {
    expect("misaligned", |sim| {
        let stream = sim.stream();
        let memory = zeros(sim, BYTES);
        launch(sim, "at", stream, &[memory.offset(2)]);
    });
}
