//! Scenarios I: an owner captures its stream, before our calls on it, between them and during them.

#![allow(unsafe_code, reason = "adopts memory")]

use std::fmt::Debug;

use crate::scenarios::{outsiders::BYTES as N, prelude::*};

/// Returns whether a call failed because the owner captures its stream.
fn is_captured<T>(result: &Result<T>) -> bool {
    let Err(Error::Usage(usage_error)) = result else {
        return false;
    };
    let location = usage_error.location().expect("a source line");
    assert_eq!(location.file(), file!());
    matches!(usage_error.problem(), UsageErrorKind::Captured { .. })
}

/// Makes a call during a capture, which it must refuse, and ends the capture.
#[track_caller]
fn assert_refused<T: Debug>(outsider: &Outsider, call: impl FnOnce() -> Result<T>) {
    outsider.begin_capture();
    let refused = call();
    assert!(is_captured(&refused), "{refused:?}");
    outsider.end_capture(true);
}

#[track_caller]
fn assert_holds(stream: &Stream, array: &millstream::Buffer<u8>, value: u8) {
    assert_eq!(stream.values(array).unwrap(), [value; N]);
}

#[run_by(everywhere, |harness|)]
fn calls_on_a_stream_that_its_owner_captures_are_errors() {
    let (outsider, theirs, [ours, other]) = with_outsider(harness);
    let mut array = ours.upload(&[1_u8; N]).unwrap();
    let mut target = theirs.zeros::<u8>(N).unwrap();
    assert_refused(&outsider, || theirs.fill(&mut array, 2));
    assert_refused(&outsider, || theirs.copy(&array, &mut target));
    assert_refused(&outsider, || theirs.download(&array).map(drop));
    assert_refused(&outsider, || theirs.upload(&[3_u8; N]).map(drop));
    assert_refused(&outsider, || theirs.record().map(drop));
    let event = other.record().unwrap();
    assert_refused(&outsider, || theirs.wait_for(&event));
    assert_refused(&outsider, || array.lend(&theirs).map(drop));
    assert_refused(&outsider, || array.lend_mut(&theirs).map(drop));
    assert_refused(&outsider, || {
        let release = Release::when_done(());
        let (pointer, after) = (array.as_raw(), After::Stream(&theirs));
        // SAFETY: the memory is refused.
        let refused = unsafe {
            harness
                .device
                .adopt_buffer::<u8>(pointer, N, after, release)
        };
        refused.map(drop)
    });
    // Neither stream was pulled into a capture, and nothing has run.
    assert_holds(&ours, &array, 1);
    assert_holds(&theirs, &target, 0);
    theirs.fill(&mut array, 4).unwrap();
    other.copy(&array, &mut target).unwrap();
    assert_holds(&ours, &target, 4);
}

#[run_by(everywhere, |harness|)]
fn an_array_stays_lent_while_the_borrower_captures_its_stream() {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let mut array = ours.zeros::<u8>(N).unwrap();
    let gate = harness.gate(&theirs);
    let lease = array.lend_mut(&theirs).unwrap();
    outsider.fill(lease.as_raw(), N, 5);
    outsider.begin_capture();
    drop(lease);
    // The array would be read before the owner's fill, or in its graph.
    let refused = ours.download(&array);
    assert!(is_captured(&refused), "{refused:?}");
    outsider.end_capture(false);
    assert_eq!(harness.opened(gate, ours.download(&array).unwrap()), [5; N]);
}

#[run_by(everywhere, |harness|)]
fn a_refused_operation_passes_its_refusal_on_to_no_other() {
    let (outsider, theirs, [ours, other]) = with_outsider(harness);
    let [mut lent, mut idle] = [(); 2].map(|()| ours.zeros::<u8>(N).unwrap());
    let gate = harness.gate(&theirs);
    let lease = lent.lend_mut(&theirs).unwrap();
    outsider.begin_capture();
    drop(lease);
    let refused = ours.copy(&lent, &mut idle);
    assert!(is_captured(&refused), "{refused:?}");
    let refused = ours.copy(&idle, &mut lent);
    assert!(is_captured(&refused), "{refused:?}");
    other.fill(&mut idle, 6).unwrap();
    assert_holds(&other, &idle, 6);
    ours.fill(&mut idle, 7).unwrap();
    assert_holds(&other, &idle, 7);
    outsider.end_capture(false);
    gate.open();
}

#[run_by(everywhere, |harness|)]
fn memory_does_not_return_to_a_captured_stream_before_its_uses() {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let drops = [Drops::default(), Drops::default()];
    let [returned, mut released] = [0, 1].map(|at| {
        let (tensor, drops) = (outsider.allocate(N), &drops[at]);
        adopted(
            &harness.device,
            &theirs,
            (tensor, drops),
            |keeper| match at {
                0 => Release::when_done(keeper),
                _ => Release::behind(&theirs, keeper),
            },
        )
    });
    let mut returned = returned;
    let gate = harness.gate(&ours);
    ours.fill(&mut returned, 1).unwrap();
    ours.fill(&mut released, 2).unwrap();
    outsider.begin_capture();
    let rejected = returned.return_to_owner(&theirs).unwrap_err();
    assert!(is_captured(&Err::<(), _>(rejected.error)));
    assert!(!outsider.end_capture(true));
    if harness.gates_hold() {
        // Else the keeper would free the memory in the capture.
        outsider.begin_capture();
        drop(released);
        assert_eq!(drops[1].count(), 0, "the fill is pending");
        assert!(!outsider.end_capture(true));
    } else {
        drop(released);
    }
    gate.open();
    drop(rejected.source);
    drops.iter().for_each(Drops::assert_one);
}

/// Another thread begins and ends captures all the time.
fn captured_meanwhile(harness: &Harness) -> Result<()> {
    let (outsider, theirs, [ours]) = with_outsider(harness);
    let mut array = ours.zeros::<u8>(N)?;
    let mut target = ours.zeros::<u8>(N)?;
    let (over, mut done, mut last) = (AtomicBool::new(false), 0, 0);
    let captures = || {
        while !over.load(Ordering::Relaxed) {
            outsider.begin_capture();
            thread::yield_now();
            outsider.end_capture(true);
            thread::sleep(Duration::from_micros(200));
        }
    };
    thread::scope(|scope| -> Result<()> {
        scope.spawn(captures);
        // At least 200 rounds, and until a fill was in time.
        for round in 0..20_000_u16 {
            if round >= 200 && done > 0 {
                break;
            }
            let value = (round % 250) as u8 + 1;
            let filled = theirs.fill(&mut array, value);
            assert!(filled.is_ok() || is_captured(&filled), "{filled:?}");
            done += usize::from(filled.is_ok());
            let found = ours.values(&array)?;
            let expected = if filled.is_ok() { value } else { last };
            assert!(found == [expected; N], "{} after {expected}", found[0]);
            last = found[0];
            let copied = theirs.copy(&array, &mut target);
            if copied.is_ok() {
                assert_eq!(ours.values(&target)?, [last; N]);
            }
        }
        over.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    // The graphs that the owner has launched hold nothing of ours.
    theirs.fill(&mut array, 200)?;
    assert_holds(&ours, &array, 200);
    assert!(done > 0, "no fill was in time");
    Ok(())
}

#[test]
fn a_capture_that_begins_during_a_call_never_takes_it_up() {
    once(captured_meanwhile);
}
