//! Rules 1 to 6: the synchronous copies, which are operations of the legacy default stream.

use millstream_driver::StreamHandle;

use crate::{
    gate::Call,
    rig::{Outcome, Rig, check},
};

const LEGACY: StreamHandle = StreamHandle::LEGACY;
/// The most that rule 6 is about.
const SMALL: usize = 64 << 10;

pub(crate) fn r01(rig: &Rig) -> Outcome {
    for bytes in [SMALL + 1, 4 << 20] {
        let (memory, host) = (rig.memory(bytes)?, rig.pageable(bytes, 5));
        rig.blocks(rig.gate(LEGACY)?, || rig.upload_now(memory, host))?;
        host.fill(6);
        check(
            rig.holds(memory, 5, bytes, LEGACY)?,
            "staged before the return",
        )?;
    }
    Ok("blocks at 64 KiB + 1 and 4 MiB".into())
}

pub(crate) fn r02(rig: &Rig) -> Outcome {
    let (memory, host) = (rig.memory(SMALL)?, rig.pinned(SMALL, 5)?);
    rig.blocks(rig.gate(LEGACY)?, || rig.upload_now(memory, host))?;
    check(!rig.pending(LEGACY)?, "nothing is pending")?;
    host.fill(6);
    check(rig.holds(memory, 5, SMALL, LEGACY)?, "complete on return")?;
    Ok("blocks; complete".into())
}

pub(crate) fn r03(rig: &Rig) -> Outcome {
    let source = rig.pinned(4, 9)?;
    for bytes in [4, SMALL] {
        for host in [rig.pageable(bytes, 0), rig.pinned(bytes, 0)?] {
            let memory = rig.memory(bytes)?;
            let gate = rig.gate(LEGACY)?;
            rig.upload(memory, source, LEGACY)?;
            rig.blocks(gate, || rig.download_now(host, memory))?;
            check(
                host.part(0, 4).is(9),
                "complete on return, behind what came before",
            )?;
        }
    }
    Ok("blocks; complete, into pageable and page-locked memory".into())
}

pub(crate) fn r04(rig: &Rig) -> Outcome {
    let (from, to, source) = (rig.memory(4)?, rig.memory(4)?, rig.pinned(4, 3)?);
    let gate = rig.gate(LEGACY)?;
    rig.upload(from, source, LEGACY)?;
    let gate = rig.returns(gate, || rig.copy_device_to_device(to, from, 4))?;
    check(rig.pending(LEGACY)?, "it has not run")?;
    gate.open();
    check(rig.holds(to, 3, 4, LEGACY)?, "it copies")?;
    Ok("returns, pending".into())
}

pub(crate) fn r05(rig: &Rig) -> Outcome {
    let mut waits = Vec::new();
    for (from, to) in [
        (rig.pageable(8, 4), rig.pageable(8, 0)),
        (rig.pageable(8, 4), rig.pinned(8, 0)?),
        (rig.pinned(8, 4)?, rig.pinned(8, 0)?),
    ] {
        let gate = rig.gate(LEGACY)?;
        let call = rig.either(gate, || rig.copy_unified(to.address(), from.address(), 8))?;
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

pub(crate) fn r06(rig: &Rig) -> Outcome {
    let mut words = Vec::new();
    for bytes in [1 << 10, SMALL] {
        let (memory, host) = (rig.memory(bytes)?, rig.pageable(bytes, 1));
        let call = rig.either(rig.gate(LEGACY)?, || rig.upload_now(memory, host))?;
        words.push(call.word());
        host.fill(2);
        drop(call);
        check(
            rig.holds(memory, 1, bytes, LEGACY)?,
            "the source was read before the return",
        )?;
    }
    Ok(format!("{} at 1 KiB, {} at 64 KiB", words[0], words[1]))
}
