//! Rule 57: dynamic shared memory beyond the default limit of a kernel.

use millstream_driver::FunctionAttribute;

use crate::conformance::prelude::*;

pub(crate) fn r57(dev: &DeviceHarness) -> Observation {
    const DYNAMIC: FunctionAttribute = FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES;
    let (stream, target, kernel) = (dev.stream()?, dev.memory(4)?, dev.kernels().last_word);
    let usual = dev.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK)?;
    let most = dev.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    let own = dev.function_attribute(kernel, FunctionAttribute::SHARED_BYTES)?;
    check(
        (1024..2048).contains(&own),
        &format!("1024 bytes of its own, not {own}"),
    )?;
    let at_first = dev.function_attribute(kernel, DYNAMIC)?;
    check(
        at_first == usual - own,
        &format!("{at_first} bytes at first, of {usual} with {own} of its own"),
    )?;
    // Launches the kernel and returns whether it stored the value.
    let runs = |bytes: i32| {
        dev.last_word(target, bytes as u32, stream)?;
        dev.stream_synchronize(stream)?;
        Ok::<_, libtest_mimic::Failed>(dev.read(target, 4, stream)? == [7, 0, 0, 0])
    };
    let in_words = |bytes: i32| bytes / 4 * 4;
    check(runs(in_words(usual - own))?, "the default limit is usable")?;
    let beyond = dev.refusal(dev.last_word(target, (usual - own) as u32 + 1, stream))?;
    check(
        beyond == ResultCode::INVALID_VALUE,
        &format!("a launch beyond it: {beyond}"),
    )?;
    let too_much = dev.refusal(dev.function_set_attribute(kernel, DYNAMIC, most - own + 1))?;
    check(
        too_much == ResultCode::INVALID_VALUE,
        &format!("opting in to more than the device has: {too_much}"),
    )?;
    dev.function_set_attribute(kernel, DYNAMIC, most - own)?;
    check(
        runs(in_words(most - own))?,
        "the device limit is usable after opting in",
    )?;
    check(
        runs(in_words(usual))?,
        "less than the device limit is usable",
    )?;
    let beyond = dev.refusal(dev.last_word(target, (most - own) as u32 + 1, stream))?;
    check(
        beyond == ResultCode::INVALID_VALUE,
        &format!("a launch beyond that: {beyond}"),
    )?;
    Ok(format!(
        "{usual} bytes with the kernel's own, {most} by opting in; beyond either: {beyond}"
    ))
}
