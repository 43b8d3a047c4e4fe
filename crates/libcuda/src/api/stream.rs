//! Streams, and host functions on them.

use std::ffi::c_void;

use millstream_driver::{Completion, ResultCode, StreamHandle};

use crate::{
    abi::{
        Address, AttributeValue, Device, Handle, HostFunctionPointer, In, Out,
        StreamCallbackPointer,
    },
    api::user_object,
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    host_function,
    objects::StreamEntry,
};

/// `CU_STREAM_NON_BLOCKING`, the only flag of a stream.
const NON_BLOCKING: u32 = 1;

/// Returns the settings of a stream. A default stream is blocking, with priority 0.
fn entry(call: &Call, stream: Handle) -> Answer<(StreamHandle, StreamEntry)> {
    let (context, stream) = call.stream(stream)?;
    let objects = call.process()?.objects.lock();
    let known = objects.streams.get(&stream).copied();
    let of_default_stream = StreamEntry {
        context,
        flags: 0,
        priority: 0,
    };
    Ok((stream, known.unwrap_or(of_default_stream)))
}

/// `CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY`
const SYNCHRONISATION_POLICY: u32 = 3;
/// `CU_STREAM_ATTRIBUTE_PRIORITY`
const PRIORITY: u32 = 8;
/// `CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP`
const SYNCHRONISATION_DOMAINS: u32 = 9;
/// The attributes of streams besides: the window of the access policy, and the domain for the
/// synchronisation of memory.
const WITHOUT_DEFAULT: [u32; 2] = [1, 10];

/// Returns the value of an attribute that no program has set.
fn attribute_default(attribute: u32, entry: &StreamEntry) -> Answer<AttributeValue> {
    let mut value = [0; 16];
    value[0] = match attribute {
        // CU_SYNC_POLICY_AUTO
        SYNCHRONISATION_POLICY => 1,
        PRIORITY => entry.priority.cast_unsigned(),
        // The domain 0 by default, the domain 1 for remote memory: two bytes.
        SYNCHRONISATION_DOMAINS => 1 << 8,
        other if WITHOUT_DEFAULT.contains(&other) => 0,
        _ => return Err(ResultCode::INVALID_VALUE),
    };
    Ok(AttributeValue(value))
}

exports! {
    [cuStreamCreate]
    fn create(call, stream: Out<Handle>, flags: u32) {
        create_with_priority(call, stream, flags, 0)
    }

    [cuStreamCreateWithPriority]
    fn create_with_priority(call, stream: Out<Handle>, flags: u32, priority: i32) {
        stream.check()?;
        refuse_if(flags & !NON_BLOCKING != 0, ResultCode::INVALID_VALUE)?;
        let context = call.context()?;
        let process = call.process()?;
        let range = process.stream_priority_range(context)?;
        let priority = priority.clamp(range.greatest, range.least);
        let created = process.stream_create(context, flags & NON_BLOCKING != 0, priority)?;
        let entry = StreamEntry {
            context,
            flags,
            priority,
        };
        process.objects.lock().streams.insert(created, entry);
        stream.set(created.as_raw())
    }

    [cuStreamDestroy, cuStreamDestroy_v2]
    fn destroy(call, stream: Handle) {
        let handle = StreamHandle::from_raw(stream);
        let process = call.process()?;
        let mut objects = process.objects.lock();
        objects.captured_nodes.remove(&handle);
        let removed = objects.streams.remove(&handle);
        if removed.is_some() {
            let attributes = &mut objects.stream_attributes;
            attributes.retain(|(stream, _), _| *stream != handle);
        }
        drop(objects);
        let entry = removed.ok_or_else(|| call.wrong_handle("stream", stream))?;
        process.stream_destroy(entry.context, handle)
    }

    [cuStreamQuery, cuStreamQuery_ptsz per_thread]
    fn query(call, stream: Handle) {
        let (context, stream) = call.stream(stream)?;
        match call.process()?.stream_query(context, stream)? {
            Completion::Complete => Ok(()),
            Completion::Pending => Err(ResultCode::NOT_READY),
        }
    }

    [cuStreamSynchronize, cuStreamSynchronize_ptsz per_thread]
    fn synchronize(call, stream: Handle) {
        let (context, stream) = call.stream(stream)?;
        call.process()?.stream_synchronize(context, stream)?;
        user_object::release_if_idle(call)
    }

    /// The flag for external events of graphs is not supported.
    [cuStreamWaitEvent, cuStreamWaitEvent_ptsz per_thread]
    fn wait_event(call, stream: Handle, event: Handle, flags: u32) {
        let (context, stream) = call.stream(stream)?;
        let (_, event) = call.event(event)?;
        match flags {
            0 => call.process()?.stream_wait_event(context, stream, event),
            1 => Err(ResultCode::NOT_SUPPORTED),
            _ => Err(ResultCode::INVALID_VALUE),
        }
    }

    [cuStreamGetFlags, cuStreamGetFlags_ptsz per_thread]
    fn flags(call, stream: Handle, flags: Out<u32>) {
        flags.set(entry(call, stream)?.1.flags)
    }

    [cuStreamGetPriority, cuStreamGetPriority_ptsz per_thread]
    fn priority(call, stream: Handle, priority: Out<i32>) {
        priority.set(entry(call, stream)?.1.priority)
    }

    [cuStreamGetId, cuStreamGetId_ptsz per_thread]
    fn id(call, stream: Handle, id: Out<u64>) {
        id.set(entry(call, stream)?.0.as_raw() as u64)
    }

    [cuStreamGetCtx, cuStreamGetCtx_ptsz per_thread]
    fn context(call, stream: Handle, context: Out<Handle>) {
        context.set(entry(call, stream)?.1.context.as_raw())
    }

    /// No stream belongs to a green context.
    [cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz per_thread]
    fn context_or_green(call, stream: Handle, context: Out<Handle>, green: Out<Handle>) {
        context.set(entry(call, stream)?.1.context.as_raw())?;
        green.set_if_wanted(0);
        Ok(())
    }

    [cuStreamGetDevice, cuStreamGetDevice_ptsz per_thread]
    fn device(call, stream: Handle, device: Out<Device>) {
        let context = entry(call, stream)?.1.context;
        device.set(call.context_entry(context)?.device)
    }

    [cuStreamGetAttribute, cuStreamGetAttribute_ptsz per_thread]
    fn attribute(call, stream: Handle, attribute: u32, value: Out<AttributeValue>) {
        let (stream, entry) = entry(call, stream)?;
        let default = attribute_default(attribute, &entry)?;
        let objects = call.process()?.objects.lock();
        let set = objects.stream_attributes.get(&(stream, attribute)).copied();
        drop(objects);
        value.set(set.unwrap_or(default))
    }

    /// The attributes are hints, which change nothing on the simulated device.
    [cuStreamSetAttribute, cuStreamSetAttribute_ptsz per_thread]
    fn set_attribute(call, stream: Handle, attribute: u32, value: In<AttributeValue>) {
        let (stream, entry) = entry(call, stream)?;
        attribute_default(attribute, &entry)?;
        let value = value.get()?;
        if attribute == SYNCHRONISATION_POLICY && !(1..=4).contains(&value.0[0]) {
            return Err(ResultCode::INVALID_VALUE);
        }
        let mut objects = call.process()?.objects.lock();
        if attribute == PRIORITY {
            // `cuStreamGetPriority` returns it too.
            let entry = objects.streams.get_mut(&stream);
            entry.ok_or(ResultCode::INVALID_VALUE)?.priority = value.0[0].cast_signed();
        } else {
            objects.stream_attributes.insert((stream, attribute), value);
        }
        Ok(())
    }

    [cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz per_thread]
    fn copy_attributes(call, target: Handle, source: Handle) {
        let (target, _) = entry(call, target)?;
        let (source, of_source) = entry(call, source)?;
        let mut objects = call.process()?.objects.lock();
        let set = &mut objects.stream_attributes;
        let copied: Vec<_> = set
            .iter()
            .filter(|((stream, _), _)| *stream == source)
            .map(|((_, attribute), value)| ((target, *attribute), *value))
            .collect();
        set.retain(|(stream, _), _| *stream != target);
        set.extend(copied);
        if let Some(entry) = objects.streams.get_mut(&target) {
            entry.priority = of_source.priority;
        }
        Ok(())
    }

    /// The whole process may access managed memory at any time, so that the attachment has no
    /// effect beyond the checks of its arguments.
    [cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz per_thread]
    fn attach_memory(call, stream: Handle, pointer: Address, _length: usize, flags: u32) {
        call.stream(stream)?;
        let found = crate::api::pointer::allocation(call, pointer)?;
        let managed = found.is_some_and(|it| it.kind == millstream_sim::AllocationKind::Managed);
        refuse_if(!managed || ![1, 2, 4].contains(&flags), ResultCode::INVALID_VALUE)
    }

    [cuLaunchHostFunc, cuLaunchHostFunc_ptsz per_thread]
    fn launch_host_function(call, stream: Handle, function: HostFunctionPointer, data: In<c_void>) {
        let (context, stream) = call.stream(stream)?;
        let function = function.ok_or(ResultCode::INVALID_VALUE)?;
        let function = host_function::repeated(function, data);
        call.process()?
            .launch_repeated_function(context, stream, &function)
    }

    /// It is not called after an error of the context.
    [cuStreamAddCallback, cuStreamAddCallback_ptsz per_thread]
    fn add_callback(
        call, stream: Handle, callback: StreamCallbackPointer, data: In<c_void>, flags: u32
    ) {
        refuse_if(flags != 0, ResultCode::INVALID_VALUE)?;
        let (context, handle) = call.stream(stream)?;
        let callback = callback.ok_or(ResultCode::INVALID_VALUE)?;
        let function = host_function::of_callback(callback, stream, data);
        call.process()?
            .launch_host_function(context, handle, function)
    }

    [cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz per_thread]
    fn _(call, stream: Handle, function: HostFunctionPointer, data: In<c_void>, mode: u32) {
        match mode {
            // To block or to spin until there is a function to call: both do the same here.
            0 | 1 => launch_host_function(call, stream, function, data),
            _ => Err(ResultCode::INVALID_VALUE),
        }
    }
}
