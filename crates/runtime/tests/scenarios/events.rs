//! Events: elapsed times, and explicit ordering.

use crate::scenarios::prelude::*;

#[run_by(scenario_on, |harness, [stream]|)]
fn an_event_completes_when_its_stream_reaches_it() -> Result<()> {
    let before = stream.record()?;
    let gate = harness.gate(&stream);
    let behind = stream.record()?;
    before.wait()?;
    harness.assert_pending(&behind);
    drop(stream.record()?);
    gate.open();
    behind.wait()?;
    assert!(before.is_complete()? && behind.is_complete()?);
    let elapsed = behind.elapsed_since(&before)?;
    assert_eq!(
        before.elapsed_since(&behind)?.as_nanos(),
        0,
        "{elapsed:?} the other way round"
    );
    Ok(())
}

#[run_by(counted_on, |harness, calls, [s1, s2, s3]|)]
fn a_stream_that_waits_for_an_event_needs_no_other_wait() -> Result<()> {
    let mut a = s1.zeros::<u32>(N)?;
    let mut b = s2.zeros::<u32>(N)?;
    let gate = harness.gate(&s1);
    s1.fill(&mut a, 7)?;
    let written = s1.record()?;
    s2.wait_for(&written)?;
    calls.forget();
    s2.copy(&a, &mut b)?;
    assert_eq!(
        calls.count("stream_wait_event"),
        0,
        "the order is already established"
    );
    let copied = s2.record()?;
    s3.wait_for(&copied)?;
    calls.forget();
    let (first, second) = (s3.download(&a)?, s3.download(&b)?);
    assert_eq!(
        calls.count("stream_wait_event"),
        0,
        "the order is already established through two streams"
    );
    harness.assert_pending(&first);
    harness.open_pending(gate, &second);
    assert_eq!((first.wait()?, second.wait()?), (vec![7; N], vec![7; N]));
    Ok(())
}

#[run_by(scenario_on, |_, [stream]|)]
fn an_event_of_another_device_is_rejected() -> Result<()> {
    let foreign = Device::simulated()?.stream()?.record()?;
    assert!(matches!(stream.wait_for(&foreign), Err(Error::Usage(_))));
    assert_is!(
        stream.record()?.elapsed_since(&foreign),
        Err(Error::Usage(_))
    );
    Ok(())
}
