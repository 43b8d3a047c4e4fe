//! Rules 7 to 15: the asynchronous copies and fills, and launches.

use millstream_driver::{FillPattern, ResultCode};

use crate::{
    apart,
    gate::Call,
    rig::{Outcome, Rig, check},
};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

pub(crate) fn r07(rig: &Rig) -> Outcome {
    for bytes in [4, MIB] {
        let (stream, memory) = (rig.stream()?, rig.memory(bytes)?);
        let (source, target) = (rig.pinned(bytes, 1)?, rig.pinned(bytes, 0)?);
        let gate = rig.returns(rig.gate(stream)?, || {
            rig.upload(memory, source, stream)?;
            rig.download(target, memory, stream)
        })?;
        source.fill(2);
        check(target.is(0), "the target is as it was")?;
        gate.open();
        rig.stream_synchronize(stream)?;
        check(target.is(2), "what was written after the call was copied")?;
    }
    Ok("returns; the device sees what the host wrote after the call".into())
}

/// What the upload does behind a closed gate, once its source is seen to be read by then.
fn upload_word(rig: &Rig, bytes: usize) -> Result<&'static str, libtest_mimic::Failed> {
    let (stream, memory, host) = (rig.stream()?, rig.memory(bytes)?, rig.pageable(bytes, 1));
    let call = rig.either(rig.gate(stream)?, || rig.upload(memory, host, stream))?;
    host.fill(2);
    let word = call.word();
    drop(call);
    check(
        rig.holds(memory, 1, bytes, stream)?,
        "the source was read before the return",
    )?;
    Ok(word)
}

pub(crate) fn r08(rig: &Rig) -> Outcome {
    let small = [4 * KIB, 64 * KIB, MIB].map(|bytes| upload_word(rig, bytes));
    let [a, b, c] = small;
    let large = upload_word(rig, 16 * MIB)?;
    Ok(format!(
        "{} at 4 KiB, {} at 64 KiB, {} at 1 MiB, {large} at 16 MiB",
        a?, b?, c?
    ))
}

pub(crate) fn r09(rig: &Rig) -> Outcome {
    let mut words = Vec::new();
    for bytes in [4, MIB] {
        let (stream, memory) = (rig.stream()?, rig.memory(bytes)?);
        let (source, host) = (rig.pinned(bytes, 7)?, rig.pageable(bytes, 0));
        let gate = rig.gate(stream)?;
        rig.upload(memory, source, stream)?;
        let call = rig.either(gate, || rig.download(host, memory, stream))?;
        words.push(call.word());
        if let Call::Returned(gate) = call {
            check(host.is(0), "nothing has arrived while the gate is closed")?;
            gate.open();
        }
        rig.stream_synchronize(stream)?;
        check(host.is(7), "it arrives")?;
    }
    Ok(format!("{} at 4 bytes, {} at 1 MiB", words[0], words[1]))
}

pub(crate) fn r10(rig: &Rig) -> Outcome {
    let (stream, memory, host) = (rig.stream()?, rig.memory(4)?, rig.pageable(4, 1));
    let gate = rig.gate(stream)?;
    rig.host_function(stream, move || host.fill(2))?;
    let call = rig.either(gate, || rig.upload(memory, host, stream))?;
    drop(call);
    let bytes = rig.read(memory, 4, stream)?;
    check(host.is(2), "the host function has run")?;
    match bytes[..] {
        [1, 1, 1, 1] => Ok("read at the call".into()),
        [2, 2, 2, 2] => Ok("read at its turn".into()),
        _ => Err(format!("neither of the two: {bytes:?}").into()),
    }
}

pub(crate) fn r11(rig: &Rig) -> Outcome {
    let mut waits = Vec::new();
    for (from, to) in [
        (rig.pageable(8, 4), rig.pageable(8, 0)),
        (rig.pageable(8, 4), rig.pinned(8, 0)?),
        (rig.pinned(8, 4)?, rig.pinned(8, 0)?),
    ] {
        let stream = rig.stream()?;
        let (target, source) = (to.address(), from.address());
        let call = rig.either(rig.gate(stream)?, || {
            rig.copy_unified_async(target, source, 8, stream)
        })?;
        check(to.is(4), "complete on return")?;
        waits.push(match call {
            Call::Blocked => "waits for the stream",
            Call::Returned(_) => "does not wait for the stream",
        });
    }
    Ok(format!(
        "complete; pageable: {}; into page-locked: {}; page-locked: {}",
        waits[0], waits[1], waits[2]
    ))
}

pub(crate) fn r12(rig: &Rig) -> Outcome {
    let fill = FillPattern::U8(3);
    let (stream, memory) = (rig.stream()?, rig.memory(MIB)?);
    let gate = rig.returns(rig.gate(stream)?, || {
        rig.memset_async(memory, fill, MIB, stream)
    })?;
    check(rig.pending(stream)?, "it has not run")?;
    gate.open();
    check(rig.holds(memory, 3, MIB, stream)?, "it fills")?;

    let (pinned, managed) = (rig.pinned(KIB, 0)?, rig.managed(KIB)?);
    managed.fill(0);
    let mut words = Vec::new();
    for host in [pinned, managed] {
        let target = host.address();
        let call = rig.either(rig.gate(stream)?, || {
            rig.memset_async(target, fill, KIB, stream)
        })?;
        words.push(call.word());
        drop(call);
        rig.stream_synchronize(stream)?;
        check(host.is(3), "it fills that, too")?;
    }
    rig.mem_free(managed.address())?;
    Ok(format!(
        "device memory: returns; page-locked: {}; managed: {}",
        words[0], words[1]
    ))
}

pub(crate) fn r13(rig: &Rig) -> Outcome {
    let (stream, memory) = (rig.stream()?, rig.memory(4)?);
    let gate = rig.returns(rig.gate(stream)?, || rig.store(memory, 0x0505_0505, stream))?;
    check(rig.stays_pending(stream)?, "it has not run")?;
    gate.open();
    check(rig.holds(memory, 5, 4, stream)?, "it runs")?;
    Ok("returns, pending".into())
}

pub(crate) fn r14(rig: &Rig) -> Outcome {
    let mut words = Vec::new();
    for source in [
        rig.pinned(KIB, 1)?,
        rig.pageable(KIB, 1),
        rig.pinned(4 * MIB, 1)?,
    ] {
        let (stream, memory) = (rig.stream()?, rig.memory(source.bytes)?);
        let mut there_is_none = false;
        let call = rig.either(rig.gate(stream)?, || {
            match rig.upload_captured(memory, source, stream) {
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
            rig.holds(memory, 1, source.bytes, stream)?,
            "the source was read before the return",
        )?;
    }
    Ok(format!(
        "{} for page-locked 1 KiB, {} for pageable 1 KiB, {} for page-locked 4 MiB",
        words[0], words[1], words[2]
    ))
}

pub(crate) fn r15(rig: &Rig) -> Outcome {
    apart::run(rig, "partly registered")
}

/// Copies of ranges of which a part is registered.
pub(crate) fn partly_registered(rig: &Rig) -> Outcome {
    const PAGE: usize = 4 * KIB;
    let (stream, memory) = (rig.stream()?, rig.memory(16 * PAGE)?);
    let host = rig.pageable(16 * PAGE, 1);
    let registered = host.part(4 * PAGE, 4 * PAGE);
    rig.host_register(registered)?;
    let mut answers = Vec::new();
    for (what, at, bytes) in [
        ("begins before it", 3 * PAGE, 2 * PAGE),
        ("ends behind it", 7 * PAGE, 2 * PAGE),
        ("contains it", 0, 16 * PAGE),
    ] {
        let answer = match rig.upload(memory, host.part(at, bytes), stream) {
            Ok(()) => {
                check(
                    rig.holds(memory, 1, bytes, stream)?,
                    "what is taken arrives",
                )?;
                "taken".to_owned()
            }
            refused @ Err(_) => rig.refusal(refused)?.to_string(),
        };
        answers.push(format!("{what}: {answer}"));
    }
    for part in [
        host.part(0, 4 * PAGE),
        registered,
        host.part(8 * PAGE, 8 * PAGE),
    ] {
        rig.upload(memory, part, stream)?;
        check(
            rig.holds(memory, 1, part.bytes, stream)?,
            "the others arrive",
        )?;
    }
    rig.host_unregister(registered)?;
    Ok(answers.join("; "))
}
