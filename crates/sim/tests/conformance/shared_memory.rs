//! Rule 57: dynamic shared memory beyond what every kernel may have.

use millstream_driver::{DeviceAttribute, FunctionAttribute, ResultCode};

use crate::rig::{Outcome, Rig, check};

pub(crate) fn r57(rig: &Rig) -> Outcome {
    const DYNAMIC: FunctionAttribute = FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES;
    let (stream, target, kernel) = (rig.stream()?, rig.memory(4)?, rig.kernels().last_word);
    let usual = rig.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK)?;
    let most = rig.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    let own = rig.function_attribute(kernel, FunctionAttribute::SHARED_BYTES)?;
    check(
        (1024..2048).contains(&own),
        &format!("1024 bytes of its own, not {own}"),
    )?;
    let at_first = rig.function_attribute(kernel, DYNAMIC)?;
    check(
        at_first == usual - own,
        &format!("{at_first} bytes at first, of {usual} with {own} of its own"),
    )?;
    // Launches, and whether the value went round.
    let runs = |bytes: i32| {
        rig.last_word(target, bytes as u32, stream)?;
        rig.stream_synchronize(stream)?;
        Ok::<_, libtest_mimic::Failed>(rig.read(target, 4, stream)? == [7, 0, 0, 0])
    };
    let in_words = |bytes: i32| bytes / 4 * 4;
    check(runs(in_words(usual - own))?, "what every kernel may have")?;
    let beyond = rig.refusal(rig.last_word(target, (usual - own) as u32 + 1, stream))?;
    check(
        beyond == ResultCode::INVALID_VALUE,
        &format!("a launch beyond it: {beyond}"),
    )?;
    let too_much = rig.refusal(rig.function_set_attribute(kernel, DYNAMIC, most - own + 1))?;
    check(
        too_much == ResultCode::INVALID_VALUE,
        &format!("opting in to more than the device has: {too_much}"),
    )?;
    rig.function_set_attribute(kernel, DYNAMIC, most - own)?;
    check(runs(in_words(most - own))?, "all that the device has")?;
    check(runs(in_words(usual))?, "and less than that")?;
    let beyond = rig.refusal(rig.last_word(target, (most - own) as u32 + 1, stream))?;
    check(
        beyond == ResultCode::INVALID_VALUE,
        &format!("a launch beyond that: {beyond}"),
    )?;
    Ok(format!(
        "{usual} bytes with the kernel's own, {most} by opting in; beyond either: {beyond}"
    ))
}
