//! Rules 38 and 39: access of one device to another device's memory.

use millstream_driver::{ContextHandle, P2pAttribute, PeerCopy2d};

use crate::conformance::{apart, prelude::*};

/// The observation where the devices cannot access each other's memory.
const NO_PEERS: &str = "the devices are no peers";

/// Returns whether the devices can access each other's memory.
fn are_peers(dev: &DeviceHarness, second: &DeviceHarness) -> Result<bool, libtest_mimic::Failed> {
    let driver = &dev.driver;
    let attribute =
        driver.device_p2p_attribute(P2pAttribute::ACCESS_SUPPORTED, dev.device, second.device)?;
    let can_access = driver.device_can_access_peer(dev.device, second.device)?;
    check(
        can_access == (attribute == 1),
        "the attribute and the call agree",
    )?;
    Ok(can_access && driver.device_can_access_peer(second.device, dev.device)?)
}

pub(crate) fn r38(dev: &DeviceHarness) -> Observation {
    let second = dev.second()?;
    if !are_peers(dev, &second)? {
        dev.refusal(dev.pool_set_access(second.device, true))?;
        return Ok(NO_PEERS.into());
    }
    let with = apart::run(dev, "pool with access")?;
    let without = apart::run(dev, "pool without access")?;
    Ok(format!("with access: {with}; without: {without}"))
}

/// Probes copies of another device's pool memory before access is given, and copies and kernels
/// after it is.
pub(crate) fn pool_with_access(dev: &DeviceHarness) -> Observation {
    const ROW: usize = 8;
    let second = dev.second()?;
    let (here, there) = (dev.stream()?, second.stream()?);
    let memory = dev.mem_alloc_async(2 * ROW, here)?;
    dev.memset_async(memory, FillPattern::U8(1), 2 * ROW, here)?;
    dev.stream_synchronize(here)?;
    let copy = second.memory(2 * ROW)?;
    second.copy_from(copy, dev, memory, 2 * ROW, there)?;
    check(
        second.holds(copy, 1, 2 * ROW, there)?,
        "a copy without access copies",
    )?;
    // Concerns memory that is already allocated.
    for _ in 0..2 {
        dev.pool_set_access(second.device, true)?;
    }
    second.store(memory, 0x0202_0202, there)?;
    second.stream_synchronize(there)?;
    check(
        dev.holds(memory, 2, 4, here)?,
        "a kernel of the other device writes the memory",
    )?;
    // The second half of each row, back to back.
    let rows = PeerCopy2d {
        target: copy,
        target_pitch_bytes: ROW / 2,
        target_context: second.context,
        source: memory,
        source_pitch_bytes: ROW,
        source_context: dev.context,
        row_bytes: ROW / 2,
        rows: 2,
    };
    second.copy_peer_2d_async(&rows, there)?;
    second.copy_peer_2d_async(&PeerCopy2d { rows: 0, ..rows }, there)?;
    let copied = second.read(copy, 2 * ROW, there)?;
    check(
        copied == [[2; 4], [1; 4], [1; 4], [1; 4]].concat(),
        &format!("a copy of rows with access copies: {copied:?}"),
    )?;
    dev.pool_set_access(second.device, false)?;
    dev.mem_free_async(memory, here)?;
    dev.stream_synchronize(here)?;
    Ok("kernels write, copies copy".into())
}

/// Probes a kernel that writes another device's pool memory after access was given to the context
/// alone.
pub(crate) fn pool_without_access(dev: &DeviceHarness) -> Observation {
    dev.does_wrong();
    let second = dev.second()?;
    let (here, there) = (dev.stream()?, second.stream()?);
    let memory = dev.mem_alloc_async(4, here)?;
    dev.stream_synchronize(here)?;
    second.context_enable_peer_access(dev.context)?;
    second.store(memory, 1, there)?;
    let code = dev.refusal(second.stream_synchronize(there))?;
    check(
        code == ResultCode::ILLEGAL_ADDRESS,
        &format!("a kernel faults with {code}"),
    )?;
    let owner = match dev.stream_synchronize(here) {
        Ok(()) => "lives".to_owned(),
        Err(error) => format!("answers {}", error.code()),
    };
    Ok(format!("{code}; the owner's context {owner}"))
}

pub(crate) fn r39(dev: &DeviceHarness) -> Observation {
    let second = dev.second()?;
    if !are_peers(dev, &second)? {
        is_no_peer(dev, second.context)?;
        return Ok(NO_PEERS.into());
    }
    apart::run(dev, "peer access")
}

fn is_no_peer(dev: &DeviceHarness, context: ContextHandle) -> Result<(), Failed> {
    let refused = dev.refusal(dev.context_enable_peer_access(context))?;
    check(
        refused == ResultCode::PEER_ACCESS_UNSUPPORTED,
        &format!("a context that is no peer: {refused}"),
    )
}

/// Probes access to memory outside a pool, in both directions.
pub(crate) fn peer_access(dev: &DeviceHarness) -> Observation {
    dev.does_wrong();
    let second = dev.second()?;
    let (here, there) = (dev.stream()?, second.stream()?);
    let (own, foreign) = (dev.memory(4)?, second.memory(4)?);
    is_no_peer(dev, dev.context)?;
    dev.context_enable_peer_access(second.context)?;
    let again = dev.refusal(dev.context_enable_peer_access(second.context))?;
    check(
        again == ResultCode::PEER_ACCESS_ALREADY_ENABLED,
        &format!("a second call answers {again}"),
    )?;
    dev.store(foreign, 0x0303_0303, here)?;
    dev.stream_synchronize(here)?;
    check(
        second.holds(foreign, 3, 4, there)?,
        "a kernel writes the other device's memory",
    )?;
    second.store(own, 1, there)?;
    let code = dev.refusal(second.stream_synchronize(there))?;
    check(
        code == ResultCode::ILLEGAL_ADDRESS,
        &format!("the other direction answers {code}"),
    )?;
    Ok(format!(
        "a second call: {again}; the other direction: {code}"
    ))
}
