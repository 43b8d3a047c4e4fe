//! Scenarios I: streams and memory of other libraries.

#![allow(unsafe_code, reason = "adopts streams and memory")]

use std::panic::Location;

use millstream::interop::read;

use crate::scenarios::{
    arrays, counts, graphs, managed, memory, opting_out,
    outsiders::{BYTES as N, wait_until, with_adopted_streams},
    peers_kernels,
    prelude::*,
    rectangles, threads, unsubmitted, within,
};

/// Returns the kind of a usage error that names the caller's file.
#[track_caller]
pub(crate) fn refusal<T>(result: Result<T>) -> UsageErrorKind {
    let usage_error = usage_error(result);
    let location = usage_error.location().expect("a source line");
    assert_eq!(location.file(), Location::caller().file());
    usage_error.problem().clone()
}

#[track_caller]
pub(crate) fn assert_problem<T>(
    result: Result<T>,
    is_expected: impl FnOnce(&UsageErrorKind) -> bool,
) {
    let problem = refusal(result);
    assert!(is_expected(&problem), "{problem}");
}

fn is_lent(problem: &UsageErrorKind) -> bool {
    matches!(problem, UsageErrorKind::Lent { since } if since.file() == file!())
}

#[run_by(with_adopted_streams, ||)]
fn i01_arrays_are_ordered_with_a_stream_adopted_from_outside() {
    arrays::a01_readers_wait_for_the_writer_and_run_together();
    arrays::a02_a_writer_waits_for_every_reader();
    arrays::a03_disjoint_halves_are_written_side_by_side_from_two_threads();
    arrays::a04_overlapping_ranges_are_ordered_exactly_on_the_overlap();
    arrays::a06_a_thread_returns_an_array_without_synchronising();
    arrays::a07_a_host_read_does_not_wait_for_later_work_of_the_stream();
    arrays::a08_dropping_an_array_in_use_does_not_block_and_frees_after_its_uses();
    arrays::a09_dropping_the_stream_before_the_array_keeps_the_free_ordered();
    arrays::a12_the_same_array_twice_in_one_launch();
    arrays::a20_the_same_device_opened_twice_is_one();
    arrays::a21_an_array_outlives_the_other_stream_that_uses_it();
    graphs::a13_a_recording_and_a_replay_are_ordered_with_pending_work();
    managed::a04_managed_ranges_are_ordered_exactly_on_the_overlap();
    opting_out::a14_later_accesses_wait_for_one_that_opted_out();
    opting_out::a14_the_memory_is_freed_after_an_access_that_opted_out();
    rectangles::a03_left_and_right_of_an_image_are_used_side_by_side();
    rectangles::a04_rectangles_are_ordered_exactly_where_they_overlap();
    rectangles::a12_tiles_are_written_on_many_streams_and_read_as_one();
    within::a04_a_copy_within_an_array_is_ordered_with_its_own_bytes();
}

#[run_by(with_adopted_streams, ||)]
fn i01_kernels_on_two_devices_are_ordered_with_an_adopted_stream() {
    peers_kernels::a05_two_devices_use_columns_of_a_managed_array_at_once();
    peers_kernels::a15_a_kernel_reads_pool_memory_of_another_device();
}

#[run_by(with_adopted_streams, ||)]
fn i01_threads_alternate_on_adopted_streams() {
    threads::a10_launch_and_copy_alternate_under_every_schedule();
    threads::a11_threads_name_the_same_arrays_under_every_schedule();
}

#[run_by(with_adopted_streams, ||)]
fn i01_allocations_wait_for_frees_on_adopted_streams() {
    memory::a16_an_allocation_waits_for_memory_that_is_about_to_be_freed();
    memory::a16_an_allocation_does_not_wait_for_a_gate_while_other_memory_is_free();
    memory::a16_an_allocation_does_not_wait_for_frees_that_would_not_suffice();
}

#[run_by(with_adopted_streams, ||)]
fn i01_adopted_streams_cost_few_events_and_survive_failures() {
    counts::a17_an_adopted_stream_costs_two_records_for_each_operation();
    unsubmitted::a18_an_error_or_a_panic_before_submission_leaves_no_phantom_owner();
}

#[run_by(everywhere, |harness|)]
fn i01_operations_run_in_order_with_those_of_the_owner_on_its_stream() {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let drops = Drops::default();
    let gate = harness.gate(&theirs);
    let tensor = outsider.allocate(N);
    outsider.fill(tensor.pointer, N, 3);
    let mut array = adopted(
        &harness.device,
        &theirs,
        (tensor, &drops),
        Release::when_done,
    );
    // Waits for the owner's fill, which is behind the gate.
    assert_eq!(harness.opened(gate, ours.download(&array).unwrap()), [3; N]);
    // Between two operations of ours on its stream, the owner works too.
    theirs.fill(&mut array, 4).unwrap();
    let mut copy = ours.zeros::<u8>(N).unwrap();
    let lease = copy.lend_mut(&theirs).unwrap();
    outsider.copy(array.as_raw(), lease.as_raw(), N);
    drop(lease);
    theirs.fill(&mut array, 5).unwrap();
    assert_eq!(ours.values(&copy).unwrap(), [4; N]);
    assert_eq!(ours.values(&array).unwrap(), [5; N]);
    drop(array);
    drops.assert_one();
}

#[run_by(everywhere, |harness|)]
fn i01_nothing_waits_for_what_the_owner_enqueues_later() {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let second = Outsider::new(harness.if_simulated(), 0);
    let other = second.adopt(&harness.device);
    let mut array = ours.zeros::<u8>(N).unwrap();
    let mut lent = ours.zeros::<u8>(N).unwrap();
    theirs.fill(&mut array, 1).unwrap();
    let found = theirs.download(&array).unwrap();
    fill_lent(&outsider, &theirs, &mut lent, 2);
    let third = Outsider::new(harness.if_simulated(), 0);
    let (lender, drops) = (third.adopt(&harness.device), Drops::default());
    let tensor = third.allocate(N);
    third.fill(tensor.pointer, N, 4);
    let release = Release::when_done;
    let imported = adopted(&harness.device, &lender, (tensor, &drops), release);
    // Last, so that no other sync point is behind it. No other stream has used this array.
    let [mut alone, mut later] = [(); 2].map(|()| other.zeros::<u8>(N).unwrap());
    other.fill(&mut alone, 3).unwrap();
    // None of the waits below ends if it includes an owner's work behind its gate.
    let outsiders = [&outsider, &second, &third];
    let gates = outsiders.map(|owner| owner.gate(harness.if_simulated(), harness.gates_hold()));
    for owner in outsiders {
        owner.work();
    }
    other.fill(&mut later, 5).unwrap();
    assert_eq!(ours.values(&alone).unwrap(), [3; N]);
    assert_eq!(found.wait().unwrap(), [1; N]);
    assert_eq!(ours.values(&array).unwrap(), [1; N]);
    assert_eq!(ours.values(&lent).unwrap(), [2; N]);
    assert_eq!(ours.values(&imported).unwrap(), [4; N]);
    drop(gates);
}

#[run_by(everywhere, |harness|)]
fn i01_an_adopted_stream_is_kept_until_its_operations_are_complete() {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let drops = outsider.drops();
    let (theirs, ours) = (outsider.adopt(&harness.device), harness.stream());
    let again = outsider.adopt(&harness.device);
    assert_eq!(theirs.id(), again.id(), "it is the same stream");
    drop(outsider);
    let mut array = ours.zeros::<u8>(N).unwrap();
    let gate = harness.gate(&theirs);
    theirs.fill(&mut array, 6).unwrap();
    drop((theirs, again));
    let found = ours.download(&array).unwrap();
    if harness.gates_hold() {
        harness.assert_pending(&found);
        assert_eq!(drops.load(Ordering::SeqCst), 0, "the fill is pending");
    }
    gate.open();
    assert_eq!(found.wait().unwrap(), [6; N]);
    wait_until(|| drops.load(Ordering::SeqCst) == 1);
}

#[run_by(everywhere, |harness|)]
fn i01_a_stream_that_was_let_go_can_be_adopted_again() {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let ours = harness.stream();
    let mut array = ours.zeros::<u8>(N).unwrap();
    for round in 0..4 {
        let theirs = outsider.adopt(&harness.device);
        theirs.fill(&mut array, round).unwrap();
        drop(theirs);
        if round % 2 == 0 {
            // The stream is let go before it is adopted again.
            wait_until(|| Arc::strong_count(&outsider) == 1);
        }
        assert_eq!(ours.values(&array).unwrap(), [round; N]);
    }
}

#[run_by(everywhere, |harness|)]
fn i02_a_conflicting_use_of_a_lent_array_is_an_error_at_once() {
    harness.leaks();
    let (theirs, ours) = (harness.stream(), harness.stream());
    let mut array = ours.upload(&[1_u8; N]).unwrap();
    let mut other = ours.zeros::<u8>(N).unwrap();
    mem::forget(array.slice(..N / 2).lend(&theirs).unwrap());
    // Reads do not conflict with a reader, nor do writes of the rest.
    assert_eq!(ours.values(&array).unwrap(), [1; N]);
    ours.fill(array.slice_mut(N / 2..), 2).unwrap();
    assert_problem(ours.fill(&mut array, 3), is_lent);
    assert_problem(array.lend_mut(&ours).map(drop), is_lent);
    mem::forget(other.lend_mut(&theirs).unwrap());
    assert_problem(ours.download(&other).map(drop), is_lent);
    assert_problem(ours.copy(&array, &mut other), is_lent);
    assert_problem(theirs.copy(&other, &mut array), is_lent);
    assert_eq!(ours.values(array.slice(N / 2..)).unwrap(), [2; N / 2]);
}

#[run_by(everywhere, |harness|)]
fn i02_a_stream_that_alone_uses_an_array_finds_its_leases() {
    harness.leaks();
    let stream = harness.stream();
    let mut array = stream.zeros::<u8>(N).unwrap();
    stream.fill(&mut array, 1).unwrap();
    mem::forget(array.lend_mut(&stream).unwrap());
    for _ in 0..3 {
        assert_problem(stream.fill(&mut array, 2), is_lent);
    }
    let mut other = stream.zeros::<u8>(N).unwrap();
    drop(other.lend_mut(&stream).unwrap());
    stream.fill(&mut other, 3).unwrap();
    assert_eq!(stream.values(&other).unwrap(), [3; N]);
}

#[run_by(everywhere, |harness|)]
fn i02_the_borrower_waits_for_conflicts_and_is_waited_for() {
    let (outsider, theirs, [writer, reader]) = with_outsider(harness);
    let mut array = writer.zeros::<u8>(N).unwrap();
    let mut copy = writer.zeros::<u8>(N).unwrap();
    let gate = harness.gate(&writer);
    writer.fill(&mut array, 1).unwrap();
    copy_lent(&outsider, &theirs, &array, &mut copy);
    assert_eq!(
        harness.opened(gate, reader.download(&copy).unwrap()),
        [1; N],
        "the copy is behind the fill"
    );
    // A later writer waits for the borrower.
    let gate = harness.gate(&theirs);
    copy_lent(&outsider, &theirs, &array, &mut copy);
    writer.fill(&mut array, 9).unwrap();
    let behind = writer.record().unwrap();
    harness.open_pending(gate, &behind);
    assert_eq!(reader.values(&copy).unwrap(), [1; N]);
    assert_eq!(reader.values(&array).unwrap(), [9; N]);
}

#[run_by(everywhere, |harness|)]
fn i02_a_lease_keeps_the_borrowers_stream() {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let (drops, ours) = (outsider.drops(), harness.stream());
    let theirs = outsider.adopt(&harness.device);
    let mut array = ours.zeros::<u8>(N).unwrap();
    let lease = array.lend_mut(&theirs).unwrap();
    outsider.fill(lease.as_raw(), N, 5);
    drop((theirs, outsider));
    ours.synchronize().unwrap();
    thread::sleep(Duration::from_millis(1));
    assert_eq!(drops.load(Ordering::SeqCst), 0, "the end is recorded there");
    drop(lease);
    assert_eq!(ours.values(&array).unwrap(), [5; N]);
    wait_until(|| drops.load(Ordering::SeqCst) == 1);
}

#[run_by(everywhere, |harness|)]
fn i02_a_lease_that_is_dropped_during_a_call_on_its_stream_ends_afterwards() {
    let [theirs, ours] = harness.streams();
    let mut array = ours.zeros::<u8>(N).unwrap();
    let mut other = ours.zeros::<u8>(N).unwrap();
    let mut lease = Some(array.lend_mut(&theirs).unwrap());
    // SAFETY: the call enqueues nothing.
    let called = unsafe {
        theirs.foreign("return", [write(&mut other)], |_| {
            // The stream's lock is held here.
            drop(lease.take());
            Ok::<_, Error>(())
        })
    };
    called.unwrap();
    drop(lease);
    ours.fill(&mut array, 8).unwrap();
    assert_eq!(ours.values(&array).unwrap(), [8; N]);
}

#[run_by(everywhere, |harness|)]
fn i02_a_lease_that_is_dropped_inside_a_call_on_another_stream_keeps_its_order() {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let mut array = ours.zeros::<u8>(N).unwrap();
    let mut other = ours.zeros::<u8>(N).unwrap();
    let mut lease = Some(array.lend_mut(&theirs).unwrap());
    let gate = harness.gate(&theirs);
    outsider.fill(lease.as_ref().unwrap().as_raw(), N, 3);
    // SAFETY: the call enqueues nothing.
    let called = unsafe {
        ours.foreign("return", [write(&mut other)], |_| {
            // The thread is inside a foreign call, so that nothing can be submitted.
            drop(lease.take());
            Ok::<_, Error>(())
        })
    };
    called.unwrap();
    drop(lease);
    assert_eq!(harness.opened(gate, ours.download(&array).unwrap()), [3; N]);
}

#[run_by(everywhere, |harness|)]
fn foreign_work_is_ordered_by_its_operands_with_the_context_current() {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let [a, b, c] = harness.streams();
    let mut array = a.zeros::<u8>(N).unwrap();
    let gate = harness.gate(&a);
    a.fill(&mut array, 1).unwrap();
    let fill = |call: ForeignCall<'_>| {
        assert!(outsider.is_current());
        let (pattern, target) = (FillPattern::U8(2), call.address(0));
        let (context, stream) = (call.context(), call.stream());
        // SAFETY: the operand has this size.
        unsafe {
            call.driver()
                .memset_async(context, target, pattern, N, stream)
        }
    };
    // SAFETY: the call fills its operand on the given stream.
    let filled = unsafe { b.foreign("library fill", [write(&mut array)], fill) };
    filled.unwrap();
    assert_eq!(harness.opened(gate, c.download(&array).unwrap()), [2; N]);
    // An error of the library is the cause of ours.
    // SAFETY: the call enqueues nothing.
    let failed = unsafe { b.foreign("library", [read(&array)], |_| Err(std::fmt::Error)) };
    let Err(Error::ForeignCall { cause, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert!(cause.is::<std::fmt::Error>());
}
