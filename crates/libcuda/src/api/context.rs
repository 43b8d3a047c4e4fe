//! Contexts: the program's own ones, the stack of each thread, and their settings.

use std::ffi::c_void;

use millstream_driver::{ContextHandle, ResultCode};

use crate::{
    abi::{Device, Handle, In, Out},
    api::user_object,
    call::Call,
    codes::{Answer, UNSUPPORTED_LIMIT},
    current,
    objects::{ContextEntry, LIMITS},
};

/// The flags of a context: how the host waits, and settings of memory.
pub(crate) type ContextFlags = u32;

/// The flags that `cuCtxCreate` knows: scheduling, mapped host memory, local memory, core dumps,
/// synchronous memory operations.
const FLAGS_KNOWN: ContextFlags = 0xff;
/// The bits of [`FLAGS_KNOWN`] that say how the host waits; more than one of them is not valid.
const SCHEDULING: ContextFlags = 0x07;

/// Fails with `INVALID_VALUE` for flags that no context can have.
pub(crate) fn valid_flags(flags: ContextFlags) -> Answer {
    if flags & !FLAGS_KNOWN != 0 || (flags & SCHEDULING).count_ones() > 1 {
        return Err(ResultCode::INVALID_VALUE);
    }
    Ok(())
}

/// `cuCtxCreate` and `cuCtxCreate_v2`
pub(crate) fn create(
    call: &Call,
    context: Out<Handle>,
    flags: ContextFlags,
    device: Device,
) -> Answer {
    context.check()?;
    valid_flags(flags)?;
    let ordinal = call.device(device)?;
    let process = call.process()?;
    let created = process.context_create(ordinal)?;
    let mut objects = process.objects.lock();
    objects.add_context(created, device, flags, false);
    drop(objects);
    current::push(created)?;
    context.set(created.as_raw())
}

/// `cuCtxCreate_v3`, without execution affinity.
pub(crate) fn create_with_affinity(
    call: &Call,
    context: Out<Handle>,
    _params: In<c_void>,
    param_count: i32,
    flags: ContextFlags,
    device: Device,
) -> Answer {
    if param_count != 0 {
        return Err(ResultCode::NOT_SUPPORTED);
    }
    create(call, context, flags, device)
}

/// `cuCtxCreate_v4`, without further parameters.
pub(crate) fn create_with_params(
    call: &Call,
    context: Out<Handle>,
    params: In<[usize; 3]>,
    flags: ContextFlags,
    device: Device,
) -> Answer {
    if !params.is_null() && params.get()? != [0; 3] {
        return Err(ResultCode::NOT_SUPPORTED);
    }
    create(call, context, flags, device)
}

/// `cuCtxDestroy`
pub(crate) fn destroy(call: &Call, context: Handle) -> Answer {
    let handle = call.context_of_handle(context)?;
    if call.context_entry(handle)?.primary {
        return Err(ResultCode::INVALID_CONTEXT);
    }
    let process = call.process()?;
    process.objects.lock().remove_context(handle);
    if current::top()? == Some(handle) {
        current::pop()?;
    }
    process.context_destroy(handle)
}

/// `cuCtxPushCurrent`
pub(crate) fn push(call: &Call, context: Handle) -> Answer {
    current::push(call.context_of_handle(context)?)
}

/// `cuCtxPopCurrent`
pub(crate) fn pop(call: &Call, context: Out<Handle>) -> Answer {
    call.process()?;
    context.set_if_wanted(current::pop()?.as_raw());
    Ok(())
}

/// `cuCtxSetCurrent`
pub(crate) fn set_current(call: &Call, context: Handle) -> Answer {
    call.process()?;
    match context {
        0 => current::set(None),
        context => current::set(Some(call.context_of_handle(context)?)),
    }
}

/// `cuCtxGetCurrent`
pub(crate) fn get_current(call: &Call, context: Out<Handle>) -> Answer {
    call.process()?;
    context.set(current::top()?.map_or(0, ContextHandle::as_raw))
}

/// Returns the context that a handle names; null is the current one.
fn given_or_current(call: &Call, context: Handle) -> Answer<ContextHandle> {
    match context {
        0 => call.context(),
        given => call.context_of_handle(given),
    }
}

/// `cuCtxGetDevice`
pub(crate) fn device(call: &Call, device: Out<Device>) -> Answer {
    device_of(call, device, 0)
}

/// `cuCtxGetDevice_v2`
pub(crate) fn device_of(call: &Call, device: Out<Device>, context: Handle) -> Answer {
    let context = given_or_current(call, context)?;
    device.set(call.context_entry(context)?.device)
}

/// `cuCtxSynchronize`
pub(crate) fn synchronize(call: &Call) -> Answer {
    synchronize_given(call, 0)
}

/// `cuCtxSynchronize_v2`
pub(crate) fn synchronize_given(call: &Call, context: Handle) -> Answer {
    let context = given_or_current(call, context)?;
    call.process()?.context_synchronize(context)?;
    user_object::release_if_idle(call)
}

/// Changes the entry of the current context.
fn change(call: &Call, body: impl FnOnce(&mut ContextEntry)) -> Answer {
    let context = call.context()?;
    let mut objects = call.process()?.objects.lock();
    let entry = objects.contexts.get_mut(&context);
    body(entry.ok_or(ResultCode::CONTEXT_IS_DESTROYED)?);
    Ok(())
}

/// `cuCtxGetFlags`
pub(crate) fn get_flags(call: &Call, flags: Out<ContextFlags>) -> Answer {
    flags.set(call.context_entry(call.context()?)?.flags)
}

/// `cuCtxSetFlags`
pub(crate) fn set_flags(call: &Call, flags: ContextFlags) -> Answer {
    valid_flags(flags)?;
    change(call, |entry| entry.flags = flags)
}

/// `cuCtxGetId`
pub(crate) fn id(call: &Call, context: Handle, id: Out<u64>) -> Answer {
    let context = given_or_current(call, context)?;
    id.set(call.context_entry(context)?.id)
}

/// `cuCtxGetApiVersion`
pub(crate) fn api_version(call: &Call, context: Handle, version: Out<u32>) -> Answer {
    /// The version of contexts of `cuCtxCreate_v2` and later.
    const API_VERSION: u32 = 3020;
    given_or_current(call, context)?;
    version.set(API_VERSION)
}

/// `cuCtxGetLimit`
pub(crate) fn get_limit(call: &Call, value: Out<usize>, limit: u32) -> Answer {
    let entry = call.context_entry(call.context()?)?;
    let found = entry.limits.get(limit as usize);
    value.set(*found.ok_or(UNSUPPORTED_LIMIT)?)
}

/// `cuCtxSetLimit`. The simulated device keeps the value and has none of the limits.
pub(crate) fn set_limit(call: &Call, limit: u32, value: usize) -> Answer {
    if limit as usize >= LIMITS {
        return Err(UNSUPPORTED_LIMIT);
    }
    change(call, |entry| entry.limits[limit as usize] = value)
}

/// `cuCtxGetCacheConfig`
pub(crate) fn get_cache_config(call: &Call, config: Out<i32>) -> Answer {
    config.set(call.context_entry(call.context()?)?.cache_config)
}

/// `cuCtxSetCacheConfig`: a hint without effect.
pub(crate) fn set_cache_config(call: &Call, config: i32) -> Answer {
    if !(0..=3).contains(&config) {
        return Err(ResultCode::INVALID_VALUE);
    }
    change(call, |entry| entry.cache_config = config)
}

/// `cuCtxGetSharedMemConfig`
pub(crate) fn get_bank_config(call: &Call, config: Out<i32>) -> Answer {
    config.set(call.context_entry(call.context()?)?.bank_config)
}

/// `cuCtxSetSharedMemConfig`: a hint without effect.
pub(crate) fn set_bank_config(call: &Call, config: i32) -> Answer {
    if !(0..=2).contains(&config) {
        return Err(ResultCode::INVALID_VALUE);
    }
    change(call, |entry| entry.bank_config = config)
}

/// `cuCtxResetPersistingL2Cache`: no cache is simulated.
pub(crate) fn reset_persisting_cache(call: &Call) -> Answer {
    call.context().map(drop)
}

/// `cuCtxGetStreamPriorityRange`
pub(crate) fn stream_priority_range(call: &Call, least: Out<i32>, greatest: Out<i32>) -> Answer {
    let context = call.context()?;
    let range = call.process()?.stream_priority_range(context)?;
    least.set_if_wanted(range.least);
    greatest.set_if_wanted(range.greatest);
    Ok(())
}

/// `cuCtxEnablePeerAccess`
pub(crate) fn enable_peer_access(call: &Call, peer: Handle, flags: u32) -> Answer {
    if flags != 0 {
        return Err(ResultCode::INVALID_VALUE);
    }
    let context = call.context()?;
    let peer = call.context_of_handle(peer)?;
    call.process()?.context_enable_peer_access(context, peer)
}

/// `cuCtxDisablePeerAccess`
pub(crate) fn disable_peer_access(call: &Call, peer: Handle) -> Answer {
    let context = call.context()?;
    let peer = call.context_of_handle(peer)?;
    call.process()?.context_disable_peer_access(context, peer)
}
