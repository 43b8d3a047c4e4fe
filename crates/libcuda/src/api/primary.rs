//! Primary contexts.

use crate::{
    abi::{Device, Handle, Out},
    api::context::{ContextFlags, valid_flags},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
};

use millstream_driver::ResultCode;

exports! {
    [cuDevicePrimaryCtxRetain]
    fn retain(call, context: Out<Handle>, device: Device) {
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

    [cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2]
    fn release(call, device: Device) {
        let ordinal = call.device(device)?;
        let process = call.process()?;
        let mut objects = process.objects.lock();
        let entry = objects.primaries.entry(device).or_default();
        refuse_if(entry.references == 0, ResultCode::INVALID_CONTEXT)?;
        entry.references -= 1;
        if entry.references == 0
            && let Some(context) = entry.context.take()
        {
            objects.remove_context(context);
        }
        drop(objects);
        process.primary_context_release(ordinal)
    }

    /// Releases every reference.
    [cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2]
    fn reset(call, device: Device) {
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

    [cuDevicePrimaryCtxGetState]
    fn state(call, device: Device, flags: Out<ContextFlags>, active: Out<i32>) {
        call.device(device)?;
        let objects = call.process()?.objects.lock();
        let entry = objects.primaries.get(&device).copied().unwrap_or_default();
        flags.set_if_wanted(entry.flags);
        active.set_if_wanted(entry.context.is_some().into());
        Ok(())
    }

    [cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2]
    fn set_flags(call, device: Device, flags: ContextFlags) {
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
}
