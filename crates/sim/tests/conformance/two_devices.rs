//! Rules 20, 26 and 31: streams, events and memory that belong to one of two devices.

use crate::conformance::{apart, prelude::*};

pub(crate) fn r20(dev: &DeviceHarness) -> Observation {
    apart::run(dev, "foreign stream")
}

/// Probes a launch and a copy on a stream of another context.
pub(crate) fn foreign_stream(dev: &DeviceHarness) -> Observation {
    let second = dev.second()?;
    let (foreign, memory, source) = (second.stream()?, dev.memory(4)?, dev.pinned(4, 1)?);
    let launch = dev.refusal(dev.store(memory, 1, foreign))?;
    let copy = match dev.upload(memory, source, foreign) {
        Ok(()) => {
            second.stream_synchronize(foreign)?;
            check(
                dev.holds(memory, 1, 4, dev.stream()?)?,
                "a copy that is taken copies",
            )?;
            "works".to_owned()
        }
        refused @ Err(_) => dev.refusal(refused)?.to_string(),
    };
    Ok(format!("a launch: {launch}; a copy: {copy}"))
}

pub(crate) fn r26(dev: &DeviceHarness) -> Observation {
    let second = dev.second()?;
    let (here, there) = (dev.stream()?, second.stream()?);
    let gate = dev.gate(here)?;
    let event = dev.recorded(here)?;
    second.stream_wait_event(there, event)?;
    check(
        second.stays_pending(there)?,
        "a wait on another device holds it back",
    )?;
    check(
        !second.event_query(event)?.is_complete(),
        "a query from another context tells the truth",
    )?;
    gate.open();
    second.event_synchronize(event)?;
    second.stream_synchronize(there)?;
    dev.event_destroy(event)?;
    let record = apart::run(dev, "foreign record")?;
    Ok(format!(
        "waits and queries work; a foreign record: {record}"
    ))
}

/// Probes recording an event on a stream of another context.
pub(crate) fn foreign_record(dev: &DeviceHarness) -> Observation {
    let second = dev.second()?;
    let (event, there) = (dev.event()?, second.stream()?);
    let code = dev.refusal(dev.event_record(event, there))?;
    check(
        code == ResultCode::INVALID_HANDLE || code == ResultCode::INVALID_CONTEXT,
        &format!("it answers {code}"),
    )?;
    Ok(code.to_string())
}

pub(crate) fn r31(dev: &DeviceHarness) -> Observation {
    const BYTES: u64 = 64 << 20;
    let second = dev.second()?;
    let stream = second.stream()?;
    let usage = || -> Result<(u64, u64), libtest_mimic::Failed> {
        Ok((
            dev.pool_usage()?.used_bytes,
            second.pool_usage()?.used_bytes,
        ))
    };
    // This makes the first device's context current.
    dev.memory(4)?;
    let before = usage()?;
    let memory = second.mem_alloc_async(BYTES as usize, stream)?;
    let during = usage()?;
    second.mem_free_async(memory, stream)?;
    second.stream_synchronize(stream)?;
    check(
        during.0 == before.0,
        "the pool of the first device does not grow",
    )?;
    check(
        during.1 >= before.1 + BYTES,
        "the pool of the stream's device grows",
    )?;
    Ok("the stream's device".into())
}
