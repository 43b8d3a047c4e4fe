//! Rules 27 and 28: host functions run in stream order, and do not run after a context error.

use std::{
    panic,
    sync::{Arc, atomic::AtomicU32},
};

use crate::conformance::{apart, prelude::*};

const LONG: Duration = Duration::from_secs(10);

pub(crate) fn r27(dev: &DeviceHarness) -> Observation {
    let (stream, memory, target) = (dev.stream()?, dev.memory(4)?, dev.pinned(4, 0)?);
    let (one, two) = (dev.pinned(4, 1)?, dev.pinned(4, 2)?);
    let (open, closed) = mpsc::channel::<()>();
    let (sees, seen) = mpsc::channel();
    dev.upload(memory, one, stream)?;
    dev.download(target, memory, stream)?;
    dev.host_function(stream, move || {
        let _ = sees.send(target.read());
        // This also ends when the sender is dropped.
        let _ = closed.recv_timeout(LONG);
    })?;
    dev.upload(memory, two, stream)?;
    dev.download(target, memory, stream)?;
    thread::scope(|scope| -> Result<(), libtest_mimic::Failed> {
        let waits = scope.spawn(|| dev.stream_synchronize(stream));
        let before = seen.recv_timeout(LONG).map_err(|_| "the function runs")?;
        check(before == [1; 4], "the work before the function is complete")?;
        thread::sleep(Duration::from_millis(5));
        check(
            target.is(1) && !waits.is_finished() && dev.pending(stream)?,
            "what comes after waits, and other calls do not",
        )?;
        drop(open);
        Ok(waits.join().map_err(|_| "the waiting thread panicked")??)
    })?;
    check(target.is(2), "the work after the function runs")?;

    let (number, numbers) = mpsc::channel();
    for index in 0..4 {
        let number = number.clone();
        dev.host_function(stream, move || {
            let _ = number.send(index);
            if index == 1 {
                // The driver drops a panic in a host function. `resume_unwind` prints no panic
                // message.
                panic::resume_unwind(Box::new(()));
            }
        })?;
    }
    dev.stream_synchronize(stream)?;
    drop(number);
    check(
        numbers.iter().collect::<Vec<_>>() == [0, 1, 2, 3],
        "in order, the one that panics too",
    )?;
    let calls = apart::run(dev, "driver called")?;
    Ok(format!("in order; a driver call in one: {calls}"))
}

/// Probes the result of a driver call made by a host function, which is not permitted.
pub(crate) fn driver_called(dev: &DeviceHarness) -> Observation {
    dev.does_wrong();
    let (stream, other) = (dev.stream()?, dev.stream()?);
    let (answer, answers) = mpsc::channel();
    let query = dev.query_later(other);
    dev.host_function(stream, move || {
        let _ = answer.send(query());
    })?;
    Ok(match answers.recv_timeout(LONG / 2) {
        Ok(Ok(_)) => "works".into(),
        Ok(Err(error)) => error.code().to_string(),
        Err(_) => "hangs".into(),
    })
}

pub(crate) fn r28(dev: &DeviceHarness) -> Observation {
    apart::run(dev, "after an error")
}

/// Probes whether a host function behind a faulting kernel is called.
pub(crate) fn after_an_error(dev: &DeviceHarness) -> Observation {
    dev.does_wrong();
    let stream = dev.stream()?;
    let called = Arc::new(AtomicU32::new(0));
    let (before, behind) = (Arc::clone(&called), Arc::clone(&called));
    let gate = dev.gate(stream)?;
    dev.host_function(stream, move || {
        before.fetch_add(1, SeqCst);
    })?;
    dev.fail(stream)?;
    dev.host_function(stream, move || {
        behind.fetch_add(100, SeqCst);
    })?;
    gate.open();
    let first = match dev.stream_synchronize(stream) {
        Ok(()) => return Err("the fault was not told".into()),
        Err(error) => error.code(),
    };
    thread::sleep(Duration::from_millis(100));
    check(
        called.load(SeqCst) % 100 == 1,
        "the one before the fault is called",
    )?;
    check(
        called.load(SeqCst) < 100,
        "the function behind the fault is not called",
    )?;
    check(first.is_sticky(), &format!("{first} is sticky"))?;
    let later = dev.stream_synchronize(stream).map_err(|error| error.code());
    check(later == Err(first), "later calls return the same error")?;
    let refused = dev
        .host_function(stream, || {})
        .map_err(|error| error.code());
    check(refused == Err(first), "a later host function is refused")?;
    Ok(format!("not called; {first}, from every later call"))
}
