//! Primary contexts.

use crate::{
    abi::{Device, Handle, Out},
    api::context::{ContextFlags, valid_flags},
    call::Call,
    codes::Answer,
};

use millstream_driver::ResultCode;

/// `cuDevicePrimaryCtxRetain`
pub(crate) fn retain(call: &Call, context: Out<Handle>, device: Device) -> Answer {
    context.check()?;
    let ordinal = call.device(device)?;
    let process = call.process()?;
    let retained = process.primary_context_retain(ordinal)?;
    let mut objects = process.objects.lock();
    let entry = objects.primaries.entry(device).or_default();
    entry.references += 1;
    entry.context = Some(retained);
    let flags = entry.flags;
    if !objects.contexts.contains_key(&retained) {
        objects.add_context(retained, device, flags, true);
    }
    drop(objects);
    context.set(retained.as_raw())
}

/// `cuDevicePrimaryCtxRelease`
pub(crate) fn release(call: &Call, device: Device) -> Answer {
    let ordinal = call.device(device)?;
    let process = call.process()?;
    let mut objects = process.objects.lock();
    let entry = objects.primaries.entry(device).or_default();
    if entry.references == 0 {
        return Err(ResultCode::INVALID_CONTEXT);
    }
    entry.references -= 1;
    if entry.references == 0
        && let Some(context) = entry.context.take()
    {
        objects.remove_context(context);
    }
    drop(objects);
    process.primary_context_release(ordinal)
}

/// `cuDevicePrimaryCtxReset`: releases every reference.
pub(crate) fn reset(call: &Call, device: Device) -> Answer {
    call.device(device)?;
    let references = |call: &Call| -> Answer<u32> {
        let objects = call.process()?.objects.lock();
        let entry = objects.primaries.get(&device);
        Ok(entry.map_or(0, |entry| entry.references))
    };
    while references(call)? > 0 {
        release(call, device)?;
    }
    Ok(())
}

/// `cuDevicePrimaryCtxGetState`
pub(crate) fn state(
    call: &Call,
    device: Device,
    flags: Out<ContextFlags>,
    active: Out<i32>,
) -> Answer {
    call.device(device)?;
    let objects = call.process()?.objects.lock();
    let entry = objects.primaries.get(&device).copied().unwrap_or_default();
    flags.set_if_wanted(entry.flags);
    active.set_if_wanted(entry.context.is_some().into());
    Ok(())
}

/// `cuDevicePrimaryCtxSetFlags`
pub(crate) fn set_flags(call: &Call, device: Device, flags: ContextFlags) -> Answer {
    call.device(device)?;
    valid_flags(flags)?;
    let mut objects = call.process()?.objects.lock();
    let entry = objects.primaries.entry(device).or_default();
    entry.flags = flags;
    let context = entry.context;
    if let Some(active) = context.and_then(|context| objects.contexts.get_mut(&context)) {
        active.flags = flags;
    }
    Ok(())
}
