//! D7: a process that ends with pending work ends cleanly, however it ends.

use std::{any::Any, pin::Pin, process};

use crate::scenarios::{harness::somewhere, prelude::*};

/// The time given to the waiting threads to start waiting.
const A_WHILE: Duration = Duration::from_millis(50);

/// Enqueues work of every kind behind a gate and starts threads that wait for it. The returned
/// values keep the work pending while they live.
fn pending_work(harness: &Harness) -> Result<(Gate, Vec<Box<dyn Any>>)> {
    let [s1, s2] = harness.streams();
    let mut buffer = s1.upload(&[1_u32; N])?;
    let mut pinned = harness.device.pinned::<u32>(N)?;
    let timeline = harness.device.timeline()?;
    let gate = harness.gate(&s1);
    s1.fill(&mut buffer, 2)?;
    let event = s1.record()?;
    s2.copy(&buffer, &mut pinned)?;
    let mut polled = s2.download(&buffer)?;
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut polled).poll(&mut context).is_pending());
    let (waited, awaited) = (s2.download(&buffer)?, s1.download(&buffer)?);
    thread::spawn(move || waited.wait());
    thread::spawn(move || pollster::block_on(awaited));
    let scoped = harness.device.clone();
    thread::spawn(move || {
        let (stream, mut target) = (scoped.stream()?, [0_u32; N]);
        stream.wait_for(&event)?;
        let buffer = stream.zeros::<u32>(N)?;
        scoped.scope(|scope| scope.download(&stream, &buffer, &mut target))
    });
    let begun = Vec::<Box<dyn Any>>::from([
        Box::new((s1, s2)) as Box<dyn Any>,
        Box::new((buffer, pinned)),
        Box::new((timeline, polled)),
        Box::new(harness.device.clone()),
    ]);
    thread::sleep(A_WHILE);
    Ok((gate, begun))
}

#[test]
#[ignore = "the inner half of d07_returning_from_main"]
fn inner_return_with_everything_forgotten() {
    let harness = somewhere();
    mem::forget(pending_work(&harness).unwrap());
    mem::forget(harness);
}

#[test]
#[ignore = "the inner half of d07_returning_from_main"]
fn inner_return_with_everything_dropped() {
    let harness = somewhere();
    let (gate, begun) = pending_work(&harness).unwrap();
    drop((begun, harness));
    mem::forget(gate);
}

#[test]
#[ignore = "the inner half of d07_exit"]
fn inner_exit() {
    let harness = somewhere();
    let _work = pending_work(&harness).unwrap();
    process::exit(7);
}

#[test]
#[ignore = "the inner half of d07_a_panic"]
fn inner_panic() {
    let harness = somewhere();
    let (gate, _begun) = pending_work(&harness).unwrap();
    mem::forget(gate);
    panic!("as the test wants");
}

/// Runs the inner half in a child process and checks its exit code and number of panics.
fn assert_ends(test: &str, code: i32) {
    let ended = in_process(test, &[]);
    assert_eq!(ended.code, Some(code), "{}{}", ended.output, ended.errors);
    let panics =
        ended.errors.matches("panicked at").count() + ended.output.matches("panicked at").count();
    assert_eq!(
        panics,
        usize::from(code == 101),
        "{}{}",
        ended.output,
        ended.errors
    );
}

#[test]
fn d07_returning_from_main_with_work_pending_is_clean() {
    assert_ends("exits::inner_return_with_everything_forgotten", 0);
    assert_ends("exits::inner_return_with_everything_dropped", 0);
}

#[test]
fn d07_exit_with_work_pending_is_clean() {
    assert_ends("exits::inner_exit", 7);
}

#[test]
fn d07_a_panic_with_work_pending_is_one_panic() {
    assert_ends("exits::inner_panic", 101);
}
