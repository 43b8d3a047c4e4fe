//! The current context: other code of the thread may change it between any two calls, and its own
//! context stays current after each call.

#![allow(unsafe_code, reason = "changes the current context")]

use millstream_driver::ContextHandle;

use crate::{
    conformance::{KERNELS_PTX, prelude::*},
    gpu::Outcome,
};

/// Makes one call of each kind in the first device's context while `current` is current, and checks
/// that every object is the first device's and that `current` still is current afterwards.
fn calls_with_current(dev: &DeviceHarness, current: ContextHandle) -> Outcome {
    let foreign_code = || -> Outcome {
        // SAFETY: the context is retained, or null.
        Ok(unsafe { dev.driver.make_current(current) }?)
    };
    let old = dev.stream()?;
    foreign_code()?;
    let new = dev.stream()?;
    foreign_code()?;
    let event = dev.event()?;
    for stream in [old, new] {
        foreign_code()?;
        // The driver rejects an event of another context than the stream's.
        dev.event_record(event, stream)?;
        foreign_code()?;
        dev.stream_wait_event(stream, event)?;
    }
    foreign_code()?;
    let module = dev.module_load(KERNELS_PTX.as_bytes())?;
    foreign_code()?;
    let store = dev.module_function(module, "store")?;
    foreign_code()?;
    let data = dev.mem_alloc_async(4, old)?;
    foreign_code()?;
    dev.upload(data, dev.pageable(4, 3), old)?;
    foreign_code()?;
    check(dev.holds(data, 3, 4, old)?, "copies ran")?;
    foreign_code()?;
    dev.launch_store(store, data, 0x0606_0606, old)?;
    foreign_code()?;
    check(dev.holds(data, 6, 4, old)?, "the kernel ran")?;
    let left = dev.driver.current_context()?;
    let kept = if current == ContextHandle::from_raw(0) {
        dev.context
    } else {
        current
    };
    check(left == kept, "a foreign context is restored")?;
    dev.mem_free_async(data, old)?;
    dev.stream_synchronize(old)?;
    dev.event_destroy(event)?;
    Ok(dev.module_unload(module)?)
}

pub(crate) fn calls_work_without_a_current_context(dev: &DeviceHarness) -> Outcome {
    calls_with_current(dev, ContextHandle::from_raw(0))?;
    calls_with_current(dev, dev.context)
}

/// Needs two devices.
pub(crate) fn calls_work_while_another_device_is_current(dev: &DeviceHarness) -> Outcome {
    let second = dev.second()?;
    calls_with_current(dev, second.context)?;
    calls_with_current(&second, dev.context)?;
    // SAFETY: the context is retained.
    unsafe { dev.driver.make_current(second.context) }?;
    // The legacy stream's handle is the same in every context.
    Ok(dev.stream_synchronize(StreamHandle::LEGACY)?)
}
