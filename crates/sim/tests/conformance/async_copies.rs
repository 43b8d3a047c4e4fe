//! Rules 7 to 15: asynchronous copies and fills, and kernel launches.

use crate::conformance::{apart, prelude::*};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

pub(crate) fn r07(dev: &DeviceHarness) -> Observation {
    for bytes in [4, MIB] {
        let (stream, memory) = (dev.stream()?, dev.memory(bytes)?);
        let (source, target) = (dev.pinned(bytes, 1)?, dev.pinned(bytes, 0)?);
        let gate = dev.returns(dev.gate(stream)?, || {
            dev.upload(memory, source, stream)?;
            dev.download(target, memory, stream)
        })?;
        source.fill(2);
        check(target.is(0), "the target is unchanged")?;
        gate.open();
        dev.stream_synchronize(stream)?;
        check(
            target.is(2),
            "the copy read the bytes written after the call",
        )?;
    }
    Ok("returns; the device sees what the host wrote after the call".into())
}

/// Uploads behind a closed gate, checks that the source was read before the call returned, and
/// returns whether the call blocked or returned.
fn upload_word(dev: &DeviceHarness, bytes: usize) -> Result<&'static str, libtest_mimic::Failed> {
    let (stream, memory, host) = (dev.stream()?, dev.memory(bytes)?, dev.pageable(bytes, 1));
    let call = dev.either(dev.gate(stream)?, || dev.upload(memory, host, stream))?;
    host.fill(2);
    let word = call.word();
    drop(call);
    check(
        dev.holds(memory, 1, bytes, stream)?,
        "the source was read before the return",
    )?;
    Ok(word)
}

pub(crate) fn r08(dev: &DeviceHarness) -> Observation {
    let sizes = [4 * KIB, 64 * KIB, MIB, MIB + 1, 16 * MIB];
    let [a, b, c, d, e] = sizes.map(|bytes| upload_word(dev, bytes));
    Ok(format!(
        "{} at 4 KiB, {} at 64 KiB, {} at 1 MiB, {} at one byte more, {} at 16 MiB",
        a?, b?, c?, d?, e?
    ))
}

pub(crate) fn r09(dev: &DeviceHarness) -> Observation {
    let mut words = Vec::new();
    for bytes in [4, MIB] {
        let (stream, memory) = (dev.stream()?, dev.memory(bytes)?);
        let (source, host) = (dev.pinned(bytes, 7)?, dev.pageable(bytes, 0));
        let gate = dev.gate(stream)?;
        dev.upload(memory, source, stream)?;
        let call = dev.either(gate, || dev.download(host, memory, stream))?;
        words.push(call.word());
        if let CallOutcome::Returned(gate) = call {
            check(host.is(0), "nothing has arrived while the gate is closed")?;
            gate.open();
        }
        dev.stream_synchronize(stream)?;
        check(host.is(7), "the download has run")?;
    }
    Ok(format!("{} at 4 bytes, {} at 1 MiB", words[0], words[1]))
}

pub(crate) fn r10(dev: &DeviceHarness) -> Observation {
    let (stream, memory, host) = (dev.stream()?, dev.memory(4)?, dev.pageable(4, 1));
    let gate = dev.gate(stream)?;
    dev.host_function(stream, move || host.fill(2))?;
    let call = dev.either(gate, || dev.upload(memory, host, stream))?;
    drop(call);
    let bytes = dev.read(memory, 4, stream)?;
    check(host.is(2), "the host function has run")?;
    match bytes[..] {
        [1, 1, 1, 1] => Ok("read at the call".into()),
        [2, 2, 2, 2] => Ok("read at its turn".into()),
        _ => Err(format!("neither of the two: {bytes:?}").into()),
    }
}

pub(crate) fn r11(dev: &DeviceHarness) -> Observation {
    let mut waits = Vec::new();
    for (from, to) in [
        (dev.pageable(8, 4), dev.pageable(8, 0)),
        (dev.pageable(8, 4), dev.pinned(8, 0)?),
        (dev.pinned(8, 4)?, dev.pinned(8, 0)?),
    ] {
        let stream = dev.stream()?;
        let (target, source) = (to.address(), from.address());
        let call = dev.either(dev.gate(stream)?, || {
            dev.copy_unified_async(target, source, 8, stream)
        })?;
        check(to.is(4), "complete on return")?;
        waits.push(match call {
            CallOutcome::Blocked => "waits for the stream",
            CallOutcome::Returned(_) => "does not wait for the stream",
        });
    }
    Ok(format!(
        "complete; pageable: {}; into page-locked: {}; page-locked: {}",
        waits[0], waits[1], waits[2]
    ))
}

pub(crate) fn r12(dev: &DeviceHarness) -> Observation {
    let fill = FillPattern::U8(3);
    let (stream, memory) = (dev.stream()?, dev.memory(MIB)?);
    let gate = dev.returns(dev.gate(stream)?, || {
        dev.memset_async(memory, fill, MIB, stream)
    })?;
    check(dev.pending(stream)?, "the operation has not run")?;
    gate.open();
    check(dev.holds(memory, 3, MIB, stream)?, "the fill has run")?;

    let (pinned, managed) = (dev.pinned(KIB, 0)?, dev.managed(KIB)?);
    managed.fill(0);
    let mut words = Vec::new();
    for host in [pinned, managed] {
        let target = host.address();
        let call = dev.either(dev.gate(stream)?, || {
            dev.memset_async(target, fill, KIB, stream)
        })?;
        words.push(call.word());
        drop(call);
        dev.stream_synchronize(stream)?;
        check(host.is(3), "the fill has run on this memory")?;
    }
    dev.mem_free(managed.address())?;
    Ok(format!(
        "device memory: returns; page-locked: {}; managed: {}",
        words[0], words[1]
    ))
}

pub(crate) fn r13(dev: &DeviceHarness) -> Observation {
    let (stream, memory) = (dev.stream()?, dev.memory(4)?);
    let gate = dev.returns(dev.gate(stream)?, || dev.store(memory, 0x0505_0505, stream))?;
    check(dev.stays_pending(stream)?, "the operation has not run")?;
    gate.open();
    check(dev.holds(memory, 5, 4, stream)?, "the operation has run")?;
    Ok("returns, pending".into())
}

pub(crate) fn r14(dev: &DeviceHarness) -> Observation {
    let mut words = Vec::new();
    for source in [
        dev.pinned(KIB, 1)?,
        dev.pageable(KIB, 1),
        dev.pinned(4 * MIB, 1)?,
    ] {
        let (stream, memory) = (dev.stream()?, dev.memory(source.bytes)?);
        let mut there_is_none = false;
        let call = dev.either(dev.gate(stream)?, || {
            match dev.upload_captured(memory, source, stream) {
                Err(error) if error.code() == ResultCode::NOT_SUPPORTED => {
                    there_is_none = true;
                    Ok(())
                }
                answer => answer,
            }
        })?;
        if there_is_none {
            return Ok("the driver has no such call".into());
        }
        words.push(call.word());
        source.fill(2);
        drop(call);
        check(
            dev.holds(memory, 1, source.bytes, stream)?,
            "the source was read before the return",
        )?;
    }
    Ok(format!(
        "{} for page-locked 1 KiB, {} for pageable 1 KiB, {} for page-locked 4 MiB",
        words[0], words[1], words[2]
    ))
}

pub(crate) fn r15(dev: &DeviceHarness) -> Observation {
    apart::run(dev, "partly registered")
}

/// Probes copies of ranges that are only partly registered as page-locked memory.
pub(crate) fn partly_registered(dev: &DeviceHarness) -> Observation {
    const PAGE: usize = 4 * KIB;
    let (stream, memory) = (dev.stream()?, dev.memory(16 * PAGE)?);
    let host = dev.pageable(16 * PAGE, 1);
    let registered = host.part(4 * PAGE, 4 * PAGE);
    dev.host_register(registered)?;
    let mut answers = Vec::new();
    for (what, at, bytes) in [
        ("begins before it", 3 * PAGE, 2 * PAGE),
        ("ends behind it", 7 * PAGE, 2 * PAGE),
        ("contains it", 0, 16 * PAGE),
    ] {
        let answer = match dev.upload(memory, host.part(at, bytes), stream) {
            Ok(()) => {
                check(
                    dev.holds(memory, 1, bytes, stream)?,
                    "an accepted copy arrives",
                )?;
                "taken".to_owned()
            }
            refused @ Err(_) => dev.refusal(refused)?.to_string(),
        };
        answers.push(format!("{what}: {answer}"));
    }
    for part in [
        host.part(0, 4 * PAGE),
        registered,
        host.part(8 * PAGE, 8 * PAGE),
    ] {
        dev.upload(memory, part, stream)?;
        check(
            dev.holds(memory, 1, part.bytes, stream)?,
            "the others arrive",
        )?;
    }
    dev.host_unregister(registered)?;
    Ok(answers.join("; "))
}
