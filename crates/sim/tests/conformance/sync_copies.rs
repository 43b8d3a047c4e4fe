//! Rules 1 to 6: synchronous copies, which are operations of the legacy default stream.

use crate::conformance::prelude::*;

const LEGACY: StreamHandle = StreamHandle::LEGACY;
/// The largest copy that rule 6 covers (small uploads from pageable memory).
const SMALL: usize = 64 << 10;

pub(crate) fn r01(dev: &DeviceHarness) -> Observation {
    for bytes in [SMALL + 1, 4 << 20] {
        let (memory, host) = (dev.memory(bytes)?, dev.pageable(bytes, 5));
        dev.blocks(dev.gate(LEGACY)?, || dev.upload_now(memory, host))?;
        host.fill(6);
        check(
            dev.holds(memory, 5, bytes, LEGACY)?,
            "staged before the return",
        )?;
    }
    Ok("blocks at 64 KiB + 1 and 4 MiB".into())
}

pub(crate) fn r02(dev: &DeviceHarness) -> Observation {
    let (memory, host) = (dev.memory(SMALL)?, dev.pinned(SMALL, 5)?);
    dev.blocks(dev.gate(LEGACY)?, || dev.upload_now(memory, host))?;
    check(!dev.pending(LEGACY)?, "nothing is pending")?;
    host.fill(6);
    check(dev.holds(memory, 5, SMALL, LEGACY)?, "complete on return")?;
    Ok("blocks; complete".into())
}

pub(crate) fn r03(dev: &DeviceHarness) -> Observation {
    let source = dev.pinned(4, 9)?;
    for bytes in [4, SMALL] {
        for host in [dev.pageable(bytes, 0), dev.pinned(bytes, 0)?] {
            let memory = dev.memory(bytes)?;
            let gate = dev.gate(LEGACY)?;
            dev.upload(memory, source, LEGACY)?;
            dev.blocks(gate, || dev.download_now(host, memory))?;
            check(
                host.part(0, 4).is(9),
                "complete on return, behind what came before",
            )?;
        }
    }
    Ok("blocks; complete, into pageable and page-locked memory".into())
}

pub(crate) fn r04(dev: &DeviceHarness) -> Observation {
    let (from, to, source) = (dev.memory(4)?, dev.memory(4)?, dev.pinned(4, 3)?);
    let gate = dev.gate(LEGACY)?;
    dev.upload(from, source, LEGACY)?;
    let gate = dev.returns(gate, || dev.copy_device_to_device(to, from, 4))?;
    check(dev.pending(LEGACY)?, "the copy has not run")?;
    gate.open();
    check(dev.holds(to, 3, 4, LEGACY)?, "the copy has run")?;
    Ok("returns, pending".into())
}

pub(crate) fn r05(dev: &DeviceHarness) -> Observation {
    let mut waits = Vec::new();
    for (from, to) in [
        (dev.pageable(8, 4), dev.pageable(8, 0)),
        (dev.pageable(8, 4), dev.pinned(8, 0)?),
        (dev.pinned(8, 4)?, dev.pinned(8, 0)?),
    ] {
        let gate = dev.gate(LEGACY)?;
        let call = dev.either(gate, || dev.copy_unified(to.address(), from.address(), 8))?;
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

pub(crate) fn r06(dev: &DeviceHarness) -> Observation {
    let mut words = Vec::new();
    for bytes in [1 << 10, SMALL] {
        let (memory, host) = (dev.memory(bytes)?, dev.pageable(bytes, 1));
        let call = dev.either(dev.gate(LEGACY)?, || dev.upload_now(memory, host))?;
        words.push(call.word());
        host.fill(2);
        drop(call);
        check(
            dev.holds(memory, 1, bytes, LEGACY)?,
            "the source was read before the return",
        )?;
    }
    Ok(format!("{} at 1 KiB, {} at 64 KiB", words[0], words[1]))
}
