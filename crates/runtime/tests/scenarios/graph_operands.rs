//! Operands of graphs that are no plain arrays: memory that is lent for a scope, variables of
//! modules, empty arrays, what `swap` demands of an array, and what `update` leaves behind.

#![allow(unsafe_code, reason = "adopts memory and launches kernels")]

use millstream::{Global, Kernel, LaunchArguments, signature};

use crate::scenarios::prelude::*;

const N: usize = 64;

/// Calls `body` with memory of an outsider, lent for the call.
fn lent(harness: &Harness, body: impl FnOnce(&Buffer<u32>)) {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let (theirs, memory) = (outsider.adopt(&harness.device), outsider.allocate(4 * N));
    outsider.fill(memory.pointer, 4 * N, 1);
    let (after, release) = (After::Stream(&theirs), Release::at_end_of_scope());
    // SAFETY: the memory has this length, and is given back below.
    let lent = unsafe {
        harness
            .device
            .adopt_buffer(memory.pointer, N, after, release)
    };
    let lent = lent.unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&lent)));
    lent.return_to_owner(&theirs).unwrap();
    drop(memory);
    outcome.unwrap();
}

#[run_by(everywhere, |harness|)]
fn memory_that_is_lent_for_a_scope_never_becomes_an_operand_of_a_graph() {
    let (device, stream) = (&harness.device, harness.stream());
    let mut target = stream.zeros::<u32>(N).unwrap();
    let source = stream.upload(&[2_u32; N]).unwrap();
    let mut graph = device
        .record("copy", |r| r.stream()?.copy(&source, &mut target))
        .unwrap();
    lent(harness, |lent| {
        let refused = |result: Result<()>, at| {
            let problem = problem(result);
            assert_eq!(problem, UsageErrorKind::LentForScope { operand: at });
        };
        let recorded = device.record("kept", |r| r.stream()?.copy(lent, &mut target));
        refused(recorded.map(drop), 0);
        refused(graph.swap(&source, lent), 1);
        refused(graph.update(|r| r.stream()?.copy(lent, &mut target)), 0);
        let condition = device.record("if", |r| r.if_(lent, |_| Ok(())));
        refused(condition.map(drop), 0);
        let inside = device.record("if", |r| {
            r.if_(&source, |then| then.stream()?.copy(lent, &mut target))
        });
        refused(inside.map(drop), 0);
        // Operations that are enqueued use it; the owner's stream waits for them.
        stream.copy(lent, &mut target).unwrap();
    });
    assert_eq!(stream.values(&target).unwrap(), [0x0101_0101; N]);
    graph.replay(&stream).unwrap();
    assert_eq!(stream.values(&target).unwrap(), [2; N]);
}

/// `sum(none, source, target, number)` writes `source[i] + table[i] + number` to `target[i]` and
/// does not use `none`.
const TABLE: &str = include_str!("table.ptx");

type Sum = Kernel<signature!(&[u32], &[u32], &mut [u32], u64)>;

/// Returns the kernel, and the variable, whose elements are 100.
fn table(harness: &Harness, stream: &Stream) -> Result<(Sum, Global<u32>)> {
    let module = harness.device.module(Ptx::text("table.ptx", TABLE))?;
    let mut variable = module.global::<u32>("table")?;
    stream.fill(&mut variable, 100)?;
    let kernel = module.function("sum")?;
    // Another signature with parameters of the same sizes does not change the first.
    module.function::<signature!(abi = "rust"; &[u32], &mut [u32])>("sum")?;
    Ok((kernel, variable))
}

fn sum<N0, S, T>(kernel: &Sum, stream: &Stream, arguments: (N0, S, T, u64)) -> Result<()>
where
    (N0, S, T, u64): LaunchArguments<signature!(&[u32], &[u32], &mut [u32], u64)>,
{
    // SAFETY: the arrays that the kernel uses have as many elements as there are threads.
    unsafe { kernel.launch(stream, (1, N as u32), arguments) }
}

/// Returns arrays of an outsider within one allocation, each at its offset in bytes.
fn within_one<const M: usize>(harness: &Harness, offsets: [u64; M]) -> Result<[Buffer<u32>; M]> {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let theirs = outsider.adopt(&harness.device);
    let memory = Arc::new(outsider.allocate(8192));
    outsider.fill(memory.pointer, 8192, 0);
    let mut arrays = Vec::new();
    for offset in offsets {
        let pointer = memory.pointer.offset(offset);
        let release = Release::behind(&theirs, Arc::clone(&memory));
        // SAFETY: the memory has this length, and its owner frees it behind the last use.
        let array = unsafe {
            harness
                .device
                .adopt_buffer(pointer, N, After::Stream(&theirs), release)
        };
        arrays.push(array?);
    }
    Ok(arrays.try_into().expect("as many arrays as offsets"))
}

fn assert_refused(result: Result<()>, words: &str) {
    let problem = problem(result).to_string();
    assert!(problem.contains(words), "{problem}");
}

#[run_by(scenario_on, |harness, [stream]|)]
fn a_variable_that_a_kernel_uses_by_name_is_no_operand_that_it_writes_and_cannot_be_swapped()
-> Result<()> {
    let (kernel, mut variable) = table(harness, &stream)?;
    let (_, mut other) = table(harness, &stream)?;
    let (x, mut y) = (stream.upload(&[1_u32; N])?, stream.zeros::<u32>(N)?);
    let refused = problem(sum(&kernel, &stream, (&x, &x, &mut variable, 0)));
    let name = String::from("table");
    assert_eq!(refused, UsageErrorKind::UsedByName { variable: name });
    let mut graph = harness.record("sum", |r| {
        sum(&kernel, &r.stream()?, (&x, &variable, &mut y, 0))
    })?;
    let (by_name, kind) = ("by its name", "a variable of a module");
    assert_refused(graph.swap(&variable, &other), by_name);
    assert_refused(graph.swap(&variable, &x), by_name);
    assert_refused(graph.swap(&x, &variable), by_name);
    assert_refused(graph.swap(&x, &other), kind);
    graph.replay(&stream)?;
    assert_eq!(stream.values(&y)?, [200; N]);
    // One that is an operand alone can be exchanged for another.
    let copy = |r: &GraphRecorder| r.stream()?.copy(&variable, &mut y);
    let mut graph = harness.record("copy", copy)?;
    stream.fill(&mut other, 3)?;
    graph.swap(&variable, &other)?;
    graph.replay(&stream)?;
    assert_eq!(stream.values(&y)?, [3; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn parameters_of_a_recorded_kernel_are_known_by_position_and_not_by_address() -> Result<()> {
    let (kernel, _) = table(harness, &stream)?;
    let [before, mut source] = within_one(harness, [0, 4 * N as u64])?;
    stream.fill(&mut source, 1)?;
    let (mut target, number) = (stream.zeros::<u32>(N)?, source.as_raw().as_raw());
    let mut graph = harness.record("sum", |r| {
        // The empty array begins where the next begins, and the number is its address.
        let arguments = (before.slice(N..), &source, &mut target, number);
        sum(&kernel, &r.stream()?, arguments)
    })?;
    let replayed = |graph: &Graph, expected: u32| -> Result<()> {
        graph.replay(&stream)?;
        let expected = expected.wrapping_add(100).wrapping_add(number as u32);
        assert_eq!(stream.values(&target)?, [expected; N]);
        Ok(())
    };
    replayed(&graph, 1)?;
    // The others are somewhere else.
    let (other, five) = (stream.upload(&[4_u32; N])?, stream.upload(&[5_u32; N])?);
    graph.swap(&before, &other)?;
    replayed(&graph, 1)?;
    graph.swap(&source, &five)?;
    replayed(&graph, 5)?;
    graph.swap(&other, &five)?;
    replayed(&graph, 4)
}

#[run_by(scenario_on, |harness, [stream]|)]
fn a_graph_never_writes_what_was_passed_to_swap_as_a_shared_reference() -> Result<()> {
    let mut source = stream.upload(&[1_u32; N])?;
    let mut target = stream.zeros::<u32>(N)?;
    let mut new = Arc::new(stream.upload(&[5_u32; N])?);
    let mut graph = harness.record("copy", |r| {
        r.if_(&source, |then| then.stream()?.copy(&source, &mut target))
    })?;
    let shared = "which is passed as `&`";
    assert_refused(graph.swap(&target, &*new), shared);
    assert_refused(graph.swap(&target, &mut new), shared);
    assert_refused(graph.swap(&target, new.view()), shared);
    assert_refused(graph.swap(&target, &source), shared);
    assert_refused(graph.swap(&source, &mut target), shared);
    graph.replay(&stream)?;
    assert_eq!(stream.values(&target)?, [1; N]);
    // What it reads may be shared; what it writes already need not be passed as `&mut` again.
    graph.swap(&source, &*new)?;
    graph.swap(&mut source, &target).unwrap_err();
    graph.swap(&target, &mut source)?;
    graph.replay(&stream)?;
    assert_eq!(stream.values(&source)?, [5; N]);
    let unused = Arc::get_mut(&mut new);
    assert!(unused.is_some(), "the handle is the only one");
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn an_array_takes_the_place_only_of_one_that_was_recorded_with_no_larger_alignment() -> Result<()> {
    let mut target = stream.zeros::<u32>(N)?;
    let [aligned, far, near] = within_one(harness, [0, 1024 + 128, 2048 + 4])?;
    let record = |source: &Buffer<u32>, target: &mut Buffer<u32>| {
        harness.record("copy", |r| r.stream()?.copy(source, target))
    };
    let mut graph = record(&aligned, &mut target)?;
    assert_refused(graph.swap(&aligned, &far), "a multiple of 256");
    let mut graph = record(&far, &mut target)?;
    assert_refused(graph.swap(&far, &near), "a multiple of 128");
    graph.swap(&far, &aligned)?;
    assert_refused(graph.swap(&aligned, &near), "a multiple of 128");
    graph.swap(&aligned, &far)?;
    // Also if both are operands.
    let [mut one, mut two] = within_one(harness, [4096, 4096 + 1024 + 4])?;
    let mut graph = harness.record("copies", |r| {
        let recorded = r.stream()?;
        recorded.copy(&far, &mut one)?;
        recorded.copy(&far, &mut two)
    })?;
    assert_refused(graph.swap(&one, &two), "a multiple of 256");
    assert_refused(graph.swap(&two, &one), "a multiple of 256");
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn a_kernel_of_a_body_may_have_an_operand_without_elements() -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    let (flag, mut seen) = (stream.upload(&[1_u32])?, stream.zeros::<u32>(1)?);
    let (mut y, empty) = (stream.zeros::<f32>(4)?, stream.zeros::<f32>(0)?);
    let graph = harness.record("empty", |r| {
        r.stream()?.copy(&flag, &mut seen)?;
        r.if_(&flag, |body| {
            let recorded = body.stream()?;
            recorded.fill(&mut y, 1.0)?;
            let none = y.slice_mut(..0);
            // Its array is the last operand of the graph.
            kernels.vecadd(&recorded, 1, &empty, &empty, none, 0)
        })
    })?;
    graph.replay(&stream)?;
    assert_eq!(stream.values(&y)?, [1.0; 4]);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn constants_that_an_update_replaces_are_freed_although_another_graph_shares_the_memory()
-> Result<()> {
    const BYTES: u64 = 4 * N as u64;
    let stream = harness.stream();
    let mut x = stream.zeros::<u32>(N)?;
    let copying = |value: u32| {
        move |r: &GraphRecorder, x: &mut Buffer<u32>| {
            let recorded = r.stream()?;
            recorded.copy(&recorded.upload(&[value; N])?, x)
        }
    };
    let device = &harness.device;
    let first = device.record("first", |r| copying(1)(r, &mut x))?;
    let mut graph = device.record_sharing(&first, "graph", |r| copying(2)(r, &mut x))?;
    let outer = device.record("outer", |r| graph.replay(&r.stream()?))?;
    for value in 3..20 {
        graph.update(|r| copying(value)(r, &mut x))?;
        graph.replay(&stream)?;
        // The temporary, and the constants of the first graph, of this, and of the outer one.
        assert_eq!(graph.figures().body_bytes, 4 * BYTES);
    }
    for (replayed, value) in [(&outer, 2), (&first, 1), (&graph, 19)] {
        replayed.replay(&stream)?;
        assert_eq!(stream.values(&x)?, [value; N]);
    }
    drop((first, outer));
    assert_eq!(graph.figures().body_bytes, 2 * BYTES);
    graph.replay(&stream)?;
    assert_eq!(stream.values(&x)?, [19; N]);
    Ok(())
}

#[run_by(counted_on, |harness, calls, [stream]|)]
fn an_update_that_the_driver_refuses_changes_nothing() -> Result<()> {
    let mut x = stream.zeros::<u32>(N)?;
    let mut graph = harness.record("graph", |r| r.stream()?.fill(&mut x, 1))?;
    let before = graph.figures();
    let mut larger = |r: &GraphRecorder| {
        let recorded = r.stream()?;
        let mut made = recorded.zeros::<u32>(N)?;
        recorded.copy(&recorded.upload(&[5; N])?, &mut made)?;
        recorded.copy(&made, &mut x)
    };
    calls.fail(|call| {
        (call == "graph_instantiate").then(|| DriverError::new(call, ResultCode::NOT_SUPPORTED))
    });
    graph.update(&mut larger).unwrap_err();
    let shared = harness.device.record_sharing(&graph, "shared", &mut larger);
    shared.unwrap_err();
    calls.fail_no_more();
    assert_eq!(graph.figures(), before);
    graph.replay(&stream)?;
    assert_eq!(stream.values(&x)?, [1; N]);
    Ok(())
}
