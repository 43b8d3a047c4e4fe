//! Contexts: the program's own ones, the stack of each thread, and their settings.

use std::ffi::c_void;

use millstream_driver::{ContextHandle, ResultCode};

use crate::{
    abi::{Device, Handle, In, Out},
    api::user_object,
    call::Call,
    codes::{Answer, UNSUPPORTED_LIMIT, refuse_if},
    current,
    export::exports,
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
    let several_ways = (flags & SCHEDULING).count_ones() > 1;
    let refused = flags & !FLAGS_KNOWN != 0 || several_ways;
    refuse_if(refused, ResultCode::INVALID_VALUE)
}

/// Returns the context that a handle names; null is the current one.
fn given_or_current(call: &Call, context: Handle) -> Answer<ContextHandle> {
    match context {
        0 => call.context(),
        given => call.context_of_handle(given),
    }
}

fn change(call: &Call, body: impl FnOnce(&mut ContextEntry)) -> Answer {
    let context = call.context()?;
    let mut objects = call.process()?.objects.lock();
    let entry = objects.contexts.get_mut(&context);
    body(entry.ok_or(ResultCode::CONTEXT_IS_DESTROYED)?);
    Ok(())
}

exports! {
    [cuCtxCreate_v2]
    fn create(call, context: Out<Handle>, flags: ContextFlags, device: Device) {
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

    /// Without execution affinity.
    [cuCtxCreate_v3]
    fn create_with_affinity(
        call, context: Out<Handle>, _params: In<c_void>, param_count: i32, flags: ContextFlags,
        device: Device
    ) {
        refuse_if(param_count != 0, ResultCode::NOT_SUPPORTED)?;
        create(call, context, flags, device)
    }

    /// Without further parameters.
    [cuCtxCreate_v4]
    fn create_with_params(
        call, context: Out<Handle>, params: In<[usize; 3]>, flags: ContextFlags, device: Device
    ) {
        refuse_if(!params.is_null() && params.get()? != [0; 3], ResultCode::NOT_SUPPORTED)?;
        create(call, context, flags, device)
    }

    [cuCtxDestroy, cuCtxDestroy_v2]
    fn destroy(call, context: Handle) {
        let handle = call.context_of_handle(context)?;
        refuse_if(call.context_entry(handle)?.primary, ResultCode::INVALID_CONTEXT)?;
        let process = call.process()?;
        process.objects.lock().remove_context(handle);
        if current::top()? == Some(handle) {
            current::pop()?;
        }
        process.context_destroy(handle)
    }

    /// Destroys the current context: without `cuCtxAttach` the usage count is 1.
    [cuCtxDetach]
    fn detach(call, context: Handle) {
        let current = current::top()?.map(ContextHandle::as_raw);
        refuse_if(current != Some(context), ResultCode::INVALID_CONTEXT)?;
        destroy(call, context)
    }

    [cuCtxPushCurrent, cuCtxPushCurrent_v2]
    fn push(call, context: Handle) {
        current::push(call.context_of_handle(context)?)
    }

    [cuCtxPopCurrent, cuCtxPopCurrent_v2]
    fn pop(call, context: Out<Handle>) {
        call.process()?;
        context.set_if_wanted(current::pop()?.as_raw());
        Ok(())
    }

    [cuCtxSetCurrent]
    fn set_current(call, context: Handle) {
        call.process()?;
        match context {
            0 => current::set(None),
            context => current::set(Some(call.context_of_handle(context)?)),
        }
    }

    [cuCtxGetCurrent]
    fn get_current(call, context: Out<Handle>) {
        call.process()?;
        context.set(current::top()?.map_or(0, ContextHandle::as_raw))
    }

    [cuCtxGetDevice]
    fn device(call, device: Out<Device>) {
        device_of(call, device, 0)
    }

    [cuCtxGetDevice_v2]
    fn device_of(call, device: Out<Device>, context: Handle) {
        let context = given_or_current(call, context)?;
        device.set(call.context_entry(context)?.device)
    }

    [cuCtxSynchronize]
    fn synchronize(call) {
        synchronize_given(call, 0)
    }

    [cuCtxSynchronize_v2]
    fn synchronize_given(call, context: Handle) {
        let context = given_or_current(call, context)?;
        call.process()?.context_synchronize(context)?;
        user_object::release_if_idle(call)
    }

    [cuCtxGetFlags]
    fn get_flags(call, flags: Out<ContextFlags>) {
        flags.set(call.context_entry(call.context()?)?.flags)
    }

    [cuCtxSetFlags]
    fn set_flags(call, flags: ContextFlags) {
        valid_flags(flags)?;
        change(call, |entry| entry.flags = flags)
    }

    [cuCtxGetId]
    fn id(call, context: Handle, id: Out<u64>) {
        let context = given_or_current(call, context)?;
        id.set(call.context_entry(context)?.id)
    }

    [cuCtxGetApiVersion]
    fn api_version(call, context: Handle, version: Out<u32>) {
        /// The version of contexts of `cuCtxCreate_v2` and later.
        const API_VERSION: u32 = 3020;
        given_or_current(call, context)?;
        version.set(API_VERSION)
    }

    [cuCtxGetLimit]
    fn get_limit(call, value: Out<usize>, limit: u32) {
        let entry = call.context_entry(call.context()?)?;
        let found = entry.limits.get(limit as usize);
        value.set(*found.ok_or(UNSUPPORTED_LIMIT)?)
    }

    /// The simulated device keeps the value, and has no limit but that of the heap of kernels.
    [cuCtxSetLimit]
    fn set_limit(call, limit: u32, value: usize) {
        const MALLOC_HEAP_SIZE: u32 = 2;
        refuse_if(limit as usize >= LIMITS, UNSUPPORTED_LIMIT)?;
        if limit == MALLOC_HEAP_SIZE {
            call.process()?.context_set_heap(call.context()?, value as u64)?;
        }
        change(call, |entry| entry.limits[limit as usize] = value)
    }

    [cuCtxGetCacheConfig]
    fn get_cache_config(call, config: Out<i32>) {
        config.set(call.context_entry(call.context()?)?.cache_config)
    }

    /// A hint without effect.
    [cuCtxSetCacheConfig]
    fn set_cache_config(call, config: i32) {
        refuse_if(!(0..=3).contains(&config), ResultCode::INVALID_VALUE)?;
        change(call, |entry| entry.cache_config = config)
    }

    [cuCtxGetSharedMemConfig]
    fn get_bank_config(call, config: Out<i32>) {
        config.set(call.context_entry(call.context()?)?.bank_config)
    }

    /// A hint without effect.
    [cuCtxSetSharedMemConfig]
    fn set_bank_config(call, config: i32) {
        refuse_if(!(0..=2).contains(&config), ResultCode::INVALID_VALUE)?;
        change(call, |entry| entry.bank_config = config)
    }

    /// No cache is simulated.
    [cuCtxResetPersistingL2Cache]
    fn reset_persisting_cache(call) {
        call.context().map(drop)
    }

    [cuCtxGetStreamPriorityRange]
    fn stream_priority_range(call, least: Out<i32>, greatest: Out<i32>) {
        let context = call.context()?;
        let range = call.process()?.stream_priority_range(context)?;
        least.set_if_wanted(range.least);
        greatest.set_if_wanted(range.greatest);
        Ok(())
    }

    [cuCtxEnablePeerAccess]
    fn enable_peer_access(call, peer: Handle, flags: u32) {
        refuse_if(flags != 0, ResultCode::INVALID_VALUE)?;
        let context = call.context()?;
        let peer = call.context_of_handle(peer)?;
        call.process()?.context_enable_peer_access(context, peer)
    }

    [cuCtxDisablePeerAccess]
    fn disable_peer_access(call, peer: Handle) {
        let context = call.context()?;
        let peer = call.context_of_handle(peer)?;
        call.process()?.context_disable_peer_access(context, peer)
    }
}
