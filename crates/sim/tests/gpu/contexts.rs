//! The current context: other code of the thread may change it between any two calls, and its own
//! context stays current after each call.

#![allow(unsafe_code, reason = "calls the driver's unsafe methods")]

use millstream_driver::{ContextHandle, DeviceOrdinal, Driver, EventKind, StreamHandle};

use crate::gpu::{
    harness::{Gpu, Outcome, check},
    modules::{SCALE_PTX, scale},
};

/// Makes one call of each kind in the first device's context while `current` is current, and checks
/// that every object is the first device's and that `current` still is current afterwards.
fn calls_with_current(gpu: &Gpu, current: ContextHandle) -> Outcome {
    let Gpu {
        cuda,
        context,
        stream,
        ..
    } = gpu;
    let context = *context;
    let foreign_code = || -> Outcome {
        // SAFETY: the context is retained, or null.
        Ok(unsafe { cuda.make_current(current) }?)
    };
    foreign_code()?;
    // SAFETY: the context is retained.
    let made = unsafe { cuda.stream_create(context, true, 0) }?;
    foreign_code()?;
    // SAFETY: the context is retained.
    let event = unsafe { cuda.event_create(context, EventKind::Ordering) }?;
    for stream in [*stream, made] {
        foreign_code()?;
        // SAFETY: event and stream are alive. The driver rejects an event of another context than
        // the stream's.
        unsafe { cuda.event_record(context, event, stream) }?;
        foreign_code()?;
        // SAFETY: as above.
        unsafe { cuda.stream_wait_event(context, stream, event) }?;
    }
    foreign_code()?;
    let module = gpu.load(SCALE_PTX)?;
    foreign_code()?;
    // SAFETY: the module is loaded.
    let function = unsafe { cuda.module_function(context, module, "scale") }?;
    foreign_code()?;
    let data = gpu.alloc(256)?;
    foreign_code()?;
    gpu.write(data, &[3.0_f32; 64])?;
    foreign_code()?;
    scale(gpu, function, data, 2.0, 64)?;
    foreign_code()?;
    check(
        gpu.read::<f32>(data, 64)? == [6.0; 64],
        "copies and kernel ran",
    )?;
    let left = cuda.current_context()?;
    let kept = if current == ContextHandle::from_raw(0) {
        context
    } else {
        current
    };
    check(left == kept, "a foreign context is restored")?;
    gpu.free(data)?;
    gpu.synchronize()?;
    // SAFETY: destroyed once and not used again.
    unsafe { cuda.stream_destroy(context, made) }?;
    // SAFETY: as above.
    unsafe { cuda.event_destroy(context, event) }?;
    // SAFETY: as above; its kernel has run.
    Ok(unsafe { cuda.module_unload(context, module) }?)
}

pub(crate) fn calls_work_without_a_current_context(gpu: &Gpu) -> Outcome {
    calls_with_current(gpu, ContextHandle::from_raw(0))?;
    calls_with_current(gpu, gpu.context)
}

/// Needs two devices.
pub(crate) fn calls_work_while_another_device_is_current(gpu: &Gpu) -> Outcome {
    let second = Gpu::open(DeviceOrdinal::from_raw(1))?;
    calls_with_current(gpu, second.context)?;
    calls_with_current(&second, gpu.context)?;
    // SAFETY: the context is retained.
    unsafe { gpu.cuda.make_current(second.context) }?;
    // SAFETY: the context is retained. The legacy stream's handle is the same in every context.
    Ok(unsafe {
        gpu.cuda
            .stream_synchronize(gpu.context, StreamHandle::LEGACY)
    }?)
}
