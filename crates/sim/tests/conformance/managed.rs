//! Rules 49 to 51: managed memory, which host and device access at one address, and its advice.

use millstream_driver::{ManagedAdvice, ManagedLocation};

use crate::conformance::{apart, prelude::*};

const BYTES: usize = 1 << 16;

/// Returns whether host and device may access managed memory at the same time.
fn concurrent(dev: &DeviceHarness) -> Result<bool, libtest_mimic::Failed> {
    Ok(dev.attribute(DeviceAttribute::CONCURRENT_MANAGED_ACCESS)? == 1)
}

pub(crate) fn r49(dev: &DeviceHarness) -> Observation {
    check(
        dev.attribute(DeviceAttribute::MANAGED_MEMORY)? == 1,
        "the device has managed memory",
    )?;
    let (stream, managed) = (dev.stream()?, dev.managed(BYTES)?);
    managed.fill(3);
    check(
        dev.holds(managed.address(), 3, BYTES, stream)?,
        "the device sees what the host wrote",
    )?;
    dev.memset_async(managed.address(), FillPattern::U8(9), BYTES, stream)?;
    dev.stream_synchronize(stream)?;
    check(managed.is(9), "the host sees what a fill wrote")?;
    dev.store(managed.address(), 0x0101_0101, stream)?;
    dev.stream_synchronize(stream)?;
    check(
        managed.part(0, 4).is(1),
        "the host sees what a kernel wrote",
    )?;
    let values: Vec<u8> = (0..BYTES).map(|index| index as u8).collect();
    let source = dev.pinned(BYTES, 0)?;
    source.write(&values);
    dev.upload(managed.address(), source, stream)?;
    dev.stream_synchronize(stream)?;
    check(
        managed.read() == values,
        "a device copy accepts managed memory",
    )?;
    dev.mem_free(managed.address())?;
    let ordered = apart::run(dev, "managed freed in order")?;
    Ok(format!("values go round; cuMemFreeAsync: {ordered}"))
}

/// Probes a stream-ordered free of managed memory.
pub(crate) fn freed_in_stream_order(dev: &DeviceHarness) -> Observation {
    dev.does_wrong();
    let (stream, managed) = (dev.stream()?, dev.managed(BYTES)?);
    managed.fill(1);
    let answer = dev.mem_free_async(managed.address(), stream);
    let after = dev.stream_synchronize(stream);
    Ok(match (answer, after) {
        (Err(error), Ok(())) => error.code().to_string(),
        (Ok(()), Ok(())) => "works".into(),
        (Ok(()), Err(error)) => format!("taken, then {}", error.code()),
        (Err(error), Err(after)) => format!("{}, then {}", error.code(), after.code()),
    })
}

pub(crate) fn r50(dev: &DeviceHarness) -> Observation {
    if !concurrent(dev)? {
        return Ok("the attribute is 0".into());
    }
    let (stream, held) = (dev.stream()?, dev.stream()?);
    let managed = dev.managed(2 * BYTES)?;
    managed.fill(5);
    let (mine, other) = (managed.part(0, BYTES), managed.part(BYTES, BYTES));
    let gate = dev.gate(held)?;
    check(mine.is(5), "read while a kernel runs")?;
    mine.fill(6);
    dev.store(other.address(), 0x0707_0707, stream)?;
    dev.stream_synchronize(stream)?;
    check(
        mine.is(6) && other.part(0, 4).is(7),
        "written beside each other",
    )?;
    check(dev.pending(held)?, "the gate is closed")?;
    gate.open();
    dev.stream_synchronize(held)?;
    dev.mem_free(managed.address())?;
    Ok("the attribute is 1; read and written beside a kernel".into())
}

pub(crate) fn r51(dev: &DeviceHarness) -> Observation {
    let (stream, plain) = (dev.stream()?, dev.memory(BYTES)?);
    let here = ManagedLocation::Device(dev.device);
    let prefetch = dev.refusal(dev.mem_prefetch_async(plain, BYTES, here, stream))?;
    let advice = dev.refusal(dev.mem_advise(plain, BYTES, ManagedAdvice::SetReadMostly, here))?;
    check(
        prefetch == ResultCode::INVALID_VALUE && advice == ResultCode::INVALID_VALUE,
        &format!("other memory is refused: {prefetch}, {advice}"),
    )?;
    if !concurrent(dev)? {
        return Ok("other memory is refused; the device takes no hints".into());
    }
    let managed = dev.managed(BYTES)?;
    let address = managed.address();
    managed.fill(3);
    for (advice, location) in [
        (ManagedAdvice::SetPreferredLocation, here),
        (ManagedAdvice::SetAccessedBy, ManagedLocation::Host),
        (ManagedAdvice::SetReadMostly, ManagedLocation::Host),
        (ManagedAdvice::UnsetReadMostly, ManagedLocation::Host),
    ] {
        dev.mem_advise(address, BYTES, advice, location)?;
    }
    let call = dev.either(dev.gate(stream)?, || {
        dev.mem_prefetch_async(address, BYTES, here, stream)
    })?;
    let word = call.word();
    drop(call);
    check(
        dev.holds(address, 3, BYTES, stream)?,
        "no value changes on the way there",
    )?;
    dev.mem_prefetch_async(address, BYTES, ManagedLocation::Host, stream)?;
    dev.stream_synchronize(stream)?;
    check(managed.is(3), "nor on the way back")?;
    dev.mem_advise(address, BYTES, ManagedAdvice::UnsetPreferredLocation, here)?;
    dev.mem_advise(
        address,
        BYTES,
        ManagedAdvice::UnsetAccessedBy,
        ManagedLocation::Host,
    )?;
    dev.mem_free(address)?;
    Ok(format!(
        "values stay; a prefetch {word}; other memory: {prefetch}"
    ))
}
