//! Each thread's own stream of each device. It does not keep the device open, and is retired when the thread ends.

use std::{
    cell::RefCell,
    sync::{Arc, Weak},
};

use crate::{
    Result,
    context::{DeviceState, StreamState},
};

/// A stream that belongs to a thread.
struct ThreadStream {
    device: Weak<DeviceState>,
    state: Arc<StreamState>,
}

impl Drop for ThreadStream {
    fn drop(&mut self) {
        if let Some(device) = self.device.upgrade() {
            device.retire_stream(Arc::clone(&self.state));
        }
    }
}

thread_local! {
    static STREAMS: RefCell<Vec<ThreadStream>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread's stream of the device, made on first use. `None` while the thread ends: it has none any more.
pub(super) fn stream_of(device: &Arc<DeviceState>) -> Result<Option<Arc<StreamState>>> {
    let found = STREAMS.try_with(|streams| {
        let mut streams = streams.borrow_mut();
        streams.retain(|known| known.device.strong_count() > 0);
        let known = streams
            .iter()
            .find(|known| std::ptr::eq(known.device.as_ptr(), Arc::as_ptr(device)));
        if let Some(known) = known {
            return Ok(Arc::clone(&known.state));
        }
        let state = device.acquire_stream(0)?;
        streams.push(ThreadStream {
            device: Arc::downgrade(device),
            state: Arc::clone(&state),
        });
        Ok(state)
    });
    found.ok().transpose()
}
