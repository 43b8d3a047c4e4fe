//! Scenario I2 with graphs: replays before, during and behind a lease of an operand. A graph keeps
//! its operands without a borrow, so that a replay can meet a lease that was not forgotten.

#![allow(unsafe_code, reason = "calls another library")]

use millstream::{View, ViewMut};

use crate::scenarios::{
    interop::assert_problem,
    loops::{one_thread, with_and_without_conditional_nodes, words},
    outsiders::BYTES as N,
    prelude::*,
};

fn is_lent(problem: &UsageErrorKind) -> bool {
    matches!(problem, UsageErrorKind::Lent { since } if since.file() == file!())
}

fn record_copy(harness: &Harness, source: View<'_, u8>, target: ViewMut<'_, u8>) -> Graph {
    let recorded = harness.record("copy", |r| r.stream()?.copy(source, target));
    recorded.unwrap()
}

#[run_by(everywhere, |harness|)]
fn i02_a_replay_that_conflicts_with_a_lease_is_an_error_at_once() {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let mut source = ours.upload(&[1_u8; N]).unwrap();
    let mut target = ours.zeros::<u8>(N).unwrap();
    let copy = record_copy(harness, source.view(), target.view_mut());
    let calls_copy = harness
        .record("calls copy", |r| copy.replay(&r.stream()?))
        .unwrap();
    // A lease that waited for the outsider would never end.
    let gate = harness.gate(&theirs);
    let lease = source.lend_mut(&theirs).unwrap();
    outsider.fill(lease.as_raw(), N, 2);
    for graph in [&copy, &calls_copy] {
        assert_problem(graph.replay(&ours), is_lent);
        assert_problem(graph.replay_times(&ours, 3), is_lent);
        assert_problem(graph.replay_stepwise(&ours), is_lent);
        assert_eq!(graph.figures().launches, 0);
    }
    assert_eq!(
        ours.values(&target).unwrap(),
        [0; N],
        "nothing was enqueued"
    );
    drop(lease);
    let lease = target.lend(&theirs).unwrap();
    assert_problem(copy.replay(&ours), is_lent);
    drop(lease);
    // The refused replays left nothing that later ones would wait for.
    copy.replay(&ours).unwrap();
    assert_eq!(
        harness.opened(gate, ours.download(&target).unwrap()),
        [2; N]
    );
}

#[run_by(everywhere, |harness|)]
fn i02_a_refused_replay_leaves_no_waits_behind() {
    let outsider = Outsider::new(harness.if_simulated(), 0);
    let own = harness.device.stream().unwrap();
    // The first lease is on a device without adopted streams, if the harness has none.
    for adopts in [false, true] {
        let adopted = adopts.then(|| outsider.adopt(&harness.device));
        let borrower = adopted.as_ref().unwrap_or(&own);
        let [ours, busy, other] = harness.streams();
        let source = ours.upload(&[1_u8; N]).unwrap();
        let [mut idle, mut target, mut later] = [(); 3].map(|()| ours.zeros::<u8>(N).unwrap());
        let copies = harness.record("copies", |r| {
            let stream = r.stream()?;
            stream.copy(&source, &mut idle)?;
            stream.copy(&source, &mut target)
        });
        let copies = copies.unwrap();
        ours.synchronize().unwrap();
        let gate = harness.gate(&busy);
        busy.fill(target.slice_mut(..N / 2), 3).unwrap();
        let lease = target.slice_mut(N / 2..).lend_mut(borrower).unwrap();
        assert_problem(copies.replay(&ours), is_lent);
        // Neither the other operands nor the stream wait for the fill.
        assert_eq!(other.values(&source).unwrap(), [1; N]);
        other.fill(&mut idle, 4).unwrap();
        assert_eq!(other.values(&idle).unwrap(), [4; N]);
        ours.fill(&mut later, 5).unwrap();
        assert_eq!(other.values(&later).unwrap(), [5; N]);
        drop(lease);
        gate.open();
    }
}

#[run_by(everywhere, |harness|)]
fn i02_a_replay_beside_a_lease_of_what_it_reads_or_does_not_use_runs_at_once() {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let mut array = ours.upload(&[1_u8; N]).unwrap();
    let mut target = ours.zeros::<u8>(N).unwrap();
    let mut fresh = ours.zeros::<u8>(N).unwrap();
    let half = array.slice(..N / 2);
    let mut graph = record_copy(harness, half, target.slice_mut(..N / 2));
    graph.replay(&ours).unwrap();
    let gate = harness.gate(&theirs);
    // The replays would never end if they waited for the outsider.
    let lease = array.slice_mut(N / 2..).lend_mut(&theirs).unwrap();
    outsider.fill(lease.as_raw(), lease.len(), 2);
    graph.replay(&ours).unwrap();
    assert_eq!(ours.values(&target).unwrap()[..N / 2], [1; N / 2]);
    drop(lease);
    let lease = array.lend(&theirs).unwrap();
    graph.replay(&ours).unwrap();
    assert_eq!(ours.values(&target).unwrap()[..N / 2], [1; N / 2]);
    drop(lease);
    // Neither does the graph use an array for which it was given another.
    let lease = target.lend(&theirs).unwrap();
    assert_problem(graph.replay(&ours), is_lent);
    graph.swap(&target, &mut fresh).unwrap();
    graph.replay(&ours).unwrap();
    assert_eq!(ours.values(&fresh).unwrap()[..N / 2], [1; N / 2]);
    drop((lease, gate));
}

#[run_by(everywhere, |harness|)]
fn i02_a_replay_runs_behind_the_work_of_a_returned_lease() {
    let (outsider, theirs, [ours, reader]) = with_outsider(harness);
    let mut source = ours.upload(&[1_u8; N]).unwrap();
    let mut target = ours.zeros::<u8>(N).unwrap();
    let mut kept = ours.zeros::<u8>(N).unwrap();
    let graph = record_copy(harness, source.view(), target.view_mut());
    graph.replay(&ours).unwrap();
    let gate = harness.gate(&theirs);
    // The outsider reads what the replay writes, and writes what it reads.
    copy_lent(&outsider, &theirs, &target, &mut kept);
    fill_lent(&outsider, &theirs, &mut source, 2);
    graph.replay(&ours).unwrap();
    assert_eq!(
        harness.opened(gate, reader.download(&target).unwrap()),
        [2; N]
    );
    assert_eq!(reader.values(&kept).unwrap(), [1; N]);
}

#[run_by(everywhere, |harness|)]
fn i02_a_borrower_waits_for_a_replay_in_flight() {
    let (outsider, theirs, [ours, reader]) = with_outsider(harness);
    let mut source = ours.upload(&[1_u8; N]).unwrap();
    let mut target = ours.zeros::<u8>(N).unwrap();
    let mut kept = ours.zeros::<u8>(N).unwrap();
    let graph = record_copy(harness, source.view(), target.view_mut());
    let gate = harness.gate(&ours);
    graph.replay(&ours).unwrap();
    fill_lent(&outsider, &theirs, &mut source, 2);
    copy_lent(&outsider, &theirs, &target, &mut kept);
    assert_eq!(
        harness.opened(gate, reader.download(&kept).unwrap()),
        [1; N],
        "the replay read the old values"
    );
    assert_eq!(reader.values(&source).unwrap(), [2; N]);
}

/// Lends the array, lets the outsider fill it behind a gate, and returns it inside a foreign call
/// on `caller`, where the lease cannot end. Then replays a copy of the array.
fn replay_after_a_return_that_was_put_off(harness: &Harness, is_on_the_borrowers: bool) {
    let (outsider, theirs, [ours, reader]) = with_outsider(harness);
    let mut source = ours.upload(&[1_u8; N]).unwrap();
    let mut target = ours.zeros::<u8>(N).unwrap();
    let mut other = ours.zeros::<u8>(N).unwrap();
    let graph = record_copy(harness, source.view(), target.view_mut());
    let gate = harness.gate(&theirs);
    let mut lease = Some(source.lend_mut(&theirs).unwrap());
    outsider.fill(lease.as_ref().unwrap().as_raw(), N, 3);
    let caller = if is_on_the_borrowers {
        &theirs
    } else {
        &reader
    };
    // SAFETY: the call enqueues nothing.
    let called = unsafe {
        caller.foreign("return", [write(&mut other)], |_| {
            drop(lease.take());
            Ok::<_, Error>(())
        })
    };
    called.unwrap();
    drop(lease);
    graph.replay(&ours).unwrap();
    assert_eq!(
        harness.opened(gate, reader.download(&target).unwrap()),
        [3; N]
    );
}

#[run_by(everywhere, |harness|)]
fn i02_a_replay_ends_a_lease_whose_return_was_put_off() {
    replay_after_a_return_that_was_put_off(harness, false);
    replay_after_a_return_that_was_put_off(harness, true);
}

#[run_by(with_and_without_conditional_nodes, |harness|)]
fn i02_a_loop_of_a_graph_is_refused_during_a_lease_and_runs_behind_it() -> Result<()> {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let kernels = words::load(&harness.device)?;
    let mut left = ours.upload(&[3_u32])?;
    let mut sum = ours.upload(&[40_u32])?;
    let graph = harness.record("loop", |r| {
        r.while_loop(&mut left, 9, |body, left| {
            kernels.count(&body.stream()?, one_thread(), left, &mut sum)
        })
    })?;
    let lease = sum.lend_mut(&theirs)?;
    outsider.fill(lease.as_raw(), 4, 1);
    assert_problem(graph.replay(&ours), is_lent);
    drop(lease);
    let lease = left.lend(&theirs)?;
    assert_problem(graph.replay(&ours), is_lent);
    drop(lease);
    assert_eq!(ours.values(&left)?, [3], "nothing was enqueued");
    graph.replay(&ours)?;
    assert_eq!(ours.values(&sum)?, [0x0101_0101 + 3]);
    Ok(())
}
