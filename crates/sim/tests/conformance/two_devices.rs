//! Rules 20, 26 and 31: what belongs to one of two devices.

use millstream_driver::ResultCode;

use crate::{
    apart,
    rig::{Outcome, Rig, check},
};

pub(crate) fn r20(rig: &Rig) -> Outcome {
    apart::run(rig, "foreign stream")
}

/// A launch and a copy on a stream of another context.
pub(crate) fn foreign_stream(rig: &Rig) -> Outcome {
    let second = rig.second()?;
    let (foreign, memory, source) = (second.stream()?, rig.memory(4)?, rig.pinned(4, 1)?);
    let launch = rig.refusal(rig.store(memory, 1, foreign))?;
    let copy = match rig.upload(memory, source, foreign) {
        Ok(()) => {
            second.stream_synchronize(foreign)?;
            check(
                rig.holds(memory, 1, 4, rig.stream()?)?,
                "a copy that is taken copies",
            )?;
            "works".to_owned()
        }
        refused @ Err(_) => rig.refusal(refused)?.to_string(),
    };
    Ok(format!("a launch: {launch}; a copy: {copy}"))
}

pub(crate) fn r26(rig: &Rig) -> Outcome {
    let second = rig.second()?;
    let (here, there) = (rig.stream()?, second.stream()?);
    let gate = rig.gate(here)?;
    let event = rig.recorded(here)?;
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
    rig.event_destroy(event)?;
    let record = apart::run(rig, "foreign record")?;
    Ok(format!(
        "waits and queries work; a foreign record: {record}"
    ))
}

/// A record on a stream of another context than the event's.
pub(crate) fn foreign_record(rig: &Rig) -> Outcome {
    let second = rig.second()?;
    let (event, there) = (rig.event()?, second.stream()?);
    let code = rig.refusal(rig.event_record(event, there))?;
    check(
        code == ResultCode::INVALID_HANDLE || code == ResultCode::INVALID_CONTEXT,
        &format!("it answers {code}"),
    )?;
    Ok(code.to_string())
}

pub(crate) fn r31(rig: &Rig) -> Outcome {
    const BYTES: u64 = 64 << 20;
    let second = rig.second()?;
    let stream = second.stream()?;
    let usage = || -> Result<(u64, u64), libtest_mimic::Failed> {
        Ok((
            rig.pool_usage()?.used_bytes,
            second.pool_usage()?.used_bytes,
        ))
    };
    // This makes the first device's context current.
    rig.memory(4)?;
    let before = usage()?;
    let memory = second.mem_alloc_async(BYTES as usize, stream)?;
    let during = usage()?;
    second.mem_free_async(memory, stream)?;
    second.stream_synchronize(stream)?;
    check(during.0 == before.0, "not on the first device")?;
    check(during.1 >= before.1 + BYTES, "but on that of the stream")?;
    Ok("the stream's device".into())
}
